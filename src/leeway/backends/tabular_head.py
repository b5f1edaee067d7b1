"""A draft head that is a table: what `tabular` is to a model, this is to its head.

The row behind (state, next token) is looked up by the last tokens that the state names, the next
one and the depth. Its cache is as strict as a proof needs: every misuse that a real head would
answer with slightly worse drafts fails an assertion here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from leeway.backends.base import ForwardOutput, HeadInput
from leeway.backends.tabular import Table, TabularBackend
from leeway.backends.tabular_state import State, from_row
from leeway.core.types import FloatArray, IntArray
from leeway.kvcache import BlockPool


@dataclass(frozen=True, slots=True)
class _Cached:
    """One cached position: the pair it was fed, and the state it gave."""

    state: State
    token_id: int
    given: State


@dataclass(slots=True)
class TabularHead:
    """A table of draft rows for each depth; implements `backends.base.DraftHead`.

    Asserted of whatever is fed, position by position:

    - it is a state of a table, at the position that is next in the cache;
    - the target's state names the text that is cached before it, and no draft is cached before it;
    - a state of the head is the one it gave at the position before, to the same sequence.

    States that a forward returned are spoilt by the next one, as a device's buffers may be.

    Attributes:
        target: whose hidden states it reads.
        tables: one a depth, each from the last `order` tokens (the next one included, fewer at
            the start) to a probability row over the draft vocabulary; behind the last depth the
            last table goes on.
        order: how many tokens a row depends on; at most one more than the target's states name.
        draft_token_ids: the ids behind a row's columns, ascending; None is every id.
    """

    target: TabularBackend
    tables: Sequence[Table]
    order: int
    draft_token_ids: IntArray | None = None
    context_len: int = 64
    capacity_tokens: int = 256
    block_len: int = 4
    prefill_chunk_len: int = 4
    depth: int = field(init=False)
    hidden_size: int = field(init=False)
    pool: BlockPool = field(init=False)
    _slots: dict[tuple[int, int], _Cached] = field(init=False, default_factory=dict)
    _last_hidden: FloatArray = field(init=False, default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        self.depth = len(self.tables)
        self.hidden_size = self.target.hidden_size
        assert self.order <= self.target.num_named_tokens + 1
        num_blocks = max(1, self.capacity_tokens // self.block_len)
        self.pool = BlockPool(num_blocks, self.block_len, self.context_len)
        ids = self.draft_token_ids
        num_columns = self.target.vocab_size if ids is None else len(ids)
        assert ids is None or bool(np.all(np.diff(ids) > 0))
        for table in self.tables:
            assert all(len(row) == num_columns for row in table.values())

    def open(self) -> int:
        """Return the handle of a new, empty sequence."""
        return self.pool.open()

    def cached_len(self, handle: int) -> int:
        """Return how many positions of the sequence are in the cache."""
        return self.pool.table(handle).cached_len

    def cached_pairs(self, handle: int) -> tuple[tuple[int, int], ...]:
        """Return (depth of the state, token) of every cached position."""
        return tuple((one.state.depth, one.token_id) for one in self._read(handle))

    def num_open(self) -> int:
        """Return how many sequences hold cache."""
        return self.pool.num_open

    def take_prefix(self, handle: int, contents: Sequence[int]) -> int:
        """Take over shared blocks; return how many positions are then cached."""
        return self.pool.take_prefix(handle, contents)

    def share_prefix(self, handle: int, contents: Sequence[int]) -> None:
        """Let later sequences take over the full blocks of these first positions."""
        shared = self._read(handle)[: len(contents)]
        assert all(one.state.depth == 0 for one in shared), "a draft is shared"
        self.pool.share_prefix(handle, contents)

    def forward(self, inputs: Sequence[HeadInput]) -> ForwardOutput:
        """Append positions; logits are float64 log probabilities over the draft vocabulary.

        Raises:
            CapacityError: the cache has no room; nothing was appended.
        """
        self._check(inputs)
        rows: list[FloatArray] = []
        hidden: list[list[float]] = []
        before = [self._read(one.handle) for one in inputs]
        self.pool.append([(one.handle, len(one.token_ids)) for one in inputs])
        try:
            for one, cached in zip(inputs, before, strict=True):
                first = len(one.token_ids) - one.num_logit_rows
                assert first >= 0, "more logit rows than positions"
                for index, pair in enumerate(self._append(one, list(cached))):
                    hidden.append(pair.given.to_row(self.target.num_named_tokens))
                    if index >= first:
                        rows.append(self.row(pair.state, pair.token_id))
        except AssertionError:
            for one, cached in zip(inputs, before, strict=True):
                self.pool.truncate(one.handle, len(cached))
            raise
        self._last_hidden.fill(np.nan)
        self._last_hidden = np.array(hidden).reshape(len(hidden), self.hidden_size)
        num_columns = len(next(iter(self.tables[0].values())))
        with np.errstate(divide="ignore"):
            logits = np.log(np.array(rows).reshape(len(rows), num_columns))
        return ForwardOutput(logits, self._last_hidden)

    def row(self, state: State, token_id: int) -> FloatArray:
        """Return the probability row behind a state and the next token."""
        context = (*state.last_tokens, token_id)
        table = self.tables[min(state.depth, self.depth - 1)]
        return table[context[max(0, len(context) - self.order) :]]

    def truncate(self, handle: int, kept_len: int) -> None:
        """Forget all cached positions of the sequence behind the first `kept_len`."""
        cached_len = self.cached_len(handle)
        assert 0 <= kept_len <= cached_len, f"{cached_len} cached, {kept_len} to be kept"
        self.pool.truncate(handle, kept_len)

    def close(self, handle: int) -> None:
        """Give back everything the sequence holds."""
        self.pool.close(handle)

    def check_integrity(self) -> None:
        """Assert that no block is lost or owned by two that do not share it."""
        self.pool.check_integrity()

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the settings in force."""
        return {"head": "tabular", "order": self.order, "depth": self.depth}

    def _check(self, inputs: Sequence[HeadInput]) -> None:
        handles = [one.handle for one in inputs]
        assert len(set(handles)) == len(handles), "one sequence twice in a forward"
        for one in inputs:
            assert np.shape(one.hidden) == (len(one.token_ids), self.hidden_size)
            assert self.cached_len(one.handle) + len(one.token_ids) <= self.context_len

    def _append(self, one: HeadInput, cached: list[_Cached]) -> Iterable[_Cached]:
        """Write the positions of one sequence behind what is cached, and yield each."""
        table = self.pool.table(one.handle)
        for row, token_id in zip(one.hidden, one.token_ids, strict=True):
            state = from_row(row)
            assert 0 <= token_id < self.target.vocab_size
            assert state.position == len(cached), (
                f"a state at position {state.position} where {len(cached)} is next"
            )
            _check_follows(cached, state)
            cached.append(_Cached(state, int(token_id), _cut(state, int(token_id), self.target)))
            block, slot = divmod(len(cached) - 1, self.block_len)
            assert block >= table.num_fixed, "a shared block is written"
            self._slots[int(table.ids[block]), slot] = cached[-1]
            yield cached[-1]

    def _read(self, handle: int) -> list[_Cached]:
        """Return what lies in the sequence's blocks."""
        table = self.pool.table(handle)
        places = (divmod(position, self.block_len) for position in range(table.cached_len))
        return [self._slots[int(table.ids[block]), slot] for block, slot in places]


def _check_follows(cached: Sequence[_Cached], state: State) -> None:
    """Assert that a state may stand behind what is cached."""
    if state.depth:
        assert cached and cached[-1].given == state, "not the state that the head gave here"
        return
    if not cached:
        return
    before = cached[-1]
    assert before.state.depth == 0, "a draft is still cached before the target's state"
    assert before.given.fingerprint == state.fingerprint, (
        "the target's state belongs to another text than the one cached before it"
    )


def _cut(state: State, token_id: int, target: TabularBackend) -> State:
    """Return the state behind one more token as it reads after a copy through a row."""
    row = state.then(token_id).to_row(target.num_named_tokens)
    return from_row(np.array(row))
