"""Configuration of drafting: what `draft_model`, `head` and their like say of the drafter.

In: the settings as given, with their origins. Out: the same settings without contradiction. A draft
model or a head implies its drafter, even over one named on a lower layer; a drafter named on a
higher layer sets both aside; what would do nothing is refused.
"""

from __future__ import annotations

from leeway.core.config_acceptance import Value
from leeway.core.config_settings import SETTINGS
from leeway.core.config_values import Origin
from leeway.core.errors import ConfigError

WITH_HEAD = ("mtp", "mtp_ngram")
"""Drafters that need a draft head."""

TAKERS = {"draft_model": ("draft_model",), "head": (*WITH_HEAD, "auto")}
"""Which drafters a setting goes with; the first is the one it implies."""

_COMPANIONS = {
    "draft_weights": ("draft_model", *WITH_HEAD),
    "draft_temperature": ("draft_model", *WITH_HEAD, "auto"),
}
"""Settings that go with some drafters only."""


def set_aside(name: str, decider: Origin) -> Value:
    """Return the default of a setting that a higher layer's choice makes void."""
    return Value(SETTINGS[name].default, Origin("default", f"default (set aside by {decider})"))


def resolve_drafter(values: dict[str, Value]) -> None:
    """Let `draft_model` and `head` imply their drafters; refuse what would do nothing.

    Mutates: `values`.

    Raises:
        ConfigError: names the settings at odds and their origins.
    """
    given = [name for name in TAKERS if values[name].value is not None]
    if len(given) > 1 and not values["drafter"].is_given:
        _keep_highest(values, given)
    for name in TAKERS:
        _resolve_own(values, name)
    if values["drafter"].value == "draft_model" and values["draft_model"].value is None:
        raise ConfigError(
            f"drafter 'draft_model' (from {values['drafter'].origin}) needs a model; give "
            "--draft-model",
            param="draft_model",
        )
    for name in _COMPANIONS:
        _resolve_companion(values, name)


def _keep_highest(values: dict[str, Value], names: list[str]) -> None:
    """Where no drafter is named, let the draft model or the head of the higher layer decide."""
    first, second = names
    for kept, other in ((first, second), (second, first)):
        if values[kept].origin.is_above(values[other].origin):
            values[other] = set_aside(other, values[kept].origin)
            return
    raise ConfigError(
        f"{first} {values[first].value!r} (from {values[first].origin}) and {second} "
        f"{values[second].value!r} (from {values[second].origin}) both choose a drafter; drop one",
        param=first,
    )


def _resolve_own(values: dict[str, Value], name: str) -> None:
    drafter, own = values["drafter"], values[name]
    implied = TAKERS[name][0]
    if own.value is None:
        return
    if drafter.value in TAKERS[name] and drafter.value != "auto":
        return
    if drafter.value in TAKERS[name] or not drafter.is_given:
        origin = drafter.origin if drafter.is_given else own.origin
        values["drafter"] = Value(implied, origin)
    elif drafter.origin.is_above(own.origin):
        values[name] = Value(None, drafter.origin)
    elif own.origin.is_above(drafter.origin):
        values["drafter"] = Value(implied, own.origin)
    else:
        raise ConfigError(
            f"{name} {own.value!r} (from {own.origin}) does nothing with drafter "
            f"{drafter.value!r} (from {drafter.origin}); drop one, or use --drafter {implied}",
            param=name,
        )


def _resolve_companion(values: dict[str, Value], name: str) -> None:
    """Refuse a setting of drafting networks where none drafts, or set it aside."""
    companion = values[name]
    if not companion.is_given or values["drafter"].value in _COMPANIONS[name]:
        return
    deciders = [values[other].origin for other in ("drafter", *TAKERS) if values[other].is_given]
    above = [origin for origin in deciders if origin.is_above(companion.origin)]
    if not above:
        raise ConfigError(
            f"{name} {companion.value!r} (from {companion.origin}) does nothing without a draft "
            "model or head; give --draft-model or --drafter mtp as well, or drop it",
            param=name,
        )
    values[name] = set_aside(name, above[0])
