"""SVG by hand: the few elements that charts are made of, without scripts or fonts of their own.

In: places, numbers, words. Out: SVG text. Knows nothing of what a chart shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

_FURTHEST = 2.5
COLOURS = ("#3b4252", "#0b6e99", "#b5532a", "#5b7f2b", "#7a4fa3", "#a3873b")


def opening(width: int, height: int, alt: str) -> list[str]:
    """Return the start of a picture that says in words what it shows, and its white ground."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(alt, {chr(34): "&quot;"})}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]


def label_width(labels: Sequence[str], least: int = 150) -> int:
    """Return about how wide the longest label is, in the size of `text`."""
    return max([least, *(round(7.2 * len(label)) for label in labels)])


def reach(values: Sequence[float], ends: Sequence[float]) -> float:
    """Return how far an axis goes: to the ends of all intervals, but not so far beyond the values.

    An interval that nearly nothing is known of would else leave no room for the others.
    """
    most, furthest = max(values), max([*values, *ends])
    return min(furthest, _FURTHEST * most) if most > 0 else furthest


def ticks(most: float) -> list[float]:
    """Return round numbers from 0 to at least `most`."""
    rough = most / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return [step * index for index in range(math.ceil(most / step - 1e-9) + 1)]


def line(
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    *,
    width: float = 1,
    dash: str = "",
) -> str:
    """Return a straight line."""
    ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{dashes}/>'


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "start",
    size: int = 13,
    weight: str = "normal",
    fill: str = "#222222",
) -> str:
    """Return one line of text; y is its baseline."""
    look = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{fill}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(content)}</text>'
