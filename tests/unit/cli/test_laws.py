"""`laws` lists all there is; `explain` does a law's arithmetic."""

import json

import pytest

from leeway.acceptance.base import Knob
from leeway.acceptance.presets import PRESETS
from leeway.acceptance.registry import law_infos
from leeway.cli.explain import EXAMPLE_OPTIONS
from leeway.cli.laws import describe_knob

NAMES = [info.name for info in law_infos()]
KEYS = {"accept_probs", "recovered_probs", "emitted_probs", "acceptance_rate", "total_variation"}


@pytest.mark.parametrize("width", ["80", "120", None])
def test_every_law_and_preset_is_listed(leeway, monkeypatch, width):
    if width is not None:
        monkeypatch.setenv("COLUMNS", width)
    outcome = leeway("laws")
    assert outcome.code == 0 and outcome.err == ""
    lines = outcome.out.splitlines()
    assert max(len(line) for line in lines) <= int(width or 120)
    assert not any(line.endswith(" ") for line in lines)
    starts = {line.split()[0] for line in lines if line.strip()}
    assert {*NAMES, *(preset.name for preset in PRESETS)} <= starts


def test_json_has_every_column_of_the_table(leeway):
    report = json.loads(leeway("laws", "--json").out)
    assert [law["name"] for law in report["laws"]] == NAMES
    typical = next(law for law in report["laws"] if law["name"] == "typical")
    assert typical["guarantee"] == "none" and typical["needs_draft_rows"] is False
    delta = next(option for option in typical["options"] if option["name"] == "delta")
    assert delta["is_required"] and delta["low"] == 0 and delta["low_open"]
    assert delta["high"] is None
    assert {"source", "formula", "temperature_zero", "may_leave_support"} <= set(typical)
    assert [preset["name"] for preset in report["presets"]] == [p.name for p in PRESETS]
    limits = ["tv_budget", "exact_prefix", "hard_support", "phase", "phase_begin", "phase_end"]
    assert [limit["name"] for limit in report["limits"]] == limits


@pytest.mark.parametrize(
    ("knob", "text"),
    [
        (Knob("a", "", None, low=0, low_open=True, is_required=True), "a > 0"),
        (Knob("a", "", 1.0, low=0, high=1, low_open=True), "a in (0, 1] = 1.0"),
        (Knob("a", "", None, low=0, high=1), "a in [0, 1], optional"),
        (Knob("a", "", None, is_required=True, exact_end="-inf"), "a any number (exact end: -inf)"),
        (Knob("a", "", "x", choices=("x", "y")), "a x|y = x"),
    ],
)
def test_options_in_one_line(knob, text):
    assert describe_knob(knob) == text


@pytest.mark.parametrize("name", [*NAMES, *(preset.name for preset in PRESETS)])
def test_every_law_explains_itself_without_further_words(leeway, name):
    report = json.loads(leeway("explain", name, "--json").out)
    assert set(report) >= KEYS
    assert report["options_are_an_example"] is (name in EXAMPLE_OPTIONS)
    assert sum(report["emitted_probs"]) == pytest.approx(1, abs=1e-12)
    text = leeway("explain", name)
    assert text.code == 0 and report["formula"].split(";")[0] in " ".join(text.out.split())


def test_every_law_with_required_options_has_an_example():
    needing = {info.name for info in law_infos() if any(knob.is_required for knob in info.knobs)}
    assert needing == set(EXAMPLE_OPTIONS)


def test_given_rows_and_options(leeway):
    rows = ["--target-probs", "0.5,0.3,0.2", "--draft-probs", "0.2,0.3,0.5"]
    report = json.loads(leeway("explain", "rejection", *rows, "--json").out)
    assert report["accept_probs"] == pytest.approx([1, 1, 0.4], abs=1e-15)
    assert report["recovered_probs"] == pytest.approx([1, 0, 0], abs=1e-15)
    assert report["emitted_probs"] == pytest.approx([0.5, 0.3, 0.2], abs=1e-15)
    assert report["acceptance_rate"] == pytest.approx(0.7, abs=1e-15)
    assert report["total_variation"] == pytest.approx(0, abs=1e-15)
    options = ["--law-option", "alpha=0.5", "--law-option", "off_set=coin"]
    report = json.loads(leeway("explain", "tokenv3", *options, *rows, "--json").out)
    assert report["options"]["off_set"] == "coin" and not report["options_are_an_example"]
    assert report["accept_probs"] == pytest.approx([1, 1, 0.4], abs=1e-15)


def test_explain_ignores_the_law_that_is_configured(leeway, monkeypatch):
    monkeypatch.setenv("LEEWAY_TYPICAL_THRESHOLD", "0.3")
    assert leeway("explain", "opt").code == 0


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["typcal"], ["unknown law 'typcal'", "did you mean 'typical'?", "leeway laws"]),
        (["typical", "--law-option", "delta=-1"], ["'delta' is -1", "> 0"]),
        (["typical", "--law-option", "delta"], ["key=value"]),
        (["typical", "--law-option", "alpha=1"], ["'alpha'"]),
        (["block", "--target-probs", "a"], ["--target-probs 'a'", "0.5,0.3,0.2"]),
        (["block", "--target-probs", "0.5,0.5"], ["draft_probs is missing"]),
        (["block", "--target-probs", "1,1", "--draft-probs", "1,0"], ["sums to 2"]),
    ],
)
def test_bad_questions(leeway, words, parts):
    outcome = leeway("explain", *words)
    assert outcome.code == 2 and outcome.out == ""
    assert all(part in outcome.err for part in parts), outcome.err


def test_hard_support_is_shown_at_work(leeway):
    rows = ("--target-probs", "0.7,0.3,0", "--draft-probs", "0.1,0.4,0.5")
    free = json.loads(leeway("explain", "ensemble", *rows, "--json").out)
    assert free["emitted_probs"] == pytest.approx([0.4, 0.35, 0.25])
    assert free["kl_divergence"] is None
    hard = json.loads(leeway("explain", "ensemble", *rows, "--hard-support", "--json").out)
    assert hard["emitted_probs"] == pytest.approx([0.65, 0.35, 0])
    assert hard["total_variation"] == pytest.approx(0.05)
    assert not hard["may_leave_support"]
    shown = leeway("explain", "ensemble", *rows, "--hard-support").out
    assert "hard support: no token that the target gives nothing" in shown
