"""Charts as pixels, where a rasteriser is installed (extra: report).

In: SVG text. Out: PNG bytes, twice the size for sharp letters. Letters come from the fonts of the
system; without any a picture would say nothing, so none is drawn.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import cast

ZOOM = 2.0
_LETTER = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20">{}</svg>',
    '<text x="2" y="16" font-family="sans-serif" font-size="16">H</text>',
)
Draw = Callable[[str], bytes]


def png_drawer() -> Draw | None:
    """Return what turns SVG text into PNG bytes; None where `why_no_png` says why."""
    return None if why_no_png() is not None else _draw


def why_no_png() -> str | None:
    """Return why no PNG can be drawn here; None if it can."""
    try:
        _rasteriser()
    except ImportError:
        return "no rasteriser is installed; `pip install 'leeway-llm[report]'` adds one"
    if _draw(_LETTER[0].format(_LETTER[1])) == _draw(_LETTER[0].format("")):
        return "the system has no fonts for its letters; install some, such as DejaVu"
    return None


def _draw(svg: str) -> bytes:
    return _rasteriser()(svg_string=svg, zoom=ZOOM)


@functools.cache
def _rasteriser() -> Callable[..., bytes]:
    return cast(Callable[..., bytes], importlib.import_module("resvg_py").svg_to_bytes)
