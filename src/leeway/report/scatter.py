"""A scatter chart with ranges, as one SVG file without scripts or fonts of its own.

In: points with labels. Out: SVG text. Every point's label names the law and n, so the picture can
stand alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leeway.report.svg import COLOURS, label_width, line, opening, text, ticks

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 190, 48, 56
_LINE = 22
_MARKS = ("circle", "square", "diamond")


@dataclass(frozen=True, slots=True)
class Point:
    """One mark: a median with its least and most, vertically."""

    label: str
    x: float
    y: float
    y_least: float
    y_most: float


@dataclass(frozen=True, slots=True)
class Axes:
    """What the axes mean."""

    title: str
    x_label: str
    y_label: str
    alt: str


def scatter(points: Sequence[Point], axes: Axes) -> str:
    """Return the chart. Both axes begin at 0."""
    x_ticks = ticks(max(point.x for point in points) or 1.0)
    y_ticks = ticks(max(point.y_most for point in points))
    scale = _Scale(x_ticks[-1], y_ticks[-1])
    width = 20 + label_width([point.label for point in points], _RIGHT - 20)
    parts = [
        *opening(WIDTH - _RIGHT + width, HEIGHT, axes.alt),
        text(_LEFT, 26, axes.title, size=16, weight="bold"),
        *_grid(scale, x_ticks, y_ticks),
        text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 14, axes.x_label, anchor="middle"),
        f'<g transform="translate(18 {(_TOP + HEIGHT - _BOTTOM) / 2}) rotate(-90)">'
        f"{text(0, 0, axes.y_label, anchor='middle')}</g>",
        *(_mark(point, scale, index) for index, point in enumerate(points)),
        *_labels(points, scale),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Scale:
    x_most: float
    y_most: float

    def x(self, value: float) -> float:
        return _LEFT + value / self.x_most * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self.y_most * (HEIGHT - _TOP - _BOTTOM)


def _grid(scale: _Scale, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> list[str]:
    parts = []
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    for tick in y_ticks:
        y = scale.y(tick)
        parts.append(line((_LEFT, y), (right, y), "#dddddd"))
        parts.append(text(_LEFT - 8, y + 4, f"{tick:g}", anchor="end"))
    for tick in x_ticks:
        x = scale.x(tick)
        parts.append(line((x, bottom), (x, bottom + 5), "#888888"))
        parts.append(text(x, bottom + 20, f"{tick:g}", anchor="middle"))
    return parts


def _mark(point: Point, scale: _Scale, index: int) -> str:
    """Return a range bar and a mark; colour and shape both tell points apart."""
    colour, shape = COLOURS[index % len(COLOURS)], _MARKS[index % len(_MARKS)]
    x, y = scale.x(point.x), scale.y(point.y)
    bar = line((x, scale.y(point.y_least)), (x, scale.y(point.y_most)), colour, width=2)
    if shape == "circle":
        return bar + f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if shape == "diamond" else ""
    place = f'x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"'
    return bar + f'<rect {place} fill="{colour}"{turn}/>'


def _labels(points: Sequence[Point], scale: _Scale) -> list[str]:
    """Return one label a point beside the plot, in order of height, tied to its mark by a line."""
    order = sorted(range(len(points)), key=lambda index: scale.y(points[index].y))
    heights = _spread([scale.y(points[index].y) for index in order])
    parts = []
    for index, y in zip(order, heights, strict=True):
        point, colour = points[index], COLOURS[index % len(COLOURS)]
        x = WIDTH - _RIGHT + 14
        mark = (scale.x(point.x) + 8, scale.y(point.y))
        parts.append(line(mark, (x - 4, y), colour, dash="2 3"))
        parts.append(text(x, y + 4, point.label, fill=colour))
    return parts


def _spread(heights: Sequence[float]) -> list[float]:
    """Return ascending heights moved apart far enough for a line of text each, within the chart."""
    spread, last = [], -math.inf
    for height in heights:
        last = max(height, last + _LINE)
        spread.append(last)
    limit = float(HEIGHT - _LINE / 2)
    for index in reversed(range(len(spread))):
        spread[index] = min(spread[index], limit)
        limit = spread[index] - _LINE
    return spread
