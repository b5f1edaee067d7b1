"""Minimum length: end tokens that cannot be drawn yet.

In: a block's logits. Out: the same with the end tokens at minus infinity in the rows of the first
positions. Comes before all else, for the draft's rows and the target's, so that no law, whatever
rows it reads, can end an answer early.
"""

from __future__ import annotations

import numpy as np

from leeway.core.types import Draft, FloatArray, IntArray


def ban_end(
    logits: FloatArray,
    end_token_ids: frozenset[int],
    num_banned: int,
    ids: IntArray | None = None,
) -> FloatArray:
    """Return a copy in which end tokens are impossible in the first `num_banned` rows.

    Args:
        logits: [num_rows, num_columns]; not changed.
        end_token_ids: what would end the answer.
        num_banned: how many more tokens must come, at least 1.
        ids: [num_columns], the token of each column; None where column j is token j.
    """
    columns = np.array(sorted(end_token_ids), dtype=np.int64)
    if ids is not None:
        columns = np.flatnonzero(np.isin(ids, columns))
    banned = np.array(logits)
    banned[:num_banned, columns] = -np.inf
    return banned


def cut_at_end(draft: Draft, end_token_ids: frozenset[int], num_banned: int) -> Draft:
    """Return the draft before its first end token that comes too early.

    Only a point mass can hold one: sampled drafts come from rows that `ban_end` changed.
    """
    if num_banned <= 0 or draft.rows is not None:
        return draft
    for index, token_id in enumerate(draft.token_ids[:num_banned]):
        if token_id in end_token_ids:
            return Draft(draft.token_ids[:index])
    return draft
