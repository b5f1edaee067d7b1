"""Which draft heads there are, and which of them fits a model.

In: an opened model, or a head's name or path. Out: an opened head that fits it. A head is trained
on the states of one set of weights, so a checksum decides whether it fits; those that came inside
a model's own files fit by that.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from leeway.core.config import default_cache_dir
from leeway.core.errors import ModelError, did_you_mean
from leeway.models.base import ModelFiles
from leeway.models.gguf import GGUFFiles
from leeway.models.head_base import HeadFiles, HeadSpec
from leeway.models.head_file import SUFFIX, HeadFile
from leeway.models.head_gguf import open_gguf_head
from leeway.models.head_hf import open_hf_head
from leeway.models.head_native import NativeHead
from leeway.models.hf_folder import HFFolder

SHIPPED_HEADS = Path(__file__).parent / "shipped_heads"

log = logging.getLogger("leeway")


@dataclass(frozen=True, slots=True)
class ListedHead:
    """One file that lies where heads lie.

    Attributes:
        origin: "shipped" with the package or "made" on this machine.
        head: None where the file cannot be used; then `error` says why.
    """

    origin: str
    path: Path
    head: HeadFile | None
    error: str | None = None


def made_heads(cache_dir: Path) -> Path:
    """Return the folder under Leeway's cache folder in which heads made here are kept."""
    return cache_dir / "heads"


def list_heads(cache_dir: Path | None = None) -> list[ListedHead]:
    """Return shipped heads, then made ones, each in name order; broken files among them."""
    where = default_cache_dir() if cache_dir is None else cache_dir
    listed = []
    for origin, folder in (("shipped", SHIPPED_HEADS), ("made", made_heads(where))):
        for path in sorted(folder.glob(f"[!.]*{SUFFIX}")):
            try:
                listed.append(ListedHead(origin, path, HeadFile(path)))
            except ModelError as error:
                listed.append(ListedHead(origin, path, None, error.message))
    return listed


def native_head(target: ModelFiles) -> NativeHead | None:
    """Return the head that came in a model's own files, or None.

    Raises:
        ModelError: it cannot be used; the message says why.
    """
    if isinstance(target, GGUFFiles):
        return open_gguf_head(target)
    if isinstance(target, HFFolder):
        return open_hf_head(target)
    return None


def find_head(target: ModelFiles, cache_dir: Path | None = None) -> HeadFiles | None:
    """Return the head that fits a model, or None.

    Looked for in this order: in the model's own files, among the shipped heads, among those made on
    this machine (the one written last). What cannot be used is passed over with a warning.
    """
    try:
        native = native_head(target)
    except ModelError as error:
        log.warning("passed over the model's own draft head: %s", error.message)
        native = None
    if native is not None:
        return native
    best: HeadFile | None = None
    for listed in list_heads(cache_dir):
        if listed.head is None:
            log.warning("passed over a draft head: %s", listed.error)
            continue
        if not _fits(listed.head.spec, target):
            continue
        if listed.origin == "shipped":
            return listed.head
        if best is None or _written(listed.head) > _written(best):
            best = listed.head
    return best


def open_head(name_or_path: str, target: ModelFiles, *, cache_dir: Path | None = None) -> HeadFiles:
    """Open a head for a model: the path of a file, or a name that `leeway heads list` shows.

    A shipped head wins over a made one of the same name (give the path for that).

    Raises:
        ModelError: there is no such head, it cannot be used, or it was made for another model.
    """
    head = HeadFile(head_path(name_or_path, cache_dir))
    check_fits(head, target)
    return head


def check_fits(head: HeadFile, target: ModelFiles) -> None:
    """Refuse a head that was made for another model.

    Raises:
        ModelError: naming both checksums.
    """
    if head.spec.target_sha256 != target.sha256():
        raise ModelError(
            f"draft head {head.name!r} was made for {head.metadata.target_name!r} (SHA-256 "
            f"{head.spec.target_sha256}), but the model is {target.name!r} (SHA-256 "
            f"{target.sha256()}); a head fits only the weights that it was made from: choose that "
            "model, or another drafter, or make a head with `leeway heads train`",
            param="head",
        )
    for name in ("hidden_size", "vocab_size", "context_len"):
        own, wanted = getattr(head.spec.decoder, name), getattr(target.spec, name)
        if own != wanted:
            raise ModelError(
                f"draft head {head.name!r} has {name} {own}, but {target.name!r}, for which it was "
                f"made, has {wanted}; the file is inconsistent, make or fetch it again",
                param="head",
            )


def head_path(name_or_path: str, cache_dir: Path | None = None) -> Path:
    """Return the path of a head's file, given that or a name that `leeway heads list` shows.

    Raises:
        ModelError: there is no such head.
    """
    path = Path(name_or_path).expanduser()
    if path.suffix == SUFFIX or name_or_path != path.name:
        if path.is_file():
            return path
        raise ModelError(
            f"there is no draft head {name_or_path!r}; give the path of a {SUFFIX} file or a name "
            "that `leeway heads list` shows",
            param="head",
        )
    listed = list_heads(cache_dir)
    for item in listed:
        if item.path.stem == name_or_path.lower():
            return item.path
    hint = did_you_mean(name_or_path.lower(), [item.path.stem for item in listed])
    raise ModelError(
        f"unknown draft head {name_or_path!r}{hint}; `leeway heads list` shows the known ones, or "
        f"give the path of a {SUFFIX} file",
        param="head",
    )


def _fits(spec: HeadSpec, target: ModelFiles) -> bool:
    # Sizes first: a model that was not fetched by name is read whole for its checksum.
    own, other = spec.decoder, target.spec
    has_sizes = (own.hidden_size, own.vocab_size) == (other.hidden_size, other.vocab_size)
    return has_sizes and spec.target_sha256 == target.sha256()


def _written(head: HeadFile) -> float:
    return head.path.stat().st_mtime
