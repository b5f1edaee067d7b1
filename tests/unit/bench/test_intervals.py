"""Intervals: hand-computed ones, quantiles, and how often they cover the truth."""

import math

import numpy as np
import pytest
from scipy import stats

from leeway.bench.intervals import Estimate, estimate, t_quantile


def mean(values):
    return sum(values) / len(values)


def ratio_of_totals(pairs):
    return sum(a for a, _ in pairs) / sum(b for _, b in pairs)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 11, 30, 101])
def test_quantiles_of_students_t(degrees):
    assert t_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), abs=1e-9)
    assert t_quantile(degrees, 0.8) == pytest.approx(stats.t.ppf(0.9, degrees), abs=1e-9)


def test_of_a_mean_it_is_the_usual_t_interval():
    values = [3.0, 5.0, 4.0, 8.0]
    found = estimate(values, mean)
    half = stats.t.ppf(0.975, 3) * np.std(values, ddof=1) / 2
    assert found.value == 5.0 and found.num_clusters == 4
    assert found.low == pytest.approx(5.0 - half) and found.high == pytest.approx(5.0 + half)


def test_a_ratio_by_hand():
    """Leaving out either cluster leaves 2 or 1/2, so the logarithms lie log 4 apart."""
    found = estimate([(1.0, 2.0), (2.0, 1.0)], ratio_of_totals, is_ratio=True)
    half = t_quantile(1) * math.sqrt(1 / 2 * 2 * math.log(2) ** 2)
    assert found.value == 1.0
    assert math.log(found.low) == pytest.approx(-half)
    assert math.log(found.high) == pytest.approx(half)


@pytest.mark.parametrize("is_ratio", [True, False])
def test_there_is_none_of_one_cluster_or_of_nothing(is_ratio):
    assert estimate([2.0], mean, is_ratio=is_ratio) == Estimate(2.0, None, None, 1)
    assert estimate([2.0, 3.0], lambda _: None, is_ratio=is_ratio) is None
    half_known = estimate(
        [(1.0, 0.0), (0.0, 1.0)],
        lambda some: sum(a for a, _ in some) or None,
        is_ratio=is_ratio,
    )
    assert half_known == Estimate(1.0, None, None, 2)


def coverage(num_runs, clusters_of, interval):
    """Return how often the interval of one run holds the true ratio, which is 1.5."""
    generator = np.random.default_rng(20)
    hits = 0
    for _ in range(num_runs):
        low, high = interval(clusters_of(generator))
        hits += low <= 1.5 <= high
    return hits / num_runs


def repeated_rounds(generator, num_prompts=8, num_rounds=4):
    """Return (prompt, time of one arm, time of the other): rounds repeat a prompt's own ratio."""
    rows = []
    for prompt in range(num_prompts):
        length = generator.gamma(20)
        own = 1.5 * math.exp(generator.normal(0, 0.15) - 0.15**2 / 2)
        for _ in range(num_rounds):
            noise = np.exp(generator.normal(0, 0.02, 2))
            rows.append((prompt, own * length * noise[0], length * noise[1]))
    return rows


def clustered(rows):
    clusters = {}
    for prompt, a, b in rows:
        clusters.setdefault(prompt, []).append((a, b))
    found = estimate(
        list(clusters.values()),
        lambda some: ratio_of_totals([pair for cluster in some for pair in cluster]),
        is_ratio=True,
    )
    return found.low, found.high


def as_if_independent(rows):
    found = estimate([(a, b) for _, a, b in rows], ratio_of_totals, is_ratio=True)
    return found.low, found.high


def test_it_covers_the_truth_as_often_as_it_says():
    """1,500 runs of coverage 0.95 stray by more than 0.018 with a chance of some 0.1 %."""
    assert coverage(1500, repeated_rounds, clustered) == pytest.approx(0.95, abs=0.018)


def test_taking_rounds_for_independent_would_be_caught():
    assert coverage(300, repeated_rounds, as_if_independent) < 0.8
