"""What a paired comparison can see: sizes and losses for a power.

A pair is one task and sample that two arms answered. *Discordance* is the share of pairs at which
one is right and the other wrong; a loss of d takes a discordance of at least d. Knows no data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from leeway.quality.distributions import normal_quantile

_HALVINGS = 80


@dataclass(frozen=True, slots=True)
class Levels:
    """`alpha`: false alarms of the two-sided test; `power`: chance that a real loss is found."""

    alpha: float = 0.05
    power: float = 0.8


USUAL = Levels()


def pairs_to_detect(loss: float, discordance: float, levels: Levels = USUAL) -> float:
    """Return the pairs with which McNemar's test finds a loss; not rounded.

    Args:
        loss: in (0, 1]; rate of the one arm less that of the other.
        discordance: raised to `loss` where below it.
        levels: of the test.

    Source: R. J. Connor 1987, Biometrics 43, 207, equation 3.
    """
    assert 0 < loss <= 1
    apart = max(discordance, loss)
    for_alpha = normal_quantile(1 - levels.alpha / 2) * math.sqrt(apart)
    for_power = normal_quantile(levels.power) * math.sqrt(max(0.0, apart - loss * loss))
    return ((for_alpha + for_power) / loss) ** 2


def pairs_to_rule_out(margin: float, discordance: float, levels: Levels = USUAL) -> float:
    """Return the pairs with which arms that are alike are shown to differ by less than the margin.

    One-sided at `alpha`, as a non-inferiority test is; `power` is the chance of showing it where
    the true loss is 0.

    Source: Y. Lu and J. A. Bean 1995, Stat. Med. 14, 1831, with the variance at a loss of 0.
    """
    assert 0 < margin <= 1
    both = normal_quantile(1 - levels.alpha) + normal_quantile(levels.power)
    return both * both * discordance / (margin * margin)


def answers_unpaired(loss: float, rate: float, levels: Levels = USUAL) -> float:
    """Return the answers an arm that would take without pairs, from a rate of right answers."""
    worse = rate - loss
    spread = rate * (1 - rate) + worse * (1 - worse)
    both = normal_quantile(1 - levels.alpha / 2) + normal_quantile(levels.power)
    return both * both * spread / (loss * loss)


def detectable_loss(num_pairs: float, discordance: float, levels: Levels = USUAL) -> float | None:
    """Return the smallest loss that so many pairs find with the power; None if none would do."""
    if num_pairs <= 0 or pairs_to_detect(1.0, discordance, levels) > num_pairs:
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_seen = pairs_to_detect(middle, discordance, levels) <= num_pairs
        low, high = (low, middle) if is_seen else (middle, high)
    return high
