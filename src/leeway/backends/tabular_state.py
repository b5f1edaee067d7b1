"""Hidden states of tables: rows of numbers that say to which position of which text they belong.

A real model's hidden states cannot be told apart by looking. These can, so that a head made of a
table refuses a state that was kept too long, belongs to another text, or comes from the head where
the target's is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate

from leeway.core.types import FloatArray

_MODULUS = 16_777_213  # every number below survives a copy in 32-bit floats
_FACTOR = 7_919
NUM_FIXED = 3
"""Columns before the last tokens."""


@dataclass(frozen=True, slots=True)
class State:
    """What one hidden state says.

    Attributes:
        position: of the token that it stands at.
        depth: 0 for the target's own; d for a head's behind d tokens fed to it.
        fingerprint: of all tokens up to and including this position's.
        last_tokens: the last few of them, fewer at the start.
    """

    position: int
    depth: int
    fingerprint: int
    last_tokens: tuple[int, ...]

    def followed_by(self, token_id: int) -> State:
        """Return the target's state at the token behind this one."""
        text = (*self.last_tokens, token_id)
        return State(self.position + 1, 0, _append(self.fingerprint, token_id), text)

    def then(self, token_id: int) -> State:
        """Return the head's state behind one more token."""
        return State(
            self.position + 1,
            self.depth + 1,
            _append(self.fingerprint, token_id),
            (*self.last_tokens, token_id),
        )

    def to_row(self, num_tokens: int) -> list[float]:
        """Return [NUM_FIXED + num_tokens] numbers; of the last tokens the last so many."""
        kept = self.last_tokens[max(0, len(self.last_tokens) - num_tokens) :]
        missing = num_tokens - len(kept)
        tokens = [0] * missing + [token_id + 1 for token_id in kept]
        return [float(value) for value in (self.position, self.depth, self.fingerprint, *tokens)]


def state_at(tokens: Sequence[int]) -> State:
    """Return the target's state at the last of these tokens."""
    return State(len(tokens) - 1, 0, reduce(_append, tokens, 0), tuple(tokens))


def fingerprints(tokens: Sequence[int]) -> list[int]:
    """Return the fingerprint of the text up to and including each token."""
    return list(accumulate(tokens, _append, initial=0))[1:]


def from_row(row: FloatArray) -> State:
    """Return what a row says; asserts that it is a row that `to_row` made."""
    numbers = [float(value) for value in row]
    assert all(value.is_integer() for value in numbers), f"no hidden state of a table: {numbers}"
    position, depth, fingerprint, *tokens = (int(value) for value in numbers)
    return State(position, depth, fingerprint, tuple(one - 1 for one in tokens if one))


def _append(fingerprint: int, token_id: int) -> int:
    return (fingerprint * _FACTOR + token_id + 1) % _MODULUS
