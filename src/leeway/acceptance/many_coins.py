"""Coins for many requests at once, in any array namespace that has 64-bit integers.

A coin is a pure function of (key, step, row, purpose), as in `core.rng`, by another hash: the
counter-based generator Philox4x32-10, whose arithmetic is the same on every array library and
device, so that all ranks of a distributed target throw the same coins. `key` is a request's own.
`step` is new for every block of a request; a row is a position inside the block.

Knows no law.
"""

from __future__ import annotations

from dataclasses import dataclass

from leeway.acceptance.algebra import at, entries, namespace, only_where
from leeway.acceptance.base import Array
from leeway.core.rng import Purpose

_ROUNDS = 10
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_WORD = 0xFFFFFFFF
_GROUP = 256
_CELLS = 2.0**50


def uniforms(keys: Array, steps: Array, num_rows: int, purpose: Purpose) -> Array:
    """Return the coins of the first rows of each request's block: [num_requests, num_rows].

    Args:
        keys: [num_requests], int64, any bits.
        steps: [num_requests], int64, >= 0.
        num_rows: how many coins each request gets.
        purpose: what they decide.

    Returns:
        float64, uniform on [0, 1), 53 bits.
    """
    rows = namespace(keys).arange(num_rows, device=keys.device)
    return uniforms_at(keys, steps, rows, int(purpose) + 0 * rows)


def uniforms_at(keys: Array, steps: Array, rows: Array, purposes: Array) -> Array:
    """Return coins of several purposes at once: [num_requests, num_coins].

    Args:
        keys: [num_requests], int64, any bits.
        steps: [num_requests], int64, >= 0.
        rows: [num_coins], int64, the row of each coin.
        purposes: [num_coins], int64, what each decides.

    Returns:
        float64, uniform on [0, 1), 53 bits.
    """
    xp = namespace(keys)
    counter = rows[None, :], purposes[None, :], *_halves(steps[:, None])
    low, high, _, _ = philox(counter, _halves(keys[:, None]))
    return xp.astype((high >> 5) * 2**26 + (low >> 6), xp.float64) * 2.0**-53


def philox(
    counter: tuple[Array, Array, Array, Array], key: tuple[Array, Array]
) -> tuple[Array, Array, Array, Array]:
    """Return four random words of 32 bits for a counter of four and a key of two.

    All are int64 arrays that broadcast against each other, words in 0 ... 2**32 - 1. Products
    exceed 63 bits and wrap; the two words read off them are right all the same.

    **Source**: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
    """
    zero, one, two, three = counter
    first_key, second_key = key
    for _ in range(_ROUNDS):
        even, odd = zero * _MULTIPLIERS[0], two * _MULTIPLIERS[1]
        zero, one = _high(odd) ^ one ^ first_key, odd & _WORD
        two, three = _high(even) ^ three ^ second_key, even & _WORD
        first_key = (first_key + _KEY_STEPS[0]) & _WORD
        second_key = (second_key + _KEY_STEPS[1]) & _WORD
    return zero, one, two, three


def draw_many(probs: Array, coins: Array) -> Array:
    """Return one column for each row, by inverting its cumulative distribution at the row's coin.

    One pass over the rows: sums of groups of columns first, then one group of each row. They are
    accumulated as whole numbers, in whatever order a device likes: every rank draws the same
    column. No column of zero probability is drawn.

    Args:
        probs: [num_requests, num_columns], >= 0, each row with mass.
        coins: [num_requests], float64 in [0, 1).

    Returns:
        [num_requests], int64.
    """
    num_requests, num_columns = probs.shape
    if num_columns <= _GROUP:
        return _pick(probs, coins).place
    xp = namespace(probs)
    num_whole = num_columns // _GROUP
    whole = probs[:, : num_whole * _GROUP]
    sums = xp.sum(xp.reshape(whole, (num_requests, num_whole, _GROUP)), axis=-1)
    if num_whole * _GROUP < num_columns:
        rest = xp.sum(probs[:, num_whole * _GROUP :], axis=-1, keepdims=True)
        sums = xp.concat([sums, rest], axis=-1)
    picked = _pick(sums, coins)
    first = picked.place * _GROUP
    columns = first[:, None] + xp.arange(_GROUP, device=probs.device)
    inside = xp.clip(columns, None, num_columns - 1)
    members = only_where(columns == inside, entries(probs, inside))
    return first + _pick(members, picked.rest()).place


@dataclass(frozen=True, slots=True)
class _Picked:
    """The place that each row's coin falls on, and the cells that it fell among.

    Whole numbers below 2**53, which 64-bit floats add up without rounding.
    """

    place: Array
    reached: Array
    cells: Array
    ends: Array

    def rest(self) -> Array:
        """Return where inside its place each coin fell, in [0, 1): [num_rows]."""
        own = at(self.cells, self.place)
        return (self.reached - (at(self.ends, self.place) - own)) / own


def _pick(masses: Array, coins: Array) -> _Picked:
    xp = namespace(masses)
    masses = xp.astype(masses, xp.float64)
    cells = xp.floor(masses * (_CELLS / xp.sum(masses, axis=-1, keepdims=True)))
    ends = xp.cumulative_sum(cells, axis=-1)
    last = ends[:, -1:]
    reached = coins[:, None] * last
    cell = xp.minimum(xp.floor(reached), last - 1)
    place = xp.sum(xp.astype(ends <= cell, xp.int64), axis=-1)
    return _Picked(place, reached[:, 0], cells, ends)


def _high(product: Array) -> Array:
    return (product >> 32) & _WORD


def _halves(words: Array) -> tuple[Array, Array]:
    return words & _WORD, _high(words)
