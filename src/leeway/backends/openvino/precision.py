"""Precisions: every numeric setting of the runtime, chosen by what the CPU has.

The runtime's own defaults depend on the machine and trade exactness silently, so nothing is left
to them: `choose_precisions` names each setting, and `Precisions.properties` hands them over.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import openvino as ov

from leeway.core.errors import ConfigError, did_you_mean

KV_CACHE_FORMS = ("16bit", "u8", "f32")


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """What the CPU computes natively."""

    has_bf16: bool
    has_vnni: bool

    @staticmethod
    def detect(core: ov.Core) -> CpuFeatures:
        """Ask the runtime, and the kernel's list of CPU flags where there is one."""
        capabilities = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        flags = cpu_flags()
        return CpuFeatures(
            has_bf16="BF16" in capabilities and (not flags or bool(flags & _BF16_FLAGS)),
            has_vnni=bool(flags & _VNNI_FLAGS),
        )


_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
_VNNI_FLAGS = frozenset({"avx512_vnni", "avx_vnni", "asimddp"})


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the feature flags of the first CPU; empty where the system does not list them."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(value.split())
    return frozenset()


@dataclass(frozen=True, slots=True)
class Precisions:
    """Numeric settings in force.

    `compute` is the runtime's precision hint, `key_cache` and `value_cache` the element types of
    the cache, `dynamic_quantization_group_len` 0 where activations are never quantised.
    """

    compute: str
    key_cache: str
    value_cache: str
    dynamic_quantization_group_len: int = 0

    def properties(self) -> dict[str, str | int | bool]:
        """Return the runtime's properties, every one that touches a number."""
        return {
            "INFERENCE_PRECISION_HINT": self.compute,
            "EXECUTION_MODE_HINT": "PERFORMANCE",
            "KV_CACHE_PRECISION": self.key_cache,
            "KEY_CACHE_PRECISION": self.key_cache,
            "VALUE_CACHE_PRECISION": self.value_cache,
            "KEY_CACHE_GROUP_SIZE": 0,
            "VALUE_CACHE_GROUP_SIZE": 0,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": self.dynamic_quantization_group_len,
            "CPU_DENORMALS_OPTIMIZATION": False,
        }


def choose_precisions(weights: str, kv_cache: str, cpu: CpuFeatures) -> Precisions:
    """Choose every precision.

    Raises:
        ConfigError: the cache form is unknown.
    """
    if kv_cache not in KV_CACHE_FORMS:
        raise ConfigError(
            f"unknown kv_cache {kv_cache!r}{did_you_mean(kv_cache, KV_CACHE_FORMS)}; "
            f"allowed: {', '.join(KV_CACHE_FORMS)}",
            param="kv_cache",
        )
    compute = "bf16" if cpu.has_bf16 and weights != "f32" else "f32"
    sixteen_bit = "bf16" if compute == "bf16" else "f16"
    cache = {"16bit": sixteen_bit, "u8": "u8", "f32": "f32"}[kv_cache]
    return Precisions(compute=compute, key_cache=cache, value_cache=cache)
