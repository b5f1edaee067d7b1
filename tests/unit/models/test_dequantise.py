import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType

from leeway.core.errors import ModelError
from leeway.models.dequantise import dequantise, widen_bfloat16


def decodable() -> list[str]:
    """Return every type that package gguf itself can decode."""
    names = []
    for kind, (block_len, block_bytes) in gguf.GGML_QUANT_SIZES.items():
        try:
            gguf.quants.dequantize(np.zeros((1, block_bytes), dtype=np.uint8), kind)
        except NotImplementedError:
            continue
        assert block_len >= 1
        names.append(kind.name)
    return names


@pytest.mark.parametrize("type_name", decodable())
def test_equals_the_reference_bit_for_bit(type_name: str) -> None:
    kind = GGMLQuantizationType[type_name]
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    num_blocks = 4096 + 7 if block_len == 32 else 2051  # one chunk and a remainder
    rng = np.random.default_rng(kind.value)
    blocks = rng.integers(0, 256, (num_blocks, block_bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):  # random bits make NaN and infinite scales, too
        expected = gguf.quants.dequantize(blocks, kind).reshape(num_blocks, block_len)
        read = dequantise(blocks.reshape(-1), type_name, (num_blocks, block_len), "w")
    assert read.shape == (num_blocks, block_len)
    both_nan = np.isnan(read) & np.isnan(expected)
    same = read.view(np.uint32) == expected.astype(np.float32).view(np.uint32)
    assert (same | both_nan).all()
    assert read.flags.writeable


def test_all_types_of_the_catalogue_are_decodable() -> None:
    assert {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q6_K"} <= {*decodable()}


def test_a_type_without_decoder_is_named() -> None:
    data = np.zeros(40, dtype=np.uint8)
    with pytest.raises(ModelError, match=r"tensor 'blk\.w' has quantisation Q8_1"):
        dequantise(data, "Q8_1", (1, 32), "blk.w")


def test_bfloat16_is_the_upper_half() -> None:
    values = np.array([1.0, -2.5, 0.0, np.inf], dtype=np.float32)
    codes = (values.view(np.uint32) >> 16).astype(np.uint16)
    np.testing.assert_array_equal(widen_bfloat16(codes), values)
