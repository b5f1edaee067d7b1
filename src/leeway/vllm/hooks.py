"""Putting functions in place of vLLM's, and taking them away again. Imports nothing of vLLM."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from leeway.core.errors import ConfigError
from leeway.vllm.versions import why_other

_HOOK = "_leeway_hook"

Place = tuple[Any, str, tuple[str, ...]]
"""Owner of a function, its name, and the parameters that its hook reads."""


def replace(place: Place, hook: Callable[..., Any]) -> None:
    """Replace a function by `hook(original, ...)`."""
    owner, name, _ = place
    original = getattr(owner, name)

    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return hook(original, *args, **kwargs)

    setattr(hooked, _HOOK, hook)
    setattr(owner, name, hooked)


def is_replaced(owner: Any, name: str) -> bool:  # noqa: ANN401
    """Return whether a hook stands in for a function."""
    return hasattr(getattr(owner, name), _HOOK)


def engage(places: Sequence[Place], own: Sequence[Callable[..., Any]]) -> None:
    """Replace functions by the hooks at the same places of `own`, once all are as expected.

    Raises:
        ConfigError: a function is not the one that its hook is written for; none is replaced.
    """
    check(places)
    for place, hook in zip(places, own, strict=True):
        replace(place, hook)


def restore(places: Sequence[Place]) -> None:
    """Take the hooks of an earlier engine of this process away."""
    for owner, name, _ in places:
        if is_replaced(owner, name):
            setattr(owner, name, getattr(owner, name).__wrapped__)


def check(places: Sequence[Place]) -> None:
    """Make sure that the functions are the ones that the hooks are written for.

    Raises:
        ConfigError: one is not.
    """
    for owner, name, parameters in places:
        reason = why_other(getattr(owner, name), parameters)
        if reason is not None:
            raise ConfigError(reason)
