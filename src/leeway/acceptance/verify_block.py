"""Block verification: the drafted block is judged as a whole, against the law's emitted rows.

With pi the emitted row (the target's own under an exact law) and x the drafted tokens:

    P_0 = 1,  P_i = min(1, P_(i-1) pi_i(x_i) / q_i(x_i))
    Z_(i+1) = sum_v (P_i pi_(i+1)(v) - q_(i+1)(v))+
    h_i = Z_(i+1) / (Z_(i+1) + 1 - P_i) for i < k,  h_k = P_k        (1 where P_i = 1)
    tau = the largest i whose own coin is below h_i, else 0
    next token: tau = k: the bonus row;  tau < k: norm((P_tau pi_(tau+1) - q_(tau+1))+)
"""

from __future__ import annotations

from leeway.acceptance.algebra import at, normalise, positive_part, total
from leeway.acceptance.base import Array, Law, RowPair
from leeway.acceptance.verdict import Verdict
from leeway.core.rng import Coins, Purpose


def verify_block(  # noqa: PLR0917
    law: Law,
    rows: RowPair,
    next_target_probs: Array,
    draft_columns: Array,
    coins: Coins,
    step: int,
) -> Verdict:
    """Judge a block as a whole (arguments as in `verify.verify`).

    Coins: accept (row i - 1 for h_i), recover (row tau), bonus (row k). Coins are consulted from
    the last position backwards, so some lie behind the token the block stops at; they carry this
    block's step and are never seen again.

    **Guarantee**: the drafted positions follow the product of the law's emitted rows jointly, and
    no fewer are accepted than token by token with the same rows (tests/laws/test_joint_law.py).

    **Source**: Sun et al. 2025, arXiv 2403.10444, Algorithm 2.
    """
    num_draft_tokens = draft_columns.shape[0]
    if num_draft_tokens == 0:
        column = coins.draw(next_target_probs, step=step, row=0, purpose=Purpose.BONUS)
        return Verdict(0, column, is_bonus=True, deferred=())
    emitted = law.emitted_probs(rows)
    weights = _path_weights(at(emitted, draft_columns), at(rows.draft_probs, draft_columns))
    deferred = tuple(weight < 1.0 for weight in weights[1:])
    length, leftover, threshold = num_draft_tokens, None, weights[-1]
    while length > 0 and not _is_below(coins, threshold, step, length - 1):
        length -= 1
        leftover = positive_part(weights[length] * emitted[length] - rows.draft_probs[length])
        mass = float(total(leftover))
        threshold = mass / (mass + 1.0 - weights[length]) if weights[length] < 1.0 else 1.0
    if leftover is None:
        column = coins.draw(
            next_target_probs, step=step, row=num_draft_tokens, purpose=Purpose.BONUS
        )
        return Verdict(num_draft_tokens, column, is_bonus=True, deferred=deferred)
    recovered = normalise(leftover, emitted[length])
    column = coins.draw(recovered, step=step, row=length, purpose=Purpose.RECOVER)
    return Verdict(length, column, is_bonus=False, deferred=deferred[: length + 1])


def _path_weights(emitted: Array, draft: Array) -> list[float]:
    """Return P_0 to P_k from the drafted tokens' probabilities in both rows, in float64."""
    weights = [1.0]
    for numerator, denominator in zip(emitted, draft, strict=True):
        joint = weights[-1] * float(numerator)
        weights.append(joint / max(joint, float(denominator)) if joint > 0.0 else 0.0)
    return weights


def _is_below(coins: Coins, threshold: float, step: int, row: int) -> bool:
    if threshold >= 1.0 or threshold <= 0.0:
        return threshold >= 1.0
    return coins.accepts(threshold, step=step, row=row, purpose=Purpose.ACCEPT)
