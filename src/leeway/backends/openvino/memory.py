"""Memory: how many cache blocks fit, and the bytes to hold them.

In: sizes in bytes. Out: a number of blocks, and buffers that take memory only once written.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leeway.backends.openvino.control_groups import ControlGroups
from leeway.core.errors import ConfigError

DEFAULT_FREE_RATE = 0.5
"""Share of the free memory that the cache takes when nobody says otherwise."""

PAGE_BYTES = 4096

FALLBACK_FREE_BYTES = 2 * 1024**3
"""Taken as free where the system does not tell."""


def free_memory_bytes(
    meminfo: Path = Path("/proc/meminfo"), groups: ControlGroups | None = None
) -> int:
    """Return the bytes that a new allocation can take without swapping or passing a limit."""
    within_limits = (groups or ControlGroups()).free_memory_bytes()
    free = _machines_free_bytes(meminfo)
    return free if within_limits is None else min(free, within_limits)


def _machines_free_bytes(meminfo: Path) -> int:
    try:
        for line in meminfo.read_text(encoding="ascii", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return FALLBACK_FREE_BYTES


def num_cache_blocks(
    *,
    block_bytes: int,
    blocks_per_sequence: int,
    max_num_seqs: int,
    kv_memory_bytes: int | None,
    free_bytes: int | None = None,
) -> int:
    """Return how many blocks the cache gets.

    A stated `kv_memory_bytes` is used up to the last whole block. By default it is
    `DEFAULT_FREE_RATE` of the free memory, at most what `max_num_seqs` sequences of full length
    can use.

    Raises:
        ConfigError: not one block fits, or more is asked for than is free.
    """
    free = free_memory_bytes() if free_bytes is None else free_bytes
    if kv_memory_bytes is None:
        share = int(free * DEFAULT_FREE_RATE) // block_bytes
        return max(1, min(share, blocks_per_sequence * max_num_seqs))
    if kv_memory_bytes > free:
        raise ConfigError(
            f"kv_memory_bytes {kv_memory_bytes} is more than the {free} bytes of memory that are "
            "free; lower --kv-memory, or leave it out to take a share of what is free",
            param="kv_memory_bytes",
        )
    num_blocks = kv_memory_bytes // block_bytes
    if num_blocks < 1:
        raise ConfigError(
            f"kv_memory_bytes {kv_memory_bytes} holds not one cache block; at least {block_bytes} "
            "bytes are needed (one block of this model)",
            param="kv_memory_bytes",
        )
    return num_blocks


def lazy_zeros(num_bytes: int) -> NDArray[np.uint8]:
    """Return zeroed bytes that begin on a memory page, so that no cache row straddles one.

    Fresh zero pages cost nothing until they are written.
    """
    array = np.zeros(num_bytes + PAGE_BYTES, np.uint8)
    offset = -array.ctypes.data % PAGE_BYTES
    return array[offset : offset + num_bytes]
