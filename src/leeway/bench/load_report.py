"""The report of a load test: its table and charts, drawn from level files only.

In: levels as their files hold them. Out: rows, and file contents by name. Measures nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from leeway.bench.load_run import SUFFIX, read_levels
from leeway.bench.tables import Rows, number_text
from leeway.bench.traffic import DEFINITIONS, PERCENTILES, LevelSummary
from leeway.core.errors import ConfigError
from leeway.report.curves import Curve, CurvePoint, curves
from leeway.report.page import Chart, Page, page_files
from leeway.report.scatter import Axes


@dataclass(frozen=True, slots=True)
class LoadRun:
    """Levels of one server, workload and sampling, in order: closed loops, then rates."""

    identity: Mapping[str, Any]
    levels: tuple[tuple[float, bool, LevelSummary], ...]
    """(clients or requests a second, whether it is a closed loop, summary)."""
    commands: tuple[str, ...]


def has_levels(folder: Path) -> bool:
    """Return whether a folder holds levels of a load test."""
    return any(folder.glob("*" + SUFFIX))


def read_load_run(folder: Path) -> LoadRun:
    """Return the levels of a folder.

    Raises:
        ConfigError: a file is no level, or they are of different runs.
    """
    paths = sorted(folder.glob("*" + SUFFIX))
    try:
        values = [json.loads(path.read_bytes()) for path in paths]
        identity = values[0]["identity"]
    except (OSError, ValueError, KeyError, TypeError) as reason:
        raise ConfigError(f"{str(folder)!r} holds a file that is no level ({reason})") from None
    read_levels(folder, identity)
    levels = []
    for value in values:
        level, summary = value["level"], msgspec.convert(value["summary"], LevelSummary)
        is_closed = level["num_clients"] is not None
        levels.append((float(level["num_clients" if is_closed else "rate"]), is_closed, summary))
    typed = dict.fromkeys(value["command"] for value in values if value.get("command"))
    order = sorted(levels, key=lambda one: (not one[1], one[0]))
    return LoadRun(identity, tuple(order), tuple(typed))


def level_rows(done: Sequence[LevelSummary]) -> Rows:
    """Return the table of levels, its head first; times in ms, p50 / p90 / p99."""
    head = ["load", "whole", "failed", "req/s", "tokens/s", "TTFT ms", "TPOT ms", "end to end ms"]
    rows = [head]
    for one in done:
        tripled = [
            " / ".join(number_text(None if s is None else 1000 * s, digits) for s in found.values())
            for found, digits in ((one.ttft_s, 0), (one.tpot_s, 1), (one.end_to_end_s, 0))
        ]
        rows.append(
            [
                one.load,
                str(one.num_whole),
                str(one.num_requests - one.num_whole),
                number_text(one.requests_per_s, 2),
                number_text(one.tokens_per_s, 1),
                *tripled,
            ]
        )
    return rows


def load_files(run: LoadRun, draw: Callable[[str], bytes] | None = None) -> dict[str, bytes]:
    """Return the page of a load test, its charts and their list, by file name."""
    summaries = [summary for _, _, summary in run.levels]
    failures = [
        f"{one.load}: {num} failed: {words}"
        for one in summaries
        for words, num in one.errors.items()
    ]
    charts = [
        chart
        for is_closed in (True, False)
        for chart in _charts(run, [one for one in run.levels if one[1] == is_closed], is_closed)
    ]
    return page_files(
        Page(
            title=f"Load: {_server(run)}",
            intro=f"{_about(run)}. Latencies are p50 / p90 / p99.",
            warnings=failures,
            tables=[level_rows(summaries)],
            charts=charts,
            definitions=DEFINITIONS,
            arms={},
            commands=run.commands,
        ),
        draw,
    )


def _server(run: LoadRun) -> str:
    server = run.identity["server"]
    settings = server.get("settings")
    return str(settings["model"] if settings else server["definition"])


def _about(run: LoadRun) -> str:
    """Return what was asked of what, for captions: law and drafter where they are known."""
    server, sampling = run.identity["server"], run.identity["sampling"]
    settings = server.get("settings")
    served = f"law {settings['law']}, drafter {settings['drafter']}, " if settings else ""
    return (
        f"{_server(run)}, {served}{run.identity['num_requests']} requests a level, temperature "
        f"{sampling['temperature']:g}, max tokens {sampling['max_tokens']}"
    )


def _charts(
    run: LoadRun, levels: Sequence[tuple[float, bool, LevelSummary]], is_closed: bool
) -> list[Chart]:
    """Return throughput and latency over two levels or more."""
    if len(levels) < 2:
        return []
    by, word = ("clients", "clients") if is_closed else ("rate", "requests a second")
    num = run.identity["num_requests"]
    speed = [
        CurvePoint(x, one.tokens_per_s) for x, _, one in levels if one.tokens_per_s is not None
    ]
    waits = [
        Curve(f"p{percent}, n = {num}", tuple(points))
        for percent in PERCENTILES
        for points in [_waits(levels, f"p{percent}")]
        if points
    ]
    found = []
    if speed:
        drawn = [Curve(f"all clients together, n = {num}", tuple(speed))]
        quantity = ("Throughput", "output tokens/s")
        found.append(_chart(run, f"throughput-by-{by}.svg", quantity, word, drawn))
    if waits:
        quantity = ("End to end latency", "seconds")
        found.append(_chart(run, f"latency-by-{by}.svg", quantity, word, waits))
    return found


def _waits(levels: Sequence[tuple[float, bool, LevelSummary]], name: str) -> list[CurvePoint]:
    found = ((x, one.end_to_end_s.get(name)) for x, _, one in levels)
    return [CurvePoint(x, seconds) for x, seconds in found if seconds is not None]


def _chart(
    run: LoadRun, file: str, quantity: tuple[str, str], word: str, drawn: Sequence[Curve]
) -> Chart:
    title, unit = quantity
    alt = "; ".join(
        f"{curve.label}: "
        + ", ".join(f"{point.y:.3g} {unit} at {point.x:g} {word}" for point in curve.points)
        for curve in drawn
    )
    axes = Axes(f"{title} by {word}: {_server(run)}", f"{word}; n requests a level", unit, alt)
    return Chart(file, f"{title} by {word}. {_about(run)}.", alt, curves(drawn, axes))
