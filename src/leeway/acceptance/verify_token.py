"""Token verification: one coin a position, the first rejection ends the block."""

from __future__ import annotations

from leeway.acceptance.base import Array, Law, RowPair
from leeway.acceptance.verdict import Verdict
from leeway.core.rng import Coins, Purpose


def verify_token(  # noqa: PLR0917
    law: Law,
    rows: RowPair,
    next_target_probs: Array,
    draft_columns: Array,
    coins: Coins,
    step: int,
) -> Verdict:
    """Judge a block token by token (arguments as in `verify.verify`).

    Coins: accept (row i), recover (row of the rejection), bonus (row k). Certain outcomes throw
    none; as coins are keyed, skipping one moves no other.

    **Source**: Leviathan et al. 2023, arXiv 2211.17192, Algorithm 1.
    """
    num_draft_tokens = draft_columns.shape[0]
    kept, accept = law.judge(rows, draft_columns) if num_draft_tokens else ((), ())
    deferred: list[bool] = []
    for row in range(num_draft_tokens):
        deferred.append(not bool(kept[row]))
        probability = float(accept[row])
        if probability >= 1.0:
            continue
        if probability > 0.0 and coins.accepts(
            probability, step=step, row=row, purpose=Purpose.ACCEPT
        ):
            continue
        recovered = law.recovered_probs(rows.part(row), draft_columns[row])
        column = coins.draw(recovered, step=step, row=row, purpose=Purpose.RECOVER)
        return Verdict(row, column, is_bonus=False, deferred=tuple(deferred))
    column = coins.draw(next_target_probs, step=step, row=num_draft_tokens, purpose=Purpose.BONUS)
    return Verdict(num_draft_tokens, column, is_bonus=True, deferred=tuple(deferred))
