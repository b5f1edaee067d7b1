"""Stored tensor bytes to float32, bit for bit as package `gguf` does it, and faster.

In: raw bytes, a type name and a shape. Out: a new float32 array. The block types of the catalogue's
models (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1) are decoded here in cache-sized chunks with two passes over
the output; every other type goes through `gguf.quants`, a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from leeway.core.errors import ModelError

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_CHUNK_BLOCKS: Final = 4096  # 512 KiB of float32: output and temporaries stay in the second cache
_CHUNK_VALUES: Final = 1 << 17


def dequantise(data: Bytes, type_name: str, shape: tuple[int, ...], name: str) -> Floats:
    """Return the tensor as a new float32 array of `shape`; `name` is for the error message.

    Raises:
        ModelError: the type cannot be decoded.
    """
    kind = GGMLQuantizationType[type_name]
    if kind is GGMLQuantizationType.F32:
        return data.view("<f4").reshape(shape).astype(np.float32)
    if kind is GGMLQuantizationType.F16:
        return data.view("<f2").reshape(shape).astype(np.float32)
    if kind is GGMLQuantizationType.BF16:
        return widen_bfloat16(data.view("<u2")).reshape(shape)
    block_len, block_bytes = GGML_QUANT_SIZES[kind]
    blocks = data.reshape(-1, block_bytes)
    out = np.empty((len(blocks), block_len), dtype=np.float32)
    decode = _DECODERS.get(type_name)
    if decode is None:
        _decode_by_library(blocks, out, kind, name)
        return out.reshape(shape)
    for begin in range(0, len(blocks), _CHUNK_BLOCKS):
        end = begin + _CHUNK_BLOCKS
        decode(blocks[begin:end], out[begin:end])
    return out.reshape(shape)


def widen_bfloat16(codes: NDArray[np.uint16]) -> Floats:
    """Return bfloat16 bit patterns as float32: the upper half of the same number."""
    widened = codes.astype(np.uint32)
    widened <<= np.uint32(16)
    return widened.view(np.float32)


def _decode_by_library(blocks: Bytes, out: Floats, kind: GGMLQuantizationType, name: str) -> None:
    step = max(1, _CHUNK_VALUES // out.shape[1])
    try:
        for begin in range(0, len(blocks), step):
            # As one row, since the library loops in Python over groups of rows.
            row = blocks[begin : begin + step].reshape(1, -1)
            out[begin : begin + step] = quants.dequantize(row, kind).reshape(-1, out.shape[1])
    except NotImplementedError:
        known = ["F32", "F16", "BF16", *sorted(_DECODERS)]
        raise ModelError(
            f"tensor {name!r} has quantisation {kind.name}, which cannot be decoded; "
            f"{', '.join(known)} and the K and IQ types can: convert the model to one of these"
        ) from None


def _halves(blocks: Bytes, begin: int) -> Floats:
    """Return the float16 stored at byte `begin` of each block as float32, [num_blocks, 1]."""
    return np.ascontiguousarray(blocks[:, begin : begin + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> NDArray[np.uint8]:
    """Return [num_blocks, 32] codes: low nibbles are values 0 to 15, high ones 16 to 31."""
    codes = np.empty((len(packed), 2, packed.shape[1]), dtype=np.uint8)
    np.bitwise_and(packed, 15, out=codes[:, 0])
    np.right_shift(packed, 4, out=codes[:, 1])
    return codes.reshape(len(packed), -1)


def _fifth_bits(blocks: Bytes, begin: int) -> NDArray[np.uint8]:
    """Return the high bit of each 5-bit code, already shifted to its place, [num_blocks, 32]."""
    bits = np.unpackbits(
        np.ascontiguousarray(blocks[:, begin : begin + 4]), axis=1, bitorder="little"
    )
    bits <<= np.uint8(4)
    return bits


def _decode_q8_0(blocks: Bytes, out: Floats) -> None:
    out[...] = blocks[:, 2:].view(np.int8)
    out *= _halves(blocks, 0)


def _decode_q4_0(blocks: Bytes, out: Floats) -> None:
    out[...] = _nibbles(blocks[:, 2:]).view(np.int8) - np.int8(8)
    out *= _halves(blocks, 0)


def _decode_q4_1(blocks: Bytes, out: Floats) -> None:
    out[...] = _nibbles(blocks[:, 4:])
    out *= _halves(blocks, 0)
    out += _halves(blocks, 2)


def _decode_q5_0(blocks: Bytes, out: Floats) -> None:
    codes = _nibbles(blocks[:, 6:])
    codes |= _fifth_bits(blocks, 2)
    out[...] = codes.view(np.int8) - np.int8(16)
    out *= _halves(blocks, 0)


def _decode_q5_1(blocks: Bytes, out: Floats) -> None:
    codes = _nibbles(blocks[:, 8:])
    codes |= _fifth_bits(blocks, 4)
    out[...] = codes
    out *= _halves(blocks, 0)
    out += _halves(blocks, 2)


_DECODERS: Final[dict[str, Callable[[Bytes, Floats], None]]] = {
    "Q8_0": _decode_q8_0,
    "Q4_0": _decode_q4_0,
    "Q4_1": _decode_q4_1,
    "Q5_0": _decode_q5_0,
    "Q5_1": _decode_q5_1,
}
