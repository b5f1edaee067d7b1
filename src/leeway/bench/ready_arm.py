"""Arms made ready: one engine an arm, all over one loaded target.

In: an engine that was loaded once, arm specs, and a way to build a drafter. Out: arms that can run
a request and say what it took. Every arm is timed by the same clock; the target's weights and cache
are the same for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from leeway.acceptance.base import Guarantee, Law
from leeway.acceptance.registry import build_law
from leeway.backends.base import Backend, ForwardOutput, SequenceInput
from leeway.bench.arm_spec import ArmSpec, naming_arm
from leeway.bench.part_clock import PartClock, timed_drafter, timed_parts
from leeway.core.config import DrafterName
from leeway.core.errors import ConfigError
from leeway.core.receipt import Demotion, Receipt
from leeway.core.types import FinishReason, Request, SamplingParams
from leeway.drafters.base import Drafter
from leeway.drafters.none import NoDrafter
from leeway.engine.engine import Engine
from leeway.engine.self_check import may_draft, row_shape_in_use

BuildDrafter = Callable[[str], Drafter]

_DEMOTED: dict[Demotion, str] = {
    "self_check": "nothing was drafted: the self-check at load declined blocks of drafts",
    "drafter_failed": "less was drafted than asked for: the drafter failed and was given up",
}


@dataclass(frozen=True, slots=True)
class Run:
    """What one request did.

    Attributes:
        receipt: the engine's own.
        token_ids, text: the whole answer.
        ttft_s: from adding the request to the end of the step that gave the first token.
        prefill_tokens: tokens that the target read up to then.
        steps: seconds of each part, of each later step.
    """

    receipt: Receipt
    finish_reason: FinishReason
    token_ids: tuple[int, ...]
    text: str
    ttft_s: float
    prefill_tokens: int
    steps: tuple[Mapping[str, float], ...]


class Reader:
    """A target's backend that counts the tokens it is given to read."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.num_read = 0

    def forward(self, inputs: Sequence[SequenceInput]) -> ForwardOutput:
        """Run forward, and count."""
        self.num_read += sum(len(one.token_ids) for one in inputs)
        return self._inner.forward(inputs)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@dataclass(frozen=True, slots=True)
class ReadyArm:
    """An arm that can run; `law` is what was asked for, `reader` the target's backend."""

    spec: ArmSpec
    engine: Engine
    law: Law
    clock: PartClock
    reader: Reader
    numbers: itertools.count[int]

    @property
    def row_shape(self) -> str:
        """The row shape in force, as the backend tells."""
        return str(self.engine.parts.backend.describe().get("row_shape", "only one"))

    def kv_bytes(self, num_tokens: int) -> tuple[int | None, int | None]:
        """Return the bytes of the target's cache that so many tokens fill, and of all of it.

        None where the backend does not tell.
        """
        facts = self.engine.parts.backend.describe()
        whole, capacity = facts.get("kv_cache_bytes"), facts.get("capacity_tokens")
        if not isinstance(whole, int) or not isinstance(capacity, int):
            return None, None
        block_len = self.engine.parts.backend.block_len
        return whole // capacity * block_len * -(-num_tokens // block_len), whole

    def take_target(self) -> None:
        """Give the target this arm's row shape, or the one that the self-check at load left.

        Raises:
            ConfigError: the backend has another one that cannot be changed.
        """
        set_row_shape(self.engine, _row_shape_in_use(self.engine, self.spec))

    def run(self, prompt_token_ids: tuple[int, ...], sampling: SamplingParams) -> Run:
        """Run one request alone to its end.

        Raises:
            LeewayError: the request is refused or fails.
        """
        self.take_target()
        request_id = f"bench-{next(self.numbers)}"
        spec = self.spec
        self.clock.start()
        self.engine.add(
            Request(
                request_id,
                prompt_token_ids,
                sampling,
                spec.acceptance,
                spec.num_speculative_tokens,
                limits=spec.limits,
            )
        )
        try:
            return self._step_through()
        finally:
            self.engine.cancel(request_id)

    def _step_through(self) -> Run:
        token_ids: list[int] = []
        texts: list[str] = []
        ttft_s, began_at, prefill_tokens = 0.0, self.reader.num_read, 0
        steps: list[Mapping[str, float]] = []
        while True:
            deltas = self.engine.step()
            parts = self.clock.read()
            if token_ids:
                steps.append(parts)
            else:
                ttft_s += sum(parts.values())
                prefill_tokens = self.reader.num_read - began_at
            for delta in deltas:
                if delta.error is not None:
                    raise delta.error
                token_ids += delta.token_ids
                texts.append(delta.text)
                if delta.finish_reason is not None:
                    assert delta.receipt is not None
                    ids, text = tuple(token_ids), "".join(texts)
                    reason = delta.finish_reason
                    return Run(
                        delta.receipt, reason, ids, text, ttft_s, prefill_tokens, tuple(steps)
                    )
            self.clock.start()

    def fault(self, receipt: Receipt) -> str | None:
        """Return why what ran is not what the arm says; None if it is.

        At temperature 0 the engine judges by greedy_match where a lossy law has nothing to act on;
        that is as documented and no fault.
        """
        spec = self.spec
        if receipt.demotion is not None:
            return f"{_DEMOTED[receipt.demotion]} (demotion {receipt.demotion})"
        row_shape = _row_shape_in_use(self.engine, spec)
        if row_shape != spec.row_shape:
            return (
                f"row shape {row_shape} ran, {spec.row_shape} was asked for, which the self-check "
                "at load declined"
            )
        if receipt.drafter != spec.drafter:
            return f"drafter {receipt.drafter} ran, {spec.drafter} was asked for"
        if receipt.num_speculative_tokens != spec.num_speculative_tokens:
            return (
                f"{receipt.num_speculative_tokens} draft tokens a step ran, "
                f"{spec.num_speculative_tokens} were asked for"
            )
        if _is_greedy_by_design(self.law, receipt):
            return None
        asked = (self.law.info.name, dict(self.law.options))
        if (receipt.law, receipt.options) != asked:
            engaged = _show(receipt.law, receipt.options)
            return f"law {engaged} ran, {_show(*asked)} was asked for"
        return None

    def note(self, receipt: Receipt) -> str | None:
        """Return what a reader should know of the law that judged."""
        if _is_greedy_by_design(self.law, receipt) and receipt.law != self.law.info.name:
            return f"{receipt.law} judged: at temperature 0 {self.law.info.name} does not act"
        return None


