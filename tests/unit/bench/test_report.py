"""The report: drawn from windows only, void arms in no chart."""

import json
from dataclasses import replace
from xml.etree import ElementTree

from tests.support.bench_arms import make_arms, make_plan

from leeway.bench.charts import (
    LOSS_CHART,
    PARTS_CHART,
    RATIO_CHART,
    SMALL_LOSS_CHART,
    charts_of,
    label_of,
)
from leeway.bench.identity import identity_of
from leeway.bench.interleaved import measure
from leeway.bench.report import report_files
from leeway.bench.summary import summarise
from leeway.report.page import HTML, MANIFEST, MARKDOWN

NAMES = ["plain", "soft", "hard"]
LABELS = ("plain, n = 4", "soft (typical), n = 4", "hard (block), n = 4")
SVG = "{http://www.w3.org/2000/svg}"


def measured(texts=("soft=typical:delta=0.3@draft_model:2", "hard=block@draft_model:2")):
    arms, plan = make_arms(["plain", *texts]), make_plan(temperature=0.8, top_p=0.9)
    identity = identity_of(arms, plan, "ab", {})
    return list(measure(arms, plan, identity, folder=None, command="leeway bench run"))


def texts(files):
    return {name: content.decode() for name, content in files.items()}


def texts_of(svg):
    return [node.text for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_page_shows_every_arm_and_every_chart():
    windows = measured()
    files = texts(report_files(windows, summarise(windows, NAMES), ["mind this"]))
    charts = [RATIO_CHART, LOSS_CHART, PARTS_CHART]
    assert list(files) == [MARKDOWN, HTML, *charts, MANIFEST]
    page = files[MARKDOWN]
    asked = "temperature 0.8, top-p 0.9, max tokens 12, prompts of 3 to 4 tokens"
    assert page.startswith(f"# Bench: table\n\n{asked}. 2 prompts")
    assert "- **mind this**" in page and "- interval: 95 %" in page
    assert page.endswith("## Measured by\n\n    leeway bench run\n")
    for name in NAMES:
        assert f"| {name} |" in page and f"<td>{name}</td>" in files[HTML]
    for chart in charts:
        assert f"]({chart})" in page and files[chart] in files[HTML]
        assert set(LABELS) <= set(texts_of(files[chart]))
    assert [one["file"] for one in json.loads(files[MANIFEST])["charts"]] == charts


def test_a_void_arm_is_in_the_page_and_in_no_chart():
    windows = [
        replace(one, void="another law ran") if one.arm == "soft" else one for one in measured()
    ]
    files = texts(report_files(windows, summarise(windows, NAMES), []))
    assert "| soft | void |" in files[MARKDOWN]
    for chart in (RATIO_CHART, LOSS_CHART, PARTS_CHART):
        assert LABELS[1] not in texts_of(files[chart]) and LABELS[2] in texts_of(files[chart])


def test_without_an_arm_that_counts_there_is_no_chart():
    windows = [replace(one, void="another law ran") for one in measured()]
    files = report_files(windows, summarise(windows, NAMES), [])
    assert set(files) == {MARKDOWN, HTML, MANIFEST}
    assert json.loads(files[MANIFEST]) == {"charts": []}


def test_a_sweep_has_one_chart_a_quantity():
    deltas = ("0.1", "0.3")
    windows = measured([f"typical:delta={delta}@draft_model:2" for delta in deltas])
    summaries = summarise(windows, [one.arm for one in windows[:3]])
    charts = {one.file: one for one in charts_of(windows, summaries)}
    swept = {
        "decode-by-typical-delta.svg": lambda one: one.ratios["decode"],
        "kept-draft-rate-by-typical-delta.svg": lambda one: one.estimates["kept_draft_rate"],
        "tokens-per-step-by-typical-delta.svg": lambda one: one.estimates["tokens_per_verify_step"],
    }
    assert list(charts)[3:] == list(swept)
    arms = sorted((one for one in summaries if one.depths), key=lambda one: one.options["delta"])
    for file, value_of in swept.items():
        chart = charts[file]
        assert "typical, n = 4" in texts_of(chart.svg) and "2 prompts, 2 seeds" in chart.caption
        hints = [node.text for node in ElementTree.fromstring(chart.svg).iter(f"{SVG}title")]
        for delta, one, hint in zip(deltas, arms, hints, strict=True):
            found = value_of(one)
            expected = f"{delta}: {found.value:.4g} ({found.low:.4g}-{found.high:.4g})"
            assert hint == expected
            assert f"{found.value:.3g} at delta {delta}" in chart.alt


def test_a_sweep_is_one_series_of_the_loss_chart():
    deltas = ("0.3", "0.1")
    windows = measured([f"typical:delta={delta}@draft_model:2" for delta in deltas])
    names = ["plain", *(one.arm for one in windows[:3] if one.arm != "plain")]
    summaries = summarise(windows, names)
    [chart] = [one for one in charts_of(windows, summaries) if one.file == LOSS_CHART]
    written = texts_of(chart.svg)
    assert written.count("typical by delta, n = 4") == 1 and "plain, n = 4" in written
    assert {*deltas} <= set(written)
    assert chart.alt.startswith("plain, n = 4: 1.00 times plain at a loss of 0.000; typical by")
    low, high = chart.alt.split("; ")[1:]
    assert "n = 4, at 0.1: " in low and "n = 4, at 0.3: " in high


def test_arms_that_lose_far_more_than_most_have_a_chart_without_them():
    deltas = ("0.1", "0.2", "0.3")
    windows = measured([f"typical:delta={delta}@draft_model:2" for delta in deltas])
    names = ["plain", *(one.arm for one in windows[:4] if one.arm != "plain")]
    losses = {"0.1": 0.9, "0.2": 0.1, "0.3": 0.02}

    def files_of(losses):
        changed = [
            replace(one, tally=one.tally | {"loss_tv_sum": loss * one.tally["num_decided"]})
            for one in windows
            for loss in [losses.get(str(one.receipt["options"].get("delta")), 0.0)]
        ]
        return {one.file: one for one in charts_of(changed, summarise(changed, names))}

    small = files_of(losses)[SMALL_LOSS_CHART]
    assert "up to 0.3" in small.caption and small.alt.count(" at a loss of ") == 3
    assert ", at 0.1:" not in small.alt and ", at 0.2:" in small.alt and "plain" in small.alt
    assert SMALL_LOSS_CHART not in files_of(losses | {"0.1": 0.3})


def test_an_exact_arm_that_drafts_alike_is_a_level_line():
    deltas = ("0.1", "0.3")
    windows = measured(
        [
            *(f"typical:delta={delta}@draft_model:2" for delta in deltas),
            "exact=rejection@draft_model:2",
            "other=rejection@draft_model:3",
        ]
    )
    summaries = summarise(windows, list(windows[0].identity["arms"]))
    [chart] = [one for one in charts_of(windows, summaries) if one.file.startswith("kept-draft")]
    texts = texts_of(chart.svg)
    assert "exact (rejection), n = 4, exact" in texts and "other" not in " ".join(texts)
    rate = summaries[3].estimates["kept_draft_rate"].value
    assert f"exact: {rate:.3g} at delta 0.1, {rate:.3g} at delta 0.3" in chart.alt


def test_drafts_that_were_never_decided_lost_nothing_and_what_is_not_told_is_not_drawn():
    windows = measured()
    plain, soft, hard = summarise(windows, NAMES)
    nothing = {"total_variation_mean": None}
    idle = replace(soft, loss=nothing)
    rival = replace(hard, law="not told", loss=nothing, rates=dict.fromkeys(hard.rates))
    charts = {one.file: one for one in charts_of(windows, [plain, idle, rival])}
    assert "soft (typical), n = 4: " in charts[LOSS_CHART].alt
    assert "at a loss of 0.000" in charts[LOSS_CHART].alt and "hard" not in charts[LOSS_CHART].alt
    assert "hard, n = 4" in texts_of(charts[RATIO_CHART].svg)


def test_a_label_names_the_law_once():
    windows = measured(["soft=typical:delta=0.3@draft_model:2", "typical:delta=0.1@draft_model:2"])
    labels = [label_of(one) for one in summarise(windows, sorted({one.arm for one in windows}))]
    assert labels == [
        "plain, n = 4",
        "soft (typical), n = 4",
        "typical:delta=0.1@draft_model:2, n = 4",
    ]
