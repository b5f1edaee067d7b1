"""A picture of what a law emits: target, draft and emitted row as grouped bars, one SVG file.

In: panels of tokens with three probabilities each. Out: SVG text on a white ground, so that it
reads the same on a dark page. The rows are told apart by their order and by outline as well as by
colour, and every bar says its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leeway.report.svg import COLOURS, opening, text

WIDTH = 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 104, 50, 66, 8
_BAR, _PITCH, _GAP, _HEAD = 11, 14, 12, 50
_ROWS = (("target p", COLOURS[0]), ("draft q", COLOURS[2]), ("emitted", COLOURS[1]))
_OUTLINED = 1


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its probability in target, draft and emitted row, and how a draft of it fares."""

    label: str
    probs: tuple[float, float, float]
    fate: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of rows under the law."""

    title: str
    facts: str
    tokens: tuple[Token, ...]


def picture(title: str, panels: Sequence[Panel], alt: str) -> str:
    """Return the panels one below the other, bars to one scale."""
    heights = [_HEAD + len(panel.tokens) * (3 * _PITCH + _GAP) for panel in panels]
    most = max(prob for panel in panels for token in panel.tokens for prob in token.probs)
    scale = (WIDTH - _LEFT - _RIGHT) / most
    parts = [
        *opening(WIDTH, _TOP + sum(heights) + _BOTTOM, alt),
        text(14, 26, title, size=16, weight="bold"),
        *_legend(),
    ]
    top = _TOP
    for panel, height in zip(panels, heights, strict=True):
        parts += _panel(panel, top, scale)
        top += height
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    parts, x = [], 14
    for index, (name, _) in enumerate(_ROWS):
        parts += [_bar(x, 43, 14, index), text(x + 20, 53, name)]
        x += 112
    return parts


def _panel(panel: Panel, top: int, scale: float) -> list[str]:
    parts = [
        text(14, top + 20, panel.title, weight="bold"),
        text(14, top + 38, panel.facts),
    ]
    y = top + _HEAD
    for token in panel.tokens:
        parts.append(text(14, y + 13, token.label))
        parts.append(text(14, y + 30, token.fate, size=12, fill="#555555"))
        for index, prob in enumerate(token.probs):
            hint = f"{_ROWS[index][0]} of {token.label}: {short(prob)}"
            parts.append(_bar(_LEFT, y + index * _PITCH, prob * scale, index, hint))
            x = _LEFT + prob * scale + 5
            parts.append(text(x, y + index * _PITCH + 10, short(prob), size=12))
        y += 3 * _PITCH + _GAP
    return parts


def short(value: float) -> str:
    """Return a probability in at most three digits."""
    return f"{round(value, 6) + 0.0:.3g}"


def _bar(x: float, y: float, width: float, index: int, hint: str = "") -> str:
    colour = _ROWS[index][1]
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}"'
    look = f'fill="{colour}"'
    if index == _OUTLINED:
        look = f'fill="{colour}" fill-opacity="0.15" stroke="{colour}" stroke-width="1.5"'
    title = f"<title>{hint}</title>" if hint else ""
    return f"<rect {place} {look}>{title}</rect>"
