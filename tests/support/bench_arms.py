"""Arms over tables whose parts take known times on a clock that moves only when told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leeway.backends.tabular import TabularBackend, random_table
from leeway.bench.arm_spec import parse_arms
from leeway.bench.interleaved import Plan
from leeway.bench.part_clock import PartClock
from leeway.bench.ready_arm import ReadyArm, ready_arms
from leeway.bench.workload import Prompt
from leeway.core.config import EngineConfig
from leeway.core.types import SamplingParams
from leeway.drafters.base import Drafter
from leeway.drafters.draft_model import ModelDrafter
from leeway.drafters.ngram import NGramDrafter
from tests.support.tabular_engine import make_engine

VOCAB = 5
TABLE = random_table(VOCAB, 1, seed=3, concentration=2.0)
DRAFT_TABLE = random_table(VOCAB, 1, seed=4, concentration=2.0)
TARGET_S, DRAFT_S, SAMPLING_S, LAW_S = 8.0, 2.0, 0.5, 0.25
PROMPTS = (Prompt("one", (0, 1, 2)), Prompt("two", (3, 3, 1, 0)))


class FakeClock:
    """Seconds that pass only by `now += ...`."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SlowTable(TabularBackend):
    """A table whose forwards take a known time."""

    clock: FakeClock
    seconds: float

    def forward(self, inputs):
        self.clock.now += self.seconds
        return TabularBackend.forward(self, inputs)


class SlowDrafter(ModelDrafter):
    """A draft model that takes a known time for each draft beside its forwards."""

    clock: FakeClock

    def propose(self, asks):
        self.clock.now += SAMPLING_S
        return super().propose(asks)


def slow_table(table, clock: FakeClock, seconds: float) -> SlowTable:
    made = SlowTable(table, 1, context_len=64, capacity_tokens=256)
    made.clock, made.seconds = clock, seconds
    return made


def make_arms(texts: Sequence[str], clock: FakeClock | None = None) -> list[ReadyArm]:
    """Return arms over one table; `@draft_model` drafts from another one."""
    clock = clock or FakeClock()
    engine = make_engine(TABLE)
    judge = engine.parts.judge

    def slow_judge(sequence, draft, logits):
        clock.now += LAW_S
        return judge(sequence, draft, logits)

    backend = slow_table(TABLE, clock, TARGET_S)
    engine.parts = replace(engine.parts, backend=backend, judge=slow_judge)

    def build(name: str) -> Drafter:
        if name == "ngram":
            return NGramDrafter()
        drafter = SlowDrafter(slow_table(DRAFT_TABLE, clock, DRAFT_S), VOCAB)
        drafter.clock = clock
        return drafter

    specs = parse_arms(texts, EngineConfig(drafter="draft_model"))
    return ready_arms(engine, specs, build, PartClock(clock))


def make_plan(
    num_seeds: int = 2, num_rounds: int = 1, prompts: Sequence[Prompt] = PROMPTS, **sampling: object
) -> Plan:
    """Return a plan of short answers."""
    given = {"max_tokens": 12, "ignore_eos": True} | sampling
    return Plan(prompts, SamplingParams(**given), num_seeds, num_rounds)
