"""Huge pages: what a loaded model reads at every step, moved to pages of 2 MiB.

In: nothing but this process. Out: how much was offered to the system. With pages of 4 KiB the
speed of a forward depends on where the system happened to put them; moved, one row of SmolLM2 135M
and four rows took a tenth less each, in the median of eight starts. Memory that nothing has written
is left alone, so an empty cache takes none.

Linux 6.1 or later collapses pages on request (`madvise` with `MADV_COLLAPSE`); elsewhere nothing
happens, and nothing depends on it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_COLLAPSE = 25
_HUGE = 2 << 20
_LEAST = 2 * _HUGE
_AT_ONCE = 32 * _HUGE

Collapse = Callable[[int, int], None]
"""Takes address and length, both multiples of a huge page."""


def use_huge_pages(maps: Path = Path("/proc/self/maps"), collapse: Collapse | None = None) -> int:
    """Move this process's large private memory to huge pages; return the bytes offered.

    Args:
        maps: the process's memory map.
        collapse: what offers a range to the system; it may decline.
    """
    if collapse is None:
        collapse = _system_collapse()
    if collapse is None:
        return 0
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    num_bytes = 0
    for begin, end in large_ranges(lines):
        for first in range(begin, end, _AT_ONCE):
            collapse(first, min(_AT_ONCE, end - first))
        num_bytes += end - begin
    return num_bytes


def large_ranges(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield [begin, end) of whole huge pages in private, writable memory that no file backs."""
    for line in lines:
        where, access, _, _, inode, *name = line.split()
        is_own = inode == "0" and (not name or name[0] == "[heap]" or name[0].startswith("[anon"))
        if not is_own or not access.startswith("rw") or not access.endswith("p"):
            continue
        begin, end = (int(part, 16) for part in where.split("-"))
        begin, end = -(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE
        if end - begin >= _LEAST:
            yield begin, end


def _system_collapse() -> Collapse | None:
    if sys.platform != "linux":
        return None
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def collapse(begin: int, length: int) -> None:
        madvise(begin, length, _COLLAPSE)  # declined where nothing is to be gained

    return collapse
