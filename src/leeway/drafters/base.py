"""Drafters: who proposes tokens.

In: for each sequence its committed tokens, how many draft tokens are wanted, and how the user
samples; for those that read them, the target's hidden states of committed tokens. Out: drafts with
the very rows they were drawn from. A drafter knows nothing of laws, and nothing of how its drafts
fared beyond the tokens that were committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from leeway.core.rng import Coins
from leeway.core.types import Draft, FloatArray, SamplingParams
from leeway.grammar.state import GrammarState
from leeway.sampling.penalties import History

MAX_SHARED_BACKLOG = 16
"""What a request may bring to a forward with others; a longer backlog is fed alone."""


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
        needs_rows: whether the law reads draft rows, so that a point mass would tell it nothing.
        is_lossy: whether the law may emit other rows than the target's.
        temperature_scale: rows are drawn from at this multiple of the request's temperature.
        end_token_ids: may not be drafted before the request's `min_tokens`.
        grammar: what may be drafted; None leaves all. Asking it changes nothing that is committed.
    """

    request_id: str
    token_ids: Sequence[int]
    num_draft_tokens: int
    sampling: SamplingParams
    history: History
    coins: Coins
    step: int
    keep_raw_probs: bool = False
    needs_rows: bool = False
    is_lossy: bool = False
    temperature_scale: float = 1.0
    end_token_ids: frozenset[int] = frozenset()
    grammar: GrammarState | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What the target's forward of one step left behind of one sequence's committed tokens.

    Attributes:
        request_id: keys the drafter's own state.
        token_ids: prompt and committed output; must not be changed.
        start: position of the first token that `hidden` belongs to; a sequence's observations
            follow one another without gap, and rejected draft tokens are never among them.
        hidden: [num_tokens, hidden_size], the target's final hidden states behind its last norm;
            valid only during the call.
    """

    request_id: str
    token_ids: Sequence[int]
    start: int
    hidden: FloatArray


class Drafter(Protocol):
    """Proposes draft tokens for several sequences at once.

    `gives_rows` says whether drafts are drawn from a probability row (else: point mass), at least
    for asks that need rows; `reads_hidden` whether `observe` is to be called.
    """

    name: str
    gives_rows: bool
    reads_hidden: bool

    def start(self, request_id: str, token_ids: Sequence[int], num_cached: int) -> int:
        """Begin a request, or begin anew, whose first tokens are in the target's cache already.

        Not called where none are. Observations follow from the returned position on.

        Returns:
            How many of the first `num_cached` tokens the drafter can do without seeing: whole
            blocks; the target computes the rest anew.
        """
        ...

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return one draft an ask, in order; a draft may be shorter than asked, or empty."""
        ...

    def observe(self, seen: Sequence[Observation]) -> None:
        """Take in what the target saw; called behind every commit for requests that go on."""
        ...

    def share(self, request_id: str) -> None:
        """Let later requests take over what is cached of this one's committed text."""
        ...

    def suspend(self, request_id: str) -> None:
        """Give back the request's cache; it goes on later with the drafts it would have had.

        Its committed tokens are observed anew from the first, or from where `start` says.
        """
        ...

    def give_up(self, request_id: str) -> bool:
        """Drop what failed on a request; return whether anything is left that may draft for it."""
        ...

    def forget(self, request_id: str) -> None:
        """Drop all state of a request; unknown requests are ignored."""
        ...


class TextDrafter:
    """What drafters have in common that read committed tokens and nothing of the target."""

    reads_hidden = False

    def start(self, request_id: str, token_ids: Sequence[int], num_cached: int) -> int:
        """Nothing needs to be seen of what is cached."""
        del request_id, token_ids
        return num_cached

    def observe(self, seen: Sequence[Observation]) -> None:
        """Nothing is read of the target."""

    def share(self, request_id: str) -> None:
        """Nothing is shared."""

    def suspend(self, request_id: str) -> None:
        """Nothing is held that others may need."""

    def give_up(self, request_id: str) -> bool:
        """Nothing is left."""
        self.suspend(request_id)
        return False
