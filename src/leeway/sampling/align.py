"""One set of columns for the target's rows and the draft's, as the laws want them.

In: target rows behind each drafted position (and the bonus row), the draft. Out: arrays over
common columns. Compact where both are; dense where either is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leeway.core.types import Draft, FloatArray, IntArray, Rows
from leeway.sampling.warp import union


@dataclass(frozen=True, slots=True)
class AlignedRows:
    """Rows of one block over common columns.

    Attributes:
        target_probs: [num_draft_tokens + 1, num_columns]; the last row is the bonus row.
        draft_probs: [num_draft_tokens, num_columns].
        draft_columns: [num_draft_tokens], the columns of the drafted tokens.
        token_ids: [num_columns], or None where column j is token j.
        target_entropies: [num_draft_tokens + 1], nats, where known.
    """

    target_probs: FloatArray
    draft_probs: FloatArray
    draft_columns: IntArray
    token_ids: IntArray | None
    target_entropies: FloatArray | None = None

    def token_id(self, column: int) -> int:
        """Return the token of a column."""
        return column if self.token_ids is None else int(self.token_ids[column])


def align(target: Rows, draft: Draft, vocab_size: int) -> AlignedRows:
    """Return target and draft rows over common columns."""
    drafted = np.array(draft.token_ids, dtype=np.int64)
    draft_ids = drafted if draft.rows is None else draft.rows.token_ids
    if target.token_ids is None or draft_ids is None:
        draft_probs = _draft_dense(draft, drafted, vocab_size, target.probs.dtype)
        whole = _dense(target, vocab_size)
        return AlignedRows(whole, draft_probs, drafted, None, target.entropies)
    token_ids = target.token_ids
    if len(drafted):
        token_ids = union([token_ids, draft_ids])
    columns = np.searchsorted(token_ids, drafted)
    if draft.rows is None:
        draft_probs = np.zeros((len(drafted), len(token_ids)))
        draft_probs[np.arange(len(drafted)), columns] = 1.0
    else:
        draft_probs = _spread(draft.rows, token_ids)
    return AlignedRows(_spread(target, token_ids), draft_probs, columns, token_ids)


def expand(rows: AlignedRows, vocab_size: int) -> AlignedRows:
    """Return the same rows over the whole vocabulary."""
    if rows.token_ids is None:
        return rows
    target = _dense(Rows(rows.target_probs, rows.token_ids), vocab_size)
    draft = _dense(Rows(rows.draft_probs, rows.token_ids), vocab_size)
    return AlignedRows(target, draft, rows.token_ids[rows.draft_columns], None)


def _draft_dense(
    draft: Draft, drafted: IntArray, vocab_size: int, dtype: np.dtype[np.floating]
) -> FloatArray:
    if draft.rows is not None:
        return _dense(draft.rows, vocab_size)
    probs = np.zeros((len(drafted), vocab_size), dtype=dtype)
    probs[np.arange(len(drafted)), drafted] = 1.0
    return probs


def _dense(rows: Rows, vocab_size: int) -> FloatArray:
    if rows.token_ids is None:
        return rows.probs
    probs = np.zeros((len(rows.probs), vocab_size), dtype=rows.probs.dtype)
    for whole, part in zip(probs, rows.probs, strict=True):  # faster than all rows in one statement
        whole[rows.token_ids] = part
    return probs


def _spread(rows: Rows, token_ids: IntArray) -> FloatArray:
    assert rows.token_ids is not None
    if len(rows.token_ids) == len(token_ids):
        return rows.probs
    probs = np.zeros((len(rows.probs), len(token_ids)), dtype=rows.probs.dtype)
    probs[:, np.searchsorted(token_ids, rows.token_ids)] = rows.probs
    return probs
