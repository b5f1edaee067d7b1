"""The charts of a run, drawn from windows only; arms that are void are in none.

In: summaries, and windows for what they were measured on. Out: charts with captions. Every label
names the law and n, the requests an arm.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leeway.acceptance.base import Guarantee
from leeway.bench.intervals import Estimate
from leeway.bench.knobs import KnobSeries, knob_series
from leeway.bench.summary import ArmSummary
from leeway.bench.tables import cell_text, sample_text
from leeway.bench.url_arm import NOT_TOLD
from leeway.bench.window import Window
from leeway.report.curves import Curve, CurvePoint, curves
from leeway.report.page import Chart
from leeway.report.ranges import Range, ranges
from leeway.report.scatter import Axes, Point, scatter
from leeway.report.stacked_bars import Bar, stacked_bars

RATIO_CHART, LOSS_CHART, PARTS_CHART = "decode.svg", "speed-against-loss.svg", "step-parts.svg"
SMALL_LOSS_CHART = "speed-against-small-loss.svg"
_FAR = 3.0  # times the median loss of arms that lose anything


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What a chart by knob shows: a ratio to the first arm, or a measure of the arm itself."""

    file: str
    title: str
    y_label: str
    measure: str
    mark: float | None = None

    def of(self, one: ArmSummary) -> Estimate | None:
        """Return the arm's value."""
        return one.ratios["decode"] if self.measure == "decode" else one.estimates[self.measure]


def charts_of(windows: Sequence[Window], summaries: Sequence[ArmSummary]) -> list[Chart]:
    """Return the charts for which there is something to draw."""
    counting = [one for one in summaries if one.void is None]
    if not counting:
        return []
    about = _about(windows, summaries)
    found = [
        _ratio_chart(about, counting, summaries[0]),
        *_loss_charts(about, counting, summaries[0]),
        _parts_chart(about, counting),
        *_knob_charts(about, counting, summaries[0]),
    ]
    return [chart for chart in found if chart is not None]


def label_of(one: ArmSummary) -> str:
    """Return what a chart calls an arm: its name, its law where the name lacks it, and n."""
    is_clear = one.drafter == "none" or one.law in one.name or one.law == NOT_TOLD
    law = "" if is_clear else f" ({one.law})"
    return f"{one.name}{law}, n = {one.num_windows}"


def about_text(windows: Sequence[Window]) -> str:
    """Return what was measured on, for captions and introductions."""
    identity = windows[0].identity
    machine = identity["machine"]
    return (
        f"{identity['model']['name']}, {cell_text(windows)}, Leeway "
        f"{identity['version']} on {machine['cpu_model']}, {machine['usable_threads']} threads"
    )


@dataclass(frozen=True, slots=True)
class _About:
    model: str
    text: str


def _about(windows: Sequence[Window], summaries: Sequence[ArmSummary]) -> _About:
    name = windows[0].identity["model"]["name"]
    return _About(name, f"{about_text(windows)}; {sample_text(summaries[0])}.")


def _ratio_chart(about: _About, summaries: Sequence[ArmSummary], first: ArmSummary) -> Chart | None:
    rows = [
        Range(label_of(one), ratio.value, None, None)
        if one is first  # against itself there is nothing to be uncertain of
        else Range(label_of(one), ratio.value, ratio.low, ratio.high)
        for one in summaries
        for ratio in [one.ratios["decode"]]
        if ratio is not None
    ]
    if not rows:
        return None
    alt = "; ".join(f"{row.label}: {row.value:.2f} times {first.name}" for row in rows)
    svg = ranges(
        rows,
        title=f"Decode speed: {about.model}",
        x_label=f"times {first.name}; n requests an arm, 95 % intervals",
        alt=alt,
    )
    return Chart(RATIO_CHART, f"Decode speed, times {first.name}. {about.text}", alt, svg)


def _loss_charts(about: _About, summaries: Sequence[ArmSummary], first: ArmSummary) -> list[Chart]:
    """Return speed against loss, and again without the arms that lose far more than most."""
    points = _loss_points(summaries)
    if not points:
        return []
    found = [_loss_chart(about, points, first, LOSS_CHART, "Speed against measured loss")]
    lossy = [point.x for point in points if point.x > 0]
    limit = _FAR * statistics.median(lossy) if lossy else 0.0
    near = [point for point in points if point.x <= limit]
    if lossy and len(near) < len(points):
        title = f"Speed against measured loss, up to {limit:.2g}"
        found.append(_loss_chart(about, near, first, SMALL_LOSS_CHART, title))
    return found


def _loss_points(summaries: Sequence[ArmSummary]) -> list[Point]:
    points = []
    sweeps = _sweep_of(summaries)
    for one in sorted(summaries, key=lambda one: _place(sweeps, one)):
        ratio = one.ratios["decode"]
        has_loss = one.rates["tokens_per_verify_step"] is not None  # not so of other engines
        if ratio is not None and has_loss:
            low, high = (ratio.value if end is None else end for end in (ratio.low, ratio.high))
            loss = one.loss["total_variation_mean"] or 0.0
            series, value = sweeps.get(one.name, (None, 0.0))
            label = label_of(one) if series is None else _series_label(series)
            short = "" if series is None else f"{value:g}"
            points.append(Point(label, loss, ratio.value, low, high, short))
    return points


