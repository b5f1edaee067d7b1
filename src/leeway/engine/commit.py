"""The one commit function: which of the judged tokens become output, and where the answer ends.

In: a sequence and a judgement. Mutates the sequence: tokens, counts, text, tally. The truncation
rule, for every law and drafter, token by token in order: a token is delivered; then the answer ends
if it was an end-of-sequence or stop token, or completed a stop string (looked for from token
min_tokens on), or was the last that max_tokens or the context allows. Tokens of the block behind
that point are discarded and never reach text, ids, usage or cache.
"""

from __future__ import annotations

import numpy as np

from leeway.core.types import FinishReason, OutputDelta
from leeway.engine.verify import Judgement
from leeway.scheduler.sequence import Sequence


def commit(
    sequence: Sequence, judgement: Judgement, eos_token_ids: frozenset[int], context_len: int
) -> OutputDelta:
    """Append what is delivered and return it; sets `finish_reason` when the answer ends."""
    delivered, texts = 0, []
    for token_id in judgement.token_ids:
        sequence.token_ids.append(token_id)
        sequence.output_counts[token_id] += 1
        delivered += 1
        texts.append(_take(sequence, token_id, eos_token_ids, context_len))
        if sequence.finish_reason is not None:
            break
    if sequence.grammar is not None:
        sequence.grammar.advance(judgement.token_ids[:delivered])
    if sequence.limit_state is not None:
        charged = () if judgement.measures is None else judgement.measures.loss_tv
        sequence.limit_state.advance(judgement.token_ids[:delivered], charged)
    _count(sequence, judgement, delivered)
    return OutputDelta(
        request_id=sequence.request.request_id,
        token_ids=judgement.token_ids[:delivered],
        provenance=judgement.provenance[:delivered],
        text="".join(texts),
        finish_reason=sequence.finish_reason,
        stop_match=sequence.stop_match,
    )


def read_only(sequence: Sequence) -> OutputDelta:
    """End a request that asks for no token, once its prompt is read."""
    sequence.finish_reason = FinishReason.LENGTH
    return OutputDelta(sequence.request.request_id, (), (), "", FinishReason.LENGTH)


def _take(
    sequence: Sequence, token_id: int, eos_token_ids: frozenset[int], context_len: int
) -> str:
    """Return the text that one more token makes deliverable; sets `finish_reason` at the end."""
    sampling = sequence.sampling
    is_end = token_id in sampling.stop_token_ids or (
        token_id in eos_token_ids and not sampling.ignore_eos
    )
    if is_end:
        sequence.finish_reason = FinishReason.STOP
        if token_id in sampling.stop_token_ids:
            sequence.stop_match = token_id
        return _finish_text(sequence, sequence.detokenizer.finish())
    text = sequence.detokenizer.add([token_id])
    if sequence.output_len < sampling.min_tokens:
        return text
    text, is_stopped = sequence.stop_strings.add(text)
    if is_stopped:
        _stop(sequence)
        return text
    if sequence.output_len >= sampling.max_tokens or len(sequence.token_ids) >= context_len:
        sequence.finish_reason = FinishReason.LENGTH
        return text + _finish_text(sequence, sequence.detokenizer.finish())
    return text


def _finish_text(sequence: Sequence, rest: str) -> str:
    """Return what is still held back, cut at a stop string that the rest completes."""
    text, is_stopped = sequence.stop_strings.add(rest)
    if is_stopped:
        _stop(sequence)
        return text
    return text + sequence.stop_strings.finish()


def _stop(sequence: Sequence) -> None:
    sequence.finish_reason = FinishReason.STOP
    sequence.stop_match = sequence.stop_strings.matched


def _count(sequence: Sequence, judgement: Judgement, delivered: int) -> None:
    tally = sequence.tally
    tally.add_step(judgement.num_drafted, judgement.num_accepted)
    sequence.per_step.append((judgement.num_drafted, judgement.num_accepted))
    sequence.draft_counts.add(judgement.num_drafted, judgement.num_accepted)
    tally.num_output_tokens += delivered
    tally.num_discarded_tokens += len(judgement.token_ids) - delivered
    measures = judgement.measures
    if measures is None:
        return
    tally.num_deferred += measures.num_deferred
    tally.add_draft_tv([float(value) for value in measures.draft_tv])
    tally.target_entropy_sum += measures.target_entropy_sum
    tally.loss_tv_sum += float(measures.loss_tv.sum())
    finite_kl = measures.loss_kl[np.isfinite(measures.loss_kl)]
    tally.num_outside_support += len(measures.loss_kl) - len(finite_kl)
    tally.loss_kl_sum += float(finite_kl.sum())
    tally.loss_tv_max = max(tally.loss_tv_max, float(measures.loss_tv.max()))
    tally.loss_kl_max = max(tally.loss_kl_max, float(finite_kl.max(initial=0.0)))
