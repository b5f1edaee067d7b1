"""Which vLLM the hooks are written for, and whether the functions they replace are those.

In: a version, a function. Out: a reason why not, or None. Imports nothing of vLLM.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

FIRST = (0, 32)
BEFORE = (0, 34)
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.|$|\+|rc|a|b|\.post)")


def supported() -> str:
    """Return the range in words."""
    return f"{FIRST[0]}.{FIRST[1]} up to, not including, {BEFORE[0]}.{BEFORE[1]}"


def why_not(version: str) -> str | None:
    """Return why this version is not supported, as a sentence, or None."""
    found = _VERSION.match(version)
    if found is None or not FIRST <= (int(found[1]), int(found[2])) < BEFORE:
        return (
            f"Leeway's laws replace inner functions of vLLM and are written for {supported()}; "
            f"this is {version}. Install a version in that range, or take the leeway settings out "
            "of --additional-config and LEEWAY_ out of the environment"
        )
    return None


def why_other(function: Callable[..., Any], names: tuple[str, ...]) -> str | None:
    """Return why this function is not the one that a hook is written for, or None.

    Args:
        function: what would be replaced.
        names: its parameters that the hook reads, in their order; others may follow.
    """
    found = tuple(inspect.signature(function).parameters)[: len(names)]
    if found == names:
        return None
    return (
        f"{function.__module__}.{function.__qualname__} takes ({', '.join(found)}) and Leeway's "
        f"hook is written for ({', '.join(names)}): this vLLM was changed; run an unchanged one "
        f"({supported()})"
    )
