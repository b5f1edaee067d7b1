"""Weights as graph constants: float32 matrices in, compressed constants with their decoder out.

Knows the forms in which a matrix can be kept and how each is decoded inside the graph. It knows
neither architectures nor devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
from numpy.typing import NDArray

from leeway.core.errors import ConfigError, did_you_mean

WEIGHT_FORMS = ("int8", "int4", "16bit", "f32")
INT8_GROUP_LENS = (64, 32)
INT4_GROUP_LENS = (32,)

PRODUCT_LEN = 512
"""Most inputs of one product of integer weights on a CPU without 8-bit dot products (see
`precision`)."""

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class WeightForm:
    """How matrices are kept.

    `kind` is one of int8, int4, bf16, f16, f32; `output_kind` is that of the embedding and output
    matrix, which suffer most from coarse codes. A matrix with more than `product_len` inputs is
    multiplied in pieces; 0 where every matrix is multiplied whole.
    """

    kind: str
    output_kind: str
    product_len: int = 0


def weight_form(name: str, *, has_bf16: bool, has_vnni: bool) -> WeightForm:
    """Turn a user's choice into a form that suits the CPU.

    Raises:
        ConfigError: the name is unknown.
    """
    if name not in WEIGHT_FORMS:
        raise ConfigError(
            f"unknown weights {name!r}{did_you_mean(name, WEIGHT_FORMS)}; "
            f"allowed: {', '.join(WEIGHT_FORMS)}",
            param="weights",
        )
    if name == "16bit":
        kind = "bf16" if has_bf16 else "f16"
        return WeightForm(kind, kind)
    if name == "f32":
        return WeightForm(name, name)
    return WeightForm(name, "int8", 0 if has_vnni else PRODUCT_LEN)


@dataclass(frozen=True, slots=True)
class EncodedMatrix:
    """A matrix in one of the forms, not yet part of a graph.

    `codes` holds int8 codes, 4-bit codes 0..15 in uint8, bfloat16 bits in uint16, or floats.
    """

    kind: str
    shape: tuple[int, ...]
    codes: NDArray[Any]
    scales: NDArray[np.float16] | None = None
    zero_points: NDArray[np.uint8] | None = None


def encode(matrix: NDArray[np.float32], kind: str) -> EncodedMatrix:
    """Encode a matrix, [out_features, in_features]; where int4 has no group that fits, in int8."""
    shape = matrix.shape
    if kind == "int4":
        group_len = group_len_for(shape[1], INT4_GROUP_LENS)
        if group_len in INT4_GROUP_LENS:
            codes, zero_points, scales = int4_codes(matrix, group_len)
            return EncodedMatrix(kind, shape, codes, scales, zero_points)
        kind = "int8"
    if kind == "int8":
        int8, scales = int8_codes(matrix, group_len_for(shape[1], INT8_GROUP_LENS))
        return EncodedMatrix(kind, shape, int8, scales)
    if kind == "bf16":
        return EncodedMatrix(kind, shape, _bf16_bits(matrix))
    assert kind in {"f16", "f32"}, kind
    dtype = np.float16 if kind == "f16" else np.float32
    return EncodedMatrix(kind, shape, np.ascontiguousarray(matrix, dtype))


def pieces(matrix: EncodedMatrix, product_len: int) -> list[EncodedMatrix]:
    """Cut a matrix along its inputs into pieces of whole groups, about equal in length.

    One that is short enough comes back itself, and so does one that is not in groups.
    """
    if not product_len or matrix.shape[1] <= product_len or matrix.scales is None:
        return [matrix]
    _, num_groups, group_len = matrix.codes.shape
    if num_groups == 1:
        return [matrix]
    num_pieces = -(-num_groups // (product_len // group_len))
    bounds = [num_groups * piece // num_pieces for piece in range(num_pieces + 1)]
    return [_groups(matrix, slice(*pair)) for pair in pairwise(bounds)]


def _groups(matrix: EncodedMatrix, chosen: slice) -> EncodedMatrix:
    """Return the part of a matrix that these groups of inputs make up."""
    codes, scales = np.ascontiguousarray(matrix.codes[:, chosen]), matrix.scales
    assert scales is not None
    zeros = matrix.zero_points
    return EncodedMatrix(
        matrix.kind,
        (matrix.shape[0], codes.shape[1] * codes.shape[2]),
        codes,
        np.ascontiguousarray(scales[:, chosen]),
        None if zeros is None else np.ascontiguousarray(zeros[:, chosen]),
    )


def weight_node(encoded: EncodedMatrix, *, is_shared: bool = False) -> ov.Node:
    """Return a graph node that yields the matrix, [out_features, in_features], as float32.

    With `is_shared` the graph reads the codes where they lie, so that several graphs can hold one
    matrix; the caller must keep `encoded` as long as any of them runs. Read-only codes are copied:
    the runtime refuses them.
    """
    kind, codes, scales = encoded.kind, encoded.codes, encoded.scales
    is_shared = is_shared and codes.flags.writeable
    if kind == "f32":
        return ops.constant(codes, shared_memory=is_shared)
    if kind == "f16":
        return ops.convert(ops.constant(codes, shared_memory=is_shared), "f32")
    if kind == "bf16":
        tensor = ov.Tensor(codes, ov.Shape(list(encoded.shape)), ov.Type.bf16)
        return ops.convert(ops.constant(tensor, shared_memory=is_shared), "f32")
    assert scales is not None
    if kind == "int8":
        constant = ops.constant(codes, shared_memory=is_shared)
        return _decoded(ops.convert(constant, "f16"), scales, encoded.shape)
    assert kind == "int4" and encoded.zero_points is not None, kind
    centred = ops.subtract(
        ops.convert(_u4_constant(codes), "f16"),
        ops.convert(_u4_constant(encoded.zero_points), "f16"),
    )
    return _decoded(centred, scales, encoded.shape)


def int8_codes(
    matrix: NDArray[np.float32], group_len: int
) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Encode symmetrically, one scale for each group of inputs.

    Returns:
        Codes -127..127, [rows, groups, group_len], and scales, [rows, groups, 1].
    """
    num_rows, num_columns = matrix.shape
    num_groups = num_columns // group_len
    codes = np.empty((num_rows, num_groups, group_len), np.int8)
    scales = np.empty((num_rows, num_groups, 1), np.float16)
    for start in range(0, num_rows, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        groups = matrix[rows].reshape(-1, num_groups, group_len)
        high = groups.max(axis=-1, keepdims=True)
        np.maximum(high, -groups.min(axis=-1, keepdims=True), out=high)
        # Half precision rounds the scale: round it up a little, so that codes stay within range.
        step = (high * np.float32(1.0005 / 127)).astype(np.float16)
        step[step == 0] = 1
        scales[rows] = step
        scaled = groups * np.reciprocal(step.astype(np.float32))
        codes[rows] = np.rint(scaled, out=scaled).clip(-127, 127)
    return codes, scales


def int4_codes(
    matrix: NDArray[np.float32], group_len: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float16]]:
    """Encode asymmetrically with an integer zero point and a scale for each group of inputs.

    Each group tries three zero points with the scale that fits them best and keeps the best pair.

    Returns:
        Codes 0..15, [rows, groups, group_len], zero points 0..15 and scales, [rows, groups, 1].
    """
    num_rows, num_columns = matrix.shape
    num_groups = num_columns // group_len
    codes = np.empty((num_rows, num_groups, group_len), np.uint8)
    zero_points = np.empty((num_rows, num_groups, 1), np.uint8)
    scales = np.empty((num_rows, num_groups, 1), np.float16)
    for start in range(0, num_rows, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        groups = matrix[rows].reshape(-1, num_groups, group_len)
        low = np.minimum(groups.min(axis=-1, keepdims=True), 0)
        step = (np.maximum(groups.max(axis=-1, keepdims=True), 0) - low) / np.float32(15)
        step[step == 0] = 1
        nearest = np.rint(-low / step)
        best_error = np.full(low.shape, np.inf, np.float32)
        for shift in (0, 1, -1):
            zero = np.clip(nearest + shift, 0, 15)
            fitted = _fitted_scale(groups, np.clip(np.rint(groups / step) + zero, 0, 15) - zero)
            fitted32 = fitted.astype(np.float32)
            encoded = np.clip(np.rint(groups / fitted32) + zero, 0, 15)
            error = np.square((encoded - zero) * fitted32 - groups).sum(axis=-1, keepdims=True)
            better = error < best_error
            np.copyto(best_error, error, where=better)
            np.copyto(codes[rows], encoded.astype(np.uint8), where=better)
            np.copyto(zero_points[rows], zero.astype(np.uint8), where=better)
            np.copyto(scales[rows], fitted, where=better)
    return codes, zero_points, scales


def _fitted_scale(groups: NDArray[np.float32], signed: NDArray[np.float32]) -> NDArray[np.float16]:
    """Least-squares scale of each group for given codes; 1 where there is nothing to scale."""
    squares = np.maximum(np.square(signed).sum(axis=-1, keepdims=True), 1)
    products = (groups * signed).sum(axis=-1, keepdims=True)
    fitted: NDArray[np.float16] = (products / squares).astype(np.float16)
    fitted[fitted == 0] = 1
    return fitted


def group_len_for(num_columns: int, group_lens: tuple[int, ...]) -> int:
    """Return the longest allowed group that divides a row, else the whole row."""
    return next((n for n in group_lens if num_columns % n == 0), num_columns)


def _decoded(codes: ov.Node, scales: NDArray[np.float16], shape: tuple[int, ...]) -> ov.Node:
    """Codes times scales as a float32 matrix, spelt so that the runtime keeps it compressed."""
    scaled = ops.multiply(codes, ops.constant(scales))
    return ops.convert(ops.reshape(scaled, ops.constant(np.array(shape, np.int64)), False), "f32")


def _u4_constant(codes: NDArray[np.uint8]) -> ov.Node:
    """Pack codes 0..15, two to a byte, the first in the low half."""
    flat = codes.reshape(-1)
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    tensor = ov.Tensor(ov.Type.u4, ov.Shape(list(codes.shape)))
    packed: NDArray[np.uint8] = tensor.data
    packed.reshape(-1)[:] = flat[0::2] | (flat[1::2] << 4)
    return ops.constant(tensor)


def _bf16_bits(matrix: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to nearest even in the upper half of each float32."""
    bits = np.ascontiguousarray(matrix).view(np.uint32)
    rounded: NDArray[np.uint32] = bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))
    return (rounded >> 16).astype(np.uint16)
