"""A ladder: the same arms at longer and longer contexts, and with each precision of the KV cache.

A rung is a run of its own, in a folder of its own, over prompts that with their answers end at the
rung's context. In: windows of rungs. Out: tables and a chart. Measures nothing.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leeway.bench.charts import about_text, label_of
from leeway.bench.compare_runs import compare_arms
from leeway.bench.intervals import Estimate
from leeway.bench.runs import differences, read_run
from leeway.bench.summary import ArmSummary, summarise
from leeway.bench.tables import Rows, interval_text, mib_text, number_text
from leeway.bench.window import SUFFIX, Window
from leeway.core.errors import ConfigError
from leeway.report.curves import Curve, CurvePoint, curves
from leeway.report.page import Chart
from leeway.report.scatter import Axes

CHART = "decode-by-context.svg"
DEFINITIONS = {
    "context": "prompt tokens + most output tokens: where the answer ends",
    "slowest-fastest": "decode tokens/s of single requests",
    "wall": "the whole request, from adding it to its last token; median",
    "ms/step": "mean time of a verify step behind the first token",
    "ms/MiB": "what a step takes longer than on the rung below, for each MiB that the cache holds "
    "more: even where attention reads the cache at one speed, a jump where there is a cliff",
    "peak - KV": "peak memory less the cache blocks of the request: weights, buffers and the rest; "
    "blocks that longer requests filled before stay resident and are in it",
    "x 16bit": "decode speed / that of the same requests with the 16bit cache, which is another "
    "load of the model and not interleaved with this one",
}
_CHANGING = ("workload_sha256", "backend.", "drafters.")
_CONTEXT = re.compile(r"([1-9][0-9]*)(k?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rung:
    """One context with one precision of the cache: windows of whole blocks, and their summaries."""

    context_len: int
    kv_cache: str
    windows: tuple[Window, ...]
    summaries: tuple[ArmSummary, ...]

    def wall_s(self, arm: str) -> float:
        """Return the median time of an arm's whole requests."""
        return statistics.median(one.wall_s for one in self.windows if one.arm == arm)


def parse_contexts(text: str) -> list[int]:
    """Return context lengths, ascending, from text like `512,1K,2K`.

    Raises:
        ConfigError: one is no length, or is given twice.
    """
    found = []
    for word in text.split(","):
        match = _CONTEXT.fullmatch(word.strip())
        if match is None:
            raise ConfigError(f"--contexts has {word!r}; give tokens like 512,1K,2K (1K is 1024)")
        found.append(int(match[1]) * (1024 if match[2] else 1))
    twice = next((one for one in found if found.count(one) > 1), None)
    if twice is not None:
        raise ConfigError(f"--contexts gives {twice} twice; give each once")
    return sorted(found)


def rung_folder(folder: Path, kv_cache: str, context_len: int) -> Path:
    """Return where a rung's windows lie."""
    return folder / f"{kv_cache}-{context_len:06d}"


def rung_of(windows: Sequence[Window]) -> Rung:
    """Return a rung from its windows, which say themselves what it is."""
    first = windows[0]
    return Rung(
        context_len=first.prompt_tokens + first.identity["sampling"]["max_tokens"],
        kv_cache=str(first.identity["backend"].get("kv_cache", "only one")),
        windows=tuple(windows),
        summaries=tuple(summarise(windows, list(first.identity["arms"]))),
    )


def has_rungs(folder: Path) -> bool:
    """Return whether a folder holds no windows itself and folders that do."""
    return not any(folder.glob("*" + SUFFIX)) and any(folder.glob("*-*/*" + SUFFIX))


def read_ladder(folder: Path) -> list[Rung]:
    """Return the rungs of a folder, by cache and context.

    Raises:
        ConfigError: a rung holds no whole block, or the rungs are of different code, models ...
    """
    places = sorted({path.parent for path in folder.glob("*-*/*" + SUFFIX)})
    return in_order([rung_of(read_run(place)) for place in places])


def in_order(rungs: Sequence[Rung]) -> list[Rung]:
    """Return rungs by cache and context.

    Raises:
        ConfigError: they differ in more than prompts and cache.
    """
    for rung in rungs[1:]:
        for name, old, new in differences(rungs[0].windows[0].identity, rung.windows[0].identity):
            if not name.startswith(_CHANGING):
                raise ConfigError(
                    f"the rungs of this ladder are of different runs: {name} is {old} at context "
                    f"{rungs[0].context_len} and {new} at {rung.context_len}; keep them apart"
                )
    return sorted(rungs, key=lambda rung: (rung.kv_cache, rung.context_len))


