"""Rates of right answers with their intervals, where one task may have been asked several times.

In: right or wrong, grouped by task. Out: effective sizes and intervals. Knows neither tasks nor
arms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from leeway.quality.distributions import normal_quantile

CONFIDENCE = 0.95


def wilson_interval(rate: float, num: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of a rate; holds its level near 0 and 1 and with few answers.

    Args:
        rate: successes / answers.
        num: answers, above 0; need not be whole where answers are worth less than one each.
        confidence: two-sided.

    Source: E. B. Wilson 1927, J. Am. Stat. Assoc. 22, 209.
    """
    assert 0 <= rate <= 1 and num > 0
    z = normal_quantile((1 + confidence) / 2)
    shrink = 1 + z * z / num
    centre = (rate + z * z / (2 * num)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / num + z * z / (4 * num * num)) / shrink
    return (
        0.0 if rate == 0 else max(0.0, centre - half),
        1.0 if rate == 1 else min(1.0, centre + half),
    )


def design_effect(groups: Sequence[Sequence[float]]) -> float:
    """Return how many times wider than between independent values a mean's variance is; 1 or more.

    The variance between groups (a task with all its samples) over that of single values. Where
    all values are alike it cannot be seen; samples of one task then count as one, which is the
    cautious end.

    Args:
        groups: at least one value in each.

    Source: L. Kish, Survey Sampling, 1965, chapter 5.
    """
    values = [value for group in groups for value in group]
    num, num_groups = len(values), len(groups)
    if num == num_groups:
        return 1.0
    mean = math.fsum(values) / num
    alone = math.fsum((value - mean) ** 2 for value in values) * num / max(1, num - 1)
    if alone == 0 or num_groups < 2:
        return num / num_groups
    sums = (math.fsum(value - mean for value in group) for group in groups)
    between = math.fsum(one * one for one in sums) * num_groups / (num_groups - 1)
    return max(1.0, between / alone)
