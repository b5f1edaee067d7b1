"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, replacing an older one; an interrupted write leaves that one as it was."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)
