"""Precisions: every numeric setting of the runtime, chosen by what the CPU has.

The runtime's own defaults depend on the machine and trade exactness silently, so nothing is left
to them: `choose_precisions` names each setting, and `Precisions.properties` hands them over.

What was measured on SmolLM2-135M (the distances from float32 stand in
`tests/model/test_openvino_precision.py`):

- Integer weights run with float32 activations that the CPU's 8-bit dot products (VNNI) take in
  groups of 32. This is faster than 16-bit products from two rows on, gives float32 logits, and a
  row has the same bits whatever the number of rows in its forward. Products in bfloat16 with
  decoded integer weights do not: they change kernels between four and five rows.
- Where the CPU has no such products, integer weights are decoded and multiplied as floats, by
  kernels that suit the number of rows: on a CPU with AVX2 alone a row's bits changed between 80
  rows and 81 where it is longer than 512, and between 4 and 5 besides where it is longer than
  4,096. So such products are sums of products over at most 512 inputs, whose bits do not change.
- Attention alone runs in bfloat16 where the CPU has it: it repacks the keys and values of a
  sequence in each forward of several rows, and half the bytes are half the traffic.
- An 8-bit cache is quantised token by token. The runtime's default, keys by channel across a
  block, is closer but lets a rejected token change the scale of its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import openvino as ov

from leeway.core.errors import ConfigError, did_you_mean

KV_CACHE_FORMS = ("16bit", "u8", "f32")

ACTIVATION_GROUP_LEN = 32
"""Activations that share a scale in 8-bit products; weight groups must be a multiple of it."""

_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
_VNNI_FLAGS = frozenset({"avx512_vnni", "avx_vnni"})


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

    `compute` is the runtime's precision hint, `attention` the element type of attention, which is
    cast inside the graph where it differs, `cache` that of keys and values,
    `activation_group_len` 0 where activations are never quantised.
    """

    compute: str
    attention: str
    cache: str
    activation_group_len: int

    def properties(self) -> dict[str, str | int | bool]:
        """Return the runtime's properties, every one that touches a number."""
        return {
            "INFERENCE_PRECISION_HINT": self.compute,
            "EXECUTION_MODE_HINT": "PERFORMANCE",
            "KV_CACHE_PRECISION": self.cache,
            "KEY_CACHE_PRECISION": self.cache,
            "VALUE_CACHE_PRECISION": self.cache,
            "KEY_CACHE_GROUP_SIZE": 0,
            "VALUE_CACHE_GROUP_SIZE": 0,
            "KEY_CACHE_QUANT_MODE": "BY_TOKEN",
            "VALUE_CACHE_QUANT_MODE": "BY_TOKEN",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": self.activation_group_len,
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
    compute = "bf16" if weights == "16bit" and cpu.has_bf16 else "f32"
    attention = "bf16" if weights != "f32" and kv_cache != "f32" and cpu.has_bf16 else "f32"
    sixteen_bit = "bf16" if attention == "bf16" else "f16"
    return Precisions(
        compute=compute,
        attention=attention,
        cache={"16bit": sixteen_bit, "u8": "u8", "f32": "f32"}[kv_cache],
        activation_group_len=(
            ACTIVATION_GROUP_LEN if weights in {"int8", "int4"} and cpu.has_vnni else 0
        ),
    )
