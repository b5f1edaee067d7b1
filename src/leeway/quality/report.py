"""The report of a quality run: one page in two forms and its charts, from results only.

In: a scored run. Out: file contents by name. Writes nothing itself. Void arms stand in the tables
and in no chart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.bench.tables import Rows, sampling_text
from leeway.quality.identity import OF_EACH_TASK
from leeway.quality.scores import Scored
from leeway.quality.speeds import DEFINITIONS as SPEED_DEFINITIONS
from leeway.quality.speeds import Speed, speeds_of
from leeway.quality.summary import DEFINITIONS, ArmSummary
from leeway.quality.tables import (
    law_rows,
    loss_rows,
    pair_rows,
    part_rows,
    quality_rows,
    speed_rows,
    text_rows,
    verdict_text,
)
from leeway.report.page import Chart, Page, page_files
from leeway.report.ranges import Range, ranges
from leeway.report.scatter import Axes, Point, scatter

SPEED_CHART, LOSS_CHART = "quality-against-speed.svg", "quality-against-loss.svg"
LENGTH_CHART, CUT_CHART = "output-tokens.svg", "truncated.svg"


def report_files(
    scored: Scored, commands: Sequence[str], draw: Callable[[str], bytes] | None = None
) -> dict[str, bytes]:
    """Return the page, its charts and their list, by file name.

    Args:
        scored: the run.
        commands: command lines that made it.
        draw: makes PNG bytes of SVG text.
    """
    speeds = speeds_of(scored.results, [one.name for one in scored.arms])
    return page_files(
        Page(
            title=f"Quality: {_name(scored)}",
            intro=intro_text(scored),
            warnings=[*scored.warnings, *(f"{verdict_text(pair)}." for pair in scored.pairs)],
            tables=all_tables(scored, speeds),
            charts=_charts(scored, speeds),
            definitions={**DEFINITIONS, **SPEED_DEFINITIONS},
            arms={one.name: one.definition for one in scored.arms},
            commands=commands,
        ),
        draw,
    )


def all_tables(scored: Scored, speeds: Mapping[str, Speed]) -> list[Rows]:
    """Return the tables that have rows."""
    arms = scored.arms
    found = [
        quality_rows(arms),
        pair_rows(scored.pairs),
        speed_rows(speeds, scored.identity["batch"]),
        loss_rows(arms),
        law_rows(arms),
        text_rows(arms),
        part_rows(arms),
    ]
    return [rows for rows in found if len(rows) > 1]


def intro_text(scored: Scored) -> str:
    """Return what was asked, of what, and how it was scored."""
    identity = scored.identity
    suite, held = identity["suite"], identity["isolation"]
    run_in = "" if held is None else f" Programs ran in: {held}."
    return (
        f"{_asked_text(scored)} Data: SHA-256 {suite['sha256']}, licence {suite['licence']}."
        f"{run_in} Leeway {identity['version']}."
    )


def _asked_text(scored: Scored) -> str:
    identity = scored.identity
    plural = "" if scored.num_samples == 1 else "s"
    return (
        f"{identity['suite']['name']}: {scored.subset}, {scored.num_samples} sample{plural} of "
        f"each; {_sampling_text(identity['sampling'])}, {identity['batch']} at once."
    )


def _sampling_text(sampling: Mapping[str, Any]) -> str:
    shown = dict(sampling)
    is_own = shown["max_tokens"] == OF_EACH_TASK
    words = sampling_text(shown | {"max_tokens": 0} if is_own else shown)
    if is_own:
        words = words.replace("max tokens 0", "max tokens by task")
    return f"{words}, seeds from {shown['seed'] or 0} and the same in every arm"


def _name(scored: Scored) -> str:
    return f"{scored.identity['suite']['name']}, {scored.identity['model']['name']}"


@dataclass(frozen=True, slots=True)
class _About:
    """What every chart says: suite and model in its title, the whole of it in its caption."""

    title: str
    caption: str


def _charts(scored: Scored, speeds: Mapping[str, Speed]) -> list[Chart]:
    model, version = scored.identity["model"]["name"], scored.identity["version"]
    about = _About(_name(scored), f"{_asked_text(scored)} {model}, Leeway {version}.")
    counting = [one for one in scored.arms if one.void is None and one.strict is not None]
    found = [
        _speed_chart(scored, counting, speeds, about),
        _loss_chart(counting, about),
        _length_chart(counting, about),
        _cut_chart(counting, about),
    ]
    return [chart for chart in found if chart is not None]


def _label(one: ArmSummary) -> str:
    law = "" if one.law in one.name or one.drafter in ("none", "") else f" ({one.law})"
    return f"{one.name}{law}, n = {one.num_answers}"


def _point(one: ArmSummary, x: float, low: float | None, high: float | None) -> Point:
    assert one.strict is not None
    rate = one.strict
    return Point(_label(one), x, rate.value, rate.low, rate.high, x_least=low, x_most=high)


def _speed_chart(
    scored: Scored, arms: Sequence[ArmSummary], speeds: Mapping[str, Speed], about: _About
) -> Chart | None:
    first, batch = scored.arms[0].name, scored.identity["batch"]
    where = "one at a time" if batch == 1 else f"{batch} at once"
    points = [
        _point(one, ratio.value, ratio.low, ratio.high)
        for one in arms
        for ratio in [speeds[one.name].ratio]
        if ratio is not None
    ]
    axis = f"decode speed, times {first}, {where} (95 %)"
    return _scatter_chart(SPEED_CHART, f"Quality against speed: {about.title}", axis, points, about)


def _loss_chart(arms: Sequence[ArmSummary], about: _About) -> Chart | None:
    points = []
    for one in arms:
        mean = one.loss_mean
        if mean is not None:
            points.append(_point(one, mean.value, mean.low, mean.high))
        elif one.rates["tokens_per_verify_step"] is not None:  # decoded here, without drafts
            points.append(_point(one, 0.0, None, None))
    axis = "loss: mean total variation between emitted and target row (95 %)"
    return _scatter_chart(LOSS_CHART, f"Quality against loss: {about.title}", axis, points, about)


def _scatter_chart(
    file: str, title: str, x_label: str, points: Sequence[Point], about: _About
) -> Chart | None:
    if not points:
        return None
    alt = "; ".join(f"{one.label}: strict {one.y:.3f} at {one.x:.3f}" for one in points)
    svg = scatter(points, Axes(title, x_label, "strict pass@1 (95 %)", alt))
    return Chart(file, f"Strict pass@1. {about.caption}", alt, svg)


def _length_chart(arms: Sequence[ArmSummary], about: _About) -> Chart | None:
    rows = [
        Range(_label(one), one.tokens.value, _floored(one.tokens.low), one.tokens.high)
        for one in arms
        if one.tokens is not None
    ]
    return _range_chart(LENGTH_CHART, "Output tokens of an answer", rows, about, digits=0)


def _cut_chart(arms: Sequence[ArmSummary], about: _About) -> Chart | None:
    rows = [
        Range(_label(one), rate.value, rate.low, rate.high)
        for one in arms
        for rate in [one.truncated]
        if rate is not None
    ]
    return _range_chart(CUT_CHART, "Share of truncated answers", rows, about)


def _range_chart(
    file: str, what: str, rows: Sequence[Range], about: _About, *, digits: int = 2
) -> Chart | None:
    if not any(row.value for row in rows):
        return None
    alt = "; ".join(f"{row.label}: {row.value:.3g}" for row in rows)
    svg = ranges(
        rows,
        title=f"{what}: {about.title}",
        x_label=f"95 % intervals; the line marks {rows[0].label}",
        alt=alt,
        mark=rows[0].value,
        digits=digits,
    )
    return Chart(file, f"{what}. {about.caption}", alt, svg)


def _floored(value: float | None) -> float | None:
    return None if value is None else max(0.0, value)
