"""A batch as the laws see it: which law, key and step each request has, and who is judged together.

In: request ids and sampling parameters in batch order. Out: a `Plan`, remade only when the batch
changes. Requests are grouped by engaged law, so that one verify step loops over distinct laws, not
over requests.

A request's coins are keyed by its seed, or by its id where it brings none: the same on every rank.
A step is a request's count of judged blocks, so that no coin is thrown twice. Knows no tensors.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

import numpy as np

from leeway.acceptance.base import Guarantee, Law
from leeway.acceptance.many_coins import uniforms_at
from leeway.core.rng import Purpose
from leeway.core.types import FloatArray, IntArray

GREEDY_NAME = "greedy_match"
_NUM_COINS, _MAX_STEPS = 512, 16


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its law, whether it decodes greedily, and its own seed if it brought one."""

    law: Law
    is_greedy: bool
    seed: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that are judged together.

    Attributes:
        law: judges them.
        is_greedy: they decode at temperature 0.
        members: [num_requests] bool.
    """

    law: Law
    is_greedy: bool
    members: np.ndarray

    @property
    def is_match(self) -> bool:
        """Whether the draft is kept exactly where it is the target's most likely token."""
        return self.is_greedy and not self.law.reads_raw_rows


@dataclass(slots=True)
class _Drawn:
    """Coins of some blocks to come: of a few requests they cost no more than those of one block.

    Attributes:
        steps: [num_requests], the first block of each request that they are for.
        coins: [num_requests, num_steps, max_draft_len + 1].
    """

    steps: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    coins: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))

    def has(self, steps: IntArray, max_draft_len: int) -> bool:
        """Return whether the coins of these blocks are there."""
        _, num_steps, num_coins = self.coins.shape
        return bool(num_coins == max_draft_len + 1 and (steps - self.steps).max() < num_steps)

    def draw(self, keys: IntArray, steps: IntArray, max_draft_len: int) -> None:
        """Draw the coins of the next blocks of each request."""
        rows = np.arange(max_draft_len + 1)
        rows[-1] = 0
        purposes = np.full(max_draft_len + 1, Purpose.ACCEPT, dtype=np.int64)
        purposes[-1] = Purpose.RECOVER
        num_steps = min(max(_NUM_COINS // (len(keys) * len(rows)), 1), _MAX_STEPS)
        ahead = (steps[:, None] + np.arange(num_steps)).reshape(-1)
        coins = uniforms_at(np.repeat(keys, num_steps), ahead, rows, purposes)
        self.steps, self.coins = steps.copy(), coins.reshape(len(keys), num_steps, len(rows))


@dataclass(frozen=True, slots=True)
class Plan:
    """The batch until it changes.

    Attributes:
        groups: by engaged law; each request is in one.
        keys: [num_requests] int64.
        steps: [num_requests] int64, judged blocks so far; `throw` counts on.
    """

    groups: tuple[Group, ...]
    keys: IntArray
    steps: IntArray
    _drawn: _Drawn = field(default_factory=_Drawn)

    @property
    def reads_raw_rows(self) -> bool:
        """Whether any law here reads the target's rows before temperature and truncation."""
        return any(group.law.reads_raw_rows for group in self.groups)

    @property
    def is_greedy(self) -> np.ndarray:
        """Which requests decode at temperature 0: [num_requests] bool."""
        found = np.zeros(len(self.keys), dtype=np.bool_)
        for group in self.groups:
            found |= group.members & group.is_greedy
        return found

    def part(self, requests: slice) -> Plan:
        """Return the plan of consecutive requests of this one."""
        groups = [
            Group(group.law, group.is_greedy, group.members[requests]) for group in self.groups
        ]
        return Plan(
            tuple(group for group in groups if group.members.any()),
            self.keys[requests],
            self.steps[requests],
        )

    def throw(self, max_draft_len: int, is_drafted: np.ndarray) -> FloatArray:
        """Return the coins of one block of each request: [num_requests, max_draft_len + 1].

        The last column decides the recovered token. **Mutates** `steps`.

        Args:
            max_draft_len: most draft tokens of a request.
            is_drafted: [num_requests] bool, who has a block.
        """
        drawn = self._drawn
        if not drawn.has(self.steps, max_draft_len):
            drawn.draw(self.keys, self.steps, max_draft_len)
        coins: FloatArray = drawn.coins[np.arange(len(self.steps)), self.steps - drawn.steps]
        self.steps[...] += is_drafted
        return coins


@dataclass(slots=True)
class _Known:
    asked: Asked
    source: object
    key: int
    num_blocks: int = 0


class Requests:
    """What is known of the requests that are being decoded.

    Args:
        read: returns what a request asks for, from its sampling parameters.
        server_seed: part of the key of a request without a seed.
    """

    def __init__(self, read: Callable[[object], Asked], server_seed: int) -> None:
        self._read = read
        self._server_seed = server_seed
        self._known: dict[str, _Known] = {}
        self._order: list[_Known] = []
        self._ids: list[str] = []
        self._plan: Plan | None = None

    def plan(self, ids: Sequence[str], sources: Sequence[object], alive: Container[str]) -> Plan:
        """Return the plan of this batch.

        Args:
            ids: request ids in batch order.
            sources: their sampling parameters; another object under an id is another request.
            alive: ids of requests that may come back, preempted ones among them.
        """
        if self._plan is not None and self._is_same(ids, sources):
            return self._plan
        self._save_steps()
        self._order = [self._find(name, source) for name, source in zip(ids, sources, strict=True)]
        self._known = {name: one for name, one in self._known.items() if name in alive}
        self._known |= zip(ids, self._order, strict=True)
        self._ids = list(ids)
        self._plan = Plan(
            groups=_group([one.asked for one in self._order]),
            keys=np.array([one.key for one in self._order], dtype=np.int64),
            steps=np.array([one.num_blocks for one in self._order], dtype=np.int64),
        )
        return self._plan

    def _is_same(self, ids: Sequence[str], sources: Sequence[object]) -> bool:
        return len(ids) == len(self._ids) and all(
            name == own and source is one.source
            for name, own, source, one in zip(ids, self._ids, sources, self._order, strict=True)
        )

    def _save_steps(self) -> None:
        if self._plan is not None:
            for one, steps in zip(self._order, self._plan.steps.tolist(), strict=True):
                one.num_blocks = steps

    def _find(self, name: str, source: object) -> _Known:
        known = self._known.get(name)
        if known is not None and known.source is source:
            return known
        asked = self._read(source)
        key = request_key(asked.seed, name, self._server_seed)
        return _Known(asked, source, key)


def request_key(seed: int | None, name: str, server_seed: int) -> int:
    """Return the key of a request's coins, as a signed 64-bit number."""
    if seed is not None:
        word = seed % 2**64
    else:
        text = struct.pack("<Q", server_seed % 2**64) + name.encode()
        word = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return word - 2**64 if word >= 2**63 else word


def engaged_name(group: Group) -> str:
    """Return the law that runs: at temperature 0 a lossy law acts only on raw rows."""
    is_lossy = group.law.info.guarantee is Guarantee.NONE
    return GREEDY_NAME if group.is_match and is_lossy else group.law.info.name


def _group(asked: Sequence[Asked]) -> tuple[Group, ...]:
    members: dict[tuple[int, bool], list[int]] = {}
    laws: dict[int, Law] = {}
    for index, one in enumerate(asked):
        laws[id(one.law)] = one.law
        members.setdefault((id(one.law), one.is_greedy), []).append(index)
    groups = []
    for (law, is_greedy), indices in members.items():
        mask = np.zeros(len(asked), dtype=np.bool_)
        mask[indices] = True
        groups.append(Group(laws[law], is_greedy, mask))
    return tuple(groups)
