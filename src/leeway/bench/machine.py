"""The machine as it is: processor, memory, load, versions.

Reads /proc where it exists; what cannot be read is None, never guessed.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_PROC = Path("/proc")
_CPU_FEATURES = {
    "avx2": "avx2",
    "avx512": "avx512f",
    "vnni": "avx512_vnni",
    "avx_vnni": "avx_vnni",
    "bf16": "avx512_bf16",
    "amx": "amx_tile",
}
_PARTS = ("leeway-llm", "openvino", "numpy", "tokenizers")


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts that speed depends on.

    `cpu_features` says of each instruction set whether the processor has it; None where the system
    does not say. `usable_threads` are those this process may run on. Memory is in bytes.
    """

    cpu_model: str
    cpu_features: dict[str, bool | None]
    num_threads: int
    usable_threads: int
    total_memory_bytes: int | None
    available_memory_bytes: int | None
    system: str
    versions: dict[str, str]


def read_machine(proc: Path = _PROC) -> Machine:
    """Return the facts of this machine."""
    model, flags = _read_cpu(proc / "cpuinfo")
    memory = _read_fields(proc / "meminfo")
    versions = {"python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in _PARTS}
    return Machine(
        cpu_model=model,
        cpu_features={
            name: None if flags is None else flag in flags for name, flag in _CPU_FEATURES.items()
        },
        num_threads=os.cpu_count() or 1,
        usable_threads=_usable_threads(),
        total_memory_bytes=memory.get("MemTotal"),
        available_memory_bytes=read_available_memory_bytes(proc),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        versions=versions,
    )


def read_load() -> tuple[float, float, float] | None:
    """Return the load averages over 1, 5 and 15 minutes; None where the system has none."""
    try:
        return os.getloadavg()
    except OSError:
        return None


def read_peak_memory_bytes(proc: Path = _PROC) -> int | None:
    """Return the most memory this process has had resident so far."""
    return _read_fields(proc / "self" / "status").get("VmHWM")


def read_available_memory_bytes(proc: Path = _PROC) -> int | None:
    """Return the memory that the machine could still give."""
    return _read_fields(proc / "meminfo").get("MemAvailable")


def reset_peak_memory(proc: Path = _PROC) -> bool:
    """Let the most memory of this process count from now; return whether the system allows it."""
    try:
        (proc / "self" / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def read_cpu_mhz(proc: Path = _PROC) -> float | None:
    """Return the mean frequency of the cores now, as the system reports it."""
    path = proc / "cpuinfo"
    lines = path.read_text().splitlines() if path.is_file() else []
    found = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return sum(found) / len(found) if found else None


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Seconds of processor time so far, all cores together.

    `others` took other processes, `stolen` other machines on the same host.
    """

    others: float
    stolen: float


def read_cpu_time(proc: Path = _PROC) -> CpuTime | None:
    """Return what other processes and machines have taken; None where the system does not say."""
    path = proc / "stat"
    words = path.read_text().split("\n", 1)[0].split() if path.is_file() else []
    if len(words) < 9 or words[0] != "cpu":
        return None
    user, nice, system, _, _, irq, softirq, stolen = (
        int(word) / os.sysconf("SC_CLK_TCK") for word in words[1:9]
    )
    own = os.times()
    busy = user + nice + system + irq + softirq
    return CpuTime(others=busy - own.user - own.system, stolen=stolen)


def _usable_threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_cpu(path: Path) -> tuple[str, frozenset[str] | None]:
    if not path.is_file():
        return platform.processor() or platform.machine(), None
    fields: dict[str, str] = {}
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags")
    model = fields.get("model name") or platform.processor() or platform.machine()
    return model, None if flags is None else frozenset(flags.split())


def _read_fields(path: Path) -> dict[str, int]:
    """Return the `Name: 123 kB` lines of a /proc file in bytes."""
    if not path.is_file():
        return {}
    found = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            found[name] = int(words[0]) * 1024
    return found
