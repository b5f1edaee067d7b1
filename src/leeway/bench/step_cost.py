"""What a forward and a verify step cost, measured on the engine's real parts.

Cells are interleaved: every round visits each of them, so that a busy moment of the machine falls
on all alike.

Definitions (also in `DEFINITIONS`, which every report prints):

- A forward of M rows at context C: one backend call that appends M tokens to a sequence of C cached
  tokens and gives logits for all M; rolled back afterwards, the roll-back not timed. Steady behind
  a forward of the same kind; first behind one of another, which a backend may have to prepare for.
- Overhead of a verify step: wall time of `Engine.step` less the time inside forwards (of target,
  draft model or draft head); its share is overhead / wall time of the same step.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from leeway.backends.base import Backend, SequenceInput
from leeway.bench.samples import Samples
from leeway.core.types import Acceptance, Draft, FloatArray, Request, Rows, SamplingParams
from leeway.drafters.base import DraftAsk, Drafter, Observation
from leeway.engine.engine import Engine
from leeway.engine.self_check import may_draft

DEFINITIONS = {
    "forward": "one backend call that appends M tokens to a sequence of C cached tokens and gives "
    "logits for all M; roll-back not timed; steady: behind one of the same rows and context; "
    "first: behind one of another (ten forwards of the cell lie between the two, untimed)",
    "row shape": "stable pads a block of one row to two, so that its logits equal those of more "
    "rows to the bit, and for a while to the rows of the last one, whose shape is ready; fast "
    "never pads (`--row-shape fast` measures that)",
    "prefill": "prompt tokens / wall time of the forwards that feed them to an empty sequence, "
    "logits for the last token only",
    "load": "imports, opening the model, building and compiling it; a model in the cache is not "
    "fetched",
    "first token": "from the start of loading to the first token of a 16-token prompt",
    "overhead": "wall time of Engine.step less the time inside forwards of target, draft model or "
    "draft head (preparing their inputs belongs to the forward); share = overhead "
    "/ wall time of the same step; steps with a full block of draft tokens only",
    "peak memory": "most memory resident in this process so far",
}
_STEADY_IN_A_TURN = 3
_SETTLING = 10  # untimed: a backend may keep the last forward's shape for some forwards
_OVERHEAD_TOKENS = 32

Item = TypeVar("Item")
Setting = tuple[str, SamplingParams]


@dataclass(frozen=True, slots=True)
class ForwardCell:
    """Rows of one forward and the context they are appended to."""

    num_rows: int
    context_len: int


@dataclass(frozen=True, slots=True)
class ForwardTimes:
    """Seconds of a cell's forwards: `steady` behind one of its own kind, `first` behind another."""

    steady: Samples
    first: Samples


@dataclass(frozen=True, slots=True)
class StepCell:
    """One way of sampling under one law; times in seconds, shares in [0, 1].

    `law` is what was asked for, `engaged` the law that judged.
    """

    sampling: str
    law: str
    engaged: str
    step_s: Samples
    forward_s: Samples
    overhead_s: Samples
    overhead_rate: Samples


def measure_forwards(
    backend: Backend, cells: Sequence[ForwardCell], token_ids: Sequence[int], num_rounds: int
) -> dict[ForwardCell, ForwardTimes]:
    """Return seconds of each cell's forward.

    Cells take turns; a turn is one forward behind another cell's, and then a few steady ones.

    Args:
        backend: holds no other sequence while this runs.
        cells: what to measure; each must fit the context and the cache.
        token_ids: text to feed, repeated as needed.
        num_rounds: steady measurements of each cell, rounded up to whole turns.
    """
    handles: dict[int, int] = {}
    try:
        for context_len in sorted({cell.context_len for cell in cells}):
            handles[context_len] = backend.open()
            _feed(backend, handles[context_len], _repeat(token_ids, context_len))
        steady: dict[ForwardCell, list[float]] = {cell: [] for cell in cells}
        first: dict[ForwardCell, list[float]] = {cell: [] for cell in cells}
        for turn in range(-1, math.ceil(num_rounds / _STEADY_IN_A_TURN)):
            for cell in cells:
                handle = handles[cell.context_len]
                times = [
                    _time_forward(backend, handle, cell, token_ids)
                    for _ in range(1 + _SETTLING + _STEADY_IN_A_TURN)
                ]
                if turn >= 0:
                    first[cell].append(times[0])
                    steady[cell].extend(times[1 + _SETTLING :])
    finally:
        for handle in handles.values():
            backend.close(handle)
    return {cell: ForwardTimes(Samples.of(steady[cell]), Samples.of(first[cell])) for cell in cells}