def ladder_tables(rungs: Sequence[Rung]) -> list[Rows]:
    """Return the tables of speed and of memory."""
    first = rungs[0].summaries[0].name
    key = ["context", "KV cache", "arm"]
    speed = [
        [
            *(*key, "decode tokens/s", "slowest-fastest", f"x {first}", "x 16bit"),
            *("prefill tokens/s", "TTFT s", "wall s"),
        ]
    ]
    memory = [[*key, "ms/step", "ms/MiB", "KV MiB", "peak MiB", "peak - KV MiB", "cache MiB"]]
    below: dict[tuple[str, str], ArmSummary] = {}
    for rung in rungs:
        for one in rung.summaries:
            place = [str(rung.context_len), rung.kv_cache, one.name]
            if one.void is not None:
                speed.append([*place, "void", *("-" for _ in speed[0][4:])])
                continue
            speed.append([*place, *_speed_cells(rungs, rung, one)])
            shorter = below.get((rung.kv_cache, one.name))
            memory.append([*place, *_memory_cells(one, shorter)])
            below[rung.kv_cache, one.name] = one
    return [speed, memory]


def _speed_cells(rungs: Sequence[Rung], rung: Rung, one: ArmSummary) -> list[str]:
    prefill, spread = one.estimates["prefill_tokens_per_s"], one.decode_by_request
    is_first = one.name == rung.summaries[0].name
    return [
        interval_text(one.estimates["decode_tokens_per_s"]),
        "-" if spread is None else f"{spread.least:.1f}-{spread.most:.1f}",
        "1" if is_first else interval_text(one.ratios["decode"]),
        interval_text(to_16bit(rungs, rung, one.name)),
        number_text(None if prefill is None else prefill.value, 0),
        f"{one.ttft_s:.2f}",
        f"{rung.wall_s(one.name):.2f}",
    ]


def _memory_cells(one: ArmSummary, shorter: ArmSummary | None) -> list[str]:
    peak, held = one.peak_memory_bytes, one.kv_bytes
    rest = None if peak is None or held is None else peak - held
    step = step_s(one)
    return [
        number_text(None if step is None else 1000 * step, 2),
        number_text(added_ms(one, shorter), 3),
        *(mib_text(size) for size in (held, peak, rest, one.kv_cache_bytes)),
    ]


def step_s(one: ArmSummary) -> float | None:
    """Return the mean time of a verify step behind the first token."""
    return sum(cost.mean_s for cost in one.parts.values()) if one.parts else None


def added_ms(one: ArmSummary, shorter: ArmSummary | None) -> float | None:
    """Return ms that a step takes longer for each MiB more in the cache; None where unknown."""
    if shorter is None or one.kv_bytes is None or shorter.kv_bytes is None:
        return None
    step, before, grown = step_s(one), step_s(shorter), one.kv_bytes - shorter.kv_bytes
    if step is None or before is None or grown <= 0:
        return None
    return 1000 * (step - before) / (grown / 2**20)


def to_16bit(rungs: Sequence[Rung], rung: Rung, arm: str) -> Estimate | None:
    """Return an arm's decode speed over that with the 16bit cache; None where that is missing."""
    base = next(
        (
            other
            for other in rungs
            if other.kv_cache == "16bit"
            and other.context_len == rung.context_len
            and _workload(other) == _workload(rung)
        ),
        None,
    )
    if base is None or base is rung:
        return None
    return compare_arms(base.windows, rung.windows, (arm, arm)).ratios["decode_tokens_per_s"]


def _workload(rung: Rung) -> object:
    return rung.windows[0].identity["workload_sha256"]


def ladder_chart(rungs: Sequence[Rung]) -> Chart | None:
    """Return decode speed by context, a curve for each arm and cache; None where all is void.

    Marks are medians of single requests, bars reach from the slowest to the fastest: a rung has few
    prompts, often one.
    """
    points: dict[tuple[str, str], list[CurvePoint]] = {}
    counts: dict[tuple[str, str], list[ArmSummary]] = {}
    for rung in rungs:
        for one in rung.summaries:
            speed = one.decode_by_request
            if one.void is None and speed is not None:
                point = CurvePoint(rung.context_len, speed.median, speed.least, speed.most)
                points.setdefault((one.name, rung.kv_cache), []).append(point)
                counts.setdefault((one.name, rung.kv_cache), []).append(one)
    if not points:
        return None
    drawn = []
    for key, found in points.items():
        fewest = min(counts[key], key=lambda one: one.num_windows)
        drawn.append(Curve(f"{label_of(fewest)}, {key[1]}", tuple(found)))
    alt = "; ".join(
        f"{curve.label}: "
        + ", ".join(f"{point.y:.1f} tokens/s at {point.x:g}" for point in curve.points)
        for curve in drawn
    )
    windows = [one for rung in rungs for one in rung.windows]
    title = f"Decode speed by context: {windows[0].identity['model']['name']}"
    axes = Axes(
        title, "context, tokens; median of n requests, slowest to fastest", "decode tokens/s", alt
    )
    caption = (
        "Decode speed by context, median of n requests an arm and context, bars from the slowest "
        f"to the fastest. {about_text(windows)}."
    )
    return Chart(CHART, caption, alt, curves(drawn, axes, is_log=True))
