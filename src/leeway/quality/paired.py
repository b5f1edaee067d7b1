"""Two arms on the same tasks and seeds: what differs, whether by chance, and what could be seen.

In: for each task, whether the first and the second arm were right, sample by sample. Out: counts,
tests, intervals. Knows neither arms nor scores.

**McNemar.** Only pairs at which the arms differ tell them apart. If both arms are right equally
often at every task, each such pair is a fair coin, whatever the task and also where samples share a
task; the exact binomial tail is the p value.

**Bootstrap.** What the loss would be with other tasks: tasks are drawn anew with all their samples,
since samples of one task are alike.

**Non-inferiority.** Whether a loss as large as a stated margin is ruled out: the score test with
the likeliest rates under a loss of exactly the margin, its variance widened by the design effect of
samples that share a task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leeway.quality.distributions import upper_tail
from leeway.quality.power import USUAL, Levels, detectable_loss
from leeway.quality.rates import CONFIDENCE, design_effect

NUM_RESAMPLES = 10_000
_CHUNK = 500
Outcome = tuple[bool, bool]
"""Whether the first and the second arm were right."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second arm beside the first.

    Attributes:
        only_first, only_second, both, neither: pairs by who was right.
        loss: rate of the first less that of the second; above 0 the second is worse.
        interval: 95 % of the loss, bootstrap over tasks; None where nothing varies between tasks.
        p_value: exact McNemar, two-sided.
        design_effect: how much wider the loss is spread than with independent pairs.
        detectable_loss: smallest loss that so many pairs, as discordant as these, find with a
            power of 0.8 at 5 %; None where none is.
        margin, margin_p: p value against a loss of at least the margin, one-sided.
    """

    num_tasks: int
    num_pairs: int
    only_first: int
    only_second: int
    both: int
    neither: int
    loss: float
    interval: tuple[float, float] | None
    p_value: float
    design_effect: float
    detectable_loss: float | None
    margin: float
    margin_p: float

    @property
    def discordance(self) -> float:
        """Share of pairs at which one arm was right and the other wrong."""
        return (self.only_first + self.only_second) / self.num_pairs

    @property
    def is_different(self) -> bool:
        """Whether McNemar's test rejects at 5 %."""
        return self.p_value < USUAL.alpha

    @property
    def is_within_margin(self) -> bool:
        """Whether a loss as large as the margin is ruled out at 5 %."""
        return self.margin_p < USUAL.alpha


def compare(
    tasks: Mapping[str, Sequence[Outcome]],
    *,
    margin: float,
    seed: int = 0,
    levels: Levels = USUAL,
) -> Comparison:
    """Return the comparison.

    Args:
        tasks: at least one outcome in all.
        margin: loss in (0, 1) that would matter.
        seed: of the bootstrap.
        levels: of the smallest detectable loss.
    """
    groups = [outcomes for outcomes in tasks.values() if outcomes]
    pairs = [pair for group in groups for pair in group]
    assert pairs
    only_first = sum(first and not second for first, second in pairs)
    only_second = sum(second and not first for first, second in pairs)
    both = sum(first and second for first, second in pairs)
    num = len(pairs)
    lost = [[float(first) - float(second) for first, second in group] for group in groups]
    effect = design_effect(lost)
    return Comparison(
        num_tasks=len(groups),
        num_pairs=num,
        only_first=only_first,
        only_second=only_second,
        both=both,
        neither=num - both - only_first - only_second,
        loss=(only_first - only_second) / num,
        interval=bootstrap_interval(lost, seed=seed),
        p_value=mcnemar(only_first, only_second),
        design_effect=effect,
        detectable_loss=detectable_loss(num / effect, (only_first + only_second) / num, levels),
        margin=margin,
        margin_p=margin_test(only_first, only_second, num, margin, effect=effect),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p value of so many differing pairs either way.

    Source: Q. McNemar 1947, Psychometrika 12, 153; the exact tail instead of chi-square.
    """
    num, least = only_first + only_second, min(only_first, only_second)
    if num == 0:
        return 1.0
    tail = sum(math.comb(num, k) for k in range(least + 1))
    return min(1.0, tail / (1 << (num - 1)))  # whole numbers: no overflow with many pairs


def bootstrap_interval(
    groups: Sequence[Sequence[float]],
    *,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
    confidence: float = CONFIDENCE,
) -> tuple[float, float] | None:
    """Return the percentile interval of the mean value, whole groups drawn with replacement.

    None where all groups are alike or there is but one: drawing them anew shows no spread then,
    which is no proof that there is none.
    """
    num = len(groups)
    if len({math.fsum(group) / len(group) for group in groups}) < 2:
        return None
    sums = np.array([math.fsum(group) for group in groups])
    sizes = np.array([len(group) for group in groups])
    generator = np.random.default_rng(seed)
    means = np.empty(num_resamples)
    for start in range(0, num_resamples, _CHUNK):
        stop = min(start + _CHUNK, num_resamples)
        drawn = generator.integers(0, num, (stop - start, num))
        means[start:stop] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


def margin_test(
    only_first: int, only_second: int, num: int, margin: float, *, effect: float = 1.0
) -> float:
    """Return the one-sided p value against a loss of at least the margin.

    Args:
        only_first: pairs that only the first gets right.
        only_second: pairs that only the second gets right.
        num: all pairs.
        margin: in (0, 1).
        effect: design effect by which the variance grows.

    Source: T. Tango 1998, Stat. Med. 17, 891 (restricted likelihood, score statistic).
    Deviates: the variance is multiplied by the design effect.
    """
    gained = likeliest_gain(only_first, only_second, num, margin)
    variance = num * (2 * gained + margin - margin * margin) * effect
    z = (num * margin - (only_first - only_second)) / math.sqrt(variance)
    return upper_tail(z)


def likeliest_gain(only_first: int, only_second: int, num: int, loss: float) -> float:
    """Return the likeliest rate of pairs that only the second gets right, if the loss is known."""
    b = only_first * (1 + loss) + only_second * (1 - loss) - 2 * num * loss
    c = only_second * loss * (1 - loss)
    return max(0.0, (b + math.sqrt(b * b + 8 * num * c)) / (4 * num))
