"""Step inputs: one forward's sequences laid out in the graph's flat input tensors.

In: for each sequence its new tokens, its cached length and its block table. Out: filled input
tensors of an infer request. It owns the buffers, which are written anew each step and reallocated
only to grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from leeway.backends.base import SequenceInput
from leeway.backends.openvino.block_width import STABLE_ROWS, BlockWidth, Widths
from leeway.backends.openvino.decoder_layers import BLOCK_LEN, INPUT_NAMES, STATES
from leeway.core.types import FloatArray
from leeway.kvcache import BlockTable

_MAX_LEN = "max_context_len"
_START_CAPACITY = 64


class _InputBuffer:
    """One int32 input tensor, with room to grow, and a NumPy view of all its room."""

    __slots__ = ("name", "request", "tensor", "view")

    def __init__(self, request: ov.InferRequest, name: str) -> None:
        self.request = request
        self.name = name
        self._allocate(_START_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self.tensor = ov.Tensor(ov.Type.i32, ov.Shape([capacity]))
        self.view: NDArray[np.int32] = self.tensor.data
        self.request.set_tensor(self.name, self.tensor)

    def reserve(self, length: int) -> NDArray[np.int32]:
        """Make the tensor `length` long and return its elements, to be written."""
        if length > self.view.size:
            self._allocate(2 * length)
        self.tensor.shape = [length]
        return self.view

    def write(self, values: list[int]) -> None:
        """Make the tensor hold `values`."""
        self.reserve(len(values))[: len(values)] = values


class StepInputs:
    """The input tensors of one infer request."""

    def __init__(
        self,
        request: ov.InferRequest,
        *,
        pad_blocks: bool,
        pad_block: int,
        make_widths: Callable[[], Widths] = BlockWidth,
    ) -> None:
        """Attach buffers to `request`.

        With `pad_blocks` sequences with few new tokens get meaningless rows behind them (see
        `block_width`), whose keys and values go to the slots behind the sequence or, where those
        lie outside its blocks, to the block `pad_block`. The slots count as unused: the next
        forward overwrites or clears them.
        """
        self._make_widths = make_widths
        self._pad_block = pad_block
        self.set_padding(pad_blocks=pad_blocks)
        self._buffers = {
            name: _InputBuffer(request, name) for name in INPUT_NAMES if name != _MAX_LEN
        }
        max_len = ov.Tensor(ov.Type.i32, ov.Shape([]))
        request.set_tensor(_MAX_LEN, max_len)
        self._max_len: NDArray[np.int32] = max_len.data
        self.num_rows = 0

    def set_padding(self, *, pad_blocks: bool) -> None:
        """Pad short blocks from now on, or stop doing so."""
        self._widths: Widths | None = self._make_widths() if pad_blocks else None

    def fill(
        self, inputs: Sequence[SequenceInput], tables: Sequence[BlockTable], past_lens: list[int]
    ) -> slice | list[int]:
        """Write one forward: behind `past_lens` cached tokens each sequence's new ones.

        `tables` hold blocks for past and new tokens.

        Returns:
            Which of the `num_rows` rows of the hidden states belong to real tokens. Rows of the
            logits behind the number asked for are padding.
        """
        ids: list[int] = []
        positions: list[int] = []
        logit_rows: list[int] = []
        real_rows: list[int] = []
        begins, block_begins = [0], [0]
        longest = num_logits = 0
        widths = self._widths
        padded = [len(item.token_ids) for item in inputs] if widths is None else widths.pad(inputs)
        for item, past_len, width in zip(inputs, past_lens, padded, strict=True):
            first, length = len(ids), len(item.token_ids)
            assert length >= max(item.num_logit_rows, 1), (length, item.num_logit_rows)
            ids += item.token_ids
            ids += [ids[-1]] * (width - length)
            if widths is not None:
                num_logits += widths.num_logit_rows(item, width)
            end_len = past_len + width
            positions += range(past_len, end_len)
            last = first + length
            real_rows += range(first, last)
            logit_rows += range(last - item.num_logit_rows, last)
            begins.append(len(ids))
            block_begins.append(block_begins[-1] + -(-end_len // BLOCK_LEN))
            longest = max(longest, end_len)
        least = 1 if widths is None else max(num_logits, STABLE_ROWS)
        logit_rows += [len(ids) - 1] * (least - len(logit_rows))
        self.num_rows = len(ids)
        write = self._buffers
        write["input_ids"].write(ids)
        write["position_ids"].write(positions)
        write["logit_rows"].write(logit_rows)
        write["past_lens"].write(past_lens)
        write["subsequence_begins"].write(begins)
        write["block_indices_begins"].write(block_begins)
        self._write_blocks(tables, block_begins)
        self._max_len[...] = longest
        if len(inputs) == 1 or len(real_rows) == len(ids):
            return slice(0, len(real_rows))
        return real_rows

    def _write_blocks(self, tables: Sequence[BlockTable], block_begins: list[int]) -> None:
        blocks = self._buffers["block_indices"].reserve(block_begins[-1])
        for i, table in enumerate(tables):
            start, end = block_begins[i], block_begins[i + 1]
            owned = min(table.num_blocks, end - start)
            blocks[start : start + owned] = table.ids[:owned]
            blocks[start + owned : end] = self._pad_block


class StateInput:
    """The input tensor of the states before each token, which only a draft head has."""

    def __init__(self, request: ov.InferRequest, hidden_size: int) -> None:
        self._request = request
        self._hidden_size = hidden_size
        self._allocate(_START_CAPACITY)

    @staticmethod
    def of(request: ov.InferRequest, runtime: ov.CompiledModel) -> StateInput | None:
        """Return the input of a head's request; None for a whole model."""
        for port in runtime.inputs:
            if STATES in port.get_names():
                return StateInput(request, port.get_partial_shape()[1].get_length())
        return None

    def _allocate(self, capacity: int) -> None:
        self._tensor = ov.Tensor(ov.Type.f32, ov.Shape([capacity, self._hidden_size]))
        self._view: NDArray[np.float32] = self._tensor.data
        self._request.set_tensor(STATES, self._tensor)

    def write(
        self, states: Sequence[FloatArray], real_rows: slice | list[int], num_rows: int
    ) -> None:
        """Make the tensor hold `states` in the real ones of `num_rows` rows, zeros in the rest."""
        if num_rows > len(self._view):
            self._allocate(2 * num_rows)
        self._tensor.shape = [num_rows, self._hidden_size]
        rows = self._view[:num_rows]
        rows[...] = 0.0
        rows[real_rows] = states[0] if len(states) == 1 else np.concatenate(states)
