"""Enumerating every outcome of a program that throws keyed coins, with exact weights.

Each key (step, row, purpose) holds one uniform number on [0, 1). It starts as that whole interval
and is cut wherever a decision depends on it: at the threshold of an `accepts`, at the cumulative
probabilities of a `draw`. The program is run once for each combination of pieces; the weight of a
run is the product of its pieces' lengths. Different keys are independent by construction, and a
key that is used twice keeps its piece: a reused coin is correlated exactly as it would be in use.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from leeway.core.rng import Purpose

T = TypeVar("T", bound=Hashable)

_ROUNDING = 1e-15  # pieces shorter than this come from floating point, not from the program


class IntervalCoins:
    """Coins (see `leeway.core.rng.Coins`) that follow a script of pieces and note the forks."""

    def __init__(self, script: list[int]) -> None:
        self._script = script
        self._pieces: dict[Hashable, tuple[float, float]] = {}
        self.forks: list[tuple[int, int]] = []

    @property
    def weight(self) -> float:
        """Probability of this run's pieces."""
        weight = 1.0
        for low, high in self._pieces.values():
            weight *= high - low
        return weight

    @property
    def keys(self) -> list[Hashable]:
        """The keys that were used, in order of first use."""
        return list(self._pieces)

    def accepts(self, probability: float, *, step: int, row: int, purpose: Purpose) -> bool:
        cuts = [0.0, min(max(float(probability), 0.0), 1.0), 1.0]
        return self._choose((step, row, purpose), cuts) == 0

    def draw(self, probs: Any, *, step: int, row: int, purpose: Purpose) -> int:
        cumulative = np.cumsum(np.asarray(probs, dtype=np.float64))
        cuts = [0.0, *(cumulative / cumulative[-1]).tolist()]
        cuts[-1] = 1.0
        return self._choose((step, row, purpose), cuts)

    def _choose(self, key: Hashable, cuts: list[float]) -> int:
        low, high = self._pieces.get(key, (0.0, 1.0))
        pieces = []
        for index, (left, right) in enumerate(itertools.pairwise(cuts)):
            piece = max(low, left), min(high, right)
            if piece[1] - piece[0] > _ROUNDING:
                pieces.append((index, piece))
        depth = len(self.forks)
        choice = self._script[depth] if depth < len(self._script) else 0
        self.forks.append((choice, len(pieces)))
        index, self._pieces[key] = pieces[choice]
        return index


def enumerate_outcomes(run: Callable[[IntervalCoins], T]) -> dict[T, float]:
    """Return the exact distribution of `run(coins)` over all coins.

    `run` must be a function of its coins alone.
    """
    outcomes: dict[T, float] = {}
    script: list[int] | None = []
    while script is not None:
        coins = IntervalCoins(script)
        outcome = run(coins)
        outcomes[outcome] = outcomes.get(outcome, 0.0) + coins.weight
        script = _next_script(coins.forks)
    assert abs(sum(outcomes.values()) - 1) < 1e-11
    return outcomes


def _next_script(forks: list[tuple[int, int]]) -> list[int] | None:
    for depth in range(len(forks) - 1, -1, -1):
        choice, num_pieces = forks[depth]
        if choice + 1 < num_pieces:
            return [taken for taken, _ in forks[:depth]] + [choice + 1]
    return None
