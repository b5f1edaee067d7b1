"""Knobs: the arms that sweep one number of a law, and such sweeps found among what was measured.

In: a law, the name of a number among its options, values; or summaries. Out: arms in the grammar of
`arm_spec`; series of summaries in order of the number. Measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leeway.bench.arm_spec import PLAIN
from leeway.bench.summary import ArmSummary
from leeway.bench.tables import interval_text, number_text
from leeway.core.config_values import law_options
from leeway.core.errors import ConfigError

EXACT = "rejection"


@dataclass(frozen=True, slots=True)
class KnobSeries:
    """Arms that differ in one number of their law and in nothing else.

    Attributes:
        fixed: in words, what tells the sweep from others of the same law and knob; often nothing.
        points: values with their arms, ascending.
    """

    law: str
    knob: str
    fixed: str
    points: tuple[tuple[float, ArmSummary], ...]

    @property
    def name(self) -> str:
        """What charts and tables call it."""
        return " ".join(word for word in (self.law, self.fixed, "by", self.knob) if word)


def dial_arms(law: str, knob: str, values: Sequence[str]) -> list[str]:
    """Return arms: plain decoding, the exact law, and the law with each value of its knob.

    Args:
        law: LAW or LAW:KEY=VALUE,... with options that stay.
        knob: the option that is swept, a number.
        values: as typed.

    Raises:
        ConfigError: the values are no sweep: fewer than two, one twice, or one no number.
    """
    name, _, given = law.partition(":")
    try:
        fixed = law_options(given) if given else {}
    except ValueError as reason:
        raise ConfigError(f"--law {law!r} {reason}") from None
    if knob in fixed:
        raise ConfigError(f"--law {law!r} sets {knob!r}, which is swept; drop it there")
    if len(values) < 2:
        raise ConfigError(f"--values {','.join(values)!r} is no sweep; give two or more")
    numbers = [_number(value) for value in values]
    twice = next((one for one in numbers if numbers.count(one) > 1), None)
    if twice is not None:
        raise ConfigError(f"--values gives {twice:g} twice; give each once")
    stay = [f"{key}={value}" for key, value in fixed.items()]
    return [
        PLAIN,
        EXACT,
        *(f"{name}:{','.join([*stay, f'{knob}={value.strip()}'])}" for value in values),
    ]


@dataclass(frozen=True, slots=True)
class _Setting:
    """All of an arm but the value of one knob; `drafting` is drafter, depth and row shape."""

    law: str
    knob: str
    drafting: str
    others: tuple[tuple[str, object], ...]


def knob_series(summaries: Sequence[ArmSummary]) -> list[KnobSeries]:
    """Return every sweep among the arms that count: two values of a number or more."""
    groups: dict[_Setting, list[tuple[float, ArmSummary]]] = {}
    for one in summaries:
        if one.void is not None or one.drafter == "none":
            continue
        drafting = one.definition.partition("@")[2]
        for knob, value in one.options.items():
            if isinstance(value, (int, float)) and math.isfinite(value):
                others = sorted((key, val) for key, val in one.options.items() if key != knob)
                setting = _Setting(one.law, knob, drafting, tuple(others))
                groups.setdefault(setting, []).append((float(value), one))
    sweeps = {
        setting: sorted(points, key=lambda point: point[0])
        for setting, points in groups.items()
        if len({value for value, _ in points}) > 1
    }
    return [
        KnobSeries(setting.law, setting.knob, _telling(setting, list(sweeps)), tuple(points))
        for setting, points in sweeps.items()
    ]


def _telling(own: _Setting, settings: Sequence[_Setting]) -> str:
    """Return in words what tells a sweep from the others of the same law and knob."""
    alike = [one for one in settings if (one.law, one.knob) == (own.law, own.knob)]
    words = [
        f"{key}={value}"
        for key, value in own.others
        if any(dict(other.others).get(key) != value for other in alike)
    ]
    if any(other.drafting != own.drafting for other in alike):
        words.append(f"@{own.drafting}")
    return " ".join(words)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"--values has {text!r}, which is no number; give numbers like 0.25,0.5")
    return value


def dial_rows(series: KnobSeries, first: str) -> list[list[str]]:
    """Return the table of a sweep, its head first: speed, times the `first` arm, beside loss."""
    head = [series.name, "tokens/s", f"x {first}", "tokens/step", "kept", "loss mean"]
    rows = [head]
    for value, one in series.points:
        speed = one.estimates["decode_tokens_per_s"]
        rows.append(
            [
                f"{value:g}",
                number_text(None if speed is None else speed.value, 1),
                interval_text(one.ratios["decode"]),
                interval_text(one.estimates["tokens_per_verify_step"]),
                interval_text(one.estimates["kept_draft_rate"], 3),
                interval_text(one.estimates["loss_tv_mean"], 4),
            ]
        )
    return rows
