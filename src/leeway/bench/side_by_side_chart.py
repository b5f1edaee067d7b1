"""The chart of a side-by-side run: speed against measured loss, one point an arm."""

from __future__ import annotations

from collections.abc import Sequence

from leeway.bench.side_by_side import ArmResult
from leeway.report.scatter import Axes, Point, scatter


def speed_against_loss(results: Sequence[ArmResult], model: str, drafter: str) -> str:
    """Return an SVG chart of at least one arm; the first is plain decoding."""
    num_seeds = len(results[0].speeds)
    axes = Axes(
        title=f"Speed against measured loss: {model}, {drafter} drafts, n = {num_seeds} seeds",
        x_label="loss: mean total variation between emitted and target row, per decided position",
        y_label="speed, times plain decoding (median, least to most)",
        alt="; ".join(
            f"{result.arm.name}: {result.plain_ratio.median:.2f} times plain decoding at a loss "
            f"of {_loss(result):.3f}"
            for result in results
        ),
    )
    return scatter([_point(result) for result in results], axes)


def _point(result: ArmResult) -> Point:
    assert result.receipt is not None
    numbers = [value for value in result.receipt.options.values() if isinstance(value, float)]
    knob = f" {numbers[0]:g}" if numbers else ""
    is_exact = result.receipt.guarantee != "none"
    note = " (exact)" if is_exact and result.arm.name == result.receipt.law else ""
    ratio = result.plain_ratio
    label = f"{result.arm.name}{knob}{note}"
    return Point(label, _loss(result), ratio.median, ratio.least, ratio.most)


def _loss(result: ArmResult) -> float:
    """Return the mean loss; nothing decided is nothing lost."""
    return result.tally.loss()["total_variation_mean"] or 0.0
