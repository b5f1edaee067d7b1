"""From logits to rows: temperature, top-k, top-p, min-p, in this order, then renormalised.

In: logits of verified positions. Out: `Rows`, compact where a truncation leaves few tokens. Bias
and penalties come before (`penalties`). Ties go to the lower token id.

Top-k keeps the k largest. Top-p keeps the smallest set of largest tokens whose mass reaches p.
Min-p keeps tokens of at least min_p times the largest probability. Temperature 0 is a one-hot row
at the largest logit.
"""

from __future__ import annotations

import numpy as np

from leeway.core.errors import BackendError
from leeway.core.types import FloatArray, IntArray, Rows, SamplingParams

_NUM_STRIPES = 64
_LEAST_LOGIT = -1e4


def warp(logits: FloatArray, params: SamplingParams) -> Rows:
    """Return the rows asked for.

    Args:
        logits: [num_rows, vocab_size], finite; not changed.
        params: temperature, top_k, top_p and min_p are read.

    Returns:
        Rows of the logits' dtype where dense (no truncation), float64 where compact.

    Raises:
        BackendError: a row has no largest finite logit.
    """
    largest = logits.max(axis=-1)
    if not np.isfinite(largest).all():
        raise BackendError(
            "the model's logits are not finite behind this text; check the model file's checksum, "
            "or milder penalties and biases"
        )
    if params.temperature == 0:
        best = logits.argmax(axis=-1)
        return pack([(best[i : i + 1], np.ones(1)) for i in range(len(best))])
    top_k = 0 if params.top_k >= logits.shape[-1] else params.top_k
    if not top_k and params.top_p == 1.0 and params.min_p == 0.0:
        probs, entropies = softmax_and_entropy(logits, params.temperature, largest)
        return Rows(probs, entropies=entropies)
    return pack(
        [_truncate(row, peak, params, top_k) for row, peak in zip(logits, largest, strict=True)]
    )


def softmax(logits: FloatArray, temperature: float = 1.0) -> FloatArray:
    """Return the rows of logits / temperature, exponentiated and normalised; same shape, dtype."""
    return softmax_and_entropy(logits, temperature)[0]


def softmax_and_entropy(
    logits: FloatArray, temperature: float = 1.0, largest: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return softmax rows and their entropies in nats, [num_rows].

    `largest` are the rows' largest logits, [num_rows], where they are known.

    With z the scaled logits below their largest and Z the sum of exp(z), H = log Z - sum p z: no
    logarithm over the vocabulary is needed.
    """
    if largest is None:
        largest = logits.max(axis=-1)
    scaled: FloatArray = logits - largest[..., None]
    if temperature != 1.0:
        scaled *= 1.0 / temperature
    probs = np.exp(scaled)
    total = probs.sum(axis=-1, keepdims=True)
    probs /= total
    with np.errstate(invalid="ignore"):
        mean = _dot(probs, scaled)
    if not np.isfinite(mean).all():  # 0 times minus infinity is no number
        mean = _dot(probs, np.maximum(scaled, _LEAST_LOGIT))
    return probs, np.log(total[..., 0]) - mean


def pack(rows: list[tuple[IntArray, FloatArray]]) -> Rows:
    """Return rows given as (token_ids, probs) over their common, ascending columns."""
    if len(rows) == 1:
        return Rows(rows[0][1][None], rows[0][0])
    token_ids = union([ids for ids, _ in rows])
    probs = np.zeros((len(rows), len(token_ids)))
    for index, (ids, values) in enumerate(rows):
        probs[index, np.searchsorted(token_ids, ids)] = values
    return Rows(probs, token_ids)


def union(id_arrays: list[IntArray]) -> IntArray:
    """Return all ids of the arrays, ascending, each once; marks instead of sorting."""
    present = np.zeros(max(int(ids.max()) for ids in id_arrays) + 1, dtype=bool)
    for ids in id_arrays:
        present[ids] = True
    return np.flatnonzero(present)


def _truncate(
    row: FloatArray, largest: float, params: SamplingParams, top_k: int
) -> tuple[IntArray, FloatArray]:
    """Return the kept tokens of one row, ascending, and their probabilities.

    Sorts values only, which is several times faster than sorting indices; what reaches the last
    kept value is kept, the lower ids first where several equal it.
    """
    total = 1.0
    if top_k:
        ids = _largest(row, top_k)
    else:
        if params.top_p < 1.0:
            total = _total(row, largest, params.temperature)
        ids = _reachable(row, largest, total, params)
    scaled = row[ids].astype(np.float64) / params.temperature
    ordered = -np.sort(-scaled)
    if top_k:
        ordered = ordered[:top_k]
    probs = np.exp(ordered - ordered[0])
    num_kept = len(ordered)
    if params.top_p < 1.0:
        total = float(probs.sum()) if top_k else total
        before = np.cumsum(probs) - probs
        num_kept = int(np.searchsorted(before, params.top_p * total, side="left"))
    if params.min_p > 0.0:
        num_kept = min(num_kept, int(np.searchsorted(-probs, -params.min_p, side="right")))
    num_kept = max(num_kept, 1)
    last = ordered[num_kept - 1]
    kept = scaled >= last
    surplus = int(np.count_nonzero(kept)) - num_kept
    if surplus > 0:
        kept[np.flatnonzero(scaled == last)[-surplus:]] = False
    weights = np.exp(scaled[kept] - ordered[0])
    return ids[kept], weights / weights.sum()


def _largest(row: FloatArray, top_k: int) -> IntArray:
    """Return a superset of the `top_k` largest columns.

    The maxima of interleaved stripes give a bound that at least `top_k` columns reach, so that
    only a comparison runs over the whole vocabulary.
    """
    width = len(row) // _NUM_STRIPES
    if top_k >= width // 4:
        bound = np.partition(row, -top_k)[-top_k]
    else:
        maxima = row[: width * _NUM_STRIPES].reshape(_NUM_STRIPES, width).max(axis=0)
        bound = np.partition(maxima, -top_k)[-top_k]
    return np.flatnonzero(row >= bound)


def _reachable(row: FloatArray, largest: float, total: float, params: SamplingParams) -> IntArray:
    """Return a superset of what top-p and min-p keep, never empty.

    Tokens below (1 - top_p) / vocab_size have less mass together than top-p may cut, so the rest
    already reaches top_p. `total` is the row's `_total` where there is a top-p.
    """
    log_share = -np.inf
    if params.top_p < 1.0:
        log_share = np.log((1.0 - params.top_p) / len(row)) + np.log(total)
    if params.min_p > 0.0:
        log_share = max(log_share, np.log(params.min_p))
    bound = float(largest) + params.temperature * min(log_share, 0.0)
    slack = 1e-4 * max(1.0, abs(bound))
    return np.flatnonzero(row >= bound - slack)


def _total(row: FloatArray, largest: float, temperature: float) -> float:
    """Return the sum over the row of exp((logit - largest) / temperature)."""
    scaled = row - largest
    if temperature != 1.0:
        scaled *= 1.0 / temperature
    return float(np.exp(scaled, out=scaled).sum(dtype=np.float64))


def _dot(rows: FloatArray, others: FloatArray) -> FloatArray:
    """Return the sum over columns of the product, without the threads of a BLAS library.

    Those would go on spinning on the cores that the next forward needs.
    """
    product: FloatArray = np.einsum("...i,...i->...", rows, others)
    return product
