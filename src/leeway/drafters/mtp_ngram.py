"""A draft head and n-gram lookup together: for every step the one that has paid more.

Where the last tokens came before, what followed them then is a draft for nothing, often better than
the head's where text repeats and worse elsewhere. For each source, the head and every match size, a
fading count says how often its guesses were right, token by token, in this request; from that
follow the tokens that a step may commit for its cost, and the source that promises more drafts.
Guesses of the n-grams are compared with the committed text whether they were drafted or not; the
head's can be only where it drafted. The head drafts as few tokens as promise the most, the n-grams
as many as are asked for.

A law that reads draft rows gets the head's drafts only, for it would keep every token of a point
mass; so does, unless it is asked for, any lossy law, for it keeps more of what n-grams repeat, and
a small model then walks in circles. The head is shown every committed token, whoever drafted it,
and catches up when it drafts.

Guarantee: who drafts, and how much, depends on committed tokens and on what became of earlier
blocks, never on a token about to be judged, so every law keeps its documented rows;
tests/engine/test_served_law_mtp_ngram.py enumerates the served loop.
Source: prompt lookup decoding (A. Saxena, 2023) and DeepSeek-V3 (DeepSeek-AI 2024, arXiv
2412.19437, section 2.2) for the two; what each promises: `core.draft_value`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat, takewhile

from leeway.backends.base import DraftHead
from leeway.core.draft_value import MEMORY, PRIOR_RATE, estimated_rate, promises
from leeway.core.types import Draft
from leeway.drafters.base import DraftAsk
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.ngram import Match, NGramDrafter

HEAD = 0
"""The head's key beside those of the n-grams, which are their match sizes."""


@dataclass(slots=True)
class _Record:
    """How many tokens of one source's guesses were judged, and how many were right; fading."""

    judged: float = 0.0
    right: float = 0.0


@dataclass(slots=True)
class _Past:
    """What became of one request's guesses: those of the last step, and the counts of all."""

    num_tokens: int = 0
    guesses: dict[int, Sequence[int]] = field(default_factory=dict)
    records: dict[int, _Record] = field(default_factory=dict)

    def learn(self, token_ids: Sequence[int]) -> None:
        """Compare the last guesses with what was committed since; once for each step."""
        since = token_ids[self.num_tokens :]
        if not since:
            return
        for record in self.records.values():
            record.judged *= MEMORY
            record.right *= MEMORY
        for source, guess in self.guesses.items():
            pairs = zip(guess, since, strict=False)
            num_right = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            record = self.records.setdefault(source, _Record())
            record.right += num_right
            record.judged += min(num_right + 1, len(guess), len(since))
        self.num_tokens = len(token_ids)
        self.guesses = {}

    def rate(self, source: int) -> float:
        """Return the estimated chance that a token is right where all before it were."""
        prior = PRIOR_RATE if source == HEAD else (source - 1) / (source + 1)
        record = self.records.get(source, _Record())
        return estimated_rate(record.right, record.judged, prior)


class MTPNGramDrafter(MTPDrafter):
    """Proposes what followed the last tokens earlier, or tokens sampled from a draft head."""

    name = "mtp_ngram"

    def __init__(
        self,
        head: DraftHead,
        vocab_size: int,
        *,
        ngram_cost: float,
        head_cost: float,
        lossy_ngrams: bool = True,
    ) -> None:
        """Take a head made for the target, and what draft tokens cost.

        Args:
            head: as `MTPDrafter`.
            vocab_size: of the target.
            ngram_cost: what a token of an n-gram's draft adds to a verify step, in plain steps.
            head_cost: likewise for a token that the head drafts.
            lossy_ngrams: whether n-grams draft under lossy laws too.
        """
        super().__init__(head, vocab_size)
        self._ngrams = NGramDrafter()
        self._costs = ngram_cost, head_cost
        self._lossy_ngrams = lossy_ngrams
        self._pasts: dict[str, _Past] = {}

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return one draft an ask; a point mass where an n-gram gave it."""
        chosen = [self._choose(ask) for ask in asks]
        asked = [one for one in chosen if isinstance(one, DraftAsk)]
        drawn = iter(super().propose(asked) if asked else [])
        drafts = [
            next(drawn) if isinstance(one, DraftAsk) else Draft(one.token_ids if one else ())
            for one in chosen
        ]
        for ask, one, draft in zip(asks, chosen, drafts, strict=True):
            if isinstance(one, DraftAsk) and draft.token_ids:
                self._pasts[ask.request_id].guesses[HEAD] = draft.token_ids
        return drafts

    def give_up(self, request_id: str) -> bool:
        """Give the head up; the n-grams go on."""
        super().give_up(request_id)
        return True

    def forget(self, request_id: str) -> None:
        """Give back the request's cache and drop its index and counts."""
        super().forget(request_id)
        self._ngrams.forget(request_id)
        self._pasts.pop(request_id, None)

    def _choose(self, ask: DraftAsk) -> Match | DraftAsk | None:
        """Return an n-gram's draft, or what to ask the head for; None is no draft."""
        past = self._pasts.setdefault(ask.request_id, _Past())
        past.learn(ask.token_ids)
        ngram_cost, head_cost = self._costs
        has_head = ask.request_id not in self._given_up
        values = list(promises(repeat(past.rate(HEAD), ask.num_draft_tokens), head_cost))
        best = max(values) if has_head else 1.0  # a step without a draft
        head_only = ask.needs_rows or (ask.is_lossy and not self._lossy_ngrams)
        match = None if head_only else self._ngrams.look_up(ask)
        if match is not None:
            past.guesses[match.size] = match.token_ids
            *_, value = promises(repeat(past.rate(match.size), len(match.token_ids)), ngram_cost)
            if value >= best:
                return match
        return replace(ask, num_draft_tokens=values.index(best) + 1) if has_head else None
