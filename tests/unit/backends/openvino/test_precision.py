from pathlib import Path

import pytest

from leeway.backends.openvino.precision import (
    CpuFeatures,
    Precisions,
    choose_precisions,
    cpu_flags,
)
from leeway.core.errors import ConfigError

BOTH = CpuFeatures(has_bf16=True, has_vnni=True)
VNNI = CpuFeatures(has_bf16=False, has_vnni=True)
NONE = CpuFeatures(has_bf16=False, has_vnni=False)


@pytest.mark.parametrize(
    ("weights", "kv_cache", "cpu", "expected"),
    [
        ("int8", "16bit", BOTH, Precisions("f32", "bf16", "bf16", 32)),
        ("int4", "16bit", BOTH, Precisions("f32", "bf16", "bf16", 32)),
        ("int8", "u8", BOTH, Precisions("f32", "bf16", "u8", 32)),
        ("int8", "16bit", VNNI, Precisions("f32", "f32", "f16", 32)),
        ("int8", "u8", VNNI, Precisions("f32", "f32", "u8", 32)),
        ("int8", "16bit", NONE, Precisions("f32", "f32", "f16", 0)),
        ("16bit", "16bit", BOTH, Precisions("bf16", "bf16", "bf16", 0)),
        ("16bit", "16bit", VNNI, Precisions("f32", "f32", "f16", 0)),
        ("f32", "16bit", BOTH, Precisions("f32", "f32", "f16", 0)),
        ("f32", "f32", BOTH, Precisions("f32", "f32", "f32", 0)),
        ("f32", "u8", BOTH, Precisions("f32", "f32", "u8", 0)),
    ],
)
def test_choice(weights: str, kv_cache: str, cpu: CpuFeatures, expected: Precisions) -> None:
    assert choose_precisions(weights, kv_cache, cpu) == expected


def test_every_precision_property_is_named() -> None:
    properties = choose_precisions("int8", "u8", BOTH).properties()
    assert properties["INFERENCE_PRECISION_HINT"] == "f32"
    assert properties["DYNAMIC_QUANTIZATION_GROUP_SIZE"] == 32
    for kind in ("KV", "KEY", "VALUE"):
        assert properties[f"{kind}_CACHE_PRECISION"] == "u8"
    # By channel, a rejected token would move the scale of the tokens before it.
    assert properties["KEY_CACHE_QUANT_MODE"] == "BY_TOKEN"
    assert properties["VALUE_CACHE_QUANT_MODE"] == "BY_TOKEN"


def test_unknown_cache_form_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown kv_cache '16bits'; did you mean '16bit'\?"):
        choose_precisions("int8", "16bits", BOTH)


@pytest.mark.parametrize("word", ["flags", "Features"])
def test_flags_of_the_first_cpu(tmp_path: Path, word: str) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\n{word}\t\t: fpu avx512_vnni bf16\n\n{word}: other\n")
    assert cpu_flags(cpuinfo) == {"fpu", "avx512_vnni", "bf16"}


def test_no_flags_where_the_system_tells_none(tmp_path: Path) -> None:
    assert cpu_flags(tmp_path / "absent") == frozenset()
    (tmp_path / "empty").write_text("processor : 0\n")
    assert cpu_flags(tmp_path / "empty") == frozenset()


class FakeCore:
    def __init__(self, *capabilities: str) -> None:
        self.capabilities = list(capabilities)

    def get_property(self, device: str, name: str) -> list[str]:
        assert (device, name) == ("CPU", "OPTIMIZATION_CAPABILITIES")
        return self.capabilities


@pytest.mark.parametrize(
    ("capabilities", "flags", "expected"),
    [
        (("BF16", "FP32"), {"avx512_bf16", "avx512_vnni"}, BOTH),
        (("BF16", "FP32"), {"avx512f", "avx512_vnni"}, VNNI),  # emulated only
        (("FP32",), {"avx512_bf16"}, NONE),  # the runtime has no kernels
        (("BF16",), set(), CpuFeatures(has_bf16=True, has_vnni=False)),  # flags unknown
        (("FP32",), {"avx_vnni"}, VNNI),
    ],
)
def test_detection(
    monkeypatch: pytest.MonkeyPatch,
    capabilities: tuple[str, ...],
    flags: set[str],
    expected: CpuFeatures,
) -> None:
    monkeypatch.setattr("leeway.backends.openvino.precision.cpu_flags", lambda: frozenset(flags))
    assert CpuFeatures.detect(FakeCore(*capabilities)) == expected
