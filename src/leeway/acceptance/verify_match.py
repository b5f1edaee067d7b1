"""Match verification: emit what plain decoding would, and go on while the draft agrees with it."""

from __future__ import annotations

from leeway.acceptance.algebra import most_likely
from leeway.acceptance.base import Array, Guarantee, Law, RowPair
from leeway.acceptance.verdict import Verdict
from leeway.core.rng import Coins, Purpose


def verify_match(  # noqa: PLR0917
    law: Law,
    rows: RowPair,
    next_target_probs: Array,
    draft_columns: Array,
    coins: Coins,
    step: int,
) -> Verdict:
    """Judge a block by matching (arguments as in `verify.verify`).

    Coins: the token at position i of the block is drawn with the coin that plain decoding would
    throw for it: step + i, row 0, bonus. With a seed the stream is therefore that of plain
    decoding, token for token, whatever was drafted (as long as the target's rows are the same).
    An exact_greedy law takes the most likely token and throws no coin at all.
    """
    num_draft_tokens = draft_columns.shape[0]
    deferred: list[bool] = []
    kept = law.is_kept(rows, draft_columns) if num_draft_tokens else ()
    for row in range(num_draft_tokens):
        deferred.append(not bool(kept[row]))
        column = _choose(law, rows.target_probs[row], coins, step + row)
        if column != int(draft_columns[row]):
            return Verdict(row, column, is_bonus=False, deferred=tuple(deferred))
    column = _choose(law, next_target_probs, coins, step + num_draft_tokens)
    return Verdict(num_draft_tokens, column, is_bonus=True, deferred=tuple(deferred))


def _choose(law: Law, target_probs: Array, coins: Coins, position: int) -> int:
    if law.info.guarantee is Guarantee.EXACT_GREEDY:
        return int(most_likely(target_probs))
    return coins.draw(target_probs, step=position, row=0, purpose=Purpose.BONUS)
