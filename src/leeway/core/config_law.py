"""Configuration of the laws alone, for a server that is not ours and has settings of its own.

In: what that server was given for us, as a mapping, and the environment. Out: the law, the limits
and the ceiling, each with its origin. The mapping is above the environment; the law is one whole,
as everywhere. A key that is no setting is an option of the law: {"law": "typical", "delta": 0.2}.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from leeway.core.config import env_layer, read_setting
from leeway.core.config_acceptance import Value, merge_law_layers, resolve_acceptance
from leeway.core.config_limits import LIMIT_NAMES, limits_of
from leeway.core.config_settings import SETTINGS
from leeway.core.config_values import DEFAULT_ORIGIN, Origin
from leeway.core.errors import ConfigError
from leeway.core.limits import Limits
from leeway.core.types import Acceptance

_OPTIONS = "law_option"
_NAMES = frozenset(name for name in SETTINGS if SETTINGS[name].group == "law") | {"allow_laws"}


@dataclass(frozen=True, slots=True)
class LawConfig:
    """What was asked for.

    Attributes:
        acceptance: the law; the default one where none is named.
        origin: what named it.
        limits: the limits on a lossy law.
        allow_laws: laws that a request may choose; None stands for the default ceiling.
        values: every setting read here, by name, with its origin.
    """

    acceptance: Acceptance
    origin: Origin
    limits: Limits
    allow_laws: tuple[str, ...] | None
    values: Mapping[str, Value]


def resolve_law(
    given: Mapping[str, object] | None,
    source: str,
    *,
    environ: Mapping[str, str] | None = None,
) -> LawConfig | None:
    """Return the law configuration in force, or None where nothing asks for one.

    Args:
        given: the server's own settings for us; an empty mapping asks for the default law, None
            asks for nothing.
        source: what a user would edit to change `given`; errors name it.
        environ: the environment; `os.environ` when None.

    Raises:
        ConfigError: a value, name or combination is wrong; names it and its origin.
    """
    top = {} if given is None else _layer(given, source)
    below = {
        name: read_setting(name, *raw)
        for name, raw in env_layer(os.environ if environ is None else environ).items()
        if name in _NAMES
    }
    if given is None and not below:
        return None
    law = merge_law_layers([_law_part(top), _law_part(below)])
    values = {name: Value(SETTINGS[name].default, DEFAULT_ORIGIN) for name in _NAMES}
    values |= {name: item for name, item in {**below, **top}.items() if not _is_law(name)}
    values |= law.values
    chosen = resolve_acceptance(values, law.options)
    plain = cast(dict[str, Any], {name: item.value for name, item in values.items()})
    return LawConfig(
        chosen.acceptance, chosen.origin, limits_of(plain), plain["allow_laws"], values
    )


def _layer(given: Mapping[str, object], source: str) -> dict[str, Value]:
    """Return the mapping's settings; what is none of them becomes an option of the law."""
    layer: dict[str, Value] = {}
    options: dict[str, object] = {}
    for key, raw in given.items():
        origin = Origin("flag", f"{source}: {key}")
        if key in _NAMES and key != _OPTIONS:
            layer[key] = read_setting(key, raw, origin)
        elif key != _OPTIONS:
            options[key] = raw
    nested = given.get(_OPTIONS, {})
    named = read_setting(_OPTIONS, nested, Origin("flag", f"{source}: {_OPTIONS}")).value
    for key in cast(Mapping[str, object], named):
        if key in options:
            raise ConfigError(
                f"law option {key!r} is given twice in {source}, by itself and in {_OPTIONS}; "
                "drop one",
                param=_OPTIONS,
            )
    options |= cast(Mapping[str, object], named)
    if options:
        first = Origin("flag", f"{source}: {next(iter(options))}")
        layer[_OPTIONS] = read_setting(_OPTIONS, options, first)
    return layer


def _law_part(layer: Mapping[str, Value]) -> dict[str, Value]:
    return {name: item for name, item in layer.items() if _is_law(name)}


def _is_law(name: str) -> bool:
    return SETTINGS[name].group == "law" and name not in LIMIT_NAMES
