"""Who runs: admission in order of arrival, then every running sequence in every step.

A request is admitted when the cache has room for its text and a little more. Where running ones
outgrow the cache, the youngest gives up its cache and waits, first in line, to read its text again;
the oldest always goes on. Prompts are fed in chunks beside the decoding of others.

Room is counted as if no two sequences shared a block, so a drafter's own cache of as many slots
always has room for what runs, whether or not it shares alike. Draft lengths never depend on the
room, so a request's tokens do not depend on its company.

Knows nothing of drafts' content, laws or text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from leeway.backends.base import Backend
from leeway.core.errors import CapacityError, ContextLengthError
from leeway.core.types import Request
from leeway.scheduler.budget import draft_budget
from leeway.scheduler.sequence import Sequence

OnCache = Callable[[Sequence], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """One step's work.

    Attributes:
        decoding: sequences whose whole text but the last token is cached.
        budgets: for each of them, how many draft tokens it may get.
        prefilling: sequences with the number of tokens to feed now.
    """

    decoding: tuple[Sequence, ...]
    budgets: tuple[int, ...]
    prefilling: tuple[tuple[Sequence, int], ...]

    def members(self) -> tuple[Sequence, ...]:
        """Return every sequence of the step."""
        return (*self.decoding, *(sequence for sequence, _ in self.prefilling))

    def split(self) -> tuple[Plan, ...]:
        """Return one plan a sequence."""
        blocks = zip(self.decoding, self.budgets, strict=True)
        return (
            *(Plan((one,), (budget,), ()) for one, budget in blocks),
            *(Plan((), (), (one,)) for one in self.prefilling),
        )


class Scheduler:
    """Waiting and running sequences of one backend, both in order of arrival."""

    def __init__(
        self,
        backend: Backend,
        max_num_seqs: int,
        *,
        on_begin: OnCache = lambda _: None,
        on_preempt: OnCache = lambda _: None,
    ) -> None:
        """Take a backend that nobody else fills.

        Args:
            backend: the target.
            max_num_seqs: most sequences that run at once.
            on_begin: told of a sequence whose cache is empty before the step in which it begins to
                read; may be told again while it is.
            on_preempt: told of a sequence that is about to give up its cache.
        """
        self._backend = backend
        self._max_num_seqs = max_num_seqs
        self._on_begin, self._on_preempt = on_begin, on_preempt
        self._num_blocks = backend.capacity_tokens // backend.block_len
        # Where even the longest sequences fit together, nobody needs to count.
        self._is_ample = max_num_seqs * self._blocks(backend.context_len) <= self._num_blocks
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def num_waiting(self) -> int:
        """Number of requests that hold no cache."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Number of requests that hold cache."""
        return len(self._running)

    @property
    def num_reserved_tokens(self) -> int:
        """Cache slots of the blocks that running sequences hold, shared ones for each."""
        blocks = sum(self._blocks(sequence.num_cached) for sequence in self._running)
        return blocks * self._backend.block_len

    def check_fits(self, request: Request) -> None:
        """Raise if the request could never run on this backend.

        Raises:
            ContextLengthError: the prompt leaves no room for one token.
            CapacityError: the whole cache is too small for prompt and max_tokens.
        """
        prompt_len = len(request.prompt_token_ids)
        if prompt_len >= self._backend.context_len:
            raise ContextLengthError(
                f"the prompt has {prompt_len} tokens; the model's context is "
                f"{self._backend.context_len} and at least one must be left for the answer: "
                "shorten the prompt",
                param="prompt",
            )
        block_len = self._backend.block_len
        needed = self._most_blocks(request) * block_len
        capacity = self._backend.capacity_tokens
        if needed > capacity:
            raise CapacityError(
                f"the request may need {needed} cache slots (prompt {prompt_len} tokens + "
                f"max_tokens {request.sampling.max_tokens}, at most the context, rounded up to "
                f"blocks of {block_len}) and the KV cache has {capacity}: lower "
                "max_tokens, shorten the prompt, or start with a larger --kv-memory",
                param="max_tokens",
            )

    def add(self, sequence: Sequence) -> None:
        """Queue a checked sequence."""
        self._waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence, waiting or running, and give back its cache."""
        if sequence in self._running:
            self._running.remove(sequence)
            self._close(sequence)
        else:
            self._waiting.remove(sequence)

    def plan(self) -> Plan:
        """Admit what fits, take cache from the youngest where it is short; return the work."""
        self._admit()
        plan = self._plan()
        while not self._is_ample and self._blocks_after(plan) > self._num_blocks:
            self._preempt(self._running[-1])
            plan = self._plan()
        return plan

    def _plan(self) -> Plan:
        context_len = self._backend.context_len
        decoding = tuple(one for one in self._running if not one.is_prefilling)
        budgets = tuple(draft_budget(one, context_len) for one in decoding)
        room = self._backend.prefill_chunk_len
        prefilling: list[tuple[Sequence, int]] = []
        for sequence in self._running:
            if room > 0 and sequence.num_cached == 0:
                self._on_begin(sequence)
            chunk_len = min(room, sequence.num_to_prefill, sequence.most_prefill)
            if chunk_len > 0:
                prefilling.append((sequence, chunk_len))
                room -= chunk_len
        return Plan(decoding, budgets, tuple(prefilling))

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._max_num_seqs:
            sequence = self._waiting[0]
            if self._running and not self._is_ample:
                promised = sum(self._blocks_soon(one) for one in self._running)
                if promised + self._blocks_soon(sequence) > self._num_blocks:
                    return
            self._waiting.popleft()
            sequence.handle = self._backend.open()
            self._running.append(sequence)

    def _preempt(self, sequence: Sequence) -> None:
        assert len(self._running) > 1, "a sequence that fits alone has outgrown the cache"
        self._on_preempt(sequence)
        self._running.remove(sequence)
        self._close(sequence)
        sequence.forget_cache()
        self._waiting.appendleft(sequence)

    def _close(self, sequence: Sequence) -> None:
        assert sequence.handle is not None
        self._backend.close(sequence.handle)
        sequence.handle = None

    def _blocks_after(self, plan: Plan) -> int:
        """Return the blocks that all running sequences hold behind this step's forward."""
        growth = {id(one): chunk_len for one, chunk_len in plan.prefilling}
        for one, budget in zip(plan.decoding, plan.budgets, strict=True):
            growth[id(one)] = 1 + budget
        return sum(self._blocks(one.num_cached + growth.get(id(one), 0)) for one in self._running)

    def _blocks_soon(self, sequence: Sequence) -> int:
        """Return the blocks of the text, the next block of drafts, and one to grow into."""
        soon = len(sequence.token_ids) + sequence.num_speculative_tokens
        return min(self._blocks(soon) + 1, self._most_blocks(sequence.request))

    def _most_blocks(self, request: Request) -> int:
        """Return the blocks of the longest the request can become."""
        longest = len(request.prompt_token_ids) + request.sampling.max_tokens
        return self._blocks(min(longest, self._backend.context_len))

    def _blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self._backend.block_len)
