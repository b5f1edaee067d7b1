"""How many tasks a question takes: the planner of paired comparisons, with its assumptions.

In: a margin and what is assumed of the arms. Out: sizes, and what the suites could see. Runs
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from leeway.core.errors import ConfigError
from leeway.quality.power import (
    Levels,
    answers_unpaired,
    detectable_loss,
    pairs_to_detect,
    pairs_to_rule_out,
)

USUAL_DISCORDANCES = (0.02, 0.04, 0.1, 0.2)
SUITE_SIZES = {
    "humaneval": 164,
    "humaneval_plus": 164,
    "mbpp": 500,
    "mbpp_plus": 378,
    "gsm8k": 1319,
    "ifeval": 541,
}
"""Tasks by suite, known without its data."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a plan takes for granted.

    Attributes:
        margin: the loss that would matter.
        rate: of right answers of the arm that is compared with.
        discordance: share of pairs at which one arm is right and the other wrong.
        levels: of the tests.
    """

    margin: float
    rate: float
    discordance: float
    levels: Levels

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: a number is out of range, or two of them contradict one another.
        """
        for flag, value in (
            ("--margin", self.margin),
            ("--accuracy", self.rate),
            ("--discordance", self.discordance),
            ("--alpha", self.levels.alpha),
            ("--power", self.levels.power),
        ):
            if not 0 < value < 1:
                raise ConfigError(f"{flag} {value:g} is out of range; give a share between 0 and 1")
        if self.margin > self.rate:
            raise ConfigError(
                f"--margin {self.margin:g} is more than --accuracy {self.rate:g}: no arm can lose "
                "more than there is; give a smaller margin"
            )
        if self.discordance < self.margin:
            raise ConfigError(
                f"--discordance {self.discordance:g} is less than --margin {self.margin:g}: a loss "
                "turns at least as many answers; give a discordance of the margin or more"
            )


@dataclass(frozen=True, slots=True)
class Sizes:
    """Pairs (task and sample) that one discordance takes.

    Attributes:
        to_detect: so that a loss of the margin is found.
        to_rule_out: so that arms that are alike are shown to differ by less than the margin.
    """

    discordance: float
    to_detect: int
    to_rule_out: int


@dataclass(frozen=True, slots=True)
class SuiteView:
    """What a suite can see, each of its tasks asked once."""

    name: str
    num_tasks: int
    detectable_loss: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes at the assumed discordance first, then at usual ones."""

    assumed: Assumed
    sizes: tuple[Sizes, ...]
    unpaired: int
    suites: tuple[SuiteView, ...]


def make_plan(assumed: Assumed, suites: Mapping[str, int]) -> Plan:
    """Return the plan.

    Args:
        assumed: checked here.
        suites: tasks by suite.

    Raises:
        ConfigError: as `Assumed.check`.
    """
    assumed.check()
    others = [one for one in USUAL_DISCORDANCES if one >= assumed.margin]
    discordances = dict.fromkeys((assumed.discordance, *others))
    return Plan(
        assumed=assumed,
        sizes=tuple(_sizes(assumed, one) for one in discordances),
        unpaired=math.ceil(answers_unpaired(assumed.margin, assumed.rate, assumed.levels)),
        suites=tuple(
            SuiteView(name, num, detectable_loss(num, assumed.discordance, assumed.levels))
            for name, num in suites.items()
        ),
    )


def _sizes(assumed: Assumed, discordance: float) -> Sizes:
    return Sizes(
        discordance,
        math.ceil(pairs_to_detect(assumed.margin, discordance, assumed.levels)),
        math.ceil(pairs_to_rule_out(assumed.margin, discordance, assumed.levels)),
    )
