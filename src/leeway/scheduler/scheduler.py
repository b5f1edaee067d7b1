"""Who runs: admission in order of arrival, then every running sequence in every step.

A request is admitted when the cache has room for the longest it can become, so that no running
request is ever evicted. Prompts are fed in chunks beside the decoding of others. Knows nothing of
drafts' content, laws or text.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from leeway.backends.base import Backend
from leeway.core.errors import CapacityError, ContextLengthError
from leeway.core.types import Request
from leeway.scheduler.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Plan:
    """One step's work.

    Attributes:
        decoding: sequences whose whole text but the last token is cached.
        prefilling: sequences with the number of prompt tokens to feed now.
    """

    decoding: tuple[Sequence, ...]
    prefilling: tuple[tuple[Sequence, int], ...]

    def members(self) -> tuple[Sequence, ...]:
        """Return every sequence of the step."""
        return (*self.decoding, *(sequence for sequence, _ in self.prefilling))

    def split(self) -> tuple[Plan, ...]:
        """Return one plan a sequence."""
        return (
            *(Plan((one,), ()) for one in self.decoding),
            *(Plan((), (one,)) for one in self.prefilling),
        )


class Scheduler:
    """Waiting and running sequences of one backend."""

    def __init__(self, backend: Backend, max_num_seqs: int) -> None:
        self._backend = backend
        self._max_num_seqs = max_num_seqs
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def num_waiting(self) -> int:
        """Number of requests not yet admitted."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Number of requests that hold cache."""
        return len(self._running)

    @property
    def num_reserved_tokens(self) -> int:
        """Cache slots promised to running sequences."""
        return sum(self._reserved(sequence.request) for sequence in self._running)

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
        needed, capacity = self._reserved(request), self._backend.capacity_tokens
        if needed > capacity:
            raise CapacityError(
                f"the request may need {needed} cache slots (prompt {prompt_len} tokens + "
                f"max_tokens {request.sampling.max_tokens}, at most the context, rounded up to "
                f"blocks of {self._backend.block_len}) and the KV cache has {capacity}: lower "
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
        else:
            self._waiting.remove(sequence)
        if sequence.handle is not None:
            self._backend.close(sequence.handle)
            sequence.handle = None

    def plan(self) -> Plan:
        """Admit what fits and return the next step's work."""
        self._admit()
        decoding = tuple(one for one in self._running if not one.is_prefilling)
        budget = self._backend.prefill_chunk_len
        prefilling: list[tuple[Sequence, int]] = []
        for sequence in self._running:
            chunk_len = min(budget, sequence.num_missing, sequence.most_prefill)
            if sequence.is_prefilling and chunk_len > 0:
                prefilling.append((sequence, chunk_len))
                budget -= chunk_len
        return Plan(decoding, tuple(prefilling))

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._max_num_seqs:
            free = self._backend.capacity_tokens - self.num_reserved_tokens
            if self._reserved(self._waiting[0].request) > free:
                return
            sequence = self._waiting.popleft()
            sequence.handle = self._backend.open()
            self._running.append(sequence)

    def _reserved(self, request: Request) -> int:
        """Return the cache slots of the longest the request can become, in whole blocks."""
        longest = len(request.prompt_token_ids) + request.sampling.max_tokens
        blocks = -(-min(longest, self._backend.context_len) // self._backend.block_len)
        return blocks * self._backend.block_len
