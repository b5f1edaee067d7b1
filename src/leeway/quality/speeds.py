"""How fast arms decoded while they were judged, as their receipts tell.

With several requests open, each one's seconds run while others decode too: a batch's speeds compare
arms with one another, at that batch, and with nothing else. In: results. Out: tokens a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leeway.bench.intervals import Estimate, t_quantile
from leeway.quality.results import Result
from leeway.quality.summary import by_task

DEFINITIONS = {
    "tokens/s": "output tokens behind the first / time of the engine steps behind the first token, "
    "of one request while so many others were open; of a server from its first text to the end",
    "x (the first arm)": "an arm's tokens/s / the first arm's over the same tasks and samples; 95 "
    "% over tasks, log scale. Not measured as `leeway bench` does: arms run one behind another",
}


@dataclass(frozen=True, slots=True)
class Speed:
    """An arm's speed; `ratio` to the first arm is None where either has no time."""

    tokens_per_s: float | None
    ratio: Estimate | None


def speeds_of(results: Sequence[Result], arms: Sequence[str]) -> dict[str, Speed]:
    """Return speeds by arm; the first arm is what the others are compared with."""
    totals = {name: _totals([one for one in results if one.arm == name]) for name in arms}
    first = totals[arms[0]]
    return {
        name: Speed(
            _speed(own), Estimate(1.0, None, None, len(own)) if own is first else _ratio(own, first)
        )
        for name, own in totals.items()
    }


def _totals(results: Sequence[Result]) -> dict[str, tuple[float, float]]:
    """Return tokens behind the first and their seconds, by task."""
    timed = [one for one in results if one.error is None and one.decode_s > 0]
    tokens = by_task(timed, lambda one: max(0.0, one.output_tokens - 1.0))
    seconds = by_task(timed, lambda one: one.decode_s)
    return {task: (sum(tokens[task]), sum(seconds[task])) for task in tokens}


def _speed(totals: Mapping[str, tuple[float, float]]) -> float | None:
    seconds = sum(one[1] for one in totals.values())
    return sum(one[0] for one in totals.values()) / seconds if seconds else None


def _ratio(
    own: Mapping[str, tuple[float, float]], first: Mapping[str, tuple[float, float]]
) -> Estimate | None:
    """Return the ratio of both speeds over the tasks that both have."""
    tasks = [task for task in own if task in first]
    values = np.array([[*own[task], *first[task]] for task in tasks], dtype=float)
    if not tasks or (values.sum(axis=0) <= 0).any():
        return None
    shares = values / values.sum(axis=0)
    a, b, c, d = values.sum(axis=0)
    ratio, num = float(a / b / (c / d)), len(tasks)
    if num < 2:
        return Estimate(ratio, None, None, num)
    moved = shares[:, 0] - shares[:, 1] - shares[:, 2] + shares[:, 3]
    half = t_quantile(num - 1) * math.sqrt(float(moved @ moved) * num / (num - 1))
    return Estimate(ratio, ratio * math.exp(-half), ratio * math.exp(half), num)
