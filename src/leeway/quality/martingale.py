"""Two tests of whether a text was drawn from the target, from the target's own rows.

In: scores of answers (`teacher_forcing`). Out: statistics with p values and intervals. Knows
neither the engine nor the law that is on trial.

**Martingale.** With p_t the processed target row behind the text so far and x_t the token that was
emitted, D_t = log p_t(x_t) + H(p_t). If x_t is drawn from p_t, D_t has mean 0 and variance
Var_t = sum of p log^2 p - H^2 given all that came before, whatever the prompt. So the sum of D over
all emitted tokens is a martingale, and z = sum D / sqrt(sum Var) is close to standard normal.
Two-sided: most lossy laws make the text likelier, so a sum above 0 is as telling as one below.

Where a text ends does not bias the sum. Whether there is a token t is known before it is drawn: it
hangs on tokens up to t - 1 (an end token or a stop string was among them, or max_tokens is
reached). The sum up to such a stopping time has mean 0 still, because each term it takes in has
mean 0 given that it is taken in; so has a sum over as many answers as it takes to reach a number
of tokens. What *would* bias it is a choice that looks at the token itself: leaving out the end
token, or answers that were cut. All emitted tokens count.

**PIT.** u_t, uniform between the target's CDF just below x_t and at x_t, is uniform on [0, 1)
under the same hypothesis. A chi-square over equal bins sees shifts that leave log p alone.

A token without any probability in its row (a token the target cannot give, or one at the edge of a
truncation that other kernels round to the other side) has no log p. It is left out of both sums and
counted. That leaves mean 0 for those at an edge: given that the token lies inside the row, it is
drawn from the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import RequestError
from leeway.core.types import SamplingParams
from leeway.quality.distributions import chi_square_survival, normal_quantile, two_sided_p
from leeway.quality.teacher_forcing import TokenScores

SIGNIFICANCE = 0.01
"""Level at which the martingale test rejects."""

POWER = 0.8
NUM_BINS = 50
MIN_EXPECTED = 5.0
"""Tokens that a bin must expect for a chi-square to mean anything."""

MIN_CLUSTERS = 10
"""Answers that a variance between answers takes."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """The same bias with its variance taken between answers instead of from the rows.

    Needs no model of the tokens inside an answer, so it holds under a lossy law too.
    """

    z: float
    p_value: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class MartingaleTest:
    """Result of the martingale test.

    Attributes:
        num_answers: answers that had a tested token.
        num_tokens: tokens tested.
        num_outside: tokens left out, without probability in their row.
        z, p_value: of the sum; two-sided.
        bias: mean of log p + H, nats a token; above 0 the text is likelier than the target's own.
        interval: 95 % around the bias, variance from the rows.
        detectable_bias: smallest bias that this many tokens find with power 0.8 at 1 %.
        clustered: None with fewer than 10 answers.
    """

    num_answers: int
    num_tokens: int
    num_outside: int
    z: float
    p_value: float
    bias: float
    interval: tuple[float, float]
    detectable_bias: float
    clustered: Clustered | None

    @property
    def rejects(self) -> bool:
        """Whether the text is not the target's, at the level of 1 %."""
        return self.p_value < SIGNIFICANCE


@dataclass(frozen=True, slots=True)
class UniformityTest:
    """Result of the chi-square test of PIT values over equal bins."""

    num_tokens: int
    num_bins: int
    statistic: float
    p_value: float


def check_testable(sampling: SamplingParams) -> None:
    """Raise RequestError for a sampler that leaves nothing to test."""
    if sampling.temperature == 0:
        raise RequestError(
            "temperature 0 leaves no chance that a test could look at; give a temperature above 0 "
            "(greedy answers are compared token by token instead)",
            param="temperature",
        )


def martingale_test(answers: Sequence[TokenScores]) -> MartingaleTest:
    """Return the test of all answers together.

    Raises:
        RequestError: no row leaves anything to chance.
    """
    tested = [(one, one.is_inside) for one in answers]
    sums = np.array([float(_differences(one)[inside].sum()) for one, inside in tested])
    counts = np.array([int(inside.sum()) for _, inside in tested])
    variance = sum(float(one.variance[inside].sum()) for one, inside in tested)
    num_tokens = int(counts.sum())
    if variance <= 0:
        raise RequestError(
            f"the target's rows leave nothing to chance at the {num_tokens} tokens given; give "
            "more tokens, a higher temperature or a milder truncation"
        )
    deviation = math.sqrt(variance)
    z, bias = float(sums.sum()) / deviation, float(sums.sum()) / num_tokens
    wide = normal_quantile(0.975) * deviation / num_tokens
    needed = normal_quantile(1 - SIGNIFICANCE / 2) + normal_quantile(POWER)
    return MartingaleTest(
        num_answers=int((counts > 0).sum()),
        num_tokens=num_tokens,
        num_outside=sum(len(one.prob) for one in answers) - num_tokens,
        z=z,
        p_value=two_sided_p(z),
        bias=bias,
        interval=(bias - wide, bias + wide),
        detectable_bias=needed * deviation / num_tokens,
        clustered=_clustered(sums[counts > 0], counts[counts > 0]),
    )


def uniformity_test(
    answers: Sequence[TokenScores], coin: Callable[[int, int], float], num_bins: int = NUM_BINS
) -> UniformityTest | None:
    """Return the chi-square test of all PIT values; None with too few tokens for its bins.

    Args:
        answers: scores.
        coin: uniform on [0, 1) from (answer, token), independent of whatever drew the tokens.
        num_bins: equal bins of [0, 1).
    """
    values = [
        one.cdf_below[index] + coin(number, int(index)) * one.prob[index]
        for number, one in enumerate(answers)
        for index in np.flatnonzero(one.is_inside)
    ]
    expected = len(values) / num_bins
    if expected < MIN_EXPECTED:
        return None
    bins = np.minimum((np.array(values) * num_bins).astype(np.int64), num_bins - 1)
    observed = np.bincount(bins, minlength=num_bins)
    statistic = float(np.sum((observed - expected) ** 2) / expected)
    p_value = chi_square_survival(statistic, num_bins - 1)
    return UniformityTest(len(values), num_bins, statistic, p_value)


def _differences(scores: TokenScores) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.log(scores.prob) + scores.entropy


def _clustered(sums: NDArray[np.float64], counts: NDArray[np.int64]) -> Clustered | None:
    """Return the test with the variance of whole answers.

    z has its variance about 0, as the hypothesis says; the interval about the mean (the linearised
    variance of a ratio).
    """
    num = len(sums)
    if num < MIN_CLUSTERS:
        return None
    total = float(sums.sum())
    z = total / math.sqrt(float(sums @ sums))
    bias = total / float(counts.sum())
    rest = sums - bias * counts
    deviation = math.sqrt(float(rest @ rest) * num / (num - 1)) / float(counts.sum())
    wide = normal_quantile(0.975) * deviation
    return Clustered(z, two_sided_p(z), (bias - wide, bias + wide))
