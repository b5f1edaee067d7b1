"""The loss of set rules from the few columns that matter.

A keep-set is small and the rest of the row has one shape, so most of the vocabulary sums up in
closed form:

- redraw, pi: outside T the emitted row is eta p, which adds eta log(eta) p(not T) to KL;
- argmax: outside T and the most likely token nothing is emitted;
- coin: with (p - q)+ as residual, e = p - (TV/D) (p - q)+ wherever p > q, e = q on T where q > p,
  and e = p elsewhere.

In: rows and the keep-set's mask. Out: TV and KL as the emitted row has them.
"""

from __future__ import annotations

import numpy as np

from leeway.acceptance.algebra import (
    is_known,
    is_numpy,
    kl_sum,
    most_likely,
    namespace,
    one_hot,
    positive_part,
    smallest,
    total,
)
from leeway.acceptance.base import Array, RowPair


def set_loss(rows: RowPair, mask: Array, off_set: str) -> tuple[Array, Array]:
    """Return (TV, KL) of a set rule (coin: at leniency 1), each [...].

    Args:
        rows: rows that sum to one, [..., num_columns].
        mask: the keep-set T, [..., num_columns].
        off_set: redraw, pi, coin or argmax.
    """
    p, q = rows.target_probs, rows.draft_probs
    xp = namespace(p)
    best = xp.zeros_like(mask)
    if off_set == "argmax":
        best = one_hot(most_likely(p), p) > 0
    p_in, q_in, in_set, best = _touched(p, q, mask, best)
    inside = xp.where(in_set, q_in, 0.0)
    if off_set == "coin":
        over = positive_part(inside - p_in)
        kept_over = kl_sum(xp.where(over > 0, inside, 0.0), p_in)
        return _coin_loss(rows, total(over), kept_over)
    eta = xp.clip(1 - total(inside), 0.0, None)
    if off_set == "argmax":
        emitted = inside + xp.where(best, eta[..., None], 0.0)
        divergence = kl_sum(emitted, p_in)
    else:
        emitted = xp.where(in_set, inside + eta[..., None] * p_in, 0.0)
        outside = xp.clip(1 - total(xp.where(in_set, p_in, 0.0)), 0.0, None)
        divergence = kl_sum(emitted, p_in) + outside * eta * xp.log(eta + smallest(eta))
    return total(positive_part(emitted - p_in)), xp.clip(divergence, 0.0, None)


def _touched(p: Array, q: Array, mask: Array, best: Array) -> tuple[Array, ...]:
    """Return the four at the columns where a row has the set or its most likely token.

    Where nobody may look, at every column: the others add nothing to any sum.
    """
    if not is_numpy(p):
        return p, q, mask, best
    touched = (mask | best).reshape(-1, p.shape[-1])
    columns = np.flatnonzero(touched.any(axis=0))
    return tuple(np.take(rows, columns, axis=-1) for rows in (p, q, mask, best))


def _coin_loss(rows: RowPair, over: Array, kept_over: Array) -> tuple[Array, Array]:
    """Return (TV, KL) from TV itself and the KL terms of kept tokens with q > p."""
    p = rows.target_probs
    xp = namespace(p)
    if is_known(xp.all(over <= 0)):
        return over, xp.zeros_like(over)
    short = positive_part(p - rows.draft_probs)
    mass = total(short)
    share = xp.clip(over / xp.where(mass > 0, mass, 1.0), None, 1.0)
    divergence = kl_sum(p - share[..., None] * short, p, is_inside=True) + kept_over
    return over, xp.clip(divergence, 0.0, None)
