"""The planner: its figures are those of the formulas, and what cannot be is refused."""

import math

import pytest

from leeway.core.errors import ConfigError
from leeway.quality.plan import SUITE_SIZES, Assumed, make_plan
from leeway.quality.power import Levels, detectable_loss
from leeway.quality.suites.registry import suite_names


def assumed(**changes):
    given = {"margin": 0.03, "rate": 0.61, "discordance": 0.1, "levels": Levels()} | changes
    return Assumed(**given)


def test_three_points():
    plan = make_plan(assumed(), {"humaneval": 164, "mbpp_plus": 378})
    assert plan.sizes[0].discordance == 0.1
    assert {one.discordance: one.to_detect for one in plan.sizes} == {
        0.04: 347,
        0.1: 870,
        0.2: 1742,
    }
    assert plan.sizes[0].to_rule_out == math.ceil(2.486474860**2 * 0.1 / 0.0009)
    assert plan.unpaired == pytest.approx(4200, abs=1)
    assert [(one.name, one.num_tasks) for one in plan.suites] == [
        ("humaneval", 164),
        ("mbpp_plus", 378),
    ]
    assert plan.suites[0].detectable_loss == detectable_loss(164, 0.1)


def test_every_suite_has_a_size():
    assert set(SUITE_SIZES) == set(suite_names())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"margin": 0.0}, "--margin 0 is out of range"),
        ({"margin": 3.0}, "--margin 3 is out of range; give a share between 0 and 1"),
        ({"margin": 0.7, "discordance": 0.8}, "--margin 0.7 is more than --accuracy 0.61"),
        ({"discordance": 0.01}, "--discordance 0.01 is less than --margin 0.03"),
        ({"levels": Levels(power=1.0)}, "--power 1 is out of range"),
        ({"levels": Levels(alpha=0.0)}, "--alpha 0 is out of range"),
        ({"rate": 1.2}, "--accuracy 1.2 is out of range"),
    ],
)
def test_what_cannot_be_is_refused(changes, says):
    with pytest.raises(ConfigError, match=says):
        make_plan(assumed(**changes), {})
