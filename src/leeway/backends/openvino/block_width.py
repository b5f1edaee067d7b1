"""How many rows a short block is padded to, so that a forward has the shape of the last one.

In: the rows that the next forward's blocks need. Out: the rows they get. For a whole model the
runtime prepares its
kernels anew whenever the number of rows changes, which costs several times what a few padding rows
cost; drafts of changing length would pay that at every step. So a block narrower than the last is
padded to its width, until that has happened often enough to have cost what one change costs (the
rule of the ski-rental problem: never more than twice the cheapest choice in hindsight).

A draft head reads a few committed positions, then one at a time, over and over. Its rows are
rounded up to a fixed few numbers, so that all forwards of a usual draft have one shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from leeway.backends.base import SequenceInput

STABLE_ROWS = 2
"""From this number of rows of a sequence on, a row has the same bits whatever their number; one
row alone takes attention and matrix kernels of its own."""

MAX_BLOCK_ROWS = 16
"""Longer blocks are not padded: their own rows cost more than a change of shape."""

PATIENCE = 8
"""Narrower forwards that are padded in a row, before the width follows them."""


HEAD_WIDTHS = (4, 8, MAX_BLOCK_ROWS)
"""Rows that a head's short run of positions gets: 4 hold what a draft of three can have left."""


class Widths(Protocol):
    """How many rows of states and logits each sequence of a forward gets."""

    def pad(self, inputs: Sequence[SequenceInput]) -> list[int]:
        """Return the rows of each sequence, at least its own length."""
        ...

    def num_logit_rows(self, item: SequenceInput, width: int) -> int:
        """Return the rows of logits of one sequence, at least as many as it asks for."""
        ...


class BlockWidth:
    """The current width, and how long narrower blocks would have done."""

    __slots__ = ("_num_narrower", "_widest_narrower", "width")

    def __init__(self) -> None:
        self.width = STABLE_ROWS
        self._num_narrower = self._widest_narrower = 0

    def pad(self, inputs: Sequence[SequenceInput]) -> list[int]:
        """Return the rows that each sequence of the next forward gets, at least its own length."""
        blocks = [len(item.token_ids) for item in inputs if is_block(item)]
        if blocks:
            self._follow(max(*blocks, STABLE_ROWS))
        return [
            self.width if is_block(item) else max(len(item.token_ids), STABLE_ROWS)
            for item in inputs
        ]

    def num_logit_rows(self, item: SequenceInput, width: int) -> int:
        """Return as many rows of logits as rows for a block, else what is asked for."""
        return width if is_block(item) else item.num_logit_rows

    def _follow(self, needed: int) -> None:
        if needed >= self.width:
            self.width, self._num_narrower, self._widest_narrower = needed, 0, 0
            return
        self._num_narrower += 1
        self._widest_narrower = max(self._widest_narrower, needed)
        if self._num_narrower > PATIENCE:
            self.width, self._num_narrower, self._widest_narrower = self._widest_narrower, 0, 0


class HeadWidth:
    """Widths of a draft head's forwards."""

    def pad(self, inputs: Sequence[SequenceInput]) -> list[int]:
        """Return the rows of each sequence, one of `HEAD_WIDTHS` where it is a short one."""
        lens = [len(item.token_ids) for item in inputs]
        return [next((width for width in HEAD_WIDTHS if width >= n), n) for n in lens]

    def num_logit_rows(self, item: SequenceInput, width: int) -> int:
        """Return what is asked for: one row of logits, whatever the number of positions."""
        del width
        return item.num_logit_rows


def is_block(item: SequenceInput) -> bool:
    """Return whether the new tokens are a block of drafts (all rows asked for), not a prompt."""
    return item.num_logit_rows == len(item.token_ids) <= MAX_BLOCK_ROWS