def ready_arms(
    engine: Engine, specs: Sequence[ArmSpec], build_drafter: BuildDrafter, clock: PartClock
) -> list[ReadyArm]:
    """Return the arms, ready to run, over the engine's own target.

    Where the self-check at load declined blocks of drafts no arm drafts, as no request of a server
    does, and those that were to draft are void.

    Args:
        engine: loaded; not used for anything else meanwhile.
        specs: the arms.
        build_drafter: called once for each kind of drafter but none.
        clock: times all of them.

    Raises:
        ConfigError: the backend has not the row shape that an arm asks for.
        LeewayError: a drafter cannot be had, or a law cannot work with it.
    """
    reader = Reader(engine.parts.backend)
    parts = timed_parts(replace(engine.parts, backend=cast(Backend, reader)), clock)
    is_drafting = may_draft(engine.parts.self_check)
    drafters: dict[str, Drafter] = {"none": NoDrafter()}
    arms = []
    for spec in specs:
        set_row_shape(engine, _row_shape_in_use(engine, spec))
        if spec.drafter not in drafters:
            made = build_drafter(spec.drafter) if is_drafting else NoDrafter()
            drafters[spec.drafter] = timed_drafter(made, clock)
        config = replace(
            engine.config,
            acceptance=spec.acceptance,
            drafter=cast(DrafterName, spec.drafter),
            num_speculative_tokens=spec.num_speculative_tokens,
            draft_length=spec.draft_length,
            draft_temperature=spec.draft_temperature,
        )
        drafter = drafters[spec.drafter]
        with naming_arm(spec.name):
            own = Engine(replace(parts, drafter=drafter), config)
        named = replace(spec, drafter=drafter.name) if is_drafting else spec  # what auto came to be
        arms.append(
            ReadyArm(named, own, build_law(spec.acceptance), clock, reader, itertools.count())
        )
    return arms


def _row_shape_in_use(engine: Engine, spec: ArmSpec) -> str:
    return row_shape_in_use(engine.parts.self_check, spec.row_shape)


def set_row_shape(engine: Engine, row_shape: str) -> None:
    """Give the backend this row shape; one that knows no row shapes is left alone.

    Raises:
        ConfigError: it has another one that cannot be changed.
    """
    backend = engine.parts.backend
    change: Callable[[str], None] | None = getattr(backend, "set_row_shape", None)
    if change is not None:
        change(row_shape)
        return
    fixed = backend.describe().get("row_shape", row_shape)
    if fixed != row_shape:
        raise ConfigError(
            f"this backend has the row shape {fixed!r} for good and an arm asks for "
            f"{row_shape!r}; write /{fixed} behind it"
        )


def _is_greedy_by_design(law: Law, receipt: Receipt) -> bool:
    is_lossy = law.info.guarantee is Guarantee.NONE
    is_idle = is_lossy and not law.reads_raw_rows and receipt.temperature == 0
    return is_idle and receipt.law == "greedy_match"


def _show(law: str, options: Mapping[str, Any]) -> str:
    return f"{law}({', '.join(f'{key}={value}' for key, value in options.items())})"
