"""A multi-token-prediction head as drafter: it goes on from the target's own hidden states.

The head's cache holds one position for each pair (target's state at t, token t + 1) of committed
text, fed as the target shows its states. A draft starts from the last such pair and goes on from
the head's own states; those positions are rolled back when the draft is done, for the target's
states will replace them, whatever becomes of the tokens.

What the target need not compute because it is cached shows no states. So the head shares its own
cache by the same rule, block by block of committed text, and as much is taken over as both have:
the head's cache never has a gap, and drafts are those of a request that was read from the start.

Drafts are drawn with the request's own sampling parameters, over the ids that the head knows, and
the rows handed on are the very rows drawn from.

Source: DeepSeek-V3 (DeepSeek-AI 2024, arXiv 2412.19437, section 2.2); reduced draft vocabulary:
FR-Spec (Zhao et al. 2025, arXiv 2502.14856).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leeway.backends.base import DraftHead, HeadInput
from leeway.core.errors import LeewayError
from leeway.core.types import Draft, FloatArray
from leeway.drafters.base import MAX_SHARED_BACKLOG, DraftAsk, Observation
from leeway.drafters.sampled_draft import SampledDraft


@dataclass(slots=True)
class _Follower:
    """The head's view of one request: the target's states from position `start` on.

    Only states that the head may still need are kept; the last one always is, so that a draft can
    be asked for again. `error` is what the head failed with when it was last shown some; where it
    fails twice running, `is_lost`, none are kept.
    """

    handle: int
    states: FloatArray
    token_ids: Sequence[int]
    start: int = 0
    error: LeewayError | None = None
    is_lost: bool = False

    @property
    def end(self) -> int:
        """Position behind the last state."""
        return self.start + len(self.states)


@dataclass(slots=True)
class _Growing(SampledDraft):
    """A draft under construction; `states` and `next_ids` are what the head reads next."""

    follower: _Follower
    states: FloatArray = field(init=False)
    next_ids: list[int] = field(init=False)


class MTPDrafter:
    """Proposes tokens sampled from a draft head."""

    name = "mtp"
    gives_rows = True
    reads_hidden = True

    def __init__(self, head: DraftHead, vocab_size: int) -> None:
        """Take a head made for the target, and the size of the target's vocabulary."""
        self.head = head
        self._vocab_size = vocab_size
        self._followers: dict[str, _Follower] = {}
        self._given_up: set[str] = set()

    def start(self, request_id: str, token_ids: Sequence[int], num_cached: int) -> int:
        """Take over what the head has cached of the same text; the target's states are not kept."""
        self.suspend(request_id)
        if request_id in self._given_up:
            return num_cached
        follower = self._open(request_id, token_ids)
        contents = _pairs(token_ids, num_cached)
        follower.start = self.head.take_prefix(follower.handle, contents)
        return follower.start

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return drafts of the length asked for; shorter only at the head's context end.

        All requests share one forward a depth.

        Raises:
            LeewayError: the head failed, now or on what was shown before.
        """
        growing = [_Growing(ask, self._followers[ask.request_id]) for ask in asks]
        for one in growing:
            if one.follower.is_lost:
                assert one.follower.error is not None
                raise one.follower.error
        try:
            pending = [one for one in growing if self._room(one) > 0]
            for one in pending:
                self._begin(one)
            while pending:
                self._go_on(pending)
                pending = [one for one in pending if self._room(one) > 0]
        finally:
            for one in growing:
                handle, end = one.follower.handle, one.follower.end
                if self.head.cached_len(handle) > end:
                    self.head.truncate(handle, end)
        return [one.finish() for one in growing]

    def observe(self, seen: Sequence[Observation]) -> None:
        """Copy the states; feed the head where many have come together, as of a prompt.

        Where the head fails on them the next draft meets the error, where the engine can tell whose
        it is; where it fails again before that, states of that request are not kept any more.
        """
        for one in seen:
            if one.request_id in self._given_up:
                continue
            follower = self._followers.get(one.request_id)
            if follower is None:
                follower = self._open(one.request_id, one.token_ids)
            if follower.is_lost:
                continue
            assert one.start == follower.end, (one.start, follower.end)
            self._take(follower, one.hidden)
            try:
                self._feed_backlog(follower, one.token_ids)
            except LeewayError as error:
                if follower.error is not None:
                    follower.states, follower.is_lost = follower.states[:0].copy(), True
                follower.error = error
            else:
                follower.error = None

    def share(self, request_id: str) -> None:
        """Share the positions of committed pairs, but for the last, which is fed once more."""
        follower = self._followers.get(request_id)
        if follower is not None and not follower.is_lost:
            num_final = min(self.head.cached_len(follower.handle), follower.end - 1)
            contents = _pairs(follower.token_ids, num_final)
            self.head.share_prefix(follower.handle, contents)

    def suspend(self, request_id: str) -> None:
        """Give back the request's cache."""
        follower = self._followers.pop(request_id, None)
        if follower is not None:
            self.head.close(follower.handle)

    def give_up(self, request_id: str) -> bool:
        """Give back the request's cache and take in no more of it."""
        self.suspend(request_id)
        self._given_up.add(request_id)
        return False

    def forget(self, request_id: str) -> None:
        """Give back the request's cache."""
        self.suspend(request_id)
        self._given_up.discard(request_id)

    def _open(self, request_id: str, token_ids: Sequence[int]) -> _Follower:
        states = np.zeros((0, self.head.hidden_size), np.float32)
        follower = _Follower(self.head.open(), states, token_ids)
        self._followers[request_id] = follower
        return follower

    def _take(self, follower: _Follower, hidden: FloatArray) -> None:
        """Append a copy of new states and drop those that the head has read, but never the last."""
        states = np.concatenate([follower.states, hidden.astype(np.float32, copy=False)])
        num_read = self.head.cached_len(follower.handle) - follower.start
        dropped = max(0, min(num_read, len(states) - 1))
        follower.states = states[dropped:]
        follower.start += dropped

    def _feed_backlog(self, follower: _Follower, token_ids: Sequence[int]) -> None:
        """Feed a backlog that is too long for a shared forward, all but its last position.

        Depends on this request alone, so that its drafts do not depend on its company.
        """
        head, handle = self.head, follower.handle
        last = min(follower.end, len(token_ids) - 1, head.context_len) - 1
        begin = head.cached_len(handle)
        if last + 1 - begin <= MAX_SHARED_BACKLOG:
            return
        while begin < last:
            end = min(begin + head.prefill_chunk_len, last)
            states = follower.states[begin - follower.start : end - follower.start]
            head.forward([HeadInput(handle, states, token_ids[begin + 1 : end + 1], 0)])
            begin = end
        self._take(follower, follower.states[:0])

    def _room(self, one: _Growing) -> int:
        """Return how many more tokens this draft may get: each takes one position of the head."""
        if one.is_complete:
            return 0
        room = self.head.context_len - one.follower.end + 1 - len(one.token_ids)
        return min(one.ask.num_draft_tokens - len(one.token_ids), room)

    def _begin(self, one: _Growing) -> None:
        """Make the committed pairs that the head has not read the next input, at least the last."""
        follower, token_ids = one.follower, one.ask.token_ids
        assert follower.end == len(token_ids) - 1, (follower.end, len(token_ids))
        self._feed_backlog(follower, token_ids)
        begin = self.head.cached_len(follower.handle)
        if begin == follower.end:
            begin -= 1
            self.head.truncate(follower.handle, begin)
        one.states = follower.states[begin - follower.start :]
        one.next_ids = list(token_ids[begin + 1 :])

    def _go_on(self, pending: Sequence[_Growing]) -> None:
        """Run the head once and draw one more token for each draft."""
        output = self.head.forward(
            [HeadInput(one.follower.handle, one.states, one.next_ids, 1) for one in pending]
        )
        end = 0
        for one, row in zip(pending, output.logits, strict=True):
            end += len(one.next_ids)
            one.extend(row[None], self.head.draft_token_ids, self._vocab_size)
            one.states, one.next_ids = output.hidden[end - 1 : end], one.token_ids[-1:]


def _pairs(token_ids: Sequence[int], num_positions: int) -> list[int]:
    """Return what the head's first positions hold: position t its own token and the one behind."""
    tokens = token_ids[: max(0, num_positions) + 1]
    return [(one << 32) | following for one, following in itertools.pairwise(tokens)]
