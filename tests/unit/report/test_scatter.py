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


def lines_of(root, colour):
    nodes = (
        node
        for node in root.iter(f"{SVG}line")
        if node.get("stroke") == colour and node.get("stroke-dasharray") is None
    )
    return [[float(node.get(end)) for end in ("x1", "y1", "x2", "y2")] for node in nodes]


def test_a_horizontal_range_has_its_own_bar_and_room():
    wide = Point("wide", 0.1, 2.0, 1.5, 2.5, x_least=0.05, x_most=0.4)
    root = draw([POINTS[0], wide])
    [mark] = [node for node in root.iter(f"{SVG}rect") if node.get("width") == "10"]
    y = float(mark.get("y")) + 5
    left, right = 70, 720 - 190  # of the plot; its axis ends at 0.4
    level = (one for one in lines_of(root, "#0b6e99") if one[1] == one[3] == pytest.approx(y))
    [across] = [one for one in level if one[2] <= right + 0.1]  # the other ties the label
    assert across[0] == pytest.approx(left + 0.05 / 0.4 * (right - left))
    assert across[2] == pytest.approx(right)


def test_neighbours_in_the_order_never_look_alike_up_to_twelve():
    points = [Point(str(index), 0.1 * index, 1.0, 1.0, 1.0) for index in range(12)]
    root = draw(points)
    kinds = [
        (node.tag, node.get("fill"), "transform" in node.attrib)
        for node in root.iter()
        if node.get("fill", "").startswith("#")
        and (node.tag != f"{SVG}rect" or node.get("width") == "10")
        and node.tag != f"{SVG}text"
    ]
    assert len(kinds) == len(set(kinds)) == 12


SWEEP = [Point("soft", 0.02 * n, 1.0 + 0.1 * n, 1.0, 1.2 + 0.1 * n, f"{n}") for n in (1, 2, 3)]


def test_points_of_one_label_are_joined_and_labelled_once():
    root = draw([*POINTS, *SWEEP])
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert texts.count("soft") == 1 and {"1", "2", "3"} <= set(texts)
    [joined] = root.iter(f"{SVG}polyline")
    places = [place.split(",") for place in joined.get("points").split()]
    assert len(places) == 3 and [float(x) for x, _ in places] == sorted(float(x) for x, _ in places)
    triangles = list(root.iter(f"{SVG}polygon"))
    assert len(triangles) == 3 and {node.get("fill") for node in triangles} == {"#5b7f2b"}
    [soft] = [node for node in root.iter(f"{SVG}text") if node.text == "soft"]
    assert soft.get("fill") == "#5b7f2b"


def test_short_labels_keep_off_one_another_and_off_marks():
    near = [Point("a", 0.1, 1.0 + 0.01 * n, 1.0, 1.1, f"k{n}.5") for n in range(4)]
    root = draw([Point("far", 1.0, 4.0, 4.0, 4.0), *near])
    words = [node for node in root.iter(f"{SVG}text") if (node.text or "").startswith("k")]
    places = [(float(node.get("x")), float(node.get("y"))) for node in words]
    assert len(places) == 4
    for (x, y), (other_x, other_y) in itertools.combinations(places, 2):
        assert abs(x - other_x) >= 19 or abs(y - other_y) >= 11


def test_a_chart_of_many_labels_grows():
    many = [Point(f"arm {n}", 0.1, 1.0, 1.0, 1.0) for n in range(30)]
    root = draw(many)
    height = float(root.get("viewBox").split()[3])
    ys = [float(node.get("y")) for node in root.iter(f"{SVG}text") if "arm" in node.text]
    assert height == 48 + 22 * 30 + 56
    assert len(ys) == 30 and min(ys) > 26 and max(ys) <= height - 56 + 4.1
