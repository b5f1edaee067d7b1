"""`leeway heads`: which draft heads there are, what is in one, and making one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.heads_train import train
from leeway.cli.options import group_of_verbs, takes_settings
from leeway.core.config import Config
from leeway.core.errors import ModelError

if TYPE_CHECKING:
    from leeway.models.head_base import HeadFiles
    from leeway.models.head_file import HeadFile
    from leeway.models.head_native import NativeHead
    from leeway.models.heads import ListedHead

app = group_of_verbs("heads", "List draft heads, look into one, or make one.")

_DIGITS = 12


@app.default
@takes_settings(only=("model", "cache_dir"))
def default(call: Call) -> None:
    """List draft heads, look into one, or make one.

    Without a further verb: `list`. `--drafter auto` uses a head where one fits the model.
    """
    _list(*call.resolve())


@app.command(name="list")
@takes_settings(only=("model", "cache_dir"))
def list_heads(call: Call) -> None:
    """List draft heads: for which model, depth, size, draft vocabulary, measured acceptance.

    Those that ship with the package, those made on this machine, and the one in the model's own
    files where `--model` is a path.
    """
    _list(*call.resolve())


@app.command
@takes_settings(only=("cache_dir",))
def inspect(
    call: Call,
    head: Annotated[
        str,
        Parameter(
            help="A name that `leeway heads list` shows, the path of a head file, or that of a "
            "model with a head of its own.",
            show_default=False,
        ),
    ],
    /,
) -> None:
    """Print all that a head says of itself, and check every tensor of it."""
    config, screen = call.resolve()
    described = _inspect(_open(head, config))
    if screen.is_json:
        screen.print_json(described)
    else:
        _print_inspected(described, screen)


app.command(train)


def _list(config: Config, screen: Screen) -> None:
    heads = _describe_all(config)
    if screen.is_json:
        screen.print_json({"cache_dir": str(config.engine.cache_dir), "heads": heads})
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("name", "origin", "for", "depth", "size", "draft vocabulary", "acceptance"):
        is_number = title in {"depth", "size", "draft vocabulary"}
        table.add_column(title, no_wrap=True, justify="right" if is_number else "left")
    table.add_column("SHA-256", no_wrap=True)
    out = screen.out()
    for head in heads:
        if "error" not in head:
            table.add_row(*_cells(head))
    if table.row_count:
        out.print(table)
    else:
        out.print("no draft heads; `leeway heads train MODEL` makes one")
    for head in heads:
        if "error" in head:
            out.print(f"cannot be used: {head['error']}")
    if not screen.is_quiet:
        out.print(f"\nmade heads: {_made_folder(config)}")


def _cells(head: dict[str, Any]) -> list[str]:
    return [
        head["name"],
        head["origin"],
        head["target_name"],
        str(head["depth"]),
        f"{head['size_bytes'] / 1e6:.1f} MB",
        f"{head['draft_vocab_size']:,}",
        " ".join(f"{value:.2f}" for value in head["acceptance_by_depth"] or ()) or "not measured",
        head["sha256"][:_DIGITS],
    ]


def _made_folder(config: Config) -> Path:
    from leeway.models.heads import made_heads

    return made_heads(config.engine.cache_dir)


def _describe_all(config: Config) -> list[dict[str, Any]]:
    from leeway.models.heads import list_heads

    heads = [_describe_listed(item) for item in list_heads(config.engine.cache_dir)]
    path = Path(config.engine.model).expanduser()
    if path.suffix == ".gguf" or path.is_dir():
        own = _own_head(path)
        if own is not None:
            heads.insert(0, _describe(own, "native"))
    return heads


def _describe_listed(item: ListedHead) -> dict[str, Any]:
    if item.head is None:
        named = {"name": item.path.stem, "origin": item.origin, "path": str(item.path)}
        return {**named, "error": item.error}
    return _describe(item.head, item.origin)


def _describe(head: HeadFiles, origin: str) -> dict[str, Any]:
    """Return what the list shows of a head."""
    from leeway.models.head_file import HeadFile
    from leeway.models.head_native import NativeHead

    spec = head.spec
    ids = spec.draft_token_ids
    held_out = spec.training.get("held_out")
    described: dict[str, Any] = {
        "name": head.name,
        "origin": origin,
        "depth": spec.depth,
        "num_layers": spec.decoder.num_layers,
        "draft_vocab_size": spec.decoder.vocab_size if ids is None else len(ids),
        "vocab_size": spec.decoder.vocab_size,
        "acceptance_by_depth": (held_out if isinstance(held_out, dict) else {}).get(
            "acceptance_by_depth"
        ),
        "sha256": head.sha256(),
    }
    if isinstance(head, HeadFile):
        return described | {
            "path": str(head.path),
            "size_bytes": head.num_bytes,
            "target_name": head.metadata.target_name,
            "target_sha256": spec.target_sha256,
        }
    assert isinstance(head, NativeHead)
    return described | {
        "path": head.source,
        "size_bytes": sum(tensor.data.size for tensor in head.tensors.values()),
        "target_name": head.name.removesuffix("-native"),
        "target_sha256": None,
    }


def _open(head: str, config: Config) -> HeadFile | NativeHead:
    from leeway.models.head_file import HeadFile
    from leeway.models.heads import head_path

    path = Path(head).expanduser()
    if path.suffix == ".gguf" or path.is_dir():
        own = _own_head(path)
        if own is None:
            raise ModelError(
                f"{path} has no draft head of its own; `leeway heads list` shows others, `leeway "
                f"heads train {head}` makes one"
            )
        return own
    return HeadFile(head_path(head, config.engine.cache_dir))


def _own_head(path: Path) -> NativeHead | None:
    from leeway.models.heads import native_head
    from leeway.models.open import open_model

    return native_head(open_model(str(path)))


def _inspect(head: HeadFile | NativeHead) -> dict[str, Any]:
    """Return all of a head; reads every tensor.

    Raises:
        ModelError: a tensor holds a number that is not finite.
    """
    from dataclasses import asdict

    from leeway.models.catalogue import CATALOGUE
    from leeway.models.head_file import HeadFile

    if isinstance(head, HeadFile):
        origin = "file"
        stored = [(name, name, item.type_name, item.shape) for name, item in head.stored.items()]
    else:
        origin = "native"
        stored = [
            (name, item.own_name, item.type_name, item.shape) for name, item in head.tensors.items()
        ]
    names = [name for name, *_ in stored if head.has_tensor(name)]
    known = [entry.name for entry in CATALOGUE if entry.sha256 == head.spec.target_sha256]
    return {
        **_describe(head, origin),
        "decoder": asdict(head.spec.decoder),
        "training": dict(head.spec.training),
        "tensors": [
            {"name": name, "own_name": own, "type": kind, "shape": list(shape)}
            for name, own, kind, shape in sorted(stored)
        ],
        "checks": {
            "num_weights": sum(_checked_size(head, name) for name in names),
            "tensors": "complete, of the right shapes, finite",
            "target": f"the catalogue's {known[0]}" if known else "no catalogue model",
        },
    }


def _checked_size(head: HeadFiles, name: str) -> int:
    import numpy as np

    values = head.tensor(name)
    if not np.isfinite(values).all():
        raise ModelError(
            f"tensor {name!r} of {head.name} holds a number that is not finite; the file is "
            "corrupt, make or fetch it again"
        )
    return values.size


def _print_inspected(described: dict[str, Any], screen: Screen) -> None:
    import json

    from rich.table import Table

    out = screen.out()
    for key, value in described.items():
        if key in {"decoder", "training", "checks"}:
            out.print(f"{key}:")
            for name, item in value.items():
                out.print(f"    {name}: {json.dumps(item) if isinstance(item, dict) else item}")
        elif key != "tensors":
            out.print(f"{key}: {value}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    has_own_names = any(item["name"] != item["own_name"] for item in described["tensors"])
    for title in ("tensor", "type", "shape", *(["stored as"] if has_own_names else [])):
        table.add_column(title, no_wrap=True)
    for item in described["tensors"]:
        shape = " x ".join(f"{length}" for length in item["shape"])
        own = [item["own_name"]] if has_own_names else []
        table.add_row(item["name"], item["type"], shape, *own)
    out.print()
    out.print(table)
