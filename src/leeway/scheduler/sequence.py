"""A request on its way: mutable, owned by the engine, changed only by commit.

Invariant between steps: the target's cache holds all tokens but the last (`num_cached` =
len(token_ids) - 1), once the prompt is prefilled; and again once the text of a request that had to
give up its cache is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from leeway.acceptance.base import Law
from leeway.core.limits import NO_LIMITS, Limits
from leeway.core.receipt import Demotion, Receipt, Tally
from leeway.core.rng import Coins
from leeway.core.types import FinishReason, Request, SamplingParams, TokenLogprob
from leeway.grammar.state import GrammarState
from leeway.sampling.penalties import History
from leeway.scheduler.draft_length import DraftCounts, DraftLength
from leeway.scheduler.limit_state import LimitState
from leeway.text.detokenizer import Detokenizer
from leeway.text.stop_strings import StopStrings

MAX_PROMPT_ROWS = 64
"""Rows of prompt tokens in one forward: at 150,000 words they take 40 MB."""


@dataclass(slots=True)
class Sequence:
    """State of one request.

    Attributes:
        request: as it came.
        law: the law that judges it.
        requested_law: name of the law asked for, where another one judges.
        num_speculative_tokens: most draft tokens in one step.
        seed: the effective seed, reported in the receipt.
        coins: keyed by the seed.
        detokenizer: turns committed ids into text.
        stop_strings: watches the text.
        handle: the target's cache handle; None while waiting.
        token_ids: prompt and committed output.
        num_cached: tokens in the target's cache.
        num_observed: of these, tokens whose hidden states the drafter was shown.
        has_draft_failed: whether the drafter failed on it and was given up.
        demotion: why less is drafted than was asked for, for the receipt.
        end_token_ids: what may not be drawn before `min_tokens`; empty where there is none.
        grammar: what may come next; None leaves all.
        limits: how far a lossy law may go, kept by `limit_state` (None: nothing to keep).
        stop_match: the stop string or stop token that ended the answer.
        prompt_logprobs: of the prompt tokens read so far, where asked for; None for the first.
        draft_length: decides below `num_speculative_tokens`, from `draft_counts`.
    """

    request: Request
    law: Law
    requested_law: str
    num_speculative_tokens: int
    seed: int
    coins: Coins
    detokenizer: Detokenizer
    stop_strings: StopStrings
    draft_length: DraftLength = field(default_factory=DraftLength)
    handle: int | None = None
    token_ids: list[int] = field(default_factory=list)
    num_cached: int = 0
    num_observed: int = 0
    has_draft_failed: bool = False
    demotion: Demotion | None = None
    output_counts: Counter[int] = field(default_factory=Counter)
    end_token_ids: frozenset[int] = frozenset()
    grammar: GrammarState | None = None
    limits: Limits = NO_LIMITS
    limit_state: LimitState | None = None
    finish_reason: FinishReason | None = None
    stop_match: str | int | None = None
    prompt_logprobs: list[TokenLogprob | None] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    per_step: list[tuple[int, int]] = field(default_factory=list)
    draft_counts: DraftCounts = field(default_factory=DraftCounts)
    prompt_ids: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.token_ids = list(self.request.prompt_token_ids)
        self.prompt_ids = frozenset(self.token_ids)
        self.tally.num_prompt_tokens = self.prompt_len

    @property
    def sampling(self) -> SamplingParams:
        """The request's sampling parameters."""
        return self.request.sampling

    @property
    def prompt_len(self) -> int:
        """Number of prompt tokens."""
        return len(self.request.prompt_token_ids)

    @property
    def output_len(self) -> int:
        """Number of committed output tokens; also the key (step) of the next block's coins."""
        return len(self.token_ids) - self.prompt_len

    @property
    def is_drafting(self) -> bool:
        """Whether the drafter has to do with it."""
        return self.num_speculative_tokens > 0 and not self.has_draft_failed

    @property
    def num_missing(self) -> int:
        """Committed tokens that are not cached yet."""
        return len(self.token_ids) - self.num_cached

    @property
    def is_prefilling(self) -> bool:
        """Whether tokens are to be fed before a block; where chunks are cut changes nothing."""
        return self.num_to_prefill > 0

    @property
    def num_to_prefill(self) -> int:
        """Tokens to be fed before the next block: the rest of a prompt, later all but the last."""
        return self.num_missing - (self.output_len > 0)

    @property
    def wants_prompt_rows(self) -> bool:
        """Whether logits of prompt tokens are still wanted; a cached prefix would have none."""
        is_asked = self.request.prompt_logprobs is not None
        return is_asked and len(self.prompt_logprobs) < self.prompt_len

    @property
    def most_prefill(self) -> int:
        """Most tokens in one chunk."""
        return MAX_PROMPT_ROWS if self.wants_prompt_rows else self.num_to_prefill

    def num_prefill_rows(self, chunk_len: int) -> int:
        """Return at how many of the last tokens of the next chunk logits are wanted."""
        if self.wants_prompt_rows:
            return chunk_len
        return int(chunk_len == self.num_missing)

    def forget_cache(self) -> None:
        """Note that nothing is cached any more; what was is to be read again."""
        self.tally.num_preemptions += self.num_cached > 0
        self.num_cached = self.num_observed = 0
        if self.wants_prompt_rows:
            self.prompt_logprobs.clear()

    def history(self) -> History:
        """Return what penalties read."""
        return History(self.prompt_ids, self.output_counts)

    def receipt(self, drafter: str, draft_temperature: float) -> Receipt:
        """Return the receipt of what ran, its identities checked."""
        self.tally.check()
        return Receipt(
            law=self.law.info.name,
            options=dict(self.law.options),
            guarantee=str(self.law.info.guarantee),
            verifier=self.law.verifier,
            drafter=drafter if self.num_speculative_tokens else "none",
            num_speculative_tokens=self.num_speculative_tokens,
            seed=self.seed,
            temperature=self.sampling.temperature,
            tally=self.tally,
            per_step=tuple(self.per_step),
            requested_law=self.requested_law,
            draft_length="adaptive" if self.draft_length.is_adaptive else "fixed",
            draft_temperature=draft_temperature if self.num_speculative_tokens else 1.0,
            demotion=self.demotion,
            limits=self.limits,
            tv_spent=None if self.limit_state is None else self.limit_state.spent,
        )
