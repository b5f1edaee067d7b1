"""Options: from what the user gave to what a law needs, or an error that says what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from leeway.acceptance.base import Knob, LawInfo
from leeway.core.errors import LawError, did_you_mean
from leeway.core.receipt import LawOption

_LARGEST = 1e30


def resolve(info: LawInfo, given: Mapping[str, LawOption]) -> dict[str, LawOption]:
    """Return every option of a law: the given ones checked, the others at their defaults.

    Optional knobs without a default (one of several ways to say a thing) stay absent.

    Raises:
        LawError: an option is unknown, missing, of the wrong type or out of range.
    """
    known = {knob.name: knob for knob in info.knobs}
    for name in given:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes no options"
            hint = did_you_mean(name, known) or ";"
            raise LawError(
                f"law {info.name!r} has no option {name!r}{hint} {takes} (`leeway laws` lists all)",
                param=name,
            )
    options: dict[str, LawOption] = {}
    for knob in info.knobs:
        if knob.name in given:
            options[knob.name] = _check(info.name, knob, given[knob.name])
        elif knob.is_required:
            raise LawError(
                f"law {info.name!r} needs its option {knob.name!r} ({allowed(knob)}); "
                f"`leeway explain {info.name}` says what it means",
                param=knob.name,
            )
        elif knob.default is not None:
            options[knob.name] = knob.default
    return options


def allowed(knob: Knob) -> str:
    """Return the allowed values of a knob in words."""
    if knob.choices:
        return "one of " + ", ".join(knob.choices)
    noun = "an integer" if knob.is_integer else "a number"
    has_low, has_high = math.isfinite(knob.low), math.isfinite(knob.high)
    if has_low and has_high:
        return f"{noun} in {'(' if knob.low_open else '['}{knob.low:g}, {knob.high:g}]"
    if has_low:
        return f"{noun} {'>' if knob.low_open else '>='} {knob.low:g}"
    return f"any number, or -inf for the exact end{'' if not has_high else f', <= {knob.high:g}'}"


def number(options: Mapping[str, LawOption], name: str) -> float:
    """Return a checked numeric option, finite ones cut to a size that float32 rows survive."""
    value = float(options[name])
    return value if math.isinf(value) else min(max(value, -_LARGEST), _LARGEST)


def _check(law: str, knob: Knob, value: LawOption) -> LawOption:
    checked = _choice(knob, value) if knob.choices else _number(knob, value)
    if checked is None:
        hint = did_you_mean(str(value), knob.choices) or ";"
        raise LawError(
            f"law {law!r}: option {knob.name!r} is {value!r}{hint} allowed is {allowed(knob)} "
            f"({knob.meaning}); `leeway laws` lists all",
            param=knob.name,
        )
    return checked


def _choice(knob: Knob, value: LawOption) -> LawOption | None:
    return value if value in knob.choices else None


def _number(knob: Knob, value: LawOption) -> LawOption | None:
    """Return the value as the knob's number type, or None where it is not allowed."""
    if isinstance(value, bool):
        return None
    try:
        parsed = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if math.isnan(parsed) or parsed == math.inf or not knob.low <= parsed <= knob.high:
        return None
    if knob.low_open and parsed == knob.low:
        return None
    if math.isinf(parsed):
        return "-inf"  # JSON knows no infinity
    if not knob.is_integer:
        return parsed
    return int(parsed) if parsed.is_integer() else None
