"""Open whatever the user named: a file, a folder or a catalogue entry."""

from __future__ import annotations

from pathlib import Path

from leeway.core.errors import ModelError
from leeway.models.base import ModelFiles
from leeway.models.gguf import GGUFFiles


def open_model(name_or_path: str) -> ModelFiles:
    """Open a model file for reading.

    Raises:
        ModelError: there is no such file, or it cannot be used.
    """
    path = Path(name_or_path).expanduser()
    if not path.is_file():
        raise ModelError(f"there is no model file {name_or_path!r}; give the path of a .gguf file")
    return GGUFFiles(path)
