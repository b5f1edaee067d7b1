"""Speeds by hand."""

import math

import pytest
from scipy import stats
from tests.support.quality_runs import failed, result

from leeway.quality.speeds import speeds_of


def timed(arm, task, tokens, seconds):
    return result(arm, task, output_tokens=tokens, decode_s=seconds)


def test_tokens_behind_the_first_over_their_seconds():
    results = [
        timed("exact", "t0", 11, 5.0),
        timed("exact", "t1", 21, 5.0),
        timed("soft", "t0", 11, 2.0),
        timed("soft", "t1", 31, 6.0),
        failed("soft", "t2"),
    ]
    found = speeds_of(results, ["exact", "soft"])
    assert found["exact"].tokens_per_s == 3.0 and found["soft"].tokens_per_s == 5.0
    ratio = found["soft"].ratio
    assert ratio.value == pytest.approx(5 / 3)
    moved = [10 / 40 - 2 / 8 - 10 / 30 + 5 / 10, 30 / 40 - 6 / 8 - 20 / 30 + 5 / 10]
    half = stats.t.ppf(0.975, 1) * math.sqrt(2 * sum(one**2 for one in moved))
    assert math.log(ratio.high / ratio.value) == pytest.approx(half)
    assert math.log(ratio.value / ratio.low) == pytest.approx(half)
    assert found["exact"].ratio.value == 1.0 and found["exact"].ratio.low is None


def test_without_times_there_is_no_speed():
    found = speeds_of([result(decode_s=0.0), timed("soft", "t0", 9, 1.0)], ["exact", "soft"])
    assert found["exact"].tokens_per_s is None and found["soft"].ratio is None


def test_one_task_has_no_interval():
    found = speeds_of([timed("a", "t", 5, 1.0), timed("b", "t", 9, 1.0)], ["a", "b"])
    assert found["b"].ratio.value == 2.0 and found["b"].ratio.low is None
