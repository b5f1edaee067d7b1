"""Configuration: from the law settings to one `Acceptance`.

A law is named by `law`, or by a threshold of typical acceptance or of a cascade. The law is one
whole: the highest layer that names one decides, and no law setting of a lower layer counts. Layers
above it may still set its options, or switch it off. Two different laws named in one layer are
refused, each with its origin. Whether the law and its options exist is the acceptance room's to
say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from leeway.core.config_settings import CASCADE_RULES
from leeway.core.config_values import DEFAULT_ORIGIN, Origin
from leeway.core.errors import ConfigError
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance

_SWITCHES: Mapping[str, tuple[str, ...]] = {
    "typical_threshold": ("typical",),
    "cascade_threshold": CASCADE_RULES,
}


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
class LawSettings:
    """The law settings that count.

    Attributes:
        values: by setting name; `law_option` merged over the layers.
        options: the law options one by one, each with its origin.
        decider: the setting that names the law, if any does; it may be switched off above.
    """

    values: Mapping[str, Value]
    options: Mapping[str, Value]
    decider: Origin | None


@dataclass(frozen=True, slots=True)
class ChosenLaw:
    """The law, the setting that chose it, and where each of its options came from."""

    acceptance: Acceptance
    origin: Origin
    option_origins: Mapping[str, Origin]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A law that a threshold selects; its options come with their origins."""

    law: str
    options: Mapping[str, Value]
    origin: Origin
    remedy: str


def merge_law_layers(layers: Iterable[Mapping[str, Value]]) -> LawSettings:
    """Return the law settings of these layers, highest first, down to the one that names a law."""
    values: dict[str, Value] = {}
    options: dict[str, Value] = {}
    decider = None
    for layer in layers:
        values = {**layer, **values}
        own = layer.get("law_option")
        if own is not None:
            given = cast(Mapping[str, LawOption], own.value)
            options = {key: Value(item, own.origin) for key, item in given.items()} | options
        naming = [name for name in ("law", *_SWITCHES) if name in layer and _is_on(name, layer)]
        if naming:
            decider = layer[naming[0]].origin
            break
    if options:
        merged = {key: item.value for key, item in options.items()}
        values["law_option"] = Value(merged, values["law_option"].origin)
    return LawSettings(values, options, decider)


def resolve_acceptance(
    values: Mapping[str, Value], law_options: Mapping[str, Value] | None = None
) -> ChosenLaw:
    """Return the one law that these values ask for.

    Args:
        values: every law setting, as `merge_law_layers` leaves them.
        law_options: the law options one by one.

    Raises:
        ConfigError: two ways of asking disagree, or one of their options has nothing to act on.
    """
    given = law_options or {}
    values = _switched(values)
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
    law = values["law"]
    if not chosen:
        return _by_name(values, given)
    choice = chosen[0]
    if law.value is not None and law.value != choice.law:
        is_rule = choice.law in CASCADE_RULES and law.value in CASCADE_RULES
        remedy = f"name the rule with --cascade-rule {law.value}" if is_rule else choice.remedy
        raise ConfigError(
            f"law {law.value!r} (from {law.origin}) and {choice.law!r} (from {choice.origin}) "
            f"cannot work together; drop the first or {remedy}",
            param="law",
        )
    return _chosen(choice.law, choice.origin, _merged(choice.options, given))


def _is_on(name: str, values: Mapping[str, Value]) -> bool:
    """Return whether a setting names a law; a `typical_threshold` of 0 does not."""
    value = values[name].value
    return bool(value) if name == "typical_threshold" else value is not None


def _is_off(name: str, values: Mapping[str, Value]) -> bool:
    return values[name].is_given and not _is_on(name, values)


def _switched(values: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return the values with what a higher layer switches off taken out, however it was named."""
    switched = dict(values)
    law = values["law"]
    for name, laws in _SWITCHES.items():
        switch = values[name]
        if _is_off(name, values) and law.value in laws and switch.origin.is_above(law.origin):
            switched["law"] = Value(None, switch.origin)
        if _is_off("law", values) and law.origin.is_above(switch.origin) and switch.is_given:
            switched[name] = Value(None, law.origin)
    return switched


def _typical(values: Mapping[str, Value]) -> _Choice | None:
    threshold, eps = values["typical_threshold"], values["typical_eps"]
    if not threshold.value:
        return None
    options = {"delta": threshold, "eps": eps}
    return _Choice("typical", options, threshold.origin, "set --typical-threshold 0")


def _cascade(values: Mapping[str, Value]) -> _Choice | None:
    threshold, rule = values["cascade_threshold"], values["cascade_rule"]
    if threshold.value is None:
        return None
    options = {"alpha": threshold}
    return _Choice(str(rule.value), options, threshold.origin, "set --cascade-threshold off")


def _merged(own: Mapping[str, Value], given: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return a threshold's own options and the given ones; of two the higher layer's.

    Raises:
        ConfigError: one layer gives an option in both ways.
    """
    merged = dict(own)
    for key, item in given.items():
        other = own.get(key)
        if other is not None and other.origin.layer == item.origin.layer:
            raise ConfigError(
                f"law option {key!r} is given twice, by {item.origin} and by {other.origin}; "
                "drop one",
                param="law_option",
            )
        if other is None or item.origin.is_above(other.origin):
            merged[key] = item
    return merged


def _by_name(values: Mapping[str, Value], given: Mapping[str, Value]) -> ChosenLaw:
    law = values["law"]
    if law.value is not None:
        return _chosen(str(law.value), law.origin, given)
    off = [values[name].origin for name in ("law", *_SWITCHES) if _is_off(name, values)]
    for key, item in given.items():
        if not any(origin.is_above(item.origin) for origin in off):
            raise ConfigError(
                f"law option {key!r} (from {item.origin}) has no law to act on; "
                "name one with --law (`leeway laws` lists all)",
                param="law_option",
            )
    return _chosen(Acceptance().law, off[0] if off else DEFAULT_ORIGIN, {})


def _chosen(law: str, origin: Origin, options: Mapping[str, Value]) -> ChosenLaw:
    plain = {key: cast(LawOption, item.value) for key, item in options.items()}
    origins = {key: item.origin for key, item in options.items()}
    return ChosenLaw(Acceptance(law, MappingProxyType(plain)), origin, MappingProxyType(origins))


def _refuse_idle(values: Mapping[str, Value], option: str, switch: str) -> None:
    """Refuse an option whose switch was never mentioned (switched off on purpose is fine)."""
    if values[option].is_given and not values[switch].is_given:
        flag = "--" + switch.replace("_", "-")
        raise ConfigError(
            f"{option} {values[option].value!r} (from {values[option].origin}) does nothing "
            f"without {switch}; give {flag} as well or drop it",
            param=option,
        )
