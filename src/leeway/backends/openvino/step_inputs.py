"""Step inputs: one forward's sequences laid out in the graph's flat input tensors.

In: for each sequence its new tokens and its block table. Out: filled input tensors of an infer
request. It owns the buffers, which are written anew each step and reallocated only to grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from leeway.backends.openvino.graph import INPUT_NAMES

MIN_ROWS = 2
"""From this number of rows on, matrix and attention kernels give a row the same bits whatever the
number of rows; one row alone takes kernels of its own."""


@dataclass(frozen=True, slots=True)
class SequenceRows:
    """One sequence of a forward: `past_len` cached tokens, then `token_ids`.

    `block_ids` has room for past and new tokens.
    """

    token_ids: Sequence[int]
    past_len: int
    block_ids: NDArray[np.int32]
    num_logit_rows: int


class _InputBuffer:
    """One int32 input tensor, with room to grow, and a NumPy view of all its room."""

    __slots__ = ("name", "request", "tensor", "view")

    def __init__(self, request: ov.InferRequest, name: str, capacity: int) -> None:
        self.request = request
        self.name = name
        self._allocate(capacity)

    def _allocate(self, capacity: int) -> None:
        self.tensor = ov.Tensor(ov.Type.i32, ov.Shape([capacity]))
        self.view: NDArray[np.int32] = self.tensor.data
        self.request.set_tensor(self.name, self.tensor)

    def reserve(self, length: int) -> NDArray[np.int32]:
        """Make the tensor `length` long and return its elements, to be written."""
        if length > self.view.size:
            self._allocate(max(length, 2 * self.view.size))
        self.tensor.shape = [length]
        return self.view


class StepInputs:
    """The input tensors of one infer request."""

    def __init__(self, request: ov.InferRequest, *, pad_single_rows: bool, pad_block: int) -> None:
        """Attach buffers to `request`.

        With `pad_single_rows` a sequence with a single new token gets a second, meaningless row
        behind it, whose key and value go to the slot behind the sequence or, where that lies
        outside its blocks, to the block `pad_block`.
        """
        self._pad = pad_single_rows
        self._pad_block = pad_block
        self._buffers = {
            name: _InputBuffer(request, name, 64) for name in INPUT_NAMES if name != _MAX_LEN
        }
        self._max_len = ov.Tensor(ov.Type.i32, ov.Shape([]))
        request.set_tensor(_MAX_LEN, self._max_len)
        self._max_len_view = self._max_len.data
        self._counting = np.arange(1024, dtype=np.int32)

    def fill(self, sequences: Sequence[SequenceRows], block_len: int) -> NDArray[np.intp] | None:
        """Write one forward.

        Returns:
            Which rows of the hidden states belong to real tokens; None when all do. Rows of the
            logits behind the number asked for are padding.
        """
        lens = [len(sequence.token_ids) for sequence in sequences]
        pad = self._pad
        padded = [max(length, MIN_ROWS) if pad else length for length in lens]
        num_rows = sum(padded)
        num_sequences = len(sequences)
        buffers = self._buffers
        ids = buffers["input_ids"].reserve(num_rows)
        positions = buffers["position_ids"].reserve(num_rows)
        past = buffers["past_lens"].reserve(num_sequences)
        begins = buffers["subsequence_begins"].reserve(num_sequences + 1)
        block_begins = buffers["block_indices_begins"].reserve(num_sequences + 1)
        spans = [
            -(-(sequence.past_len + length) // block_len)
            for sequence, length in zip(sequences, padded, strict=True)
        ]
        blocks = buffers["block_indices"].reserve(sum(spans))
        if num_rows > self._counting.size:
            self._counting = np.arange(2 * num_rows, dtype=np.int32)
        row = block = longest = 0
        begins[0] = block_begins[0] = 0
        logit_rows: list[int] = []
        for i, sequence in enumerate(sequences):
            length, width, span, start = lens[i], padded[i], spans[i], sequence.past_len
            ids[row : row + length] = sequence.token_ids
            if width > length:
                ids[row + length : row + width] = ids[row + length - 1]
            np.add(self._counting[:width], start, out=positions[row : row + width])
            owned = min(span, sequence.block_ids.size)
            blocks[block : block + owned] = sequence.block_ids[:owned]
            blocks[block + owned : block + span] = self._pad_block
            end = row + length
            logit_rows.extend(range(end - sequence.num_logit_rows, end))
            row += width
            block += span
            longest = max(longest, start + width)
            past[i] = start
            begins[i + 1] = row
            block_begins[i + 1] = block
        self._write_logit_rows(logit_rows, last_row=num_rows - 1)
        self._max_len_view[...] = longest
        if num_rows == sum(lens):
            return None
        return _real_rows(lens, padded)

    def _write_logit_rows(self, logit_rows: list[int], last_row: int) -> None:
        length = max(len(logit_rows), MIN_ROWS) if self._pad else max(len(logit_rows), 1)
        view = self._buffers["logit_rows"].reserve(length)
        view[: len(logit_rows)] = logit_rows
        view[len(logit_rows) : length] = last_row


_MAX_LEN = "max_context_len"


def _real_rows(lens: Sequence[int], padded: Sequence[int]) -> NDArray[np.intp]:
    rows: list[int] = []
    start = 0
    for length, width in zip(lens, padded, strict=True):
        rows.extend(range(start, start + length))
        start += width
    return np.array(rows, np.intp)
