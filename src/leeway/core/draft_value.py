"""What a draft is worth: the tokens that a verify step may commit, against its cost.

In: counts of guesses that were judged and were right, and what a draft token costs. Out: estimated
rates, and the value of each length. Knows neither who drafts nor how much is drafted in the end.

Source: Leviathan et al., 2023, arXiv 2211.17192, theorem 3.8 (expected tokens of a block against
its cost).
Deviates: a rate is estimated, with a prior and a fading memory, instead of being one known number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

PRIOR_RATE = 0.6
"""The rate of a draft head or draft model of which nothing is known."""
PRIOR_WEIGHT = 2.0
MEMORY = 0.95
"""What a step leaves of earlier counts."""


def estimated_rate(right: float, judged: float, prior: float) -> float:
    """Return the estimated chance that a guess is right; `prior` where none was judged."""
    return (right + PRIOR_WEIGHT * prior) / (judged + PRIOR_WEIGHT)


def promises(rates: Iterable[float], cost: float) -> Iterator[float]:
    """Yield, for drafts of 1, 2, ... tokens, the tokens a step may commit for its cost.

    Args:
        rates: by depth, the chance that a draft token is right where all before it were.
        cost: what a draft token adds to a step, in plain steps.
    """
    expected, reached = 1.0, 1.0
    for length, rate in enumerate(rates, start=1):
        reached *= rate
        expected += reached
        yield expected / (1.0 + length * cost)
