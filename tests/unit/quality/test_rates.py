"""Intervals of rates, and how much samples of one task are worth."""

import math

import pytest
from scipy import stats

from leeway.quality.rates import design_effect, wilson_interval


@pytest.mark.parametrize(("right", "num"), [(0, 10), (3, 10), (101, 164), (164, 164)])
def test_wilson_is_the_score_interval(right, num):
    low, high = wilson_interval(right / num, num)
    expected = stats.binomtest(right, num).proportion_ci(0.95, method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_fewer_effective_answers_widen_it():
    narrow, wide = wilson_interval(0.4, 300), wilson_interval(0.4, 100)
    assert wide[0] < narrow[0] < 0.4 < narrow[1] < wide[1]


def test_one_sample_a_task_has_no_effect():
    assert design_effect([[1.0], [0.0], [1.0]]) == 1.0


def test_samples_that_always_agree_count_as_one():
    groups = [[1.0] * 3] * 5 + [[0.0] * 3] * 5
    # between: 10/9 * 10 * (3/2)**2 = 25; alone: 30/29 * 30/4
    assert design_effect(groups) == pytest.approx(25 / (30 / 29 * 7.5))
    assert design_effect([[1.0] * 3] * 4) == 3.0  # nothing to see: the cautious end


def test_samples_that_never_agree_are_not_worth_more_than_one_each():
    assert design_effect([[1.0, 0.0]] * 6) == 1.0


def test_by_hand():
    groups = [[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]
    # mean 1/2; sums of residuals 1, 0, -1: between = 3/2 * 2 = 3; alone = 6/5 * 6/4
    assert design_effect(groups) == pytest.approx(3 / (6 / 5 * 1.5))
    assert math.isclose(design_effect(groups), 5 / 3)
