"""Results by category: the same figures as of a run over that category alone."""

from dataclasses import replace

from tests.support.bench_windows import window

from leeway.bench.categories import by_category, category_tables
from leeway.bench.summary import summarise

NAMES = ["plain", "fast", "odd"]


def windows():
    made = [
        window(arm, prompt, decode_s=seconds[arm], category=category)
        for prompt, (category, seconds) in enumerate(
            [
                ("writing", {"plain": 5.0, "fast": 2.5}),
                ("coding", {"plain": 4.0, "fast": 1.0}),
                ("writing", {"plain": 15.0, "fast": 7.5}),
            ]
        )
        for arm in ("plain", "fast")
    ]
    return [*made, window("odd", 0, category="writing", void="another law ran")]


def test_each_category_is_summed_up_alone():
    summaries = summarise(windows(), NAMES)
    found = by_category(windows(), summaries)
    assert list(found) == ["writing", "coding"]
    writing = [one for one in windows() if one.category == "writing" and one.arm != "odd"]
    assert found["writing"] == summarise(writing, NAMES[:2])
    [rows] = category_tables(windows(), summaries)
    cells = [(row[0], row[1], row[2], row[3], row[4][:4]) for row in rows[1:]]
    assert cells == [
        ("writing", "plain", "2", "1.0", "1"),
        ("writing", "fast", "2", "2.0", "2.00"),
        ("coding", "plain", "1", "2.5", "1"),
        ("coding", "fast", "1", "10.0", "4.00"),
    ]


def test_one_category_or_none_is_no_table():
    one = [replace(each, category="writing") for each in windows()]
    none = [replace(each, category=None) for each in windows()]
    for some in (one, none):
        assert category_tables(some, summarise(some, NAMES)) == []


def test_where_the_first_arm_is_void_nothing_has_a_ratio():
    summaries = summarise(windows(), ["odd", "plain", "fast"])
    [rows] = category_tables(windows(), summaries)
    assert rows[0][4] == "x odd"
    assert [(row[0], row[1], row[4]) for row in rows[1:]] == [
        ("writing", "plain", "-"),
        ("writing", "fast", "-"),
        ("coding", "plain", "-"),
        ("coding", "fast", "-"),
    ]
    for own in by_category(windows(), summaries).values():
        for one in own:
            assert set(one.ratios.values()) == {None}
            assert one.decode_ratio_by_seed == {} and one.decode_ratio_median is None
