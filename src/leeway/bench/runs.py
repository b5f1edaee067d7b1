"""Runs that lie in folders: their windows, and in what two runs differ.

In: a folder of windows, or identities. Out: windows of whole blocks, differences by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leeway.bench.window import Window, read_windows
from leeway.core.errors import ConfigError


def read_run(folder: Path) -> list[Window]:
    """Return the windows of the blocks that every arm of a run measured.

    Raises:
        ConfigError: the folder holds no whole block of one run.
    """
    windows = read_windows(folder)
    if not windows:
        raise ConfigError(f"{str(folder)!r} holds no windows; name a folder that --out filled")
    identity = windows[0].identity
    if any(window.identity != identity for window in windows):
        raise ConfigError(f"{str(folder)!r} holds windows of several runs; keep them apart")
    kept = whole_blocks(windows, list(identity["arms"]))
    if not kept:
        raise ConfigError(
            f"{str(folder)!r} holds no block that every arm ran; let `leeway bench run` go on"
        )
    return kept


def whole_blocks(windows: Sequence[Window], arms: Sequence[str]) -> list[Window]:
    """Return the windows of blocks in which one process measured every arm."""
    groups: dict[tuple[int, int, int], list[Window]] = {}
    for window in windows:
        groups.setdefault(window.block, []).append(window)
    kept = []
    for group in groups.values():
        is_whole = {one.arm for one in group} == set(arms)
        if is_whole and len({one.session for one in group}) == 1:
            kept += group
    return kept


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of everything in which two identities differ."""
    for key in sorted({*old, *new}):
        one, other = old.get(key), new.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from differences(one, other, f"{path}{key}.")
        elif one != other:
            yield f"{path}{key}", one, other
