"""Cache memory: the buffers behind the block ids, one for the keys and values of each layer.

In: a compiled model and a number of bytes. Out: its cache inputs, filled with zeros. Which block
belongs to whom is the block pool's business.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from leeway.backends.openvino.memory import lazy_zeros


@dataclass(frozen=True, slots=True)
class _CacheInput:
    name: str
    dtype: ov.Type
    block_shape: tuple[int, ...]

    @property
    def block_bytes(self) -> int:
        return math.prod(self.block_shape) * int(self.dtype.size)


class CacheMemory:
    """Keys and values of every block of every layer."""

    def __init__(self, runtime: ov.CompiledModel) -> None:
        """Read the shapes that the runtime gave its cache inputs; allocate nothing yet."""
        self._inputs = []
        for port in runtime.inputs:
            if "_cache." in port.get_any_name():
                block = tuple(d.get_length() for d in list(port.get_partial_shape())[1:])
                self._inputs.append(
                    _CacheInput(port.get_any_name(), port.get_element_type(), block)
                )
        self.block_bytes = sum(item.block_bytes for item in self._inputs)
        self._arrays: list[NDArray[np.uint8]] = []

    def attach(self, request: ov.InferRequest, num_blocks: int) -> None:
        """Allocate `num_blocks` blocks and make them the request's cache."""
        for item in self._inputs:
            array = lazy_zeros(num_blocks * item.block_bytes)
            self._arrays.append(array)  # the tensor only borrows it
            shape = ov.Shape([num_blocks, *item.block_shape])
            request.set_tensor(item.name, ov.Tensor(array, shape, item.dtype))
