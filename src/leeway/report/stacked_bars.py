"""A chart of bars made of parts, one bar a row; one SVG file.

In: rows of parts. Out: SVG text. Parts are told apart by colour and by their order, which the
legend gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leeway.report.svg import COLOURS, label_width, line, opening, text, ticks

WIDTH = 720
_LEFT, _RIGHT, _TOP, _BOTTOM, _ROW, _BAR = 250, 90, 72, 56, 30, 18


@dataclass(frozen=True, slots=True)
class Bar:
    """One row; every bar of a chart has the same parts in the same order."""

    label: str
    parts: Mapping[str, float]


def stacked_bars(bars: Sequence[Bar], *, title: str, x_label: str, alt: str, unit: str = "") -> str:
    """Return the chart of at least one bar; the axis begins at 0 and totals are written."""
    x_ticks = ticks(max(sum(bar.parts.values()) for bar in bars))
    height = _TOP + _ROW * len(bars) + _BOTTOM
    bottom = height - _BOTTOM
    left = 20 + label_width([bar.label for bar in bars], _LEFT - 20)
    right = left + WIDTH - _LEFT - _RIGHT
    scale = (right - left) / x_ticks[-1]
    parts = [*opening(right + _RIGHT, height, alt), text(14, 26, title, size=16, weight="bold")]
    for tick in x_ticks:
        x = left + tick * scale
        parts.append(line((x, _TOP), (x, bottom), "#e4e4e4"))
        parts.append(text(x, bottom + 18, f"{tick:g}", anchor="middle"))
    parts += _legend(list(bars[0].parts), left)
    for index, bar in enumerate(bars):
        y, x = _TOP + _ROW * (index + 0.5), float(left)
        parts.append(text(left - 12, y + 4, bar.label, anchor="end"))
        for colour, (name, value) in zip(COLOURS, bar.parts.items(), strict=False):
            parts.append(
                _box(x, y - _BAR / 2, (value * scale, _BAR), colour, f"{name} {value:.2f}{unit}")
            )
            x += value * scale
        parts.append(text(x + 8, y + 4, f"{sum(bar.parts.values()):.1f}{unit}"))
    parts.append(text((left + right) / 2, height - 14, x_label, anchor="middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(names: Sequence[str], left: float) -> list[str]:
    parts, x = [], left
    for name, colour in zip(names, COLOURS, strict=False):
        parts.append(_box(x, 46, (12, 12), colour, name))
        parts.append(text(x + 17, 57, name))
        x += 34 + 7.5 * len(name)
    return parts


def _box(x: float, y: float, size: tuple[float, float], colour: str, hint: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{size[0]:.1f}" height="{size[1]:g}"'
    return f'<rect {place} fill="{colour}"><title>{hint}</title></rect>'
