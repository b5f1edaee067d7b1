"""Blocks: where the draft tokens of several requests lie in rows that hold them all.

Rows are flat and ragged: the draft positions of a request lie one behind the other, and rows of
other kinds may lie between requests. Results are grids, [num_requests, max_draft_len], whose shape
does not depend on how many tokens were drafted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from leeway.acceptance.algebra import namespace
from leeway.acceptance.base import Array


@dataclass(frozen=True)
class Blocks:
    """The drafted blocks of several requests. What is asked for often is computed once.

    Attributes:
        first_rows: [num_requests], int64: the row of each request's first draft token, never
            falling; where a request has none, the row at which the next one begins.
        num_draft_tokens: [num_requests], int64.
        max_draft_len: no request has more.
    """

    first_rows: Array
    num_draft_tokens: Array
    max_draft_len: int

    @cached_property
    def is_drafted(self) -> Array:
        """Which places of the grid, [num_requests, max_draft_len], hold a draft token."""
        return self._offsets < self.num_draft_tokens[:, None]

    @cached_property
    def rows(self) -> Array:
        """The row of each place of the grid, 0 where nothing was drafted."""
        rows = self.first_rows[:, None] + self._offsets
        return namespace(rows).where(self.is_drafted, rows, 0)

    def is_last(self) -> Array:
        """Return which places hold a block's last draft token."""
        return self._offsets == self.num_draft_tokens[:, None] - 1

    def is_up_to(self, lengths: Array) -> Array:
        """Return which drafted places have at most `lengths` ([num_requests]) before them."""
        return self.is_drafted & (self._offsets <= lengths[:, None])

    def rows_at(self, offsets: Array) -> Array:
        """Return the row at an offset into each block, the last one's beyond: [num_requests].

        Of a request without draft tokens it is some row.
        """
        xp = namespace(offsets)
        last = xp.clip(self.num_draft_tokens - 1, 0, None)
        rows = self.first_rows + xp.minimum(offsets, last)
        return xp.where(self.num_draft_tokens > 0, rows, 0)

    def grid(self, values: Array) -> Array:
        """Return flat values, [num_rows], as a grid; anything where nothing was drafted."""
        xp = namespace(values)
        if values.shape[0] > 0:
            return xp.reshape(xp.take(values, self._flat_rows, axis=0), self.rows.shape)
        return xp.zeros(self.rows.shape, dtype=values.dtype, device=values.device)

    def places(self, num_rows: int) -> tuple[Array, Array]:
        """Return request and offset of every row, the inverse of `rows`: each [num_rows].

        A row that holds no draft token gets the offset of some place in the grid.
        """
        xp = namespace(self.first_rows)
        rows = xp.arange(num_rows, device=self.first_rows.device)
        requests = xp.searchsorted(self.first_rows, rows, side="right") - 1
        requests = xp.clip(requests, 0, None)
        offsets = rows - self.first_rows[requests]
        return requests, xp.clip(offsets, 0, self.max_draft_len - 1)

    @cached_property
    def _flat_rows(self) -> Array:
        return namespace(self.rows).reshape(self.rows, (-1,))

    @cached_property
    def _offsets(self) -> Array:
        first = self.first_rows
        return namespace(first).arange(self.max_draft_len, device=first.device)[None, :]
