"""Sizes and detectable losses, against published figures and the exact test's own power."""

import math

import pytest
from scipy import stats

from leeway.quality.paired import mcnemar
from leeway.quality.power import (
    Levels,
    answers_unpaired,
    detectable_loss,
    pairs_to_detect,
    pairs_to_rule_out,
)


@pytest.mark.parametrize(
    ("discordance", "pairs"), [(0.04, 347), (0.1, 870), (0.2, 1742)], ids=["4%", "10%", "20%"]
)
def test_pairs_that_find_three_points(discordance, pairs):
    z_alpha, z_power = stats.norm.ppf(0.975), stats.norm.ppf(0.8)
    root = z_alpha * math.sqrt(discordance) + z_power * math.sqrt(discordance - 0.0009)
    assert pairs_to_detect(0.03, discordance) == pytest.approx((root / 0.03) ** 2)
    assert math.ceil(pairs_to_detect(0.03, discordance)) == pairs


def test_a_discordance_below_the_loss_is_the_loss():
    assert pairs_to_detect(0.1, 0.0) == pairs_to_detect(0.1, 0.1)


def test_sizes_without_pairs_and_against_a_margin():
    assert answers_unpaired(0.03, 0.61) == pytest.approx(4199, abs=1)
    expected = (stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) ** 2 * 0.1 / 0.0009
    assert pairs_to_rule_out(0.03, 0.1) == pytest.approx(expected)


def test_what_so_many_pairs_detect_is_what_takes_so_many_pairs():
    found = detectable_loss(542, 0.1)
    assert pairs_to_detect(found, 0.1) == pytest.approx(542, rel=1e-6)
    assert detectable_loss(2000, 0.1) < found < detectable_loss(164, 0.1)
    assert detectable_loss(164, 0.1, Levels(power=0.95)) > detectable_loss(164, 0.1)


def test_too_few_pairs_detect_nothing():
    assert detectable_loss(3, 0.5) is None and detectable_loss(0, 0.5) is None
    assert detectable_loss(4, 0.5) == pytest.approx(1.0, abs=0.05)


def exact_power(num, discordance, loss):
    """Chance that the exact test rejects, summed over every count of differing pairs."""
    worse = (discordance + loss) / 2 / discordance
    power = 0.0
    for apart in range(num + 1):
        chance = stats.binom.pmf(apart, num, discordance)
        if chance < 1e-12:
            continue
        power += chance * sum(
            stats.binom.pmf(lost, apart, worse)
            for lost in range(apart + 1)
            if mcnemar(lost, apart - lost) < 0.05
        )
    return power


@pytest.mark.parametrize(("num", "discordance"), [(164, 0.1), (164, 0.0), (378, 0.05)])
def test_the_exact_test_has_about_the_stated_power_at_the_detectable_loss(num, discordance):
    """The exact test is a little blunter than the normal approximation that sizes it."""
    loss = detectable_loss(num, discordance)
    assert 0.68 < exact_power(num, max(loss, discordance), loss) < 0.86
