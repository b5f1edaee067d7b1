"""How many draft tokens a sequence may get in the next step."""

from __future__ import annotations

from leeway.scheduler.sequence import Sequence


def draft_budget(sequence: Sequence, context_len: int) -> int:
    """Return how many draft tokens may be worth their cost and can still matter.

    A block of n drafts commits at most n + 1 tokens, so n stays one below what max_tokens and the
    context leave; below that the sequence's draft length decides.
    """
    if not sequence.is_drafting:
        return 0
    left = sequence.sampling.max_tokens - sequence.output_len
    room = context_len - len(sequence.token_ids)
    most = max(0, min(sequence.num_speculative_tokens, left - 1, room - 1))
    return sequence.draft_length.choose(sequence.draft_counts, most)
