"""The `speculative` object of a request: its own law, draft length and level of metrics.

    {"law": NAME, "num_speculative_tokens": N, "metrics": LEVEL, "options": {KNOB: VALUE}}

Knobs may stand beside `law` or inside `options`. Naming no law, or the server's own, starts from
the options in force; another law, or a preset, starts from its own. Beside them stand the limits of
`limit_fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

from leeway.acceptance.base import LawInfo
from leeway.acceptance.law_ceiling import LawCeiling
from leeway.core.config import EngineConfig
from leeway.core.errors import LawError, RequestError, did_you_mean
from leeway.core.limits import Limits
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance
from leeway.server.limit_fields import LIMIT_FIELDS, read_limits
from leeway.server.service_protocol import ServedEngine

_OWN = ("law", "num_speculative_tokens", "options", "metrics", *LIMIT_FIELDS)
LEVELS = ("summary", "detailed")


@dataclass(frozen=True, slots=True)
class SpeculativeFields:
    """What a request says about speculation; None takes the server's own."""

    acceptance: Acceptance | None = None
    num_speculative_tokens: int | None = None
    is_detailed: bool = False
    limits: Limits | None = None


def read_speculative(
    raw: Mapping[str, Any] | None, engine: ServedEngine, ceiling: LawCeiling
) -> SpeculativeFields:
    """Return the checked `speculative` object.

    Raises:
        RequestError: a key is unknown, of the wrong type, or out of range; LawError and
            LawNotAllowedError where the law is at fault. `param` names the key.
    """
    given = {name: value for name, value in (raw or {}).items() if value is not None}
    if not given:
        return SpeculativeFields()
    level = given.get("metrics", "summary")
    if level not in LEVELS:
        _refuse("metrics", level, " or ".join(repr(one) for one in LEVELS))
    num_tokens = _read_num_tokens(given, engine.config)
    return SpeculativeFields(
        acceptance=_read_law(given, engine, ceiling),
        num_speculative_tokens=num_tokens,
        is_detailed=level == "detailed",
        limits=read_limits(given, engine.config.limits),
    )


def _read_law(
    given: Mapping[str, Any], engine: ServedEngine, ceiling: LawCeiling
) -> Acceptance | None:
    own = engine.law
    name = given.get("law", own.info.name)
    if not isinstance(name, str):
        _refuse("law", name, "the name of a law")
    has_law = "law" in given
    options = _read_options(given, ceiling.check(name) if has_law else own.info)
    if not has_law and not options:
        return None
    ceiling.check(name)
    base = own.options if name == own.info.name else {}
    acceptance = Acceptance(name, MappingProxyType({**base, **options}))
    try:
        engine.build_law(acceptance)
    except LawError as error:
        error.param = f"speculative.{error.param or 'law'}"
        raise
    return acceptance


def _read_options(given: Mapping[str, Any], info: LawInfo) -> dict[str, LawOption]:
    nested = given.get("options", {})
    if not isinstance(nested, dict):
        _refuse("options", nested, "an object of knobs")
    flat = {name: value for name, value in given.items() if name not in _OWN}
    for name in flat:
        if name in nested:
            raise RequestError(
                f"speculative.{name} is given twice, beside law and in options; drop one",
                param=f"speculative.{name}",
            )
    knobs = [knob.name for knob in info.knobs]
    options: dict[str, LawOption] = {}
    for name, value in {**flat, **nested}.items():
        if name not in knobs:
            known = [*_OWN, *knobs] if name in flat else knobs
            raise RequestError(
                f"speculative has the unknown key {name!r}{did_you_mean(name, known)}; "
                f"law {info.name!r} takes {', '.join(knobs) or 'no options'}",
                param=f"speculative.{name}",
            )
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            _refuse(name, value, "a number or a text")
        options[name] = value
    return options


def _read_num_tokens(given: Mapping[str, Any], config: EngineConfig) -> int | None:
    name = "num_speculative_tokens"
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(name, value, "a whole number")
    most = config.num_speculative_tokens
    if value > 0 and config.drafter == "none":
        _refuse(name, value, "0, because this server runs without a drafter (see --drafter)")
    if not 0 <= value <= most:
        _refuse(name, value, f"0 (off) to {most} (the server's --num-speculative-tokens)")
    return value


def _refuse(name: str, value: object, allowed: str) -> NoReturn:
    raise RequestError(
        f"speculative.{name} is {value!r}; allowed: {allowed}", param=f"speculative.{name}"
    )
