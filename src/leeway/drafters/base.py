"""Drafters: who proposes tokens.

In: for each sequence its committed tokens, how many draft tokens are wanted, and how the user
samples. Out: drafts with the very rows they were drawn from. A drafter knows nothing of laws, and
nothing of how its drafts fared beyond the tokens that were committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from leeway.core.rng import Coins
from leeway.core.types import Draft, SamplingParams
from leeway.sampling.penalties import History


@dataclass(frozen=True, slots=True)
class DraftAsk:
    """What one sequence asks of a drafter in one step.

    Attributes:
        request_id: keys the drafter's own state.
        token_ids: prompt and committed output; must not be changed.
        num_draft_tokens: at most so many are wanted, at least 1.
        sampling: the request's own parameters.
        history: counts for penalties.
        coins: the request's coins; drafts use purpose DRAFT.
        step: key of the block's coins.
        keep_raw_probs: whether the law reads rows before temperature and truncation.
    """

    request_id: str
    token_ids: Sequence[int]
    num_draft_tokens: int
    sampling: SamplingParams
    history: History
    coins: Coins
    step: int
    keep_raw_probs: bool = False


class Drafter(Protocol):
    """Proposes draft tokens for several sequences at once.

    `gives_rows` says whether drafts are drawn from a probability row (else: point mass).
    """

    name: str
    gives_rows: bool

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return one draft an ask, in order; a draft may be shorter than asked, or empty."""
        ...

    def forget(self, request_id: str) -> None:
        """Drop all state of a request; unknown requests are ignored."""
        ...
