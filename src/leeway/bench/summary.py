"""Summaries: what the windows of a run say of each arm, beside the first one.

In: windows. Out: one summary an arm, with intervals. All of it is computed from windows alone, so a
run can be summed up by another process than the one that measured it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.bench.intervals import Estimate
from leeway.bench.part_clock import PARTS
from leeway.bench.samples import Samples
from leeway.bench.totals import FEW_PROMPTS, compare, estimates, has_prompt_clusters, ratio
from leeway.bench.window import GAP, Window, tally_from_json
from leeway.core.receipt import Tally

BUSY_RATE = 0.05
LENGTH_TOLERANCE = 0.1
DEFINITIONS = {
    "tokens/s": "decode speed: output tokens behind the first / time of the engine steps behind "
    "the first token; totals over all windows",
    "x (the first arm)": "an arm's speed / the first arm's, both over the same prompts, seeds and "
    "rounds",
    "x median": "of the same ratio taken request by request; less moved by a busy moment",
    "single requests": "tokens/s of one request each: median, slowest and fastest of n",
    "end to end": "output tokens / time from adding the request to its last token",
    "prefill": "prompt tokens / TTFT",
    "TTFT": "time from adding the request to the end of the step that gave the first token; median",
    "wall": "time from adding the request to its last token; median",
    "TPOT": "time behind the first token / output tokens behind the first",
    "chunk gap": "time of one step behind the first token, which delivers one or more tokens",
    "a server": "an arm by URL, or a rival: TTFT from opening the connection to its first text; "
    "decode speed by its own count of tokens, over the time from the first text to the finish "
    "reason; chunk gap between pieces of text",
    "tokens per verify step": "output tokens / verify steps (the one that ends the prompt among "
    "them); 1 without drafts",
    "draft_acceptance_rate": "draft tokens accepted / drafted",
    "deferral_rate": "positions at which the rule deferred to the target / positions decided",
    "kept_draft_rate": "draft tokens accepted / positions decided",
    "D mean": "total variation between the target's and the draft's row, mean over the positions "
    "decided; 1 - D is what an exact law accepts on average",
    "loss": "total variation between the row emitted and the target's row, mean and most over the "
    "positions decided; 0 for an exact law",
    "accepted at depth d": "of the draft tokens at depth d that were decided (all before them were "
    "accepted), the part accepted; beside it 1 - total variation of target and draft row there, "
    "which is what an exact law accepts on average",
    "interval": "95 %, delete-one jackknife over clusters with Student's t, ratios on the log "
    f"scale; a cluster is a prompt with all its seeds and rounds from {FEW_PROMPTS} prompts on "
    "and at temperature 0, else a prompt with a seed and all its rounds",
    "peak memory": "most memory resident in the process while a request ran (in the process so far "
    "where the system cannot reset the mark); most over requests",
    "KV": "bytes of the target's cache blocks that hold prompt and answer, most over requests; the "
    "cache: all that it was given. A draft head or draft model has a cache of its own beside it",
    "MHz": "mean frequency of the cores behind each request, as the system reports it; median",
    "busy": "the machine was busy if other processes, or other machines on its host, took more "
    f"than {BUSY_RATE:.0%} of its cores on average",
    **{f"part {name}": meaning for name, meaning in PARTS.items()},
}


@dataclass(frozen=True, slots=True)
class PartCost:
    """One part of a verify step behind the first token.

    `median_s` is over steps; `mean_s` of all parts add up to the mean step, `share` to 1.
    """

    median_s: float
    mean_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Depth:
    """One depth of a draft, from 1: how often decided, and what became of it."""

    decided: int
    accepted_rate: float | None
    expected_rate: float | None


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """What one arm did.

    Attributes:
        name, definition: as the arm was given.
        law, options, guarantee, drafter: as engaged.
        void: why the arm does not count; None if it does.
        estimates: by name, with intervals over clusters.
        clusters: what the intervals are over, in words.
        ratios: to the first arm, `decode` and `end_to_end`; None where either arm is void.
        decode_ratio_by_seed: totals over prompts and rounds of each seed.
        decode_ratio_median: over requests, each against the first arm's of the same block.
        decode_by_request: decode tokens/s of single requests; None where none has two tokens.
        wall_s: median of whole requests.
    """

    name: str
    definition: str
    law: str
    options: dict[str, Any]
    guarantee: str
    drafter: str
    row_shape: str
    void: str | None
    note: str | None
    num_windows: int
    num_prompts: int
    num_seeds: int
    clusters: str
    estimates: dict[str, Estimate | None]
    ratios: dict[str, Estimate | None]
    decode_ratio_by_seed: dict[str, float]
    decode_ratio_median: float | None
    decode_by_request: Samples | None
    wall_s: float
    rates: dict[str, float | None]
    loss: dict[str, float | None]
    depths: list[Depth]
    parts: dict[str, PartCost]
    ttft_s: float
    chunk_gap_p50_s: float | None
    chunk_gap_p95_s: float | None
    peak_memory_bytes: int | None
    kv_bytes: int | None
    kv_cache_bytes: int | None
    cpu_mhz: float | None
    mean_output_tokens: float
    finish_reasons: dict[str, int]


def summarise(windows: Sequence[Window], arms: Sequence[str]) -> list[ArmSummary]:
    """Return one summary an arm, in this order; arms without windows are left out.

    Args:
        windows: of whole blocks.
        arms: names; the first is what the others are compared with.
    """
    by_arm = {name: [one for one in windows if one.arm == name] for name in arms}
    base = by_arm[arms[0]] if arms else []
    return [_summarise(own, base) for own in by_arm.values() if own]


def warnings_of(windows: Sequence[Window], summaries: Sequence[ArmSummary]) -> list[str]:
    """Return what a reader must know before believing the figures."""
    found = []
    busy = busy_cores(windows)
    if busy is not None and windows:
        threads = windows[0].identity.get("machine", {}).get("usable_threads", 1)
        if busy > BUSY_RATE * threads:
            found.append(
                f"the machine was busy: others took {busy:.2f} of {threads} cores on average"
            )
    for one in summaries:
        if one.void is not None:
            found.append(f"arm {one.name} is void: {one.void}")
        if one.note is not None:
            found.append(f"arm {one.name}: {one.note}")
        change = one.mean_output_tokens / (summaries[0].mean_output_tokens or 1) - 1
        if abs(change) > LENGTH_TOLERANCE:
            word = "longer" if change > 0 else "shorter"
            first = summaries[0].name
            found.append(
                f"answers of {one.name} are {abs(change):.0%} {word} than those of {first}"
            )
    blocks: dict[tuple[int, int, int], list[Window]] = {}
    for window in windows:
        blocks.setdefault(window.block, []).append(window)
    if any(len({one.request_digest for one in block}) > 1 for block in blocks.values()):
        found.append("arms of one block did not get the same request: nothing here compares")
    found += _greedy_differences(list(blocks.values()))
    return found


def _greedy_differences(blocks: Sequence[Sequence[Window]]) -> list[str]:
    """Say where exact arms of one row shape decoded different tokens at temperature 0."""
    num_different: dict[tuple[str, str], int] = {}
    for block in blocks:
        exact = [
            one
            for one in sorted(block, key=lambda one: one.arm)
            if one.receipt["temperature"] == 0
            and one.receipt["guarantee"] != "none"
            and one.row_shape == "stable"
        ]
        for one in exact[1:]:
            if one.output_digest != exact[0].output_digest:
                pair = (exact[0].arm, one.arm)
                num_different[pair] = num_different.get(pair, 0) + 1
    return [
        f"at temperature 0 {other} decoded other tokens than {one} in {num} of {len(blocks)} "
        "requests, and both are exact"
        for (one, other), num in num_different.items()
    ]


def busy_cores(windows: Sequence[Window]) -> float | None:
    """Return the mean cores that others took while windows ran; None where it is not known."""
    known = [one for one in windows if one.other_cores is not None]
    seconds = sum(one.wall_s for one in known)
    if not known or seconds <= 0:
        return None
    taken = ((one.other_cores or 0.0) + (one.stolen_cores or 0.0) for one in known)
    return sum(cores * one.wall_s for cores, one in zip(taken, known, strict=True)) / seconds


def total(windows: Sequence[Window]) -> Tally:
    """Return the sum of the windows' tallies."""
    whole = Tally()
    for window in windows:
        whole.add(tally_from_json(window.tally))
    return whole