def measure_prefill(
    backend: Backend, prompt_len: int, token_ids: Sequence[int], num_rounds: int
) -> Samples:
    """Return prompt tokens per second at this prompt length."""
    rates = []
    for round_index in range(-1, num_rounds):
        handle = backend.open()
        try:
            started = time.perf_counter()
            _feed(backend, handle, _repeat(token_ids, prompt_len), num_logit_rows=1)
            seconds = time.perf_counter() - started
        finally:
            backend.close(handle)
        if round_index >= 0:
            rates.append(prompt_len / seconds)
    return Samples.of(rates)


def measure_steps(
    engine: Engine,
    settings: Sequence[Setting],
    laws: Sequence[Acceptance],
    prompt_token_ids: Sequence[int],
    num_rounds: int,
) -> list[StepCell]:
    """Return what verify steps with a full block of draft tokens cost, by sampling and law.

    The engine's own drafter is asked as always; where it drafts too few tokens the block is filled
    up, so that every step carries `num_speculative_tokens`. Nothing is measured where the
    self-check at load declined blocks of drafts.
    """
    if not may_draft(engine.parts.self_check):
        return []
    drafter = FullBlockDrafter(engine.parts.drafter)
    config = replace(engine.config, draft_length="fixed", prefix_cache="off")
    timed = Engine(replace(engine.parts, drafter=drafter), config)
    cells = list(itertools.product(settings, laws))
    runs: dict[int, _Times] = {index: _Times() for index in range(len(cells))}
    with _clock_on(_run_forward(engine)) as clock:
        for round_index in range(-1, num_rounds):
            for index in _rotated(range(len(cells)), round_index):
                (_, sampling), law = cells[index]
                request = Request(
                    f"bench-{round_index}-{index}",
                    tuple(prompt_token_ids),
                    replace(
                        sampling,
                        seed=round_index + 1,
                        max_tokens=_OVERHEAD_TOKENS,
                        ignore_eos=True,
                    ),
                    law,
                )
                times = _run(timed, request, clock)
                if round_index >= 0:
                    runs[index].extend(times)
    return [_summarise(name, law.law, runs[index]) for index, ((name, _), law) in enumerate(cells)]


