"""Files that are there whole or not at all, and folders that one process writes to at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from leeway.core.errors import ConfigError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, replacing an older one; an interrupted write leaves that one as it was."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


@contextmanager
def only_writer(folder: Path | None, named: str = "--out") -> Iterator[None]:
    """Make a folder and keep other processes from writing to it meanwhile; None does nothing.

    The lock goes with the process, however it ends; its file, `.lock`, stays. `named` is what the
    folder was given by.

    Raises:
        ConfigError: another process writes there, or the folder cannot be made or written.
    """
    if folder is None:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire(timeout=0)
    except Timeout:
        raise ConfigError(
            f"{named} {str(folder)!r}: another process writes there; wait for it or end it, or "
            "name another folder"
        ) from None
    except OSError as reason:
        raise ConfigError(f"{named} {str(folder)!r} cannot be written: {reason.strerror}") from None
    try:
        yield
    finally:
        lock.release()
