"""Pixels of a chart, and why there are none."""

import struct
import sys

import pytest

from leeway.report import png

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20">'
    '<rect width="40" height="20" fill="#ffffff"/></svg>'
)


@pytest.fixture(autouse=True)
def anew():
    png._rasteriser.cache_clear()
    yield
    png._rasteriser.cache_clear()


def test_a_picture_is_twice_the_size():
    if png.why_no_png() is not None:
        pytest.skip(png.why_no_png())
    draw = png.png_drawer()
    content = draw(SVG)
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (80, 40)
    assert draw(SVG) == content


def test_without_a_rasteriser_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    assert "leeway-llm[report]" in png.why_no_png()
    assert png.png_drawer() is None


def test_without_fonts_no_picture_is_drawn(monkeypatch):
    def without_letters(svg_string, zoom):
        return svg_string.partition("<text")[0].removesuffix("</svg>").encode()

    monkeypatch.setattr(png, "_rasteriser", lambda: without_letters)
    monkeypatch.setattr(png._rasteriser, "cache_clear", lambda: None, raising=False)
    assert "no fonts" in png.why_no_png() and png.png_drawer() is None