def _summarise(own: Sequence[Window], base: Sequence[Window]) -> ArmSummary:
    receipt, tally = own[0].receipt, total(own)
    void = next((one.void for one in own if one.void is not None), None)
    counts = void is None and all(one.void is None for one in base)
    steps = _steps(own)
    gaps = sorted([*(sum(step.values()) for step in steps), *_gaps(own)])
    reasons = [one.finish_reason for one in own]
    clocks = [one.cpu_mhz for one in own if one.cpu_mhz is not None]
    seeds = sorted({one.seed for one in own})
    return ArmSummary(
        name=own[0].arm,
        definition=own[0].definition,
        law=receipt["law"],
        options=receipt["options"],
        guarantee=receipt["guarantee"],
        drafter=receipt["drafter"],
        row_shape=own[0].row_shape,
        void=void,
        note=own[0].note,
        num_windows=len(own),
        num_prompts=len({one.prompt_index for one in own}),
        num_seeds=len(seeds),
        clusters="prompts" if has_prompt_clusters(own) else "pairs of prompt and seed",
        estimates=estimates(own),
        ratios={
            "decode": compare(own, base, "decode_tokens_per_s") if counts else None,
            "end_to_end": compare(own, base, "end_to_end_tokens_per_s") if counts else None,
        },
        decode_ratio_by_seed=_by_seed(own, base, seeds) if counts else {},
        decode_ratio_median=_median_of_pairs(own, base) if counts else None,
        decode_by_request=_by_request(own),
        wall_s=statistics.median(one.wall_s for one in own),
        rates=tally.rates(),
        loss=tally.loss(),
        depths=_depths(tally),
        parts=_parts(steps),
        ttft_s=statistics.median(one.ttft_s for one in own),
        chunk_gap_p50_s=statistics.median(gaps) if gaps else None,
        chunk_gap_p95_s=gaps[max(0, -(-95 * len(gaps) // 100) - 1)] if gaps else None,
        peak_memory_bytes=_most(one.peak_memory_bytes for one in own),
        kv_bytes=_most(one.kv_bytes for one in own),
        kv_cache_bytes=_most(one.kv_cache_bytes for one in own),
        cpu_mhz=statistics.median(clocks) if clocks else None,
        mean_output_tokens=statistics.fmean(one.output_tokens for one in own),
        finish_reasons={name: reasons.count(name) for name in sorted(set(reasons))},
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((one for one in values if one is not None), default=None)


def _by_request(own: Sequence[Window]) -> Samples | None:
    speeds = [
        (one.output_tokens - 1) / one.decode_s
        for one in own
        if one.output_tokens > 1 and one.decode_s > 0
    ]
    return Samples.of(speeds) if speeds else None


def _by_seed(
    own: Sequence[Window], base: Sequence[Window], seeds: Sequence[int]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for seed in seeds:
        mine = [one for one in own if one.seed == seed]
        theirs = [one for one in base if one.seed == seed]
        of_seed = compare(mine, theirs, "decode_tokens_per_s")
        if of_seed is not None:
            found[str(seed)] = of_seed.value
    return found


def _median_of_pairs(own: Sequence[Window], base: Sequence[Window]) -> float | None:
    theirs = {one.block: one for one in base}
    found = []
    for one in own:
        ratio_of_pair = compare([one], [theirs[one.block]], "decode_tokens_per_s")
        if ratio_of_pair is not None:
            found.append(ratio_of_pair.value)
    return statistics.median(found) if found else None


def _depths(tally: Tally) -> list[Depth]:
    found = []
    for depth, decided in enumerate(tally.decided_by_depth):
        distance = ratio(tally.draft_tv_by_depth[depth], decided)
        found.append(
            Depth(
                decided=decided,
                accepted_rate=ratio(tally.accepted_by_depth[depth], decided),
                expected_rate=None if distance is None else 1 - distance,
            )
        )
    return found


def _steps(windows: Sequence[Window]) -> list[Mapping[str, float]]:
    return [
        dict(zip(PARTS, values, strict=True))
        for window in windows
        if GAP not in window.steps
        for values in zip(*(window.steps[part] for part in PARTS), strict=True)
    ]


def _gaps(windows: Sequence[Window]) -> list[float]:
    return [gap for window in windows for gap in window.steps.get(GAP, ())]


def _parts(steps: Sequence[Mapping[str, float]]) -> dict[str, PartCost]:
    whole = sum(sum(step.values()) for step in steps)
    if not steps or whole <= 0:
        return {}
    return {
        part: PartCost(
            median_s=statistics.median(step[part] for step in steps),
            mean_s=statistics.fmean(step[part] for step in steps),
            share=sum(step[part] for step in steps) / whole,
        )
        for part in PARTS
    }
