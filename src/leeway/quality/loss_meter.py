"""The loss at every decided position, not only its mean: the tail that a mean hides.

In: an engine. Out: the same engine whose judgements are watched, and losses by request. Total
variation is kept in steps of 0.001, rounded up, so that millions of positions stay small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from leeway.core.types import Draft, FloatArray
from leeway.engine.engine import Engine
from leeway.engine.verify import Judgement
from leeway.scheduler.sequence import Sequence

STEPS = 1000
HIGH_LOSS = 0.1
TAIL = 0.99
_ROUNDING = 9  # decimals; what lies behind them comes from float arithmetic
Judge = Callable[[Sequence, Draft, FloatArray], Judgement]


@dataclass(frozen=True, slots=True)
class Losses:
    """Total variation of emitted from target row over decided positions.

    Attributes:
        num_high: positions above `HIGH_LOSS`.
        counts: positions by total variation in thousandths, rounded up; as text, for JSON.
    """

    num_high: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_positions(self) -> int:
        """All positions decided."""
        return sum(self.counts.values())

    @property
    def high_rate(self) -> float | None:
        """Share of positions above `HIGH_LOSS`."""
        num = self.num_positions
        return self.num_high / num if num else None

    @property
    def tail(self) -> float | None:
        """The least loss that 99 % of the positions do not exceed, to 0.001 from above."""
        wanted = math.ceil(TAIL * self.num_positions)
        for step in sorted(int(one) for one in self.counts):
            wanted -= self.counts[str(step)]
            if wanted <= 0:
                return step / STEPS
        return None


def losses_of(values: Iterable[float]) -> Losses:
    """Return the losses of single positions."""
    rounded = [round(float(value), _ROUNDING) for value in values]
    steps = Counter(math.ceil(round(value * STEPS, 6)) for value in rounded)
    counts = {str(step): num for step, num in sorted(steps.items())}
    return Losses(sum(value > HIGH_LOSS for value in rounded), counts)


def total_losses(parts: Iterable[Losses]) -> Losses:
    """Return all positions together."""
    num_high, counts = 0, Counter[str]()
    for one in parts:
        num_high += one.num_high
        counts.update(one.counts)
    return Losses(num_high, dict(counts))


class LossWatch:
    """Keeps what the judgements of watched engines say, request by request."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def watching(self, engine: Engine) -> Engine:
        """Return an engine over the same parts whose judgements are watched."""
        judge: Judge = engine.parts.judge

        def watched(sequence: Sequence, draft: Draft, logits: FloatArray) -> Judgement:
            judgement = judge(sequence, draft, logits)
            if judgement.measures is not None:
                values = self._values.setdefault(sequence.request.request_id, [])
                values += judgement.measures.loss_tv.tolist()
            return judgement

        return Engine(replace(engine.parts, judge=watched), engine.config)

    def take_all(self) -> Losses:
        """Return the losses of all requests together and forget them."""
        return total_losses([self.take(request_id) for request_id in list(self._values)])

    def take(self, request_id: str) -> Losses:
        """Return a request's losses and forget them."""
        return losses_of(self._values.pop(request_id, ()))