class FullBlockDrafter:
    """Asks another drafter and fills its blocks up to the length asked for."""

    def __init__(self, inner: Drafter) -> None:
        self.name = inner.name
        self.gives_rows = inner.gives_rows
        self.reads_hidden = inner.reads_hidden
        self._inner = inner

    def start(self, request_id: str, token_ids: Sequence[int], num_cached: int) -> int:
        """Hand on."""
        return self._inner.start(request_id, token_ids, num_cached)

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return full drafts: what was proposed, then its last token, or the latest of the text."""
        drafts = self._inner.propose(asks)
        return [_filled(draft, ask) for draft, ask in zip(drafts, asks, strict=True)]

    def observe(self, seen: Sequence[Observation]) -> None:
        """Hand on."""
        self._inner.observe(seen)

    def share(self, request_id: str) -> None:
        """Hand on."""
        self._inner.share(request_id)

    def suspend(self, request_id: str) -> None:
        """Hand on."""
        self._inner.suspend(request_id)

    def give_up(self, request_id: str) -> bool:
        """Hand on."""
        return self._inner.give_up(request_id)

    def forget(self, request_id: str) -> None:
        """Hand on."""
        self._inner.forget(request_id)


@dataclass(slots=True)
class _Times:
    """Seconds of each step and of the forwards within it, and the law that judged."""

    steps: list[float] = field(default_factory=list)
    forwards: list[float] = field(default_factory=list)
    engaged: str = ""

    def extend(self, other: _Times) -> None:
        self.engaged = other.engaged
        self.steps.extend(other.steps)
        self.forwards.extend(other.forwards)


@dataclass(slots=True)
class _Clock:
    """Seconds spent in forwards since it was last read."""

    seconds: float = 0.0

    def read(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def _run_forward(engine: Engine) -> set[type]:
    """Return the classes of all that an engine runs forward: target, and draft model or head."""
    parts = engine.parts
    own = [one for one in vars(parts.drafter).values() if callable(getattr(one, "forward", None))]
    return {type(one) for one in (parts.backend, *own)}


@contextmanager
def _clock_on(kinds: Collection[type]) -> Iterator[_Clock]:
    """Time every forward of these classes."""
    clock = _Clock()
    originals: dict[type, Callable[..., Any]] = {kind: kind.forward for kind in kinds}  # type: ignore[attr-defined]

    def forward(one: object, inputs: object) -> object:
        started = time.perf_counter()
        try:
            return originals[type(one)](one, inputs)
        finally:
            clock.seconds += time.perf_counter() - started

    for kind in kinds:
        kind.forward = forward  # type: ignore[attr-defined]
    try:
        yield clock
    finally:
        for kind, original in originals.items():
            kind.forward = original  # type: ignore[attr-defined]


def _run(engine: Engine, request: Request, clock: _Clock) -> _Times:
    """Decode one request; return the steps that verified a full block."""
    engine.add(request)
    walls: list[float] = []
    forwards: list[float] = []
    drafted: list[int] = []
    engaged = ""
    while engine.has_work:
        clock.read()
        started = time.perf_counter()
        deltas = engine.step()
        walls.append(time.perf_counter() - started)
        forwards.append(clock.read())
        for delta in deltas:
            if delta.error is not None:
                raise delta.error
            if delta.receipt is not None:
                drafted = [num_drafted for num_drafted, _ in delta.receipt.per_step]
                engaged = delta.receipt.law
    full = engine.config.num_speculative_tokens
    num_verify_steps = len(drafted)
    kept = [index for index, length in enumerate(drafted) if length == full]
    walls, forwards = walls[-num_verify_steps:], forwards[-num_verify_steps:]
    steps = [walls[index] for index in kept]
    return _Times(steps, [forwards[index] for index in kept], engaged)


def _summarise(sampling: str, law: str, times: _Times) -> StepCell:
    pairs = list(zip(times.steps, times.forwards, strict=True))
    return StepCell(
        sampling=sampling,
        law=law,
        engaged=times.engaged,
        step_s=Samples.of(times.steps),
        forward_s=Samples.of(times.forwards),
        overhead_s=Samples.of([step - forward for step, forward in pairs]),
        overhead_rate=Samples.of([(step - forward) / step for step, forward in pairs]),
    )


def _filled(draft: Draft, ask: DraftAsk) -> Draft:
    missing = ask.num_draft_tokens - len(draft.token_ids)
    if missing == 0:  # rows are large, and this is timed
        return draft
    if draft.rows is None:
        recent = tuple(ask.token_ids[-ask.num_draft_tokens :])
        return Draft((*draft.token_ids, *recent[:missing]))
    raw, rows = draft.raw_probs, draft.rows
    return Draft(
        (*draft.token_ids, *draft.token_ids[-1:] * missing),
        Rows(_lengthened(rows.probs, missing), rows.token_ids),
        None if raw is None else _lengthened(raw, missing),
    )


def _lengthened(rows: FloatArray, num_more: int) -> FloatArray:
    return np.concatenate([rows, np.repeat(rows[-1:], num_more, axis=0)])


def _time_forward(
    backend: Backend, handle: int, cell: ForwardCell, token_ids: Sequence[int]
) -> float:
    tokens = _repeat(token_ids, cell.num_rows)
    started = time.perf_counter()
    backend.forward([SequenceInput(handle, tokens, cell.num_rows)])
    seconds = time.perf_counter() - started
    backend.truncate(handle, cell.context_len)
    return seconds


def _feed(backend: Backend, handle: int, token_ids: Sequence[int], num_logit_rows: int = 0) -> None:
    size = backend.prefill_chunk_len
    for start in range(0, len(token_ids), size):
        chunk = token_ids[start : start + size]
        is_last = start + size >= len(token_ids)
        backend.forward([SequenceInput(handle, chunk, num_logit_rows if is_last else 0)])


def _repeat(token_ids: Sequence[int], length: int) -> list[int]:
    return list(itertools.islice(itertools.cycle(token_ids), length))


def _rotated(items: Sequence[Item], by: int) -> list[Item]:
    shift = by % max(1, len(items))
    return [*items[shift:], *items[:shift]]
