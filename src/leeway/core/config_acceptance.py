"""Configuration: from the law flags to one `Acceptance`.

Typical acceptance and cascades have flags of their own; every law can be had by `--law`. Two of
them together are refused, each with its origin. Whether the law and its options exist is the
acceptance room's to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from leeway.core.config_settings import CASCADE_RULES
from leeway.core.config_values import Origin
from leeway.core.errors import ConfigError
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance


@dataclass(frozen=True, slots=True)
class Value:
    """A checked value and where it came from."""

    value: object
    origin: Origin

    @property
    def is_given(self) -> bool:
        """Whether the user gave it (it is not a default)."""
        return self.origin.layer != "default"


@dataclass(frozen=True, slots=True)
class _Choice:
    """A law that one of the three ways of asking selects."""

    law: str
    options: Mapping[str, LawOption]
    origin: Origin
    remedy: str


def resolve_acceptance(values: Mapping[str, Value]) -> tuple[Acceptance, Origin]:
    """Return the one law that these values ask for, and the origin that chose it.

    Raises:
        ConfigError: two ways of asking disagree, or one of their options has nothing to act on.
    """
    _refuse_idle(values, "typical_eps", "typical_threshold")
    _refuse_idle(values, "cascade_rule", "cascade_threshold")
    chosen = [choice for choice in (_typical(values), _cascade(values)) if choice is not None]
    if len(chosen) == 2:
        first, second = chosen
        raise ConfigError(
            f"typical acceptance (from {first.origin}) and a cascade (from {second.origin}) cannot "
            f"work together; {first.remedy} or {second.remedy}",
            param="typical_threshold",
        )
    law, options = values["law"], values["law_option"]
    given = cast(Mapping[str, LawOption], options.value or {})
    if not chosen:
        return _by_name(law, options, given)
    choice = chosen[0]
    if law.value is not None and law.value != choice.law:
        is_rule = choice.law in CASCADE_RULES and law.value in CASCADE_RULES
        remedy = f"name the rule with --cascade-rule {law.value}" if is_rule else choice.remedy
        raise ConfigError(
            f"law {law.value!r} (from {law.origin}) and {choice.law!r} (from {choice.origin}) "
            f"cannot work together; drop the first or {remedy}",
            param="law",
        )
    for key in given:
        if key in choice.options:
            raise ConfigError(
                f"law option {key!r} is given twice, by {options.origin} and by {choice.origin}; "
                "drop one",
                param="law_option",
            )
    merged = MappingProxyType({**choice.options, **given})
    return Acceptance(choice.law, merged), choice.origin


def _typical(values: Mapping[str, Value]) -> _Choice | None:
    threshold, eps = values["typical_threshold"], values["typical_eps"]
    if not threshold.value:
        return None
    options = {"delta": cast(float, threshold.value), "eps": cast(float, eps.value)}
    return _Choice("typical", options, threshold.origin, "set --typical-threshold 0")


def _cascade(values: Mapping[str, Value]) -> _Choice | None:
    threshold, rule = values["cascade_threshold"], values["cascade_rule"]
    if threshold.value is None:
        return None
    options = {"alpha": cast(float, threshold.value)}
    return _Choice(str(rule.value), options, threshold.origin, "set --cascade-threshold off")


def _by_name(
    law: Value, options: Value, given: Mapping[str, LawOption]
) -> tuple[Acceptance, Origin]:
    if given and law.value is None:
        raise ConfigError(
            f"law option {next(iter(given))!r} (from {options.origin}) has no law to act on; "
            "name one with --law (`leeway laws` lists all)",
            param="law_option",
        )
    name = Acceptance().law if law.value is None else str(law.value)
    return Acceptance(name, MappingProxyType(dict(given))), law.origin


def _refuse_idle(values: Mapping[str, Value], option: str, switch: str) -> None:
    """Refuse an option whose switch was never mentioned (switched off on purpose is fine)."""
    if values[option].is_given and not values[switch].is_given:
        flag = "--" + switch.replace("_", "-")
        raise ConfigError(
            f"{option} {values[option].value!r} (from {values[option].origin}) does nothing "
            f"without {switch}; give {flag} as well or drop it",
            param=option,
        )
