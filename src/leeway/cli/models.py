"""`leeway models`: which models can be had by name, and fetching them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import group_of_verbs, takes_settings
from leeway.core.config import Config

app = group_of_verbs("models", "List the models that can be had by name, or fetch one.")


@app.default
@takes_settings(only=("cache_dir",))
def default(call: Call) -> None:
    """List the models that can be had by name, or fetch one.

    Without a further verb: `list`. Any GGUF file or safetensors folder of the llama, qwen2 and
    qwen3 families can be given by its path instead of a name.
    """
    _list(*call.resolve())


@app.command(name="list")
@takes_settings(only=("cache_dir",))
def list_models(call: Call) -> None:
    """List the models that can be had by name: size, licence, whether cached, sources."""
    _list(*call.resolve())


@app.command
@takes_settings(only=("cache_dir",))
def pull(
    call: Call,
    name: Annotated[str, Parameter(help="A name that `leeway models` lists.", show_default=False)],
    /,
    *,
    from_path: Annotated[
        Path | None,
        Parameter(
            name="--from",
            metavar="PATH",
            help="Take this file instead of looking anywhere; its checksum must be the model's.",
        ),
    ] = None,
) -> None:
    """Fetch a model into the cache and verify its checksum; prints where it lies."""
    config, screen = call.resolve()
    from leeway.cli.loading import progress
    from leeway.models.catalogue import find_entry
    from leeway.models.fetch import pull as pull_model

    entry = find_entry(name)
    with progress(screen) as on_progress:
        path = pull_model(
            entry, config.engine.cache_dir, from_path=from_path, on_progress=on_progress
        )
    screen.note(f"{entry.name}: {entry.size_bytes:,} bytes, licence {entry.licence}, verified")
    if screen.is_json:
        screen.print_json({"name": entry.name, "path": str(path), "sha256": entry.sha256})
    else:
        print(path)


def _list(config: Config, screen: Screen) -> None:
    models = _describe(config)
    if screen.is_json:
        screen.print_json({"cache_dir": str(config.engine.cache_dir), "models": models})
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("name", "size", "licence", "cached"):
        table.add_column(title, no_wrap=True, justify="right" if title == "size" else "left")
    for model in models:
        name = f"{model['name']}{' (default)' if model['is_default'] else ''}"
        size = f"{model['size_bytes'] / 1e6:,.0f} MB"
        is_cached = "yes" if model["is_cached"] else "no"
        table.add_row(name, size, model["licence"], is_cached)
    out = screen.out()
    out.print(table)
    if not screen.is_quiet:
        out.print()
        out.print(f"cache: {config.engine.cache_dir}")
        for model in models:
            out.print(f"{model['name']}: {model['summary']}")
            out.print(f"    from the {', then the '.join(model['sources'])}", style="dim")


def _describe(config: Config) -> list[dict[str, Any]]:
    from leeway.models.catalogue import CATALOGUE, cached_path, is_cached

    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "size_bytes": entry.size_bytes,
            "licence": entry.licence,
            "sha256": entry.sha256,
            "is_default": entry.name == config.engine.model,
            "is_cached": is_cached(entry, config.engine.cache_dir),
            "path": str(cached_path(entry, config.engine.cache_dir)),
            "sources": [
                f"model hub {entry.hub.repository}",
                f"package {entry.packages.names[0]} {entry.packages.version}"
                + (f" in {len(entry.packages.names)} parts" if entry.packages.names[1:] else ""),
            ],
        }
        for entry in CATALOGUE
    ]
