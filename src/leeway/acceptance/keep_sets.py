"""Keep-sets T: which tokens a set rule keeps without a coin, read from the rows alone.

A set answers for a whole row (`mask`, for closed forms) and for one token of each row (`contains`,
the hot path). It does not know what happens to tokens outside it; `set_law` does.

**Deviates** from the published rules in one thing: a set that thresholds the target row never holds
a token that this row gives zero probability, even where its threshold falls to zero or below
(TokenV2 with alpha >= max p, say). Truncation and grammars then hold under every such law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from leeway.acceptance.algebra import (
    at,
    column_indices,
    entropy,
    is_known,
    is_numpy,
    namespace,
    peak,
    smallest,
    total,
)
from leeway.acceptance.base import Array

_LONG_ROW = 2048
_STRIDE = 16


class KeepSet(Protocol):
    """A set of columns for each row. `entropies` are those of the target rows, where known."""

    def mask(self, target: Array, draft: Array, entropies: Array | None = None) -> Array:
        """Return membership of every column: [..., num_columns], of rows of that shape."""
        ...

    def contains(
        self, target: Array, draft: Array, columns: Array, entropies: Array | None = None
    ) -> Array:
        """Return membership of one column of each row: [...]."""
        ...


@dataclass(frozen=True, slots=True)
class Typical:
    """T = {p > min(eps, delta exp(-H(p)))}, H in nats.

    **Source**: Cai et al. 2024, arXiv 2401.10774, section 2.3.1. **Deviates**: the full entropy,
    without the 1e-5 that the reference code adds inside the logarithm.
    """

    delta: float
    eps: float

    def mask(self, target: Array, draft: Array, entropies: Array | None = None) -> Array:
        """Return membership of every column."""
        return target > self._floor(target, entropies)[..., None]

    def contains(
        self, target: Array, draft: Array, columns: Array, entropies: Array | None = None
    ) -> Array:
        """Return membership of one column of each row."""
        return at(target, columns) > self._floor(target, entropies)

    def _floor(self, target: Array, entropies: Array | None) -> Array:
        xp = namespace(target)
        known = entropy(target) if entropies is None else entropies
        return xp.clip(self.delta * xp.exp(-known), None, self.eps)


@dataclass(frozen=True, slots=True)
class DraftNearPeak:
    """T = {q >= max p - alpha}: TokenV1, which never looks at p(x).

    **Source**: Narasimhan et al. 2025, arXiv 2405.19261, equation 13.
    """

    alpha: float

    def mask(self, target: Array, draft: Array, entropies: Array | None = None) -> Array:
        """Return membership of every column."""
        return draft >= (peak(target) - self.alpha)[..., None]

    def contains(
        self, target: Array, draft: Array, columns: Array, entropies: Array | None = None
    ) -> Array:
        """Return membership of one column of each row."""
        return at(draft, columns) >= peak(target) - self.alpha


@dataclass(frozen=True, slots=True)
class Floor:
    """T = {p >= scale max p - gap} with p > 0: one shape for every floor below the peak.

    Attributes:
        scale: fraction of the peak (1 - alpha of TokenV3, a ratio, exp of minus a log gap).
        gap: what is taken off (alpha of TokenV2, delta of relaxed acceptance).
        base: an absolute floor instead (`scale` 0).
    """

    scale: float = 1.0
    gap: float = 0.0
    base: float = 0.0

    def mask(self, target: Array, draft: Array, entropies: Array | None = None) -> Array:
        """Return membership of every column."""
        return target >= self.floor(target)[..., None]

    def contains(
        self, target: Array, draft: Array, columns: Array, entropies: Array | None = None
    ) -> Array:
        """Return membership of one column of each row."""
        return at(target, columns) >= self.floor(target)

    def floor(self, target: Array) -> Array:
        """Return the lowest probability kept: [...]."""
        xp = namespace(target)
        floor = self.base + self.scale * peak(target) - self.gap
        return xp.clip(floor, smallest(target), None)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The tokens of a floor that also are among the `rank` most likely of the target row.

    Among equal probabilities the lower column ranks first.
    """

    floor: Floor
    rank: int

    def mask(self, target: Array, draft: Array, entropies: Array | None = None) -> Array:
        """Return membership of every column."""
        inside = self.floor.mask(target, draft)
        if self.rank >= target.shape[-1]:
            return inside
        xp = namespace(target)
        last = _kth_largest(target, self.rank)[..., None]
        inside = inside & (target >= last)
        if is_known(xp.all(total(xp.astype(inside, xp.int64)) <= self.rank)):
            return inside
        above = target > last
        tied = target == last
        room = self.rank - total(xp.astype(above, xp.int64))[..., None]
        return inside & (above | (xp.cumulative_sum(xp.astype(tied, xp.int64), axis=-1) <= room))

    def contains(
        self, target: Array, draft: Array, columns: Array, entropies: Array | None = None
    ) -> Array:
        """Return membership of one column of each row."""
        xp = namespace(target)
        own = at(target, columns)[..., None]
        before = column_indices(target) < columns[..., None]
        better = (target > own) | ((target == own) & before)
        ahead = total(xp.astype(better, xp.int64))
        return self.floor.contains(target, draft, columns) & (ahead < self.rank)


def log_gap_scale(log_gap: float) -> float:
    """Return the fraction of the peak that lies `log_gap` nats below it."""
    return math.exp(-log_gap)


def _kth_largest(rows: Array, k: int) -> Array:
    """Return the k-th largest entry of each row: [...], for 1 <= k < num_columns.

    NumPy: the k-th largest of every 16th column is a lower bound, so in a long row only the few
    columns that reach it are sorted. Torch has a function for it, the array API none.
    """
    xp = namespace(rows)
    num_columns = rows.shape[-1]
    if hasattr(xp, "topk"):
        return xp.topk(rows, k).values[..., -1]
    if not is_numpy(rows) or num_columns < _LONG_ROW or k > num_columns // (2 * _STRIDE):
        return xp.sort(rows, axis=-1)[..., num_columns - k]
    flat = xp.reshape(rows, (-1, num_columns))
    bounds = xp.sort(flat[:, ::_STRIDE], axis=-1)[:, -k]
    found = [xp.sort(flat[row][flat[row] >= bounds[row]])[-k] for row in range(flat.shape[0])]
    return xp.reshape(xp.stack(found), rows.shape[:-1])
