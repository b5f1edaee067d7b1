"""Tabular: a model that is a table; the exact test double, and a teaching aid.

The row behind a context is looked up by its last `order` tokens (fewer at the start), so a whole
served loop can be enumerated by hand. The cache is a real one: tokens lie in the slots of blocks
that sequences own or share, and logits depend on what is read there, so a forgotten rollback, or a
block shared or taken away wrongly, shows in the next row. Hidden states say to which position of
which text they belong (`tabular_state`), and are spoilt by the next forward.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leeway.backends.base import ForwardOutput, SequenceInput
from leeway.backends.tabular_state import NUM_FIXED, State, fingerprints
from leeway.core.types import FloatArray
from leeway.kvcache import BlockPool

Table = dict[tuple[int, ...], NDArray[np.float64]]


@dataclass(slots=True)
class TabularBackend:
    """A Markov model of finite order; implements `backends.base.Backend`.

    Attributes:
        table: context (the last `order` tokens, or all while there are fewer) to a probability
            row [vocab_size].
        order: how many tokens a row depends on.
        num_named_tokens: last tokens that a hidden state names.
    """

    table: Table
    order: int
    context_len: int = 64
    capacity_tokens: int = 256
    block_len: int = 4
    exact_rollback: bool = True
    prefill_chunk_len: int = 4
    vocab_size: int = field(init=False)
    num_named_tokens: int = field(init=False)
    hidden_size: int = field(init=False)
    pool: BlockPool = field(init=False)
    _slots: NDArray[np.int64] = field(init=False)
    _marks: NDArray[np.int64] = field(init=False)
    _last_hidden: FloatArray = field(init=False, default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        self.vocab_size = len(next(iter(self.table.values())))
        self.num_named_tokens = max(1, self.order)
        self.hidden_size = NUM_FIXED + self.num_named_tokens
        num_blocks = self.capacity_tokens // self.block_len
        self.pool = BlockPool(num_blocks, self.block_len, self.context_len)
        self._slots = np.full((num_blocks, self.block_len), -1, np.int64)
        self._marks = np.full((num_blocks, self.block_len), -1, np.int64)

    def open(self) -> int:
        """Return the handle of a new, empty sequence."""
        return self.pool.open()

    def cached_len(self, handle: int) -> int:
        """Return how many tokens of the sequence are cached."""
        return self.pool.table(handle).cached_len

    def cached_token_ids(self, handle: int) -> tuple[int, ...]:
        """Return the cached tokens themselves, as they lie in the sequence's blocks."""
        table = self.pool.table(handle)
        lying: list[int] = self._slots[table.ids[: table.num_blocks]].ravel().tolist()
        return tuple(lying[: table.cached_len])

    def num_open(self) -> int:
        """Return how many sequences hold cache."""
        return self.pool.num_open

    def take_prefix(self, handle: int, contents: Sequence[int]) -> int:
        """Take over shared blocks; return how many positions are then cached.

        Asserts that they hold this very text, written behind this very beginning.
        """
        num_taken = self.pool.take_prefix(handle, contents)
        blocks = self.pool.table(handle).ids[: num_taken // self.block_len]
        text = list(contents[:num_taken])
        is_this = self._slots[blocks].ravel().tolist() == text
        is_behind = self._marks[blocks].ravel().tolist() == fingerprints(text)
        assert is_this and is_behind, "a block of another text was found"
        return num_taken

    def share_prefix(self, handle: int, contents: Sequence[int]) -> None:
        """Let later sequences take over the full blocks of these first positions."""
        self.pool.share_prefix(handle, contents)

    def forward(self, inputs: Sequence[SequenceInput]) -> ForwardOutput:
        """Append the new tokens and return the rows asked for, as float64 log probabilities.

        Raises:
            CapacityError: the cache has no room; nothing was appended.
        """
        states = [self._state(one.handle) for one in inputs]
        self.pool.append([(one.handle, len(one.token_ids)) for one in inputs])
        rows: list[NDArray[np.float64]] = []
        hidden: list[list[float]] = []
        for one, last in zip(inputs, states, strict=True):
            first, state = len(one.token_ids) - one.num_logit_rows, last
            for index, token_id in enumerate(one.token_ids):
                state = state.followed_by(int(token_id))
                self._write(one.handle, state)
                hidden.append(state.to_row(self.num_named_tokens))
                if index >= first:
                    rows.append(self.row(state.last_tokens))
        probs = np.array(rows).reshape(len(rows), self.vocab_size)
        with np.errstate(divide="ignore"):
            logits = np.log(probs)
        self._last_hidden.fill(np.nan)
        self._last_hidden = np.array(hidden).reshape(len(hidden), self.hidden_size)
        return ForwardOutput(logits, self._last_hidden)

    def row(self, context: Sequence[int]) -> NDArray[np.float64]:
        """Return the probability row behind a context."""
        return self.table[tuple(context[max(0, len(context) - self.order) :])]

    def truncate(self, handle: int, kept_len: int) -> None:
        """Forget the tokens behind the first `kept_len`."""
        self.pool.truncate(handle, kept_len)

    def close(self, handle: int) -> None:
        """Give back what the sequence holds."""
        self.pool.close(handle)

    def check_integrity(self) -> None:
        """Assert that no block is lost or owned by two that do not share it."""
        self.pool.check_integrity()

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the settings in force."""
        return {"backend": "tabular", "order": self.order, "vocab_size": self.vocab_size}

    def _state(self, handle: int) -> State:
        """Return the state at the last cached token, as its slot and those before it tell."""
        table = self.pool.table(handle)
        end = table.cached_len
        places = [
            (table.ids[position // self.block_len], position % self.block_len)
            for position in range(max(0, end - self.num_named_tokens), end)
        ]
        fingerprint = int(self._marks[places[-1]]) if places else 0
        return State(end - 1, 0, fingerprint, tuple(int(self._slots[one]) for one in places))

    def _write(self, handle: int, state: State) -> None:
        """Put a token and its text's fingerprint where the sequence has its next slot."""
        table = self.pool.table(handle)
        block, slot = divmod(state.position, self.block_len)
        assert block >= table.num_fixed, "a shared block is written"
        self._slots[table.ids[block], slot] = state.last_tokens[-1]
        self._marks[table.ids[block], slot] = state.fingerprint


def random_table(
    vocab_size: int,
    order: int,
    seed: int,
    concentration: float = 1.0,
    num_columns: int | None = None,
) -> Table:
    """Return a table of Dirichlet rows for every context of up to `order` tokens.

    `num_columns` is the rows' length where it is not the vocabulary's (a reduced draft vocabulary).
    """
    generator = np.random.default_rng(seed)
    contexts = itertools.chain.from_iterable(
        itertools.product(range(vocab_size), repeat=length) for length in range(order + 1)
    )
    alpha = np.full(num_columns or vocab_size, concentration)
    return {context: generator.dirichlet(alpha) for context in contexts}
