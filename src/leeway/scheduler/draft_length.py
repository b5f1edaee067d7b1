"""How long to draft: as long as has paid in this request so far.

In: what became of this request's earlier drafts (counts by depth) and one fixed number, what a
draft token costs. Out: how many draft tokens the next step may get. Knows neither clocks nor other
requests, so a seed gives the same text whatever the machine is busy with; and it knows nothing of
the tokens about to be drafted, so every law keeps its documented rows.

Guarantee: the length of a block is fixed before any of its tokens is drawn; tests/engine/
test_draft_length.py enumerates the served loop.
Source: that of `core.draft_value`.
Deviates: acceptance is estimated by depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from leeway.core.config import EngineConfig
from leeway.core.draft_value import MEMORY, PRIOR_RATE, estimated_rate, promises

USUAL_COSTS: Mapping[str, float] = MappingProxyType(
    {"none": 0.0, "ngram": 0.03, "mtp": 0.11, "mtp_ngram": 0.11, "draft_model": 0.4}
)
"""What one draft token adds to a verify step, in plain steps, where nothing was measured.

A further row of the target's forward costs about 0.03; a head's draft token about 0.08 more.
"""
PROBE_EVERY = 16
_DEAREST = max(USUAL_COSTS.values())


@dataclass(frozen=True, slots=True)
class DraftLength:
    """A policy; `draft_cost` is what one draft token adds to a step, in plain steps."""

    is_adaptive: bool = False
    draft_cost: float = 0.0

    @classmethod
    def of(cls, config: EngineConfig, drafter: str) -> DraftLength:
        """Return the configured policy; a cost that was not given is the drafter's usual one."""
        cost = config.draft_cost
        if cost is None:
            cost = USUAL_COSTS.get(drafter, _DEAREST)
        return cls(config.draft_length == "adaptive", cost)

    def choose(self, counts: DraftCounts, most: int) -> int:
        """Return how many draft tokens the next step may get, 0 to `most`."""
        return best_length(counts, most, self.draft_cost) if self.is_adaptive else most


@dataclass(slots=True)
class DraftCounts:
    """What became of one request's drafts, older blocks counting less.

    Attributes:
        decided: by depth, how often a draft token was judged (all before it were accepted).
        accepted: by depth, how often it was accepted.
        num_undrafted: verify steps since the last one that drafted.
    """

    decided: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    num_undrafted: int = 0

    def add(self, num_drafted: int, num_accepted: int) -> None:
        """Count one verify step; a step without drafts says nothing about acceptance."""
        assert 0 <= num_accepted <= num_drafted
        if num_drafted == 0:
            self.num_undrafted += 1
            return
        self.num_undrafted = 0
        for row in (self.decided, self.accepted):
            row[:] = [MEMORY * count for count in row]
            row.extend([0.0] * (num_drafted - len(row)))
        for depth in range(min(num_accepted + 1, num_drafted)):
            self.decided[depth] += 1.0
            self.accepted[depth] += depth < num_accepted

    def rates(self, most: int) -> list[float]:
        """Return the estimated acceptance at depths 1 to `most`, given that the depth is reached.

        A depth that was hardly ever judged is taken to be like the one before it.
        """
        found = []
        rate = PRIOR_RATE
        for depth in range(most):
            is_known = depth < len(self.decided)
            decided = self.decided[depth] if is_known else 0.0
            accepted = self.accepted[depth] if is_known else 0.0
            rate = estimated_rate(accepted, decided, rate)
            found.append(rate)
        return found


def best_length(counts: DraftCounts, most: int, draft_cost: float) -> int:
    """Return the length whose expected tokens a unit of cost are the most; the shortest of equals.

    Where no draft pays, one token is tried in every `PROBE_EVERY`-th step, so that a request whose
    text becomes easier to draft is noticed.
    """
    best, best_value = 0, 1.0
    for length, value in enumerate(promises(counts.rates(most), draft_cost), start=1):
        if value > best_value:
            best, best_value = length, value
    if best == 0 and counts.num_undrafted >= PROBE_EVERY - 1:
        return min(1, most)
    return best
