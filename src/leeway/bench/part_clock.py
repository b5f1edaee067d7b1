"""Where a step's time goes: clocks around the parts of an engine.

In: parts of an engine. Out: the same parts, timed, and seconds by part. A part that runs within
another one counts for itself only, so the parts of a step add up to the step. Engines that were not
wrapped pay nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ParamSpec, TypeVar, cast

from leeway.backends.base import Backend
from leeway.drafters.base import Drafter
from leeway.engine.engine import Parts

TARGET, DRAFT, SAMPLING, LAW, REST = "target", "draft", "sampling", "law", "rest"
PARTS = {
    TARGET: "the target's forward, with the filling of its inputs",
    DRAFT: "forwards of the drafter's own model or head",
    SAMPLING: "the drafter otherwise: drawing draft tokens, keeping its rows, looking up n-grams",
    LAW: "from the target's logits to the tokens kept: temperature, top-k, top-p and penalties of "
    "the target's rows, the law itself, and the loss meter",
    REST: "all else in Engine.step: scheduling, commit, text, roll-back",
}
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class PartClock:
    """Seconds by part since `start`."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._last = now()
        self._within = [REST]
        self._seconds = dict.fromkeys(PARTS, 0.0)

    def start(self) -> None:
        """Begin anew; what follows belongs to the rest until a part is entered."""
        self._within = [REST]
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._last = self._now()

    def read(self) -> dict[str, float]:
        """Return the seconds of each part since `start`; they add up to the time passed."""
        self._count()
        return dict(self._seconds)

    def timed(
        self, part: str, function: Callable[Arguments, Result]
    ) -> Callable[Arguments, Result]:
        """Return the function with its time counted for `part`."""

        def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            self._count()
            self._within.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._count()
                self._within.pop()

        return run

    def _count(self) -> None:
        now = self._now()
        self._seconds[self._within[-1]] += now - self._last
        self._last = now


class _Timed:
    """An object some of whose methods are timed; otherwise the object itself."""

    def __init__(self, inner: object, clock: PartClock, parts: Mapping[str, str]) -> None:
        self._inner = inner
        for method, part in parts.items():
            setattr(self, method, clock.timed(part, getattr(inner, method)))

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def timed_parts(parts: Parts, clock: PartClock) -> Parts:
    """Return the parts with clocks; the drafter must be a timed one already."""
    return replace(
        parts,
        backend=cast(Backend, _Timed(parts.backend, clock, {"forward": TARGET})),
        judge=clock.timed(LAW, parts.judge),
    )


def timed_drafter(drafter: Drafter, clock: PartClock) -> Drafter:
    """Return a drafter with clocks, around what it runs forward too.

    Mutates: the drafter's own model or head (any attribute that has a `forward`) becomes a timed
    one, so the drafter should be nobody else's.
    """
    for name, value in list(vars(drafter).items()):
        if callable(getattr(value, "forward", None)):
            setattr(drafter, name, _Timed(value, clock, {"forward": DRAFT}))
    timed = _Timed(drafter, clock, {"propose": SAMPLING, "observe": SAMPLING})
    return cast(Drafter, timed)
