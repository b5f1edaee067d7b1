"""The loss meter: how far the emitted row lies from the target row, position by position.

In: a law and the rows of decided positions. Out: closed forms, no sampling noise; zero without
computing anything where the law is exact.
"""

from __future__ import annotations

from leeway.acceptance.algebra import total_variation
from leeway.acceptance.base import Array, Guarantee, Law, RowPair
from leeway.acceptance.exact import nothing


def loss(law: Law, rows: RowPair) -> tuple[Array, Array]:
    """Return (TV, KL) of emitted against target row at each position.

    A greedy law above temperature 0 is measured against the target row too: it does not follow it.

    Args:
        law: the law that judged.
        rows: rows of decided positions, [..., num_columns].

    Returns:
        TV(e, p) in [0, 1] and KL(e || p) in nats, each [...]; KL is infinite where the emitted row
        holds a token that the target gives zero probability.
    """
    if law.info.guarantee is Guarantee.EXACT_DISTRIBUTION:
        zero = nothing(rows)
        return zero, zero
    return law.loss(rows)


def draft_total_variation(rows: RowPair) -> Array:
    """Return D = TV(target, draft) of each position: [...]."""
    return total_variation(rows.target_probs, rows.draft_probs)
