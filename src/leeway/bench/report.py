"""The report of a run: one Markdown page and the charts it shows, drawn from windows only.

In: windows and their summaries. Out: file contents by name. Writes nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from leeway.bench.summary import DEFINITIONS, ArmSummary
from leeway.bench.tables import sample_text, sampling_text, tables
from leeway.bench.window import Window
from leeway.report.ranges import Range, ranges
from leeway.report.scatter import Axes, Point, scatter
from leeway.report.stacked_bars import Bar, stacked_bars

PAGE = "report.md"
RATIO_CHART, LOSS_CHART, PARTS_CHART = "decode.svg", "speed-against-loss.svg", "step-parts.svg"


def report_files(
    windows: Sequence[Window], summaries: Sequence[ArmSummary], warnings: Sequence[str]
) -> dict[str, str]:
    """Return the page and its charts, by file name; void arms are in the page but in no chart."""
    counting = [one for one in summaries if one.void is None]
    drawn = {
        RATIO_CHART: _ratio_chart(windows, counting),
        LOSS_CHART: _loss_chart(windows, counting),
        PARTS_CHART: _parts_chart(windows, counting),
    }
    charts = {name: chart for name, chart in drawn.items() if chart is not None}
    return {PAGE: _page(windows, summaries, warnings, list(charts)), **charts}


def _title(windows: Sequence[Window], what: str) -> str:
    return f"{what}: {windows[0].identity['model']['name']}"


def _ratio_chart(windows: Sequence[Window], summaries: Sequence[ArmSummary]) -> str | None:
    rows = [
        Range(one.name, ratio.value, ratio.low, ratio.high)
        for one in summaries
        for ratio in [one.ratios["decode"]]
        if ratio is not None
    ]
    if not rows:
        return None
    first = summaries[0]
    return ranges(
        rows,
        title=_title(windows, "Decode speed"),
        x_label=f"times {first.name}; n = {first.num_windows} requests an arm, 95 % intervals",
        alt="; ".join(f"{row.label}: {row.value:.2f} times {first.name}" for row in rows),
    )


def _loss_chart(windows: Sequence[Window], summaries: Sequence[ArmSummary]) -> str | None:
    points = []
    for one in summaries:
        ratio = one.ratios["decode"]
        if ratio is not None:
            low, high = (ratio.value if end is None else end for end in (ratio.low, ratio.high))
            loss = one.loss["total_variation_mean"] or 0.0
            points.append(Point(one.name, loss, ratio.value, low, high))
    if not points:
        return None
    first = summaries[0]
    return scatter(
        points,
        Axes(
            title=_title(windows, "Speed against measured loss"),
            x_label="loss: mean total variation between emitted and target row, per position",
            y_label=f"decode speed, times {first.name} (95 %)",
            alt="; ".join(
                f"{point.label}: {point.y:.2f} times {first.name} at a loss of {point.x:.3f}"
                for point in points
            ),
        ),
    )


def _parts_chart(windows: Sequence[Window], summaries: Sequence[ArmSummary]) -> str | None:
    bars = [
        Bar(one.name, {name: 1000 * cost.mean_s for name, cost in one.parts.items()})
        for one in summaries
        if one.parts
    ]
    if not bars:
        return None
    return stacked_bars(
        bars,
        title=_title(windows, "Where a verify step's time goes"),
        x_label="ms of a mean step behind the first token",
        unit=" ms",
        alt="; ".join(
            f"{bar.label}: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in bar.parts.items())
            for bar in bars
        ),
    )


def _page(
    windows: Sequence[Window],
    summaries: Sequence[ArmSummary],
    warnings: Sequence[str],
    charts: Sequence[str],
) -> str:
    identity, first = windows[0].identity, summaries[0]
    machine = identity["machine"]
    lines = [
        f"# Bench: {identity['model']['name']}",
        "",
        f"{sampling_text(identity['sampling'])}. {sample_text(first)}. Leeway "
        f"{identity['version']} on {machine['cpu_model']}, {machine['usable_threads']} threads.",
        "",
        *(f"- **{warning}**" for warning in warnings),
        *([""] if warnings else []),
        *(line for rows in tables(summaries) for line in (*_table(rows), "")),
        *(f"![{name}]({name})\n" for name in charts),
        "## What the words mean",
        "",
        *(f"- {name}: {meaning}" for name, meaning in DEFINITIONS.items()),
        "",
        "## Arms",
        "",
        *(f"- {one.name}: `{one.definition}`" for one in summaries),
    ]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    ruler = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (head, ruler, *body)]
