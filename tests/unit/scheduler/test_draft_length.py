"""The length of a draft is a function of past counts and a fixed cost; the numbers are by hand."""

import itertools

import pytest

from leeway.core.config import EngineConfig
from leeway.core.draft_value import MEMORY, PRIOR_RATE, PRIOR_WEIGHT
from leeway.core.types import Request, SamplingParams
from leeway.scheduler.budget import draft_budget
from leeway.scheduler.draft_length import (
    PROBE_EVERY,
    USUAL_COSTS,
    DraftCounts,
    DraftLength,
    best_length,
)
from leeway.scheduler.sequence import Sequence


def counted(*steps):
    counts = DraftCounts()
    for num_drafted, num_accepted in steps:
        counts.add(num_drafted, num_accepted)
    return counts


def fold(rate, decided, accepted):
    return (accepted + PRIOR_WEIGHT * rate) / (decided + PRIOR_WEIGHT)


def test_nothing_counted_is_the_prior_at_every_depth():
    assert DraftCounts().rates(3) == pytest.approx([PRIOR_RATE] * 3)


def test_counts_by_depth_fade_and_deeper_depths_lean_on_shallower_ones():
    counts = counted((3, 1), (2, 2))
    assert counts.decided == pytest.approx([MEMORY + 1, MEMORY + 1, 0])
    assert counts.accepted == pytest.approx([MEMORY + 1, 1, 0])
    first = fold(PRIOR_RATE, MEMORY + 1, MEMORY + 1)
    second = fold(first, MEMORY + 1, 1)
    assert counts.rates(5) == pytest.approx([first, second, second, second, second])


def test_a_step_without_drafts_changes_no_rate():
    counts = counted((2, 1))
    before = counts.rates(2)
    for _ in range(3):
        counts.add(0, 0)
    assert counts.rates(2) == before and counts.num_undrafted == 3
    counts.add(1, 0)
    assert counts.num_undrafted == 0


@pytest.mark.parametrize("most", range(6))
@pytest.mark.parametrize("cost", [0.0, 0.03, 0.11, 0.4, 2.0])
@pytest.mark.parametrize("steps", [[], [(3, 0)] * 5, [(3, 1)] * 20, [(5, 5)] * 20, [(2, 0)] * 40])
def test_the_best_length_is_the_best_of_all_lengths(steps, cost, most):
    counts = counted(*steps)
    rates = counts.rates(most)
    reached = list(itertools.accumulate(rates, lambda a, b: a * b, initial=1.0))
    values = [sum(reached[: k + 1]) / (1 + k * cost) for k in range(most + 1)]
    assert best_length(counts, most, cost) == values.index(max(values))


def test_more_acceptance_and_cheaper_drafts_mean_longer_ones():
    poor, fair, good = (counted(*[(5, kept)] * 30) for kept in (0, 2, 5))
    lengths = [best_length(counts, 5, 0.11) for counts in (poor, fair, good)]
    assert lengths == [0, 2, 5]
    assert [best_length(fair, 5, cost) for cost in (0.0, 0.11, 0.4, 3.0)] == [5, 2, 2, 0]


def test_a_request_that_gave_up_probes_and_comes_back():
    policy = DraftLength(is_adaptive=True, draft_cost=0.11)
    counts = counted(*[(3, 0)] * 30)
    lengths = []
    for _ in range(2 * PROBE_EVERY):
        lengths.append(policy.choose(counts, 3))
        counts.add(lengths[-1], 0)
    assert [index for index, length in enumerate(lengths) if length] == [
        PROBE_EVERY - 1,
        2 * PROBE_EVERY - 1,
    ]
    assert set(lengths) == {0, 1}
    num_steps = 0
    while (length := policy.choose(counts, 3)) <= 1:
        counts.add(length, length)
        num_steps += 1
    assert PROBE_EVERY <= num_steps <= 4 * PROBE_EVERY


def test_a_probe_respects_the_most():
    counts = counted(*[(3, 0)] * 30, *[(0, 0)] * PROBE_EVERY)
    assert [best_length(counts, most, 0.11) for most in (0, 1, 3)] == [0, 1, 1]


def test_fixed_is_always_the_most():
    counts = counted(*[(3, 0)] * 30)
    assert [DraftLength().choose(counts, most) for most in (0, 3)] == [0, 3]


@pytest.mark.parametrize(("drafter", "cost"), USUAL_COSTS.items())
def test_the_usual_cost_follows_the_drafter(drafter, cost):
    config = EngineConfig(draft_length="adaptive")
    assert DraftLength.of(config, drafter) == DraftLength(True, cost)


def test_a_given_cost_counts_even_at_zero_and_an_unknown_drafter_is_taken_to_be_dear():
    given = EngineConfig(draft_length="adaptive", draft_cost=0.0)
    assert DraftLength.of(given, "draft_model") == DraftLength(True, 0.0)
    unknown = DraftLength.of(EngineConfig(), "other")
    assert unknown == DraftLength(False, max(USUAL_COSTS.values()))


def test_the_budget_never_exceeds_what_can_matter():
    request = Request("a", (1, 1, 1), SamplingParams(max_tokens=4))
    sequence = Sequence(
        request=request,
        law=None,
        requested_law="rejection",
        num_speculative_tokens=5,
        seed=0,
        coins=None,
        detokenizer=None,
        stop_strings=None,
        draft_length=DraftLength(is_adaptive=True, draft_cost=0.0),
    )
    assert draft_budget(sequence, context_len=64) == 3
    assert draft_budget(sequence, context_len=5) == 1
    sequence.draft_length = DraftLength(is_adaptive=True, draft_cost=9.0)
    assert draft_budget(sequence, context_len=64) == 0
