"""Log probabilities on their way out: from a step's logits to its delta.

Row i of a block stands before the i-th token that the block delivers, whether it was accepted,
recovered or a bonus: so every delivered token has its entry. Nothing is done for requests that did
not ask.
"""

from __future__ import annotations

from dataclasses import replace

from leeway.core.types import FloatArray, OutputDelta
from leeway.sampling.logprobs import token_logprobs
from leeway.scheduler.sequence import Sequence


def with_logprobs(sequence: Sequence, delta: OutputDelta, logits: FloatArray) -> OutputDelta:
    """Return the delta with the entries that its request asked for.

    `logits`, [num_draft_tokens + 1, vocab_size], are the target's own.
    """
    num_top = sequence.request.logprobs
    if num_top is not None:
        token_ids = delta.token_ids
        delta = replace(
            delta, logprobs=token_logprobs(logits[: len(token_ids)], token_ids, num_top)
        )
    is_first = sequence.output_len == len(delta.token_ids)
    if is_first and sequence.prompt_logprobs:
        delta = replace(delta, prompt_logprobs=tuple(sequence.prompt_logprobs))
    return delta


def take_prompt_logprobs(sequence: Sequence, logits: FloatArray) -> None:
    """Note the entries of prompt tokens behind a chunk's rows, before the chunk counts as cached.

    Mutates `sequence.prompt_logprobs`. `logits` are the rows of a chunk's last tokens, of all its
    tokens where prompt entries are wanted.
    """
    num_top = sequence.request.prompt_logprobs
    if num_top is None or not sequence.wants_prompt_rows:
        return
    known = sequence.prompt_logprobs
    if not known:
        known.append(None)
    first = sequence.num_cached + 1
    start = len(known) - first
    token_ids = sequence.request.prompt_token_ids[len(known) : first + len(logits)]
    assert start >= 0
    known.extend(token_logprobs(logits[start : start + len(token_ids)], token_ids, num_top))
