"""Sweeps of a law's number: the arms that are made, and the sweeps that are found."""

from dataclasses import replace

import pytest
from tests.support.bench_arms import make_arms, make_plan

from leeway.bench.arm_spec import parse_arms
from leeway.bench.interleaved import measure
from leeway.bench.knobs import dial_arms, dial_rows, knob_series
from leeway.bench.summary import summarise
from leeway.bench.tables import interval_text
from leeway.core.config import EngineConfig
from leeway.core.errors import ConfigError, LawError


def summaries_of(*texts):
    arms, plan = make_arms(texts), make_plan()
    names = [arm.spec.name for arm in arms]
    return summarise(list(measure(arms, plan, {}, folder=None)), names)


def test_a_dial_is_plain_exact_and_each_value():
    texts = dial_arms("tokenv3:off_set=coin", "alpha", ["0.25", " 1"])
    assert texts == [
        "plain",
        "rejection",
        "tokenv3:off_set=coin,alpha=0.25",
        "tokenv3:off_set=coin,alpha=1",
    ]
    config = EngineConfig(drafter="mtp", num_speculative_tokens=2)
    plain, exact, *swept = parse_arms(texts, config)
    assert plain.drafter == "none" and plain.row_shape == "fast"
    assert {(one.drafter, one.num_speculative_tokens) for one in (exact, *swept)} == {("mtp", 2)}
    assert [one.acceptance.options["alpha"] for one in swept] == [0.25, 1]


@pytest.mark.parametrize(
    ("law", "values", "says"),
    [
        ("tokenv3", ["0.5"], "is no sweep; give two or more"),
        ("tokenv3", ["0.5", "0.50"], "gives 0.5 twice"),
        ("tokenv3", ["0.5", "much"], "'much', which is no number"),
        ("tokenv3", ["0.5", "inf"], "'inf', which is no number"),
        ("tokenv3:alpha=0.5", ["0.5", "0.6"], "sets 'alpha', which is swept"),
        ("tokenv3:alpha", ["0.5", "0.6"], "not key=value"),
    ],
)
def test_what_is_no_sweep_is_refused(law, values, says):
    with pytest.raises(ConfigError) as caught:
        dial_arms(law, "alpha", values)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("law", "knob", "says"),
    [
        ("tokenv3", "alhpa", "has no option 'alhpa'; did you mean 'alpha'"),
        ("tokenv3:alpha=0.5", "off_set", "off_set"),
        ("rejection", "alpha", "it takes no options"),
        ("tokenv3", "alpha", "alpha"),
    ],
)
def test_what_the_law_does_not_take_is_refused(law, knob, says):
    texts = dial_arms(law, knob, ["2", "3"])
    with pytest.raises(LawError) as caught:
        parse_arms(texts, EngineConfig(drafter="mtp"))
    assert says in caught.value.message and f"arm '{law.partition(':')[0]}:" in caught.value.message


def test_a_sweep_is_found_in_order_of_its_number():
    found = summaries_of(*dial_arms("typical", "delta", ["0.5", "0.1", "0.3"]))
    [series] = knob_series(found)
    assert (series.law, series.knob, series.name) == ("typical", "delta", "typical by delta")
    assert [value for value, _ in series.points] == [0.1, 0.3, 0.5]
    assert [one.options["delta"] for _, one in series.points] == [0.1, 0.3, 0.5]
    rows = dial_rows(series, "plain")
    assert [row[0] for row in rows] == ["typical by delta", "0.1", "0.3", "0.5"]
    tight = series.points[2][1]
    assert rows[0][2] == "x plain" and rows[3][2] == interval_text(tight.ratios["decode"])
    assert rows[3][-1] == interval_text(tight.estimates["loss_tv_mean"], 4)


def test_arms_that_differ_in_more_are_no_sweep():
    at = "@draft_model:2"
    assert (
        knob_series(summaries_of("plain", f"typical:delta=0.3{at}", f"tv_budget:budget=0{at}"))
        == []
    )
    assert (
        knob_series(summaries_of(f"typical:delta=0.3{at}", "typical:delta=0.1@draft_model:3")) == []
    )
    coin = f"typical:delta=0.1,off_set=coin{at}"
    assert knob_series(summaries_of(f"typical:delta=0.3{at}", coin)) == []


def test_two_sweeps_of_one_knob_are_told_apart():
    deltas = ("0.1", "0.3")
    plain = [f"typical:delta={delta}@draft_model:2" for delta in deltas]
    coin = [f"typical:delta={delta},off_set=coin@draft_model:2" for delta in deltas]
    names = [one.name for one in knob_series(summaries_of(*plain, *coin))]
    assert names == ["typical off_set=redraw by delta", "typical off_set=coin by delta"]
    deep = [f"typical:delta={delta}@draft_model:3" for delta in deltas]
    names = [one.name for one in knob_series(summaries_of(*plain, *deep))]
    assert names == [
        "typical @draft_model:2:fixed,draft_temperature=0.8/stable by delta",
        "typical @draft_model:3:fixed,draft_temperature=0.8/stable by delta",
    ]


def test_a_void_arm_is_in_no_sweep():
    one, other = summaries_of(*(f"typical:delta={delta}@draft_model:2" for delta in ("0.1", "0.3")))
    assert len(knob_series([one, other])) == 1
    assert knob_series([one, replace(other, void="another law ran")]) == []
