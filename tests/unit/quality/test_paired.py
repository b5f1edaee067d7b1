"""Paired tests: known answers, and how often they cry wolf or miss a planted loss."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from leeway.quality.paired import (
    bootstrap_interval,
    compare,
    likeliest_gain,
    margin_test,
    mcnemar,
)
from leeway.quality.power import detectable_loss
from leeway.quality.rates import design_effect


@pytest.mark.parametrize(("b", "c"), [(0, 0), (5, 0), (6, 0), (12, 3), (7, 7), (2, 11), (700, 650)])
def test_mcnemar_is_the_sign_test(b, c):
    expected = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert mcnemar(b, c) == mcnemar(c, b) == pytest.approx(expected)


def test_mcnemar_by_hand():
    assert mcnemar(6, 0) == 2 / 64 < 0.05 < mcnemar(5, 0) == 2 / 32


def test_a_comparison_by_hand():
    tasks = {
        "a": [(True, True), (True, False)],
        "b": [(False, False), (False, True)],
        "c": [(True, False), (True, False)],
        "d": [(True, True), (False, False)],
    }
    found = compare(tasks, margin=0.1)
    assert (found.num_tasks, found.num_pairs) == (4, 8)
    assert (found.only_first, found.only_second, found.both, found.neither) == (3, 1, 2, 2)
    assert found.loss == 2 / 8 and found.discordance == 4 / 8
    assert found.p_value == pytest.approx(10 / 16)  # 2 * (1 + 4) / 16
    # residuals about 1/4 by task: 1/2, -3/2, 3/2, -1/2; all values: 3 * .75**2 + 1.25**2 + 4 / 16
    between = 4 / 3 * (0.25 + 2.25 + 2.25 + 0.25)
    alone = 8 / 7 * (3 * 0.75**2 + 1.25**2 + 4 * 0.25**2)
    assert found.design_effect == pytest.approx(max(1.0, between / alone))
    assert found.detectable_loss == detectable_loss(8 / found.design_effect, 0.5)
    assert not found.is_different and not found.is_within_margin
    assert compare(tasks, margin=0.1) == found


def test_arms_that_agree_everywhere():
    found = compare({str(task): [(True, True)] for task in range(164)}, margin=0.03)
    assert (found.loss, found.p_value, found.interval) == (0.0, 1.0, None)
    assert found.detectable_loss == pytest.approx(0.048, abs=0.001)
    # no pair differs, so z = sqrt(n d / (1 - d))
    z = math.sqrt(164 * 0.03 / 0.97)
    assert found.margin_p == pytest.approx(stats.norm.sf(z)) and found.is_within_margin


def test_the_likeliest_rates_under_a_given_loss_are_the_likeliest():
    for b, c, num, loss in [(9, 4, 100, 0.05), (0, 3, 50, 0.1), (20, 1, 80, 0.02)]:

        def unlikelihood(gain, b=b, c=c, num=num, loss=loss):
            same = 1 - 2 * gain - loss
            return -(
                b * math.log(gain + loss) + c * math.log(gain) + (num - b - c) * math.log(same)
            )

        best = optimize.minimize_scalar(
            unlikelihood, bounds=(1e-9, (1 - loss) / 2 - 1e-9), method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        assert likeliest_gain(b, c, num, loss) == pytest.approx(best.x, abs=1e-6)
    assert likeliest_gain(0, 0, 50, 0.1) == 0.0


def test_the_margin_test_by_hand():
    gain = likeliest_gain(9, 4, 100, 0.05)
    z = (5 - 5) / math.sqrt(100 * (2 * gain + 0.05 - 0.0025))
    assert z == 0 and margin_test(9, 4, 100, 0.05) == pytest.approx(0.5)
    sharp, blunt = margin_test(4, 4, 300, 0.05), margin_test(4, 4, 300, 0.05, effect=3.0)
    assert sharp < 0.05 and sharp < blunt


def test_the_bootstrap_draws_whole_tasks():
    alone = bootstrap_interval([[1.0], [0.0]] * 50)
    together = bootstrap_interval([[1.0] * 5, [0.0] * 5] * 50)
    assert together == alone  # five samples that agree say no more than one
    low, high = alone
    half = 1.959963984540054 * math.sqrt(0.25 / 100)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.015)
    assert bootstrap_interval([[1.0, 0.0]]) is None


def simulated(generator, num_runs, num_pairs, discordance, loss):
    """p values of runs with so many pairs, of which so many differ, with this loss."""
    lost = (discordance + loss) / 2
    drawn = generator.multinomial(num_pairs, [lost, discordance - lost, 1 - discordance], num_runs)
    return np.array([mcnemar(int(one[0]), int(one[1])) for one in drawn]), drawn


def test_false_alarms_of_mcnemar():
    """At most 5 % in 2,000 runs, within the central 99.9 % of the exact test's own size."""
    p_values, _ = simulated(np.random.default_rng(11), 2000, 164, 0.15, 0.0)
    size = sum(
        stats.binom.pmf(apart, 164, 0.15)
        * sum(
            stats.binom.pmf(b, apart, 0.5) for b in range(apart + 1) if mcnemar(b, apart - b) < 0.05
        )
        for apart in range(70)
    )
    low, high = stats.binom.interval(0.999, 2000, size)
    assert size <= 0.05 and low <= (p_values < 0.05).sum() <= high


def test_power_at_a_planted_loss():
    """The loss called detectable is found about as often as said: 0.8, less the exact test's own
    bluntness."""
    loss = detectable_loss(400, 0.12)
    p_values, _ = simulated(np.random.default_rng(12), 1000, 400, 0.12, loss)
    assert 0.70 < (p_values < 0.05).mean() < 0.84
    p_values, _ = simulated(np.random.default_rng(13), 1000, 400, 0.12, loss / 4)
    assert (p_values < 0.05).mean() < 0.2


def test_false_alarms_of_the_margin_test():
    """With a loss of exactly the margin it claims to rule it out in about 5 % of the runs."""
    _, drawn = simulated(np.random.default_rng(14), 2000, 500, 0.1, 0.03)
    alarms = sum(margin_test(int(b), int(c), 500, 0.03) < 0.05 for b, c, _ in drawn)
    low, high = stats.binom.interval(0.999, 2000, 0.05)
    assert low <= alarms <= high


def test_samples_of_one_task_do_not_make_the_margin_test_bold():
    """Every task asked four times, all four alike: as many claims as with one sample each."""
    _, drawn = simulated(np.random.default_rng(15), 300, 200, 0.1, 0.05)
    alarms = 0
    for lost, gained, same in drawn:
        outcomes = [(True, False)] * lost + [(False, True)] * gained + [(True, True)] * same
        tasks = {str(index): [outcome] * 4 for index, outcome in enumerate(outcomes)}
        lists = [[float(a) - float(b) for a, b in task] for task in tasks.values()]
        alarms += margin_test(4 * lost, 4 * gained, 800, 0.05, effect=design_effect(lists)) < 0.05
    low, high = stats.binom.interval(0.999, 300, 0.05)
    assert low <= alarms <= high
