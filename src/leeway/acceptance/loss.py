"""The loss meter: how far the emitted row lies from the target row, position by position.

In: a law and the rows of decided positions. Out: closed forms, no sampling noise; zero without
computing anything where the law is exact.
"""

from __future__ import annotations

from leeway.acceptance.algebra import at, kl_sum, namespace, positive_part, total_variation
from leeway.acceptance.base import Array, Guarantee, Law, RowPair
from leeway.acceptance.blocks import Blocks
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


def loss_many(
    law: Law, rows: RowPair, draft_columns: Array, blocks: Blocks, is_decided: Array
) -> tuple[Array, Array]:
    """Return (TV, KL) at the decided positions of several requests' blocks.

    Args:
        law: the law that judged.
        rows: flat rows, [num_rows, num_columns], as given to `verify_many`.
        draft_columns: [num_rows], integers.
        blocks: where each request's rows lie.
        is_decided: [num_requests, max_draft_len].

    Returns:
        Each [num_requests, max_draft_len], 0 where nothing was decided.
    """
    if law.info.guarantee is Guarantee.EXACT_DISTRIBUTION or 0 in draft_columns.shape:
        values = (nothing(rows),) * 2
    elif rows.draft_probs is None:
        values = point_mass_loss(law, rows, draft_columns)
    else:
        values = law.loss(rows)
    xp = namespace(rows.target_probs)
    divergence, kl = (xp.where(is_decided, blocks.grid(one), 0.0) for one in values)
    return divergence, kl


def point_mass_loss(law: Law, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
    """Return (TV, KL) of each position, each [...], where drafts are point masses.

    The emitted row differs from the target row by probability moved to one column, so both numbers
    are those of two rows of two entries, that column and all others.
    """
    columns, emitted = law.emitted_point(rows, draft_columns)
    target = at(rows.target_probs, columns)
    xp = namespace(target)
    pairs = (xp.stack([one, positive_part(1 - one)], axis=-1) for one in (emitted, target))
    kl = positive_part(kl_sum(*pairs, is_inside=True))
    has_left = (emitted > 0) & (target <= 0)
    return xp.abs(emitted - target), xp.where(has_left, float("inf"), kl)


def draft_total_variation(rows: RowPair, draft_columns: Array | None = None) -> Array:
    """Return D = TV(target, draft) of each position: [...].

    From a point mass it is what the target gives to other tokens: where rows carry no draft rows
    the drafted columns are needed.
    """
    if rows.draft_probs is None:
        return positive_part(1 - at(rows.target_probs, draft_columns))
    return total_variation(rows.target_probs, rows.draft_probs)
