"""Control groups: what a container, or systemd, lets this process have of the machine.

In: the files by which Linux tells. Out: bytes that may still be taken, and processors that may be
kept busy. The machine's own free memory and cores are larger than either where a limit is set, and
a process that believes them is killed, or waits for its quota with threads that spin.

Source: the kernel's documentation of control groups, version 2 (`memory.max`, `cpu.max`) and
version 1 (`memory.limit_in_bytes`, `cpu.cfs_quota_us`); a limit binds every group below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT_BYTES = 2**60
"""Version 1 writes a number near 2**63 where there is no limit."""


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The groups of a process.

    `mounts` is where the controllers are mounted, `membership` the list of the process's groups.
    """

    mounts: Path = Path("/sys/fs/cgroup")
    membership: Path = Path("/proc/self/cgroup")

    def free_memory_bytes(self) -> int | None:
        """Return how many bytes may still be taken, None without a limit.

        Cached file pages that nobody used lately count as free: the kernel gives them up first.
        """
        rooms = [
            _memory_room(folder, "memory.max", "memory.current", "inactive_file")
            for folder in self._unified()
        ] + [
            _memory_room(
                folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            )
            for folder in self._of_controller("memory")
        ]
        return min((room for room in rooms if room is not None), default=None)

    def num_processors(self) -> int | None:
        """Return how many processors may be kept busy, rounded up; None without a limit."""
        shares = [_share(_words(folder / "cpu.max")) for folder in self._unified()]
        for folder in self._of_controller("cpu"):
            quota = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
            shares.append(_share(quota))
        least = min((share for share in shares if share is not None), default=None)
        return None if least is None else max(1, math.ceil(least))

    def _unified(self) -> Iterator[Path]:
        for mount in (self.mounts, self.mounts / "unified"):
            if (mount / "cgroup.controllers").is_file():
                yield from self._upwards(mount, "")

    def _of_controller(self, name: str) -> Iterator[Path]:
        for mount in sorted(self.mounts.glob("*")):
            if name in mount.name.split(","):
                yield from self._upwards(mount, name)

    def _upwards(self, mount: Path, controller: str) -> Iterator[Path]:
        """Yield the process's group and all above it; the mount alone where they do not show."""
        folder = mount / self._path_of(controller).lstrip("/")
        while folder != mount and mount in folder.parents:
            if folder.is_dir():  # within a container the path may be the host's
                yield folder
            folder = folder.parent
        yield mount

    def _path_of(self, controller: str) -> str:
        try:
            lines = self.membership.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return "/"
        for line in lines:
            _, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            if controller in names.split(","):
                return "/" if ".." in path.split("/") else path  # beyond what is mounted
        return "/"


def _memory_room(folder: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    """Return the bytes below a group's limit, None where it has none or does not tell."""
    most, used = _number(_words(folder / limit)), _number(_words(folder / usage))
    if most is None or used is None or most >= _NO_LIMIT_BYTES:
        return None
    stat = _words(folder / "memory.stat")
    given_up = dict(zip(stat[::2], stat[1::2], strict=False)).get(reclaimable, "0")
    return max(0, most - used + (_number([given_up]) or 0))


def _share(words: list[str]) -> float | None:
    """Return quota over period, None where the quota is "max", -1 or not told."""
    if len(words) != 2:
        return None
    quota, period = _number(words[:1]), _number(words[1:])
    return quota / period if quota and period else None


def _number(words: list[str]) -> int | None:
    return int(words[0]) if words and words[0].isdecimal() else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return []