def _loss_chart(
    about: _About, points: Sequence[Point], first: ArmSummary, file: str, title: str
) -> Chart:
    alt = "; ".join(
        f"{point.label}{point.short and ', at '}{point.short}: {point.y:.2f} times {first.name} "
        f"at a loss of {point.x:.3f}"
        for point in points
    )
    axes = Axes(
        title=f"{title}: {about.model}",
        x_label="loss: mean total variation between emitted and target row, per position",
        y_label=f"decode speed, times {first.name} (95 %)",
        alt=alt,
    )
    caption = f"{title}. Decode speed is in times {first.name}. {about.text}"
    return Chart(file, caption, alt, scatter(points, axes))


def _sweep_of(summaries: Sequence[ArmSummary]) -> dict[str, tuple[KnobSeries, float]]:
    """Return by name of an arm the first sweep that it is in, and its value there."""
    found: dict[str, tuple[KnobSeries, float]] = {}
    for series in knob_series(summaries):
        for value, one in series.points:
            found.setdefault(one.name, (series, value))
    return found


def _place(
    sweeps: Mapping[str, tuple[KnobSeries, float]], one: ArmSummary
) -> tuple[bool, str, float]:
    """Return the key that puts arms of no sweep first and each sweep in order of its number."""
    if one.name not in sweeps:
        return False, "", 0.0
    series, value = sweeps[one.name]
    return True, _series_label(series), value


def _series_label(series: KnobSeries) -> str:
    return f"{series.name}, n = {min(one.num_windows for _, one in series.points)}"


def _parts_chart(about: _About, summaries: Sequence[ArmSummary]) -> Chart | None:
    bars = [
        Bar(label_of(one), {name: 1000 * cost.mean_s for name, cost in one.parts.items()})
        for one in summaries
        if one.parts
    ]
    if not bars:
        return None
    alt = "; ".join(
        f"{bar.label}: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in bar.parts.items())
        for bar in bars
    )
    svg = stacked_bars(
        bars,
        title=f"Where a verify step's time goes: {about.model}",
        x_label="ms of a mean step behind the first token",
        unit=" ms",
        alt=alt,
    )
    return Chart(PARTS_CHART, f"Cost of a verify step by part. {about.text}", alt, svg)


def _knob_charts(
    about: _About, summaries: Sequence[ArmSummary], first: ArmSummary
) -> list[Chart | None]:
    """Return one chart a quantity and knob; sweeps of one knob share it."""
    by_knob: dict[tuple[str, str], list[KnobSeries]] = {}
    for series in knob_series(summaries):
        by_knob.setdefault((series.law, series.knob), []).append(series)
    quantities = (
        _Quantity("decode", "Decode speed", f"decode speed, times {first.name}", "decode", 1.0),
        _Quantity("kept-draft-rate", "Draft tokens kept", "kept_draft_rate", "kept_draft_rate"),
        _Quantity(
            "tokens-per-step", "Tokens a verify step", "tokens per verify step",
            "tokens_per_verify_step", 1.0,
        ),
    )  # fmt: skip
    return [
        _knob_chart(about, alike, quantity, summaries)
        for alike in by_knob.values()
        for quantity in quantities
    ]


def _knob_chart(
    about: _About,
    alike: Sequence[KnobSeries],
    quantity: _Quantity,
    summaries: Sequence[ArmSummary],
) -> Chart | None:
    law, knob = alike[0].law, alike[0].knob
    drawn = [curve for curve in (_knob_curve(one, quantity) for one in alike) if curve.points]
    if not drawn:
        return None
    xs = [point.x for curve in drawn for point in curve.points]
    for exact in _exact_arms(alike, summaries):
        found = quantity.of(exact)
        if found is not None:
            start = CurvePoint(min(xs), found.value, found.low, found.high)
            end = CurvePoint(max(xs), found.value)
            drawn.append(Curve(f"{label_of(exact)}, exact", (start, end), is_level=True))
    alt = "; ".join(
        f"{curve.label}: "
        + ", ".join(f"{point.y:.3g} at {knob} {point.x:g}" for point in curve.points)
        for curve in drawn
    )
    title = f"{quantity.title} by {knob} of {law}: {about.model}"
    svg = curves(
        drawn,
        Axes(title, f"{knob} of {law}; 95 % intervals", quantity.y_label, alt),
        mark=quantity.mark,
    )
    file = re.sub(r"[^a-z0-9-]+", "-", f"{quantity.file}-by-{law}-{knob}".lower()) + ".svg"
    return Chart(file, f"{quantity.title} by {knob} of {law}. {about.text}", alt, svg)


def _exact_arms(alike: Sequence[KnobSeries], summaries: Sequence[ArmSummary]) -> list[ArmSummary]:
    """Return the exact arms that draft as these sweeps do."""
    drafting = {series.points[0][1].definition.partition("@")[2] for series in alike}
    return [
        one
        for one in summaries
        if one.guarantee == Guarantee.EXACT_DISTRIBUTION
        and one.definition.partition("@")[2] in drafting
    ]


def _knob_curve(series: KnobSeries, quantity: _Quantity) -> Curve:
    points = [
        CurvePoint(value, found.value, found.low, found.high)
        for value, one in series.points
        for found in [quantity.of(one)]
        if found is not None
    ]
    num = min(one.num_windows for _, one in series.points)
    words = " ".join(word for word in (series.law, series.fixed) if word)
    return Curve(f"{words}, n = {num}", tuple(points))
