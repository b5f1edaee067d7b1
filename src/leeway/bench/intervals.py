"""Intervals for totals: what a mean or ratio of totals would be with other prompts and seeds.

In: totals of each cluster (a part of the measurements that may be taken as independent of the
others). Out: the statistic over all clusters with a 95 % interval by the delete-one jackknife over
clusters and Student's t. Knows nothing of arms or times.

Source: delete-one-group jackknife as in J. Shao and D. Tu, The Jackknife and Bootstrap, 1995,
chapter 1; ratios on the log scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

CONFIDENCE = 0.95
Cluster = TypeVar("Cluster")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic with its interval over `num_clusters` clusters.

    `low` and `high` are None where fewer than two clusters leave no interval.
    """

    value: float
    low: float | None
    high: float | None
    num_clusters: int


def estimate(
    clusters: Sequence[Cluster],
    statistic: Callable[[Sequence[Cluster]], float | None],
    *,
    is_ratio: bool = False,
) -> Estimate | None:
    """Return the statistic of all clusters; None where it does not exist.

    Args:
        clusters: at least one.
        statistic: computed from some of the clusters, such as a ratio of their totals.
        is_ratio: the interval is symmetric on the log scale; the statistic must be above 0.
    """
    value = statistic(clusters)
    if value is None:
        return None
    num = len(clusters)
    if num < 2:
        return Estimate(value, None, None, num)
    without = [statistic([*clusters[:index], *clusters[index + 1 :]]) for index in range(num)]
    known = [one for one in without if one is not None]
    if len(known) < num or (is_ratio and min(value, *known) <= 0):
        return Estimate(value, None, None, num)
    scaled = [math.log(one) for one in known] if is_ratio else known
    mean = math.fsum(scaled) / num
    variance = (num - 1) / num * math.fsum([(one - mean) ** 2 for one in scaled])
    half = t_quantile(num - 1) * math.sqrt(variance)
    if is_ratio:
        return Estimate(value, value * math.exp(-half), value * math.exp(half), num)
    return Estimate(value, value - half, value + half, num)


def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t.

    Args:
        degrees: of freedom, 1 or more.
        confidence: probability of [-quantile, quantile].
    """
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """Return P(|T| <= t), by its finite series in the angle atan(t / sqrt(degrees)).

    Source: Abramowitz and Stegun, 1964, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = degrees % 2 == 1
    term = cosine if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(3 if is_odd else 2, degrees - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    if is_odd:
        return 2 / math.pi * (angle + sine * total)
    return sine * total
