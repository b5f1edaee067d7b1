"""Open whatever the user named: a catalogue entry, a GGUF file or a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path

from leeway.core.config import default_cache_dir
from leeway.core.errors import ModelError
from leeway.models.base import ModelFiles
from leeway.models.catalogue import CATALOGUE, find_entry, unknown_model
from leeway.models.fetch import pull
from leeway.models.fetch_sources import OnProgress
from leeway.models.gguf import GGUFFiles
from leeway.models.hf_folder import HFFolder


def open_model(
    name_or_path: str,
    *,
    cache_dir: Path | None = None,
    on_progress: OnProgress | None = None,
    offline: bool = False,
) -> ModelFiles:
    """Open a model for reading; one named in the catalogue is fetched first if need be.

    A catalogue name wins over a file of the same name (write ./NAME for that). `cache_dir` None is
    the configured default; `offline` keeps to the cache.

    Raises:
        FetchError: the catalogue's model cannot be had.
        ModelError: there is no such model, or it cannot be used.
    """
    if any(entry.name == name_or_path.lower() for entry in CATALOGUE):
        entry = find_entry(name_or_path)
        where = default_cache_dir() if cache_dir is None else cache_dir
        path = pull(entry, where, on_progress=on_progress, offline=offline)
        files = GGUFFiles(path, sha256=entry.sha256)
        files.name = entry.name
        return files
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return HFFolder(path)
    if path.is_file():
        return GGUFFiles(path)
    if path.suffix == ".gguf" or name_or_path != path.name:
        raise ModelError(
            f"there is no file or folder {name_or_path!r}; give the path of a .gguf file or a "
            "Hugging Face folder, or a name that `leeway models` lists",
            param="model",
        )
    raise unknown_model(name_or_path)
