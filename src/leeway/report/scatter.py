"""A scatter chart with ranges, as one SVG file without scripts or fonts of its own.

In: points with labels, some of them joined to series. Out: SVG text. Every label names the law and
n, so the picture can stand alone; the chart grows where there are many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leeway.report.svg import COLOURS, label_width, line, opening, reach, text, ticks

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 190, 48, 56
_LINE = 22
_MARKS = ("circle", "square", "diamond", "triangle")
_HALF = 7  # of a mark, with a little room
_SHORT_SIZE, _SHORT_CHARACTER = 11, 6.4


@dataclass(frozen=True, slots=True)
class Point:
    """One mark: a value with its least and most, vertically and, where given, horizontally.

    Points of one label are a series: one colour, joined in the order given, the label written once;
    `short` stands beside the mark and tells them apart.
    """

    label: str
    x: float
    y: float
    y_least: float
    y_most: float
    short: str = ""
    x_least: float | None = None
    x_most: float | None = None


@dataclass(frozen=True, slots=True)
class Axes:
    """What the axes mean."""

    title: str
    x_label: str
    y_label: str
    alt: str


def scatter(points: Sequence[Point], axes: Axes) -> str:
    """Return the chart of at least one point. Both axes begin at 0."""
    series = {
        label: [point for point in points if point.label == label] for label in _order(points)
    }
    x_ticks = ticks(max(point.x if point.x_most is None else point.x_most for point in points) or 1)
    y_ticks = ticks(reach([point.y for point in points], [one.y_most for one in points]) or 1)
    height = max(HEIGHT, _TOP + _LINE * len(series) + _BOTTOM)
    scale = _Scale(x_ticks[-1], y_ticks[-1], height)
    width = WIDTH - _RIGHT + 20 + label_width(list(series), _RIGHT - 20)
    parts = [
        *opening(width, height, axes.alt),
        text(_LEFT, 26, axes.title, size=16, weight="bold"),
        *_grid(scale, x_ticks, y_ticks),
        text((_LEFT + WIDTH - _RIGHT) / 2, height - 14, axes.x_label, anchor="middle"),
        f'<g transform="translate(18 {(_TOP + height - _BOTTOM) / 2}) rotate(-90)">'
        f"{text(0, 0, axes.y_label, anchor='middle')}</g>",
        *_labels(list(series.values()), scale),
    ]
    for index, some in enumerate(series.values()):
        parts += _series(some, scale, index)
    parts += _shorts(points, scale)
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True, slots=True)
class _Scale:
    x_most: float
    y_most: float
    height: int

    def x(self, value: float) -> float:
        return _LEFT + value / self.x_most * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        bottom = self.height - _BOTTOM
        return bottom - min(value, self.y_most) / self.y_most * (bottom - _TOP)


def _grid(scale: _Scale, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> list[str]:
    parts = []
    right, bottom = WIDTH - _RIGHT, scale.height - _BOTTOM
    for tick in y_ticks:
        y = scale.y(tick)
        parts.append(line((_LEFT, y), (right, y), "#dddddd"))
        parts.append(text(_LEFT - 8, y + 4, f"{tick:g}", anchor="end"))
    for tick in x_ticks:
        x = scale.x(tick)
        parts.append(line((x, bottom), (x, bottom + 5), "#888888"))
        parts.append(text(x, bottom + 20, f"{tick:g}", anchor="middle"))
    return parts


def _series(points: Sequence[Point], scale: _Scale, index: int) -> list[str]:
    colour = COLOURS[index % len(COLOURS)]
    parts = []
    if len(points) > 1:
        path = " ".join(f"{scale.x(point.x):.1f},{scale.y(point.y):.1f}" for point in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1"/>')
    return [*parts, *(_mark(point, scale, index) for point in points)]


def _mark(point: Point, scale: _Scale, index: int) -> str:
    """Return range bars and a mark; colour and shape both tell points apart."""
    colour, shape = COLOURS[index % len(COLOURS)], _MARKS[index % len(_MARKS)]
    x, y = scale.x(point.x), scale.y(point.y)
    bar = line((x, scale.y(point.y_least)), (x, scale.y(point.y_most)), colour, width=2)
    if point.x_least is not None and point.x_most is not None:
        ends = (scale.x(max(point.x_least, 0.0)), y), (scale.x(point.x_most), y)
        bar += line(*ends, colour, width=2)
    if shape == "circle":
        return bar + f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>'
    if shape == "triangle":
        corners = f"{x:.1f},{y - 7:.1f} {x - 6:.1f},{y + 5:.1f} {x + 6:.1f},{y + 5:.1f}"
        return bar + f'<polygon points="{corners}" fill="{colour}"/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if shape == "diamond" else ""
    place = f'x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"'
    return bar + f'<rect {place} fill="{colour}"{turn}/>'


def _shorts(points: Sequence[Point], scale: _Scale) -> list[str]:
    """Return the short labels, each beside its mark where nothing else stands, if there is room."""
    taken = [_box(scale.x(one.x), scale.y(one.y), 2 * _HALF, 2 * _HALF) for one in points]
    for one in points:
        x, top, bottom = scale.x(one.x), scale.y(one.y_most), scale.y(one.y_least)
        taken.append((x - 2, top, x + 2, bottom))
    parts = []
    colours = {label: COLOURS[index % len(COLOURS)] for index, label in enumerate(_order(points))}
    for point in points:
        if not point.short:
            continue
        x, y = scale.x(point.x), scale.y(point.y)
        width = _SHORT_CHARACTER * len(point.short)
        side = _HALF + 2 + width / 2
        above, below = y - _HALF - 6, y + _HALF + 6
        places = [
            *((x - side, y), (x + side, y), (x, above), (x, below)),
            *((x - side, above), (x + side, above), (x - side, below), (x + side, below)),
        ]
        boxes = [_box(*place, width, _SHORT_SIZE) for place in places]
        free = (box for box in boxes if not any(_overlap(box, other) for other in taken))
        chosen = next(free, boxes[0])
        taken.append(chosen)
        middle = (chosen[0] + chosen[2]) / 2
        words = text(
            middle,
            chosen[3] - 2,
            point.short,
            anchor="middle",
            size=_SHORT_SIZE,
            fill=colours[point.label],
        )
        parts.append(f'<g paint-order="stroke" stroke="#ffffff" stroke-width="3">{words}</g>')
    return parts


def _order(points: Sequence[Point]) -> list[str]:
    """Return the labels of all series, in order of their first points."""
    return list(dict.fromkeys(point.label for point in points))


_Box = tuple[float, float, float, float]


def _box(x: float, y: float, width: float, height: float) -> _Box:
    """Return left, top, right and bottom of a box around a middle."""
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _overlap(one: _Box, other: _Box) -> bool:
    is_beside = one[2] <= other[0] or other[2] <= one[0]
    return not (is_beside or one[3] <= other[1] or other[3] <= one[1])


def _labels(series: Sequence[Sequence[Point]], scale: _Scale) -> list[str]:
    """Return one label a series beside the plot, tied by a line to its point furthest right."""
    ends = [max(points, key=lambda one: (one.x, one.y)) for points in series]
    order = sorted(range(len(ends)), key=lambda index: scale.y(ends[index].y))
    heights = _spread([scale.y(ends[index].y) for index in order], scale.height - _BOTTOM)
    parts = []
    for index, y in zip(order, heights, strict=True):
        point, colour = ends[index], COLOURS[index % len(COLOURS)]
        x = WIDTH - _RIGHT + 14
        mark = (scale.x(point.x) + 8, scale.y(point.y))
        leader = line(mark, (x - 4, y), colour, dash="2 4")
        parts.append(f'<g opacity="0.6">{leader}</g>')
        parts.append(text(x, y + 4, point.label, fill=colour))
    return parts


def _spread(heights: Sequence[float], bottom: float) -> list[float]:
    """Return ascending heights moved apart far enough for a line of text each, above `bottom`."""
    spread, last = [], -math.inf
    for height in heights:
        last = max(height, last + _LINE)
        spread.append(last)
    limit = bottom
    for index in reversed(range(len(spread))):
        spread[index] = min(spread[index], limit)
        limit = spread[index] - _LINE
    return spread
