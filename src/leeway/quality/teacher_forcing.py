"""What the target would have given to every token of a text that exists.

In: a backend, the token ids of a prompt and of its answer, and how the answer was sampled. Out: for
each answer token its probability in the processed target row (bias, penalties, temperature,
truncation: the engine's own code) and that row's moments. Knows neither who wrote the answer nor
under which law.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leeway.backends.base import Backend, SequenceInput
from leeway.core.types import FloatArray, Rows, SamplingParams
from leeway.sampling import penalties
from leeway.sampling.warp import warp

_MAX_ROWS = 64
"""Rows asked for in one forward: at 150,000 words they take 40 MB."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """One answer's tokens under the target; arrays of float64, [num_tokens].

    Attributes:
        prob: the emitted token's probability in its row.
        cdf_below: probability of all tokens of lower id in that row.
        entropy: H of the row, nats.
        variance: of log p under the row: sum of p log^2 p, less H^2.
    """

    prob: NDArray[np.float64]
    cdf_below: NDArray[np.float64]
    entropy: NDArray[np.float64]
    variance: NDArray[np.float64]

    @property
    def is_inside(self) -> NDArray[np.bool_]:
        """Whether the row gives the emitted token any probability."""
        return self.prob > 0


def score(
    backend: Backend,
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
    sampling: SamplingParams,
) -> TokenScores:
    """Feed an answer to the target and return its tokens' scores.

    Args:
        backend: the target; has room for one more sequence of this length.
        prompt_ids: at least one token.
        output_ids: the whole answer, its end token included.
        sampling: what the answer was drawn with.

    Raises:
        CapacityError: the cache has no room.
        BackendError: a row is not finite.
    """
    scores: list[tuple[float, float, float, float]] = []
    for start, logits in _logits(backend, prompt_ids, output_ids):
        ids = output_ids[start : start + len(logits)]
        changed = logits
        if penalties.is_active(sampling):
            history = penalties.History(frozenset(prompt_ids), Counter(output_ids[:start]))
            changed = penalties.penalise(logits, sampling, history, ids)
        rows = warp(changed, sampling)
        scores += [_score(rows, index, token_id) for index, token_id in enumerate(ids)]
    columns = np.array(scores, dtype=np.float64).reshape(len(scores), 4).T
    return TokenScores(*columns)


def _logits(
    backend: Backend, prompt_ids: Sequence[int], output_ids: Sequence[int]
) -> Iterator[tuple[int, FloatArray]]:
    """Yield (index of the first answer token, logits of it and those behind), chunk by chunk."""
    if not output_ids:
        return
    text = [*prompt_ids, *output_ids[:-1]]
    num_unread = len(prompt_ids) - 1
    chunk_len = backend.prefill_chunk_len
    handle = backend.open()
    try:
        for start in range(0, num_unread, chunk_len):
            chunk = text[start : min(start + chunk_len, num_unread)]
            backend.forward([SequenceInput(handle, chunk, 0)])
        step = min(chunk_len, _MAX_ROWS)
        for start in range(num_unread, len(text), step):
            chunk = text[start : start + step]
            output = backend.forward([SequenceInput(handle, chunk, len(chunk))])
            yield start - num_unread, output.logits
    finally:
        backend.close(handle)


def _score(rows: Rows, index: int, token_id: int) -> tuple[float, float, float, float]:
    """Return probability, probability below, entropy and variance of one token's row."""
    probs = rows.probs[index].astype(np.float64)
    probs /= probs.sum()
    column, is_there = token_id, True
    if rows.token_ids is not None:
        column = int(np.searchsorted(rows.token_ids, token_id))
        is_there = column < len(probs) and int(rows.token_ids[column]) == token_id
    prob = float(probs[column]) if is_there else 0.0
    below = float(probs[:column].sum())
    given = probs[probs > 0]
    logs = np.log(given)
    entropy = -float(given @ logs)
    variance = float(given @ (logs + entropy) ** 2)
    return prob, below, entropy, variance
