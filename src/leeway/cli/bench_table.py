"""The tables of a bench run: speed and loss by arm, acceptance by depth, cost of a verify step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leeway.bench.intervals import Estimate
from leeway.bench.part_clock import PARTS
from leeway.bench.summary import DEFINITIONS, ArmSummary
from leeway.bench.totals import SPEEDS
from leeway.bench.window import Window
from leeway.cli.call import Screen

if TYPE_CHECKING:
    from rich.table import Table


def print_tables(
    windows: Sequence[Window],
    summaries: Sequence[ArmSummary],
    warnings: Sequence[str],
    screen: Screen,
) -> None:
    """Print all that a run says."""
    out = screen.out()
    identity = windows[0].identity
    first = summaries[0]
    out.print(f"{identity['model']['name']}: {sampling_text(identity['sampling'])}", style="bold")
    out.print(
        f"{first.num_prompts} prompts, {first.num_seeds} seeds, {first.num_windows} requests an "
        f"arm; 95 % intervals over {_clusters(first)}"
    )
    out.print()
    out.print(_speed_table(summaries))
    if any(one.depths for one in summaries):
        out.print(_law_table(summaries))
        out.print(_depth_table(summaries))
    out.print(_part_table(summaries))
    for warning in warnings:
        out.print(f"! {warning}", style="yellow")
    if not screen.is_quiet:
        out.print()
        for name, meaning in DEFINITIONS.items():
            out.print(f"{name}: {meaning}", style="dim")


def sampling_text(values: Mapping[str, Any]) -> str:
    """Return the sampling parameters that are not off, for people."""
    shown = [f"temperature {values['temperature']:g}"]
    if values["top_p"] != 1:
        shown.append(f"top-p {values['top_p']:g}")
    if values["top_k"]:
        shown.append(f"top-k {values['top_k']}")
    if values["min_p"]:
        shown.append(f"min-p {values['min_p']:g}")
    shown.append(f"max tokens {values['max_tokens']}")
    return ", ".join(shown)


def interval_text(one: Estimate | None, digits: int = 2) -> str:
    """Return a value with its interval: `1.52 (1.47-1.58)`."""
    if one is None:
        return "-"
    if one.low is None or one.high is None:
        return f"{one.value:.{digits}f} (?)"
    return f"{one.value:.{digits}f} ({one.low:.{digits}f}-{one.high:.{digits}f})"


def _speed_table(summaries: Sequence[ArmSummary]) -> Table:
    first = summaries[0]
    table = _table("arm", "guarantee")
    titles = ("tokens/s", f"x {first.name}", "end to end", f"x {first.name}", "prefill", "TTFT ms")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for one in summaries:
        if one.void is not None:
            table.add_row(one.name, "void", *("-" for _ in titles))
            continue
        speeds = [one.estimates[name] for name in SPEEDS]
        decode, whole, prefill = ("-" if it is None else f"{it.value:.1f}" for it in speeds)
        ratios = ["1", "1"]
        if one is not first:
            ratios = [interval_text(one.ratios[name]) for name in ("decode", "end_to_end")]
        ttft = f"{1000 * one.ttft_s:.0f}"
        table.add_row(one.name, one.guarantee, decode, ratios[0], whole, ratios[1], prefill, ttft)
    return table


def _law_table(summaries: Sequence[ArmSummary]) -> Table:
    table = _table("arm")
    for title in ("tokens/step", "accepted", "kept", "deferred", "loss mean", "loss most"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in summaries:
        if one.depths and one.void is None:
            table.add_row(
                one.name,
                interval_text(one.estimates["tokens_per_verify_step"]),
                interval_text(one.estimates["draft_acceptance_rate"], 3),
                _number(one.rates["kept_draft_rate"], 3),
                _number(one.rates["deferral_rate"], 3),
                interval_text(one.estimates["loss_tv_mean"], 4),
                _number(one.loss["total_variation_max"], 2),
            )
    return table


def _depth_table(summaries: Sequence[ArmSummary]) -> Table:
    table = _table("accepted (expected) at depth")
    most = max(len(one.depths) for one in summaries)
    for depth in range(1, most + 1):
        table.add_column(str(depth), justify="right", no_wrap=True)
    for one in summaries:
        if one.depths:
            cells = [
                f"{_number(depth.accepted_rate, 3)} ({_number(depth.expected_rate, 3)})"
                for depth in one.depths
            ]
            table.add_row(one.name, *cells)
    return table


def _part_table(summaries: Sequence[ArmSummary]) -> Table:
    table = _table("ms of a verify step: median (share)")
    for title in ("step", *PARTS):
        table.add_column(title, justify="right", no_wrap=True)
    for one in summaries:
        if one.parts and one.chunk_gap_p50_s is not None:
            cells = [
                f"{1000 * cost.median_s:.2f} ({cost.share:.0%})" for cost in one.parts.values()
            ]
            table.add_row(one.name, f"{1000 * one.chunk_gap_p50_s:.2f}", *cells)
    return table


def _table(*titles: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table


def _clusters(summary: ArmSummary) -> str:
    estimate = summary.estimates["decode_tokens_per_s"]
    num = 0 if estimate is None else estimate.num_clusters
    return f"{num} prompts" if num == summary.num_prompts else f"{num} pairs of prompt and seed"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
