"""A chart of values with intervals, one row each, beside a line that marks equality; one SVG file.

In: rows with labels. Out: SVG text. Every row also says its numbers, so nothing has to be read off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leeway.report.svg import COLOURS, label_width, line, opening, reach, text, ticks

WIDTH = 720
_LEFT, _RIGHT, _TOP, _BOTTOM, _ROW = 250, 130, 48, 56, 28


@dataclass(frozen=True, slots=True)
class Range:
    """One row: a value and its interval, where it has one."""

    label: str
    value: float
    low: float | None
    high: float | None


def ranges(
    rows: Sequence[Range],
    *,
    title: str,
    x_label: str,
    alt: str,
    mark: float = 1.0,
    digits: int = 2,
) -> str:
    """Return the chart of at least one row; the axis begins at 0 and `mark` gets a line.

    Numbers are written with so many `digits` behind the point.
    """
    values = [mark, *(row.value for row in rows)]
    x_ticks = ticks(reach(values, [row.high for row in rows if row.high is not None]))
    height = _TOP + _ROW * len(rows) + _BOTTOM
    bottom = height - _BOTTOM
    left = 20 + label_width([row.label for row in rows], _LEFT - 20)
    right = left + WIDTH - _LEFT - _RIGHT

    def x_of(value: float) -> float:
        return left + value / x_ticks[-1] * (right - left)

    parts = [*opening(right + _RIGHT, height, alt), text(14, 26, title, size=16, weight="bold")]
    for tick in x_ticks:
        parts.append(line((x_of(tick), _TOP), (x_of(tick), bottom), "#e4e4e4"))
        parts.append(text(x_of(tick), bottom + 18, f"{tick:g}", anchor="middle"))
    parts.append(line((x_of(mark), _TOP), (x_of(mark), bottom), "#666666", dash="4 3"))
    for index, row in enumerate(rows):
        y, colour = _TOP + _ROW * (index + 0.5), COLOURS[index % len(COLOURS)]
        said = f"{row.value:.{digits}f}"
        if row.low is not None and row.high is not None:
            end = min(row.high, x_ticks[-1])  # a longer bar goes on behind the plot
            parts.append(line((x_of(row.low), y), (x_of(end), y), colour, width=3))
            said += f" ({row.low:.{digits}f}-{row.high:.{digits}f})"
        parts.append(f'<circle cx="{x_of(row.value):.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>')
        parts.append(text(left - 12, y + 4, row.label, anchor="end", fill=colour))
        parts.append(text(right + 10, y + 4, said))
    parts.append(text((left + right) / 2, height - 14, x_label, anchor="middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"
