"""Logit bias and penalties: what changes logits before the temperature.

In: a row of logits and the tokens before it. Out: the changed row. Speculation changes nothing
here: the row behind a drafted token sees the drafted tokens as if they had been committed.

Order: logit bias, repetition penalty (prompt and output tokens), frequency and presence penalties
(output tokens).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from leeway.core.types import FloatArray, SamplingParams


@dataclass(frozen=True, slots=True)
class History:
    """Tokens before a block, for penalties.

    Attributes:
        prompt_ids: distinct prompt tokens.
        output_counts: how often each output token was committed.
    """

    prompt_ids: frozenset[int]
    output_counts: Counter[int]


def is_active(params: SamplingParams) -> bool:
    """Return whether any logit of a row may change."""
    return bool(
        params.logit_bias
        or params.presence_penalty
        or params.frequency_penalty
        or params.repetition_penalty != 1.0
    )


def after(history: History, draft_ids: Sequence[int]) -> History:
    """Return the history as if `draft_ids` had been committed."""
    return History(history.prompt_ids, history.output_counts + Counter(draft_ids))


def penalise(
    logits: FloatArray, params: SamplingParams, history: History, draft_ids: Sequence[int]
) -> FloatArray:
    """Return a changed copy of a block's logits.

    Args:
        logits: [num_draft_tokens + 1, vocab_size]; row i stands behind `draft_ids[:i]`.
        params: bias and penalties.
        history: tokens committed before the block.
        draft_ids: the block's drafted tokens.
    """
    changed = np.array(logits)
    if params.logit_bias:
        changed[:, list(params.logit_bias)] += np.array(
            list(params.logit_bias.values()), dtype=changed.dtype
        )
    counts = Counter(history.output_counts)
    for index, row in enumerate(changed):
        if index > 0:
            counts[draft_ids[index - 1]] += 1
        _penalise_row(row, params, history.prompt_ids, counts)
    return changed


def _penalise_row(
    row: FloatArray, params: SamplingParams, prompt_ids: Iterable[int], counts: Counter[int]
) -> None:
    if params.repetition_penalty != 1.0:
        ids = list({*prompt_ids, *counts})
        values = row[ids]
        factor = params.repetition_penalty
        row[ids] = np.where(values > 0, values / factor, values * factor)
    if counts and (params.frequency_penalty or params.presence_penalty):
        ids = list(counts)
        times = np.array(list(counts.values()), dtype=row.dtype)
        row[ids] -= params.frequency_penalty * times + params.presence_penalty
