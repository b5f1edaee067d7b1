"""The chart is well-formed, names every point, and puts marks where the numbers are."""

import itertools
from xml.etree import ElementTree

import pytest

from leeway.report.scatter import Axes, Point, scatter

SVG = "{http://www.w3.org/2000/svg}"
AXES = Axes("Speed & loss", "loss", "speed", 'alt "text" <here>')
POINTS = [
    Point("exact, n = 5", 0.0, 1.0, 0.9, 1.1),
    Point("typical <0.3>", 0.1, 2.4, 1.5, 3.9),
    Point("tokenv3", 0.09, 2.41, 1.4, 4.0),
]


def draw(points=POINTS):
    return ElementTree.fromstring(scatter(points, AXES))


def test_every_label_and_both_axes_are_written():
    root = draw()
    texts = [node.text for node in root.iter(f"{SVG}text")]
    for expected in ("exact, n = 5", "typical <0.3>", "tokenv3", "Speed & loss", "loss", "speed"):
        assert expected in texts
    assert root.get("aria-label") == 'alt "text" <here>'


def test_marks_are_ordered_as_the_numbers_are():
    low, high = draw([POINTS[0], POINTS[0]]), draw()
    centre = high.find(f"{SVG}circle")
    assert centre is not None and float(centre.get("cx")) == pytest.approx(70)
    squares = [node for node in high.iter(f"{SVG}rect") if node.get("width") == "10"]
    assert float(squares[0].get("x")) > float(squares[1].get("x"))
    assert float(squares[0].get("y")) < float(centre.get("cy"))
    assert low.find(f"{SVG}circle") is not None


def test_labels_do_not_overlap():
    ys = sorted(
        float(node.get("y")) for node in draw().iter(f"{SVG}text") if float(node.get("x")) > 540
    )
    assert all(below - above >= 21.9 for above, below in itertools.pairwise(ys))


@pytest.mark.parametrize("most", [0.013, 0.9, 1.0, 7.3, 250.0])
def test_ticks_are_round_and_reach_the_most(most):
    root = draw([Point("one", most, most, most, most)])
    numbers = [float(node.text) for node in root.iter(f"{SVG}text") if node.text[0].isdigit()]
    assert max(numbers) >= most and 0.0 in numbers
    assert len(set(numbers)) <= 6


def test_many_low_points_keep_their_labels_within_the_chart():
    low = [Point(f"low {n}", 0.2, 0.1, 0.1, 0.1) for n in range(12)]
    root = draw([Point("high", 0.1, 4.0, 3.9, 4.1), *low])
    ys = [float(node.get("y")) for node in root.iter(f"{SVG}text") if "low" in node.text]
    assert len(ys) == 12 and max(ys) <= 400
    assert all(below - above >= 21.9 for above, below in itertools.pairwise(sorted(ys)))
