"""Log probabilities of given tokens under the target's raw rows.

The raw row is the softmax of the model's own logits: before min_tokens, bias, penalties,
temperature and truncation. So the numbers of a token do not depend on how it was sampled, drafted
or judged, and equal those of any other way to read the same text. In: logits and the tokens that
stand behind them. Out: one entry a token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leeway.core.errors import RequestError
from leeway.core.types import FloatArray, Request, TokenLogprob

MAX_TOP_LOGPROBS = 20


def check_logprobs(request: Request) -> None:
    """Raise RequestError where more of the likeliest tokens are asked for than are given."""
    for name in ("logprobs", "prompt_logprobs"):
        value = getattr(request, name)
        if value is not None and not 0 <= value <= MAX_TOP_LOGPROBS:
            raise RequestError(
                f"{name} is {value}; allowed: 0 to {MAX_TOP_LOGPROBS} of the likeliest tokens",
                param=name,
            )


def token_logprobs(
    logits: FloatArray, token_ids: Sequence[int], num_top: int
) -> tuple[TokenLogprob, ...]:
    """Return one entry a token.

    Args:
        logits: [num_tokens, vocab_size], row i stands before token i; not changed.
        token_ids: [num_tokens].
        num_top: how many of each row's likeliest tokens are listed; ties go to the lower id.
    """
    return tuple(
        _entry(row, token_id, num_top) for row, token_id in zip(logits, token_ids, strict=True)
    )


def _entry(row: FloatArray, token_id: int, num_top: int) -> TokenLogprob:
    shifted = row.astype(np.float64) - float(row.max())
    log_total = float(np.log(np.exp(shifted).sum()))
    top = tuple((best, float(shifted[best]) - log_total) for best in _likeliest(row, num_top))
    return TokenLogprob(token_id, float(shifted[token_id]) - log_total, top)


def _likeliest(row: FloatArray, num_top: int) -> list[int]:
    """Return the ids of the largest logits, largest first; ties go to the lower id."""
    if num_top == 0:
        return []
    num_top = min(num_top, len(row))
    bound = np.partition(row, -num_top)[-num_top]
    ids = np.flatnonzero(row >= bound)
    return [int(one) for one in ids[np.argsort(-row[ids], kind="stable")][:num_top]]
