"""Verifying one block: the door through which the engine enters this room.

In: a law, aligned rows of one block, the drafted columns, a source of coins. Out: a `Verdict`.
Knows nothing of tokens, sequences or backends; columns are columns.

Every coin is keyed by the block's `step` (output tokens committed before it), so a coin that was
consulted behind the point where a block stops never meets the next block.
"""

from __future__ import annotations

from leeway.acceptance.base import Array, Law, RowPair
from leeway.acceptance.verdict import Verdict
from leeway.acceptance.verify_block import verify_block
from leeway.acceptance.verify_match import verify_match
from leeway.acceptance.verify_token import verify_token
from leeway.core.rng import Coins

_VERIFIERS = {"token": verify_token, "block": verify_block, "match": verify_match}


def verify(  # noqa: PLR0917
    law: Law,
    rows: RowPair,
    next_target_probs: Array,
    draft_columns: Array,
    coins: Coins,
    step: int,
) -> Verdict:
    """Judge one block with the law's own verifier.

    Args:
        law: decides; its `verifier` says how.
        rows: rows of the drafted positions, [num_draft_tokens, num_columns]. The draft rows must
            be the very rows that the drafted tokens were drawn from.
        next_target_probs: [num_columns], the target's row behind the last drafted token.
        draft_columns: [num_draft_tokens], integers. Without draft tokens the verdict is one token
            drawn from `next_target_probs`: plain decoding.
        coins: the request's randomness.
        step: output tokens committed before this block.
    """
    return _VERIFIERS[law.verifier](law, rows, next_target_probs, draft_columns, coins, step)
