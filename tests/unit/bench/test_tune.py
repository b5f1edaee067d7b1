"""Lengths are measured arm by arm on a clock that only forwards move, so every figure is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.support.tabular_engine import make_engine

from leeway.backends.tabular import TabularBackend, random_table
from leeway.bench.tune import (
    LengthArm,
    LengthResult,
    Tuning,
    fit_draft_cost,
    num_runs,
    paired_ratio,
    tune,
)
from leeway.core.errors import RequestError
from leeway.core.receipt import Tally
from leeway.core.types import SamplingParams
from leeway.drafters.draft_model import ModelDrafter
from leeway.engine.engine import Engine
from leeway.engine.self_check import SelfCheck
from leeway.llm import LLM
from leeway.scheduler.draft_length import DraftLength

TABLE, OTHER = (random_table(3, 1, seed=seed, concentration=0.3) for seed in (1, 2))
NEARLY_A_CYCLE = {
    (): np.full(3, 1 / 3),
    **{(token,): np.roll([0.05, 0.9, 0.05], token) for token in range(3)},
}
ROW_COST = 0.05
PROMPTS = ((0, 1), (2,))


class Clock:
    """Seconds that pass only where they are told to."""

    def __init__(self):
        self.seconds = 0.0

    def perf_counter(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("leeway.engine.engine.time", clock)
    return clock


class TimedBackend(TabularBackend):
    """A table whose forward takes `first_s`, and `row_s` more for each further row."""

    def forward(self, inputs):
        num_rows = sum(one.num_logit_rows for one in inputs)
        self.clock.seconds += self.first_s + self.row_s * max(0, num_rows - 1)
        return super().forward(inputs)


def timed(table, clock, first_s, row_s=0.0):
    backend = TimedBackend(table, 1)
    backend.clock, backend.first_s, backend.row_s = clock, first_s, row_s
    return backend


def make_llm(clock, *, table=TABLE, draft_table=TABLE, draft_s=0.1, drafter=None):
    drafter = drafter or ModelDrafter(timed(draft_table, clock, draft_s), 3)
    engine = make_engine(table, drafter=drafter, num_speculative_tokens=3)
    parts = replace(engine.parts, backend=timed(table, clock, 1.0, ROW_COST))
    return LLM.from_engine(Engine(parts, replace(engine.config, prefix_cache="off")))


def run(llm, **changes):
    sampling = SamplingParams(max_tokens=24, seed=77)
    options = {"max_depth": 3, "num_seeds": 3} | changes
    return tune(llm, PROMPTS, sampling, **options)


def test_a_cheap_good_drafter_wins_with_its_longest_draft(clock):
    llm = make_llm(clock)
    tuning = run(llm)
    names = [result.arm.name for result in tuning.results]
    assert names == ["plain", "depth 1", "depth 2", "depth 3", "adaptive"]
    plain = tuning.results[0]
    assert plain.speeds == pytest.approx([1.0] * 3) and plain.tally.num_draft_tokens == 0
    assert plain.ratio.value == pytest.approx(1.0) and not plain.is_faster
    assert tuning.draft_cost == pytest.approx(0.1 + ROW_COST, abs=1e-9)
    assert tuning.winner is tuning.results[3]
    for depth, result in enumerate(tuning.results[1:4], start=1):
        tally = result.tally
        assert max(drafted for drafted, _ in tally.steps_by_draft_and_accepted) == depth
        assert tally.num_output_tokens == len(PROMPTS) * 3 * 24
        steps = tally.num_verify_steps - len(PROMPTS) * 3
        seconds = steps + tally.num_draft_tokens * (0.1 + ROW_COST)
        assert tally.decode_s == pytest.approx(seconds)
        logs = [math.log(speed) for speed in result.speeds]
        assert result.ratio.value == pytest.approx(math.exp(sum(logs) / 3))
    values = [result.ratio.value for result in tuning.results[:4]]
    assert values == sorted(values)


def test_adaptive_runs_with_the_measured_cost_and_the_policy_is_put_back(clock, monkeypatch):
    chosen = []
    choose = DraftLength.choose
    monkeypatch.setattr(
        DraftLength,
        "choose",
        lambda self, counts, most: chosen.append(self) or choose(self, counts, most),
    )
    llm = make_llm(clock)
    before = llm.engine.draft_length = DraftLength(True, 0.7)
    tuning = run(llm)
    assert llm.engine.draft_length is before
    assert set(chosen) == {DraftLength(), DraftLength(True, tuning.draft_cost)}


def test_nothing_wins_where_drafts_cost_more_than_they_bring(clock):
    tuning = run(make_llm(clock, draft_table=OTHER, draft_s=1.5))
    assert tuning.winner is None
    assert all(result.ratio.value < 1 for result in tuning.results[1:4])
    assert tuning.draft_cost == pytest.approx(1.5 + ROW_COST, abs=1e-9)
    adaptive, fixed = tuning.results[4], tuning.results[1:4]
    assert adaptive.ratio.value > max(result.ratio.value for result in fixed)


def test_nothing_is_tuned_where_the_self_check_declined_blocks(clock):
    llm = make_llm(clock)
    llm.engine.parts = replace(llm.engine.parts, self_check=SelfCheck("block", 0.0, True))
    with pytest.raises(RequestError, match="the self-check at load declined blocks of drafts"):
        run(llm)
    assert clock.seconds == 0


def test_a_drafter_that_does_not_always_draft(clock):
    tuning = run(make_llm(clock, table=NEARLY_A_CYCLE, drafter="ngram"))
    drafted = [result.tally.num_draft_tokens for result in tuning.results]
    assert drafted[0] == 0 < drafted[1] < drafted[2] < drafted[3]
    assert tuning.draft_cost == pytest.approx(ROW_COST, abs=1e-9)
    assert tuning.winner is not None


def test_a_drafter_that_never_drafts_costs_nobody_knows_what(clock):
    llm = make_llm(clock, drafter="none")
    tuning = run(llm)
    assert tuning.winner is None and tuning.draft_cost is None
    assert all(result.ratio.value == pytest.approx(1.0) for result in tuning.results)


def test_the_same_seeds_give_the_same_figures_and_every_request_is_told(clock):
    told = []
    first = run(make_llm(clock), on_run=lambda: told.append(1))
    assert len(told) == num_runs(len(PROMPTS), 3, 3)
    second = run(make_llm(clock))
    for one, other in zip(first.results, second.results, strict=True):
        assert one.tally.steps_by_draft_and_accepted == other.tally.steps_by_draft_and_accepted
        assert one.speeds == pytest.approx(other.speeds)


def test_answers_too_short_to_be_timed_are_refused(clock):
    llm = make_llm(clock)
    with pytest.raises(RequestError, match="nothing to time"):
        tune(llm, PROMPTS, SamplingParams(max_tokens=1), max_depth=2, num_seeds=2)


def test_an_interval_is_paired_and_wide_enough_for_all_arms():
    plain, speeds = [10.0, 20.0, 40.0, 10.0], [12.0, 24.0, 48.0, 12.0]
    same = paired_ratio(speeds, plain, 6)
    assert (same.value, same.low, same.high) == pytest.approx((1.2, 1.2, 1.2))
    speeds[0] = 11.0
    alone, of_six = (paired_ratio(speeds, plain, num_arms) for num_arms in (1, 6))
    assert alone.value == of_six.value == pytest.approx((1.1 * 1.2**3) ** 0.25)
    half_widths = [math.log(one.high / one.low) / 2 for one in (alone, of_six)]
    # Student's t, 3 degrees: 3.182446 at 95 %, 5.841 (4 digits: tables) at 99 %, between for 5/6.
    deviation = math.log(1.2 / 1.1) / 2
    assert half_widths[0] == pytest.approx(3.182446 * deviation / 2, rel=1e-6)
    assert 3.182446 < half_widths[1] * 2 / deviation < 7.0
    assert half_widths[1] * 2 / deviation > 5.841


def tally(drafted, seconds):
    found = Tally(decode_s=seconds)
    for num_drafted in (0, *drafted):
        found.add_step(num_drafted, 0)
    return found


def test_the_cost_of_a_draft_token_by_hand():
    steady = [tally([1] * 10, 11.0), tally([3] * 10, 13.0)]
    assert fit_draft_cost([steady]) == pytest.approx(0.1)
    assert fit_draft_cost([steady[:1]]) is None
    assert fit_draft_cost([[tally([1] * 10, 11.0), tally([1] * 10, 13.0)]]) is None
    assert fit_draft_cost([[tally([1] * 10, 11.0), tally([3] * 10, 9.0)]]) == 0.0
    assert fit_draft_cost([[tally([2] * 10, 1.0), tally([3] * 10, 90.0)]]) is None
    assert fit_draft_cost([[tally([], 0.0), tally([3] * 10, 9.0)]]) is None


def test_one_busy_moment_moves_the_cost_little():
    rows = [[tally([k] * 10, 10.0 + k) for k in range(1, 6)] for _ in range(4)]
    rows[2][4] = tally([5] * 10, 80.0)
    assert fit_draft_cost(rows) == pytest.approx(0.1)


def test_noise_alone_is_no_winner():
    plain = LengthResult(LengthArm(0), [10.0] * 5)
    noisy = LengthResult(LengthArm(2), [11.0, 10.2, 10.9, 9.9, 10.6])
    clear = LengthResult(LengthArm(3), [10.5, 10.6, 10.5, 10.6, 10.5])
    for result in (plain, noisy, clear):
        result.ratio = paired_ratio(result.speeds, plain.speeds, 2)
    assert noisy.ratio.value > 1.04 and not noisy.is_faster
    assert Tuning((plain, noisy), None).winner is None
    assert Tuning((plain, noisy, clear), None).winner is clear
