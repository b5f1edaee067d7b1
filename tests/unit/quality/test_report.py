"""The page of a run: tables, verdicts and charts say what the results say."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from tests.support.quality_runs import IDENTITY, result

from leeway.quality.report import (
    CUT_CHART,
    LENGTH_CHART,
    LOSS_CHART,
    SPEED_CHART,
    all_tables,
    intro_text,
    report_files,
)
from leeway.quality.scores import score_run
from leeway.quality.speeds import speeds_of
from leeway.quality.tables import verdict_text

LOSSY = {"law": "typical", "options": {"delta": 0.2}, "guarantee": "none", "drafter": "ngram"}
SVG = "{http://www.w3.org/2000/svg}"


def scored(num_tasks=40, num_lost=8, **soft):
    lines = []
    for task in range(num_tasks):
        lines.append(result("exact", f"t{task:02d}", decode_s=3.0 + task % 2))
        lines.append(
            result(
                "soft", f"t{task:02d}", right=task >= num_lost, receipt=LOSSY, decode_s=2.0,
                output_tokens=12 + task % 3, finish_reason="length" if task == 39 else "stop",
                **soft,
            )
        )  # fmt: skip
    return score_run(IDENTITY, lines)


def test_tables_by_hand():
    found = scored()
    speeds = speeds_of(found.results, ["exact", "soft"])
    tables = {rows[0][0]: rows for rows in all_tables(found, speeds)}
    quality = tables["arm"]
    assert quality[0][0] == "arm"
    [head, exact, soft] = all_tables(found, speeds)[0]
    assert dict(zip(head, exact, strict=True))["strict"] == "100.0 %"
    shown = dict(zip(head, soft, strict=True))
    assert (shown["strict"], shown["right"], shown["truncated"]) == ("77.5 %", "31", "2.5 %")
    assert (shown["guarantee"], shown["answers"], shown["errors"]) == ("none", "40", "0")
    [head, row] = tables["against exact"]
    shown = dict(zip(head, row, strict=True))
    assert (shown["lost"], shown["fewer / more"], shown["same"]) == ("+22.5", "9 / 0", "100 %")
    assert shown["McNemar p"] == "0.00391"  # 2 / 2**9
    assert tables["arm, 4 at once"][2][1] == "6.0"
    assert next(rows[2][:5] for rows in all_tables(found, speeds) if rows[0][1] == "law") == [
        "soft",
        "typical",
        "0.1000 (0.1000-0.1000)",
        "0.200",
        "50.00 %",
    ]


@pytest.mark.parametrize(
    ("num_lost", "says"),
    [
        (8, "soft is worse than exact by 22.5 points (McNemar p = 0.00391)"),
        (0, "soft: no difference from exact shown (2.5 points lost, p = 1); a loss of 3.0 points "
            "is not ruled out; 40 pairs detect a loss of 18.5 points or more"),
    ],
)  # fmt: skip
def test_what_may_be_said(num_lost, says):
    assert verdict_text(scored(num_lost=num_lost).pairs[0]) == says


def test_better_is_said_too():
    pair = scored().pairs[0]
    found = replace(pair.comparison, loss=-0.2)
    assert verdict_text(replace(pair, comparison=found)).startswith("soft is better than exact")


def test_the_introduction_names_suite_subset_sampler_and_data():
    found = intro_text(scored())
    assert found.startswith("letters: 40 of 100 tasks, those whose ids have the least SHA-256")
    for expected in (
        "1 sample of each", "temperature 1, top-p 0.95, top-k 20, max tokens by task",
        "seeds from 0 and the same in every arm", "4 at once", "d" * 64, "licence MIT",
    ):  # fmt: skip
        assert expected in found
    held = replace(scored(), identity=IDENTITY | {"isolation": "bubblewrap"})
    assert "Programs ran in: bubblewrap." in intro_text(held)


def test_the_page_holds_every_chart_and_command():
    files = report_files(scored(), ["leeway quality run --suite letters"], lambda svg: b"png")
    page = files["report.html"].decode()
    assert "leeway quality run --suite letters" in page
    for name in (SPEED_CHART, LOSS_CHART, LENGTH_CHART, CUT_CHART):
        svg = files[name].decode()
        assert svg in page and f"]({name})" in files["report.md"].decode()
        ElementTree.fromstring(svg)
        assert files[name.replace(".svg", ".png")] == b"png"
    listed = json.loads(files["manifest.json"])["charts"]
    assert len(listed) == 8
    assert "soft is worse than exact by 22.5 points" in page


def lines_of(svg):
    return [
        (node.get("stroke"), *(float(node.get(end)) for end in ("x1", "y1", "x2", "y2")))
        for node in ElementTree.fromstring(svg).iter(f"{SVG}line")
        if node.get("stroke-dasharray") is None
    ]


def test_quality_against_speed_has_intervals_both_ways():
    svg = report_files(scored(), [])[SPEED_CHART].decode()
    soft = [one for one in lines_of(svg) if one[0] == "#0b6e99"]
    upright = [one for one in soft if one[1] == one[3]]
    level = [one for one in soft if one[2] == one[4]]
    assert len(upright) == len(level) == 1 and level[0][3] > level[0][1]


def test_void_arms_stand_in_the_tables_and_in_no_chart():
    found = scored(void="law x ran")
    files = report_files(found, [])
    assert "| soft | void |" in files["report.md"].decode()
    for name in (SPEED_CHART, LOSS_CHART, LENGTH_CHART):
        assert "soft" not in files[name].decode() and "exact" in files[name].decode()
    assert CUT_CHART not in files  # nothing of the exact arm was cut


def test_further_measures_of_a_suite_have_a_table():
    found = scored(parts={"instructions": 0.25})
    rows = all_tables(found, speeds_of(found.results, ["exact", "soft"]))[-1]
    assert rows == [["arm", "instructions"], ["exact", "-"], ["soft", "25.00 %"]]
