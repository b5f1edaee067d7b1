"""Tail probabilities that tests need: normal and chi-square. Knows no data."""

from __future__ import annotations

import math
from statistics import NormalDist

_MAX_TERMS = 10_000
_RELATIVE = 1e-15
_TINY = 1e-300


def two_sided_p(z: float) -> float:
    """Return the probability that a standard normal lies at least as far from 0 as z."""
    return math.erfc(abs(z) / math.sqrt(2.0))


def upper_tail(z: float) -> float:
    """Return the probability that a standard normal lies above z."""
    return math.erfc(z / math.sqrt(2.0)) / 2


def normal_quantile(probability: float) -> float:
    """Return the value below which a standard normal lies with this probability, in (0, 1)."""
    return NormalDist().inv_cdf(probability)


def chi_square_survival(statistic: float, num_degrees: int) -> float:
    """Return the probability that a chi-square of so many degrees of freedom is larger.

    The regularised upper incomplete gamma function Q(degrees / 2, statistic / 2): its lower
    series where that converges fast, else the upper continued fraction.

    Source: Abramowitz and Stegun 1964, 6.5.29 and 6.5.31; the fraction by Lentz's algorithm.
    """
    if statistic <= 0:
        return 1.0
    a, x = num_degrees / 2.0, statistic / 2.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        return max(0.0, 1.0 - scale * _lower_series(a, x))
    return scale * _upper_fraction(a, x)


def _lower_series(a: float, x: float) -> float:
    term = total = 1.0 / a
    for index in range(1, _MAX_TERMS):
        term *= x / (a + index)
        total += term
        if term < total * _RELATIVE:
            break
    return total


def _upper_fraction(a: float, x: float) -> float:
    b = x + 1.0 - a
    c, d = 1.0 / _TINY, 1.0 / b
    fraction = d
    for index in range(1, _MAX_TERMS):
        factor = index * (a - index)
        b += 2.0
        d = 1.0 / _away_from_zero(factor * d + b)
        c = _away_from_zero(b + factor / c)
        step = c * d
        fraction *= step
        if abs(step - 1.0) < _RELATIVE:
            break
    return fraction


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
