"""Coins: every random decision is a pure function of (seed, step, row, purpose).

`step` is the number of output tokens committed when the block begins, `row` the offset inside the
block, `purpose` what the coin decides. A block commits at least one token, so no key is ever used
by two blocks or for two purposes. Block verification consults coins behind the token it stops at:
they carry their own block's step and so never meet again.

A keyed hash (BLAKE2b) of the counter gives 53 uniform bits, half-open in [0, 1).

This room knows neither laws nor models. Engines take the `Coins` protocol, so that tests can
enumerate every outcome instead of drawing one.
"""

from __future__ import annotations

import hashlib
import struct
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

MAX_SEED = 2**64 - 1
_GROUP = 256


class Purpose(IntEnum):
    """What a coin decides; part of its key. No engine throws MEASURE: it belongs to statistics."""

    DRAFT = 0
    ACCEPT = 1
    RECOVER = 2
    BONUS = 3
    MEASURE = 4


class Coins(Protocol):
    """The source of all randomness of one request."""

    def accepts(self, probability: float, *, step: int, row: int, purpose: Purpose) -> bool:
        """Return True with the given probability."""
        ...

    def draw(self, probs: NDArray[Any], *, step: int, row: int, purpose: Purpose) -> int:
        """Return a column of `probs` ([num_columns], sums to 1) with its probability."""
        ...


def uniform(seed: int, step: int, row: int, purpose: Purpose) -> float:
    """Return the coin of this key: uniform on [0, 1), 53 bits."""
    key = struct.pack("<QQQQ", seed, step, row, purpose)
    word = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
    return (word >> 11) * 2.0**-53


def choice_seed(seed: int, index: int) -> int:
    """Return the seed of one of several answers to a prompt; the first has the request's own."""
    if index == 0:
        return seed
    word = hashlib.blake2b(struct.pack("<QQ", seed, index), digest_size=8).digest()
    return int.from_bytes(word, "little") >> 11


class KeyedCoins:
    """The production source: keyed by the request's seed."""

    def __init__(self, seed: int) -> None:
        if not 0 <= seed <= MAX_SEED:
            raise ValueError(f"seed {seed} is outside [0, 2**64)")
        self.seed = seed

    def accepts(self, probability: float, *, step: int, row: int, purpose: Purpose) -> bool:
        """Return True with the given probability."""
        return uniform(self.seed, step, row, purpose) < probability

    def draw(self, probs: NDArray[Any], *, step: int, row: int, purpose: Purpose) -> int:
        """Return a column by inverting the cumulative distribution at this key's coin."""
        return invert_cdf(probs, uniform(self.seed, step, row, purpose))


def invert_cdf(probs: NDArray[Any], coin: float) -> int:
    """Return the first column whose cumulative probability exceeds `coin` times the total.

    Never returns a column of zero probability. Sums by groups first, so that a vocabulary of
    150,000 costs a fraction of a full cumulative sum.
    """
    num_columns = probs.shape[0]
    if num_columns <= _GROUP:
        return _invert_small(probs, coin * float(probs.sum(dtype=np.float64)))
    starts = np.arange(0, num_columns, _GROUP)
    cumulative = np.cumsum(np.add.reduceat(probs, starts, dtype=np.float64))
    threshold = coin * float(cumulative[-1])
    group = min(int(np.searchsorted(cumulative, threshold, side="right")), len(starts) - 1)
    while group > 0 and cumulative[group] == cumulative[group - 1]:
        group -= 1
    before = float(cumulative[group - 1]) if group else 0.0
    start = group * _GROUP
    return start + _invert_small(probs[start : start + _GROUP], threshold - before)


def _invert_small(probs: NDArray[Any], threshold: float) -> int:
    cumulative = np.cumsum(probs, dtype=np.float64)
    column = int(np.searchsorted(cumulative, threshold, side="right"))
    if column < probs.shape[0]:
        return column
    return int(np.flatnonzero(probs)[-1])
