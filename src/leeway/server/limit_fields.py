"""The limits in a request's `speculative` object: tighter than the server's own, never looser.

    {"tv_budget": B, "exact_prefix": N, "hard_support": true, "phase": "reasoning"}

What a request does not name holds as the server was started. The markers of a phase are the
server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from leeway.core.errors import LawError, LawNotAllowedError
from leeway.core.limits import Limits

LIMIT_FIELDS = ("tv_budget", "exact_prefix", "hard_support", "phase")


def read_limits(given: Mapping[str, Any], own: Limits) -> Limits | None:
    """Return the limits of a request; None where it names none.

    Args:
        given: the `speculative` object; other keys are not looked at.
        own: the server's.

    Raises:
        LawError: a limit is of the wrong type or out of range.
        LawNotAllowedError: it is looser than the server's.
    """
    named = {name: given[name] for name in LIMIT_FIELDS if name in given}
    if not named:
        return None
    try:
        asked = replace(own, **named)
    except LawError as error:
        raise LawError(f"speculative.{error.message}", param=f"speculative.{error.param}") from None
    most, budget = own.tv_budget, asked.tv_budget
    if most is not None and budget is not None and budget > most:
        _refuse("tv_budget", budget, f"0 to {most:g}")
    if asked.exact_prefix < own.exact_prefix:
        _refuse("exact_prefix", asked.exact_prefix, f"{own.exact_prefix} or more")
    if own.hard_support and not asked.hard_support:
        _refuse("hard_support", asked.hard_support, "true")
    if own.phase not in ("all", asked.phase):
        _refuse("phase", asked.phase, own.phase)
    return asked


def _refuse(name: str, value: object, allowed: str) -> NoReturn:
    flag = "--" + name.replace("_", "-")
    raise LawNotAllowedError(
        f"speculative.{name} is {value!r}; allowed: {allowed} (the server's {flag})",
        param=f"speculative.{name}",
    )
