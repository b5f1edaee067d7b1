"""The tables of a run in words, the same for a terminal and a page.

In: summaries. Out: rows of text, the first of each table its head, the first cell of each row what
the row is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leeway.bench.intervals import Estimate
from leeway.bench.part_clock import PARTS
from leeway.bench.summary import ArmSummary
from leeway.bench.totals import SPEEDS
from leeway.bench.window import Window

Rows = list[list[str]]


def tables(summaries: Sequence[ArmSummary]) -> list[Rows]:
    """Return the tables that have rows.

    In this order: speed, single requests, law, acceptance by depth, parts of a step, latency,
    memory.
    """
    kinds = (_speeds, _requests, _laws, _depths, _parts, _latencies, _memory)
    return [rows for rows in (kind(summaries) for kind in kinds) if len(rows) > 1]


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


def cell_text(windows: Sequence[Window]) -> str:
    """Return what was asked: sampling parameters, lengths of prompts."""
    lengths = {one.prompt_tokens for one in windows}
    few, most = min(lengths), max(lengths)
    span = str(few) if few == most else f"{few} to {most}"
    return f"{sampling_text(windows[0].identity['sampling'])}, prompts of {span} tokens"


def interval_text(one: Estimate | None, digits: int = 2) -> str:
    """Return a value with its interval: `1.52 (1.47-1.58)`; `(?)` where there is none."""
    if one is None:
        return "-"
    if one.low is None or one.high is None:
        return f"{one.value:.{digits}f} (?)"
    return f"{one.value:.{digits}f} ({one.low:.{digits}f}-{one.high:.{digits}f})"


def number_text(value: float | None, digits: int) -> str:
    """Return a number, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def sample_text(summary: ArmSummary) -> str:
    """Return how much was measured and what the intervals are over."""
    estimate = summary.estimates["decode_tokens_per_s"]
    num = 0 if estimate is None else estimate.num_clusters
    counts = ((summary.num_prompts, "prompt"), (summary.num_seeds, "seed"))
    given = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return (
        f"{given}, {summary.num_windows} requests an arm; 95 % intervals over {num} "
        f"{summary.clusters}"
    )


def _speeds(summaries: Sequence[ArmSummary]) -> Rows:
    first = summaries[0]
    ratio = f"x {first.name}"
    rows = [["arm", "guarantee", "tokens/s", ratio, "x median", "end to end", ratio]]
    for one in summaries:
        if one.void is not None:
            rows.append([one.name, "void", *("-" for _ in rows[0][2:])])
            continue
        found = (one.estimates[name] for name in SPEEDS[:2])
        decode, whole = (number_text(None if it is None else it.value, 1) for it in found)
        ratios = ["1", "1", "1"]
        if one is not first:
            ratios = [interval_text(one.ratios[name]) for name in ("decode", "end_to_end")]
            ratios.insert(1, number_text(one.decode_ratio_median, 2))
        rows.append([one.name, one.guarantee, decode, *ratios[:2], whole, ratios[2]])
    return rows


def _requests(summaries: Sequence[ArmSummary]) -> Rows:
    rows = [["tokens/s of single requests", "n", "median", "slowest", "fastest"]]
    for one in summaries:
        found = one.decode_by_request
        if one.void is None and found is not None:
            speeds = (found.median, found.least, found.most)
            rows.append([one.name, str(found.n), *(f"{speed:.1f}" for speed in speeds)])
    return rows


def _latencies(summaries: Sequence[ArmSummary]) -> Rows:
    rows = [
        ["arm", "prefill tokens/s", "TTFT ms", "wall ms", "TPOT ms", "chunk gap p50 ms", "p95 ms"]
    ]
    for one in summaries:
        prefill, decode = (
            one.estimates[name] for name in ("prefill_tokens_per_s", "decode_tokens_per_s")
        )
        rows.append(
            [
                one.name,
                number_text(None if prefill is None else prefill.value, 0),
                f"{1000 * one.ttft_s:.0f}",
                f"{1000 * one.wall_s:.0f}",
                number_text(1000 / decode.value if decode and decode.value else None, 1),
                _ms(one.chunk_gap_p50_s),
                _ms(one.chunk_gap_p95_s),
            ]
        )
    return rows


def _memory(summaries: Sequence[ArmSummary]) -> Rows:
    rows = [["arm", "peak memory MiB", "KV MiB", "cache MiB", "MHz"]]
    for one in summaries:
        if one.peak_memory_bytes is not None or one.kv_bytes is not None:
            sizes = (one.peak_memory_bytes, one.kv_bytes, one.kv_cache_bytes)
            rows.append(
                [one.name, *(mib_text(size) for size in sizes), number_text(one.cpu_mhz, 0)]
            )
    return rows


def mib_text(num_bytes: int | None) -> str:
    """Return bytes in MiB, or a dash where there are none."""
    return number_text(None if num_bytes is None else num_bytes / 2**20, 1)


def _ms(seconds: float | None) -> str:
    return number_text(None if seconds is None else 1000 * seconds, 1)


def _laws(summaries: Sequence[ArmSummary]) -> Rows:
    rows = [
        [
            *("arm", "tokens/step", "accepted", "kept", "deferred", "D mean"),
            *("loss mean", "loss most"),
        ]
    ]
    for one in summaries:
        has_drafts = bool(one.depths) or one.estimates["draft_acceptance_rate"] is not None
        if has_drafts and one.void is None:
            rows.append(
                [
                    one.name,
                    interval_text(one.estimates["tokens_per_verify_step"]),
                    interval_text(one.estimates["draft_acceptance_rate"], 3),
                    number_text(one.rates["kept_draft_rate"], 3),
                    number_text(one.rates["deferral_rate"], 3),
                    number_text(one.rates["mean_draft_tv"], 3),
                    interval_text(one.estimates["loss_tv_mean"], 4),
                    number_text(one.loss["total_variation_max"], 2),
                ]
            )
    return rows


def _depths(summaries: Sequence[ArmSummary]) -> Rows:
    most = max(len(one.depths) for one in summaries)
    rows = [["accepted (expected) at depth", *(str(depth + 1) for depth in range(most))]]
    for one in summaries:
        if one.depths and one.void is None:
            cells = [
                f"{number_text(depth.accepted_rate, 3)} ({number_text(depth.expected_rate, 3)})"
                for depth in one.depths
            ]
            rows.append([one.name, *cells, *("-" for _ in range(most - len(cells)))])
    return rows


def _parts(summaries: Sequence[ArmSummary]) -> Rows:
    rows = [["ms of a verify step: median (share)", "step", *PARTS]]
    for one in summaries:
        if one.parts and one.chunk_gap_p50_s is not None:
            cells = [
                f"{1000 * cost.median_s:.2f} ({cost.share:.0%})" for cost in one.parts.values()
            ]
            rows.append([one.name, f"{1000 * one.chunk_gap_p50_s:.2f}", *cells])
    return rows
