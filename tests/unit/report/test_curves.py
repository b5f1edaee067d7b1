"""The chart is well-formed, and its marks lie where the numbers are."""

from xml.etree import ElementTree

import pytest

from leeway.report.curves import Curve, CurvePoint, curves
from leeway.report.scatter import Axes

SVG = "{http://www.w3.org/2000/svg}"
AXES = Axes("Speed <by> knob", "knob", "speed", 'alt "text"')


def draw(*drawn, **kwargs):
    return ElementTree.fromstring(curves(drawn, AXES, **kwargs))


def circles(root):
    return [(float(one.get("cx")), float(one.get("cy"))) for one in root.iter(f"{SVG}circle")]


def curve(*points, label="law, n = 3"):
    return Curve(label, tuple(CurvePoint(*point) for point in points))


def test_labels_and_numbers_are_written():
    root = draw(curve((0.25, 1.5, 1.25, 2.0), (0.5, 3.0)), curve((0.5, 1.0), label="other & n"))
    texts = [node.text for node in root.iter(f"{SVG}text")]
    for expected in ("Speed <by> knob", "knob", "speed", "law, n = 3", "other & n", "0.25", "0.5"):
        assert expected in texts
    assert root.get("aria-label") == 'alt "text"'
    hints = [node.text for node in root.iter(f"{SVG}title")]
    assert hints == ["0.25: 1.5 (1.25-2)", "0.5: 3", "0.5: 1"]


def test_places_are_in_proportion():
    (x0, y0), (x1, y1), (x2, y2) = circles(draw(curve((-1, 0.0), (0, 2.0), (3, 1.0))))
    assert (x2 - x1) / (x1 - x0) == pytest.approx(3, rel=1e-2)
    assert (y0 - y2) / (y0 - y1) == pytest.approx(0.5, rel=1e-2) and y1 < y2 < y0


def test_doublings_are_equally_far_apart_on_a_log_axis():
    (x0, _), (x1, _), (x2, _) = circles(draw(curve((512, 1), (1024, 1), (2048, 1)), is_log=True))
    assert x2 - x1 == pytest.approx(x1 - x0, abs=0.2)


def test_an_interval_is_a_bar_and_the_mark_a_line():
    root = draw(curve((1, 2.0, 1.0, 4.0)), mark=1.0)
    bars = [one for one in root.iter(f"{SVG}line") if one.get("stroke-width") == "3"]
    marks = [one for one in root.iter(f"{SVG}line") if one.get("stroke-dasharray") == "4 3"]
    assert float(bars[0].get("y1")) == float(marks[0].get("y1")) > float(bars[0].get("y2"))
    assert not [
        one for one in draw(curve((1, 2.0))).iter(f"{SVG}line") if one.get("stroke-dasharray")
    ]


def test_a_long_label_widens_the_picture():
    narrow, wide = draw(curve((1, 1.0))), draw(curve((1, 1.0), label="x" * 60))
    width = [float(root.get("viewBox").split()[2]) for root in (narrow, wide)]
    assert width[1] > width[0] and width[1] >= 542 + 24 + 60 * 7


def test_ticks_that_would_overlap_are_left_out():
    root = draw(curve(*((value / 100, 1.0) for value in range(50)), (1.0, 1.0)))
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert "0.01" not in texts and "1" in texts


def test_all_zero_is_drawn():
    assert len(circles(draw(curve((0.0, 0.0), (0.0, 0.0))))) == 2
