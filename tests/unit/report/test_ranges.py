"""Rows with intervals: every number is written, marks are where the numbers are."""

from xml.etree import ElementTree

import pytest

from leeway.report.ranges import Range, ranges
from leeway.report.svg import reach

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    Range("plain", 1.0, 1.0, 1.0),
    Range("a <b>", 1.5, 1.25, 1.8),
    Range("lone", 0.5, None, None),
]


def draw(rows=ROWS, **texts):
    given = {"title": "Speed & more", "x_label": "times plain", "alt": 'said "so"'} | texts
    return ElementTree.fromstring(ranges(rows, **given))


def test_every_row_says_its_numbers():
    root = draw()
    texts = [node.text for node in root.iter(f"{SVG}text")]
    for expected in ("plain", "a <b>", "1.50 (1.25-1.80)", "lone", "0.50", "Speed & more"):
        assert expected in texts
    assert root.get("aria-label") == 'said "so"'


def test_marks_lie_in_order_and_within_their_interval():
    root = draw()
    first, second, third = (float(one.get("cx")) for one in root.iter(f"{SVG}circle"))
    assert third < first < second
    bars = [one for one in root.iter(f"{SVG}line") if one.get("stroke-width") == "3"]
    assert len(bars) == 2
    assert float(bars[1].get("x1")) < second < float(bars[1].get("x2"))
    dashed = next(one for one in root.iter(f"{SVG}line") if one.get("stroke-dasharray"))
    assert float(dashed.get("x1")) == pytest.approx(first)


def test_a_bar_that_is_far_longer_than_the_values_goes_on_behind_the_plot():
    root = draw([*ROWS, Range("wide", 1.0, 0.001, 3000.0)])
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert max(float(one) for one in texts if one.isdigit()) == 4  # 2.5 * 1.5, then the next tick
    bars = [one for one in root.iter(f"{SVG}line") if one.get("stroke-width") == "3"]
    ticks = [
        float(one.get("x1")) for one in root.iter(f"{SVG}line") if one.get("x1") == one.get("x2")
    ]
    assert float(bars[2].get("x2")) == pytest.approx(max(ticks))
    assert "1.00 (0.00-3000.00)" in texts


@pytest.mark.parametrize(
    ("values", "ends", "most"),
    [
        ((1.0, 2.0), (), 2.0),
        ((1.0, 2.0), (3.0,), 3.0),
        ((2.0,), (9.0,), 5.0),
        ((0.0,), (0.1,), 0.1),
    ],
)
def test_how_far_an_axis_goes(values, ends, most):
    assert reach(values, ends) == most


def test_a_long_label_has_room():
    short, long = draw(), draw([*ROWS, Range("x" * 60, 1.5, 1.4, 1.6)])
    widths = [float(root.get("viewBox").split()[2]) for root in (short, long)]
    label = next(one for one in long.iter(f"{SVG}text") if one.text == "x" * 60)
    assert widths[0] == 720 < widths[1] and float(label.get("x")) > 60 * 7
    first, second = (next(iter(root.iter(f"{SVG}circle"))) for root in (short, long))
    moved = float(second.get("cx")) - float(first.get("cx"))
    assert moved == pytest.approx(widths[1] - widths[0], abs=0.2)


def test_digits_are_as_asked():
    row = Range("a", 128.4, 120.2, 135.1)
    assert "128 (120-135)" in ranges([row], title="t", x_label="x", alt="a", mark=1.0, digits=0)
    assert "128.40 (120.20-135.10)" in ranges([row], title="t", x_label="x", alt="a")
