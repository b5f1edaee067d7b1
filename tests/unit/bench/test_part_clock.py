"""Parts of a step: each counted for itself, together the whole step."""

import pytest
from tests.support.bench_arms import (
    DRAFT_S,
    LAW_S,
    SAMPLING_S,
    TABLE,
    TARGET_S,
    VOCAB,
    FakeClock,
    make_arms,
)
from tests.support.tabular_engine import ask, make_engine, run_all

from leeway.backends.tabular import TabularBackend
from leeway.backends.tabular_head import TabularHead
from leeway.bench.part_clock import PARTS, PartClock, timed_drafter
from leeway.core.types import SamplingParams
from leeway.drafters.mtp_ngram import MTPNGramDrafter


def test_a_part_within_another_counts_for_itself_only():
    now = FakeClock()
    clock = PartClock(now)

    def forward():
        now.now += 5

    timed_forward = clock.timed("draft", forward)

    def propose():
        now.now += 1
        timed_forward()
        now.now += 2

    clock.start()
    now.now += 10
    clock.timed("sampling", propose)()
    now.now += 20
    assert clock.read() == {"target": 0, "draft": 5, "sampling": 3, "law": 0, "rest": 30}
    clock.start()
    now.now += 1
    assert clock.read() == {"target": 0, "draft": 0, "sampling": 0, "law": 0, "rest": 1}


def test_a_part_that_fails_is_left():
    now = FakeClock()
    clock = PartClock(now)

    def fail():
        now.now += 1
        raise ValueError

    clock.start()
    with pytest.raises(ValueError):
        clock.timed("law", fail)()
    now.now += 2
    assert clock.read() == {"target": 0, "draft": 0, "sampling": 0, "law": 1, "rest": 2}


def test_every_part_of_an_engines_step_is_where_it_belongs():
    [plain, draft] = make_arms(["plain", "rejection@draft_model:2"])
    sampling = SamplingParams(max_tokens=8, seed=1, ignore_eos=True)
    run = plain.run((0, 1, 2), sampling)
    assert run.ttft_s == TARGET_S + LAW_S and len(run.steps) == 7
    for step in run.steps:
        assert step == {"target": TARGET_S, "draft": 0, "sampling": 0, "law": LAW_S, "rest": 0}
    run = draft.run((0, 1, 2), sampling)
    assert run.ttft_s == TARGET_S + LAW_S
    drafted = [num_drafted for num_drafted, _ in run.receipt.per_step[1:]]
    assert max(drafted) == 2
    for step, num_drafted in zip(run.steps, drafted, strict=True):
        assert set(step) == set(PARTS)
        assert step["target"] == TARGET_S and step["law"] == LAW_S and step["rest"] == 0
        assert step["draft"] == DRAFT_S * num_drafted
        assert step["sampling"] == (SAMPLING_S if num_drafted else 0)


def test_a_heads_forwards_are_told_from_the_lookup_beside_it(monkeypatch):
    now = FakeClock()
    original = TabularHead.forward

    def forward(self, inputs):
        now.now += DRAFT_S
        return original(self, inputs)

    monkeypatch.setattr(TabularHead, "forward", forward)
    head = TabularHead(TabularBackend(TABLE, 1), [TABLE], 1)
    clock = PartClock(now)
    drafter = timed_drafter(MTPNGramDrafter(head, VOCAB, ngram_cost=0.0, head_cost=0.3), clock)
    request = ask((0, 1, 2, 0, 1), max_tokens=30, temperature=0.0)
    deltas = run_all(make_engine(TABLE, drafter=drafter), request)
    num_drafted = deltas["a"][-1].receipt.tally.num_draft_tokens
    assert 0 < clock.read()["draft"] < DRAFT_S * num_drafted  # an n-gram's tokens take none


def test_engines_that_are_not_wrapped_stay_as_they_are():
    [arm] = make_arms(["rejection@ngram:2"])
    assert type(arm.engine.parts.backend).__name__ == "_Timed"
    assert arm.engine.parts.backend.vocab_size == 5
    assert arm.engine.parts.drafter.name == "ngram"
    assert not arm.engine.parts.drafter.gives_rows
