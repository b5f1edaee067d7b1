"""Repeated measurements of one thing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Samples:
    """Median, least and most of `n` measurements."""

    median: float
    least: float
    most: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Samples:
        """Summarise at least one measurement."""
        return cls(statistics.median(values), min(values), max(values), len(values))
