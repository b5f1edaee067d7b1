"""A second, smaller model as drafter; it must share the target's vocabulary.

Drafts are drawn with the request's own sampling parameters, and the rows handed on are the very
rows drawn from. The draft model's cache follows the committed text: at the next step whatever it
cached that was not committed is rolled back, and what it missed is fed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leeway.backends.base import Backend, SequenceInput
from leeway.core.errors import LeewayError
from leeway.core.types import Draft, FloatArray
from leeway.drafters.base import MAX_SHARED_BACKLOG, DraftAsk, TextDrafter
from leeway.drafters.sampled_draft import SampledDraft


@dataclass(slots=True)
class _Follower:
    """The draft model's view of one request.

    `fed` are the tokens in its cache, of which the first `num_committed` are known to be committed.
    Without a `handle` there is no cache yet, or none while the request is suspended.
    """

    handle: int | None = None
    fed: list[int] = field(default_factory=list)
    num_committed: int = 0


@dataclass(slots=True)
class _Growing(SampledDraft):
    """A draft under construction, and whose it is."""

    follower: _Follower


class ModelDrafter(TextDrafter):
    """Proposes tokens sampled from a draft model."""

    name = "draft_model"
    gives_rows = True

    def __init__(self, backend: Backend, vocab_size: int) -> None:
        """Take a backend whose tokens mean the same as the target's.

        Args:
            backend: the draft model.
            vocab_size: the target's; rows of the draft model are cut or padded to it.
        """
        self._backend = backend
        self._vocab_size = vocab_size
        self._followers: dict[str, _Follower] = {}

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return drafts of the length asked for.

        Shorter only at the draft model's context end, and empty while the draft model still reads
        a long prompt: one chunk a step, so that nobody waits for it.
        """
        growing = [_Growing(ask, self._follow(ask)) for ask in asks]
        pending = [one for one in growing if self._room(one) > 0 and self._catch_up(one)]
        while pending:
            logits = self._feed(pending)
            for one, row in zip(pending, logits, strict=True):
                one.extend(_over(self._vocab_size, row[None]))
            pending = [one for one in pending if self._room(one) > 0]
        return [one.finish() for one in growing]

    def suspend(self, request_id: str) -> None:
        """Give back the request's cache; what it held is read again when the request goes on."""
        follower = self._followers.get(request_id)
        if follower is not None:
            self._close(follower)

    def give_up(self, request_id: str) -> bool:
        """Give back the request's cache; nothing is left."""
        self.forget(request_id)
        return False

    def forget(self, request_id: str) -> None:
        """Give back the request's cache."""
        follower = self._followers.pop(request_id, None)
        if follower is not None:
            self._close(follower)

    def _follow(self, ask: DraftAsk) -> _Follower:
        """Return the request's follower with everything uncommitted rolled back."""
        follower = self._followers.setdefault(ask.request_id, _Follower())
        fed, committed = follower.fed, ask.token_ids
        kept = follower.num_committed
        while kept < min(len(fed), len(committed) - 1) and fed[kept] == committed[kept]:
            kept += 1
        if kept < len(fed) and follower.handle is not None:
            self._backend.truncate(follower.handle, kept)
        del fed[kept:]
        follower.num_committed = kept
        if follower.handle is None:
            self._open(follower)
        return follower

    def _open(self, follower: _Follower) -> None:
        """Give a follower cache that holds what it has read, nothing unless it was suspended."""
        follower.handle, fed = self._backend.open(), follower.fed
        try:
            for begin in range(0, len(fed), self._backend.prefill_chunk_len):
                chunk = fed[begin : begin + self._backend.prefill_chunk_len]
                self._backend.forward([SequenceInput(follower.handle, chunk, 0)])
        except LeewayError:
            self._close(follower)
            raise

    def _close(self, follower: _Follower) -> None:
        if follower.handle is not None:
            self._backend.close(follower.handle)
            follower.handle = None

    def _room(self, one: _Growing) -> int:
        """Return how many more tokens this draft may get."""
        if one.is_complete:
            return 0
        room = self._backend.context_len - len(one.ask.token_ids) - len(one.token_ids)
        return min(one.ask.num_draft_tokens - len(one.token_ids), room)

    def _catch_up(self, one: _Growing) -> bool:
        """Feed at most one chunk of a long backlog; return whether the rest fits a shared forward.

        Depends on this request alone, so that its drafts do not depend on its company.
        """
        backlog = _not_yet_fed(one)
        if len(backlog) > MAX_SHARED_BACKLOG:
            chunk = backlog[: min(self._backend.prefill_chunk_len, len(backlog) - 1)]
            self._forward([one], [chunk], num_logit_rows=0)
            backlog = backlog[len(chunk) :]
        return len(backlog) <= MAX_SHARED_BACKLOG

    def _feed(self, pending: Sequence[_Growing]) -> FloatArray:
        """Bring every cache up to its draft's last token; return [len(pending), vocab] logits."""
        return self._forward(pending, [_not_yet_fed(one) for one in pending], num_logit_rows=1)

    def _forward(
        self, pending: Sequence[_Growing], tokens: Sequence[Sequence[int]], num_logit_rows: int
    ) -> FloatArray:
        inputs = []
        for one, new in zip(pending, tokens, strict=True):
            assert one.follower.handle is not None
            inputs.append(SequenceInput(one.follower.handle, new, num_logit_rows))
        logits = self._backend.forward(inputs).logits
        for one, new in zip(pending, tokens, strict=True):
            one.follower.fed.extend(new)
        return logits


def _not_yet_fed(one: _Growing) -> list[int]:
    num_fed, num_committed = len(one.follower.fed), len(one.ask.token_ids)
    behind = one.token_ids[max(0, num_fed - num_committed) :]
    return [*one.ask.token_ids[num_fed:], *behind]


def _over(vocab_size: int, logits: FloatArray) -> FloatArray:
    """Return rows cut to a vocabulary, or padded to it with tokens that cannot be drawn."""
    missing = vocab_size - logits.shape[-1]
    if missing <= 0:
        return logits[:, :vocab_size]
    return np.pad(logits, ((0, 0), (0, missing)), constant_values=-np.inf)
