"""The report: drawn from windows only, void arms in no chart."""

from dataclasses import replace

from tests.support.bench_arms import make_arms, make_plan

from leeway.bench.identity import identity_of
from leeway.bench.interleaved import measure
from leeway.bench.report import LOSS_CHART, PAGE, PARTS_CHART, RATIO_CHART, report_files
from leeway.bench.summary import summarise

NAMES = ["plain", "soft", "hard"]


def measured():
    texts = ["plain", "soft=typical:delta=0.3@draft_model:2", "hard=block@draft_model:2"]
    arms, plan = make_arms(texts), make_plan(temperature=0.8, top_p=0.9)
    return list(measure(arms, plan, identity_of(arms, plan, "ab", {}), folder=None))


def test_the_page_shows_every_arm_and_every_chart():
    windows = measured()
    files = report_files(windows, summarise(windows, NAMES), ["mind this"])
    assert set(files) == {PAGE, RATIO_CHART, LOSS_CHART, PARTS_CHART}
    page = files[PAGE]
    assert page.startswith("# Bench: table\n\ntemperature 0.8, top-p 0.9, max tokens 12. 2 prompts")
    assert "- **mind this**" in page and "- interval: 95 %" in page
    for name in NAMES:
        assert f"| {name} |" in page
        assert all(f">{name}</text>" in files[chart] for chart in (RATIO_CHART, LOSS_CHART))
    for chart in (RATIO_CHART, LOSS_CHART, PARTS_CHART):
        assert f"![{chart}]({chart})" in page


def test_a_void_arm_is_in_the_page_and_in_no_chart():
    windows = [
        replace(one, void="another law ran") if one.arm == "soft" else one for one in measured()
    ]
    files = report_files(windows, summarise(windows, NAMES), [])
    assert "| soft | void |" in files[PAGE]
    for chart in (RATIO_CHART, LOSS_CHART, PARTS_CHART):
        assert ">soft</text>" not in files[chart] and ">hard</text>" in files[chart]


def test_without_an_arm_that_counts_there_is_no_chart():
    windows = [replace(one, void="another law ran") for one in measured()]
    assert set(report_files(windows, summarise(windows, NAMES), [])) == {PAGE}
