"""Stacked bars: parts lie end to end, as long as their numbers say."""

from xml.etree import ElementTree

import pytest

from leeway.report.stacked_bars import Bar, stacked_bars

SVG = "{http://www.w3.org/2000/svg}"
BARS = [Bar("plain", {"target": 20.0, "law": 1.0}), Bar("a & b", {"target": 24.0, "law": 3.0})]


def test_parts_lie_end_to_end():
    picture = stacked_bars(BARS, title="Step", x_label="ms", alt="alt", unit=" ms")
    root = ElementTree.fromstring(picture)
    texts = [node.text for node in root.iter(f"{SVG}text")]
    for expected in ("plain", "a & b", "21.0 ms", "27.0 ms", "target", "law", "Step", "ms"):
        assert expected in texts
    boxes = [one for one in root.iter(f"{SVG}rect") if one.get("height") == "18"]
    widths = [float(one.get("width")) for one in boxes]
    unit = widths[0] / 20
    assert widths == pytest.approx([20 * unit, unit, 24 * unit, 3 * unit], abs=0.2)
    for left, right in ((boxes[0], boxes[1]), (boxes[2], boxes[3])):
        end = float(left.get("x")) + float(left.get("width"))
        assert float(right.get("x")) == pytest.approx(end, abs=0.2)
    assert boxes[3].find(f"{SVG}title").text == "law 3.00 ms"


def test_a_long_label_has_room():
    bars = [*BARS, Bar("x" * 60, {"target": 1.0, "law": 1.0})]
    root = ElementTree.fromstring(stacked_bars(bars, title="Step", x_label="ms", alt="alt"))
    label = next(one for one in root.iter(f"{SVG}text") if one.text == "x" * 60)
    assert float(label.get("x")) > 60 * 7 and float(root.get("viewBox").split()[2]) > 720
