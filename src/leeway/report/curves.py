"""A chart of curves with intervals, one quantity over one number; one SVG file.

In: curves with labels. Out: SVG text. The vertical axis begins at 0; ticks of the horizontal one
stand at the points themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leeway.report.scatter import Axes
from leeway.report.svg import COLOURS, label_width, line, opening, reach, text, ticks

_LEFT, _PLOT, _TOP, _BOTTOM, HEIGHT = 70, 460, 48, 56, 400
_INSET, _LEAST_GAP = 24, 42
_LEGEND_LINE, _DASHES = 22, ("", "7 3", "2 3")


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A value over x, with its interval where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in order of x, and what they are; a level has no marks, it was not measured at x."""

    label: str
    points: tuple[CurvePoint, ...]
    is_level: bool = False


def curves(
    drawn: Sequence[Curve], axes: Axes, *, mark: float | None = None, is_log: bool = False
) -> str:
    """Return the chart of at least one curve of at least one point.

    Args:
        drawn: each gets a colour and a dash of its own.
        axes: title, labels and alternative text.
        mark: a height that gets a line, such as equality.
        is_log: equal factors of x lie equally far apart.
    """
    points = [point for curve in drawn for point in curve.points]
    tops = [point.high for point in points if point.high is not None]
    y_ticks = ticks(reach([*(point.y for point in points), mark or 0.0], tops) or 1.0)
    scale = _Scale(
        min(point.x for point in points),
        max(point.x for point in points),
        y_ticks[-1],
        is_log,
    )
    width = _LEFT + _PLOT + 40 + label_width([curve.label for curve in drawn])
    middle = (_TOP + HEIGHT - _BOTTOM) / 2
    parts = [
        *opening(width, HEIGHT, axes.alt),
        text(_LEFT, 26, axes.title, size=16, weight="bold"),
        *_grid(scale, sorted({point.x for point in points}), y_ticks),
    ]
    if mark is not None:
        y = scale.y(mark)
        parts.append(line((_LEFT, y), (_LEFT + _PLOT, y), "#666666", dash="4 3"))
    for index, curve in enumerate(drawn):
        parts += _curve(curve, scale, index)
    parts.append(text(_LEFT + _PLOT / 2, HEIGHT - 14, axes.x_label, anchor="middle"))
    turned = text(0, 0, axes.y_label, anchor="middle")
    parts.append(f'<g transform="translate(18 {middle}) rotate(-90)">{turned}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True, slots=True)
class _Scale:
    least: float
    most: float
    y_most: float
    is_log: bool

    def x(self, value: float) -> float:
        low, high, at = self.least, self.most, value
        if self.is_log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        share = 0.5 if high == low else (at - low) / (high - low)
        return _LEFT + _INSET + share * (_PLOT - 2 * _INSET)

    def y(self, value: float) -> float:
        share = min(value, self.y_most) / self.y_most
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)


def _grid(scale: _Scale, xs: Sequence[float], y_ticks: Sequence[float]) -> list[str]:
    parts, bottom, last = [], HEIGHT - _BOTTOM, -math.inf
    for tick in y_ticks:
        y = scale.y(tick)
        parts.append(line((_LEFT, y), (_LEFT + _PLOT, y), "#dddddd"))
        parts.append(text(_LEFT - 8, y + 4, f"{tick:g}", anchor="end"))
    for value in xs:
        x = scale.x(value)
        parts.append(line((x, bottom), (x, bottom + 5), "#888888"))
        if x - last >= _LEAST_GAP:
            parts.append(text(x, bottom + 20, f"{value:g}", anchor="middle"))
            last = x
    return parts


def _curve(curve: Curve, scale: _Scale, index: int) -> list[str]:
    colour, dash = COLOURS[index % len(COLOURS)], _DASHES[index % len(_DASHES)]
    places = [(scale.x(point.x), scale.y(point.y)) for point in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>']
    for point, (x, y) in zip(curve.points, places, strict=True):
        said = f"{point.x:g}: {point.y:.4g}"
        if point.low is not None and point.high is not None:
            ends = (x, scale.y(max(point.low, 0.0))), (x, scale.y(point.high))
            parts.append(line(*ends, colour, width=3))
            said += f" ({point.low:.4g}-{point.high:.4g})"
        if curve.is_level:
            continue
        place = f'cx="{x:.1f}" cy="{y:.1f}" r="5"'
        parts.append(f'<circle {place} fill="{colour}"><title>{said}</title></circle>')
    y = _TOP + 10 + _LEGEND_LINE * index
    x = _LEFT + _PLOT + 12
    parts.append(line((x, y - 4), (x + 18, y - 4), colour, width=3, dash=dash))
    parts.append(text(x + 24, y, curve.label, fill=colour))
    return parts
