"""Weights as graph constants: float32 matrices in, compressed constants with their decoder out.

Knows the forms in which a matrix can be kept and how each is decoded inside the graph. It knows
neither architectures nor devices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import openvino as ov
import openvino.opset13 as ops
from numpy.typing import NDArray

from leeway.core.errors import ConfigError, did_you_mean

WEIGHT_FORMS = ("int8", "int4", "16bit", "f32")
INT4_GROUP_LENS = (64, 32)


@dataclass(frozen=True, slots=True)
class WeightForm:
    """How matrices are kept.

    `kind` is one of int8, int4, bf16, f16, f32; `output_kind` is that of the embedding and output
    matrix, which suffer most from coarse codes.
    """

    kind: str
    output_kind: str


def weight_form(name: str, *, has_bf16: bool) -> WeightForm:
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
    return WeightForm(name, "int8" if name == "int4" else name)


def weight_node(matrix: NDArray[np.float32], kind: str) -> ov.Node:
    """Return a graph node that yields the matrix, [out_features, in_features], as float32."""
    if kind == "int8":
        return _int8_node(matrix)
    if kind == "int4":
        return _int4_node(matrix)
    if kind == "bf16":
        return ops.convert(_bf16_constant(matrix), "f32")
    if kind == "f16":
        return ops.convert(ops.constant(matrix.astype(np.float16)), "f32")
    assert kind == "f32", kind
    return ops.constant(np.ascontiguousarray(matrix, np.float32))


def _int8_node(matrix: NDArray[np.float32]) -> ov.Node:
    """Symmetric codes, one scale for each output channel."""
    scales = np.abs(matrix).max(axis=1, keepdims=True) / np.float32(127)
    scales[scales == 0] = 1
    codes = np.rint(matrix / scales).astype(np.int8)
    decoded = ops.convert(ops.constant(codes), "f32")
    return ops.multiply(decoded, ops.constant(scales.astype(np.float32)))


def _int4_node(matrix: NDArray[np.float32]) -> ov.Node:
    """Asymmetric codes 0..15 with an integer zero point and a scale for each group of inputs."""
    num_rows, num_columns = matrix.shape
    group_len = next((n for n in INT4_GROUP_LENS if num_columns % n == 0), 0)
    if not group_len:
        return _int8_node(matrix)
    groups = matrix.reshape(num_rows, num_columns // group_len, group_len)
    low = np.minimum(groups.min(axis=-1, keepdims=True), 0)
    high = np.maximum(groups.max(axis=-1, keepdims=True), 0)
    scales = ((high - low) / np.float32(15)).astype(np.float16)
    scales[scales == 0] = 1
    steps = scales.astype(np.float32)
    zero_points = np.clip(np.rint(-low / steps), 0, 15)
    codes = np.clip(np.rint(groups / steps) + zero_points, 0, 15)
    decoded = ops.subtract(
        ops.convert(_u4_constant(codes.astype(np.uint8)), "f16"),
        ops.convert(_u4_constant(zero_points.astype(np.uint8)), "f16"),
    )
    scaled = ops.multiply(decoded, ops.constant(scales))
    shape = ops.constant(np.array([num_rows, num_columns], np.int64))
    return ops.convert(ops.reshape(scaled, shape, False), "f32")


def _u4_constant(codes: NDArray[np.uint8]) -> ov.Node:
    """Pack codes 0..15, an even number of them, two to a byte, the first in the low half."""
    flat = codes.reshape(-1)
    tensor = ov.Tensor(ov.Type.u4, ov.Shape(list(codes.shape)))
    packed: NDArray[np.uint8] = tensor.data
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    packed.reshape(-1)[:] = flat[0::2] | (flat[1::2] << 4)
    return ops.constant(tensor)


def _bf16_constant(matrix: NDArray[np.float32]) -> ov.Node:
    """Round to nearest even in the upper half of each float32."""
    bits = np.ascontiguousarray(matrix).view(np.uint32)
    rounded = ((bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    tensor = ov.Tensor(ov.Type.bf16, ov.Shape(list(matrix.shape)))
    tensor.data.view(np.uint16).reshape(-1)[:] = rounded.reshape(-1)
    return ops.constant(tensor)
