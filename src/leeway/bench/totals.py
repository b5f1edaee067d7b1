"""Totals of windows, and the measures that are ratios of them, with intervals.

What may be taken as independent: requests with different prompts. So a cluster is a prompt, all its
seeds and rounds together, where there are at least `FEW_PROMPTS` prompts. With fewer, these prompts
are taken as given, and a cluster is a prompt with a seed, its rounds together: rounds repeat the
same tokens and are no evidence of their own. Nor are seeds at temperature 0, where a cluster is
always a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from leeway.bench.intervals import Estimate, estimate
from leeway.bench.window import Window

FEW_PROMPTS = 5
MEASURES = {
    "decode_tokens_per_s": ("decode_tokens", "decode_s"),
    "end_to_end_tokens_per_s": ("output_tokens", "wall_s"),
    "prefill_tokens_per_s": ("prompt_tokens", "ttft_s"),
    "tokens_per_verify_step": ("output_tokens", "verify_steps"),
    "draft_acceptance_rate": ("accepted", "drafted"),
    "deferral_rate": ("deferred", "decided"),
    "kept_draft_rate": ("accepted", "decided"),
    "mean_draft_tv": ("draft_tv", "decided"),
    "loss_tv_mean": ("loss_tv", "decided"),
}
"""By name: which total over which total."""
POSITIVE = (
    "decode_tokens_per_s",
    "end_to_end_tokens_per_s",
    "prefill_tokens_per_s",
    "tokens_per_verify_step",
)
"""Measures whose interval is taken on the log scale; the others lie in [0, 1]."""
SPEEDS = ("decode_tokens_per_s", "end_to_end_tokens_per_s", "prefill_tokens_per_s")

Totals = Mapping[str, float]
Cluster = tuple[int, ...]
_SUMS: dict[str, Callable[[Window], float]] = {
    "decode_tokens": lambda one: max(one.output_tokens - 1, 0),
    "decode_s": lambda one: one.decode_s,
    "output_tokens": lambda one: one.output_tokens,
    "wall_s": lambda one: one.wall_s,
    "prompt_tokens": lambda one: one.prompt_tokens,
    "ttft_s": lambda one: one.ttft_s,
    "verify_steps": lambda one: float(one.tally["num_verify_steps"]),
    "drafted": lambda one: float(one.tally["num_draft_tokens"]),
    "accepted": lambda one: float(one.tally["num_accepted_tokens"]),
    "deferred": lambda one: float(one.tally["num_deferred"]),
    "decided": lambda one: float(one.tally["num_decided"]),
    "draft_tv": lambda one: float(one.tally["draft_tv_sum"]),
    "loss_tv": lambda one: float(one.tally["loss_tv_sum"]),
}


def has_prompt_clusters(windows: Sequence[Window]) -> bool:
    """Return whether a cluster is a prompt with all its seeds and rounds."""
    is_greedy = all(one.receipt["temperature"] == 0 for one in windows)
    return is_greedy or len({one.prompt_index for one in windows}) >= FEW_PROMPTS


def totals_by_cluster(windows: Sequence[Window]) -> dict[Cluster, Totals]:
    """Return the sums of each cluster's windows."""
    by_prompt = has_prompt_clusters(windows)
    found: dict[Cluster, dict[str, float]] = {}
    for one in windows:
        key = (one.prompt_index,) if by_prompt else (one.prompt_index, one.seed)
        sums = found.setdefault(key, dict.fromkeys(_SUMS, 0.0))
        for name, value_of in _SUMS.items():
            sums[name] += value_of(one)
    return dict(found)


def measure_of(measure: str, clusters: Sequence[Totals]) -> float | None:
    """Return a measure over these clusters; None where nothing was counted."""
    part, whole = MEASURES[measure]
    return ratio(sum(one[part] for one in clusters), sum(one[whole] for one in clusters))


def estimates(windows: Sequence[Window]) -> dict[str, Estimate | None]:
    """Return every measure of one arm's windows with its interval."""
    clusters = list(totals_by_cluster(windows).values())

    def one(measure: str) -> Estimate | None:
        is_positive = measure in POSITIVE
        found = estimate(clusters, lambda some: measure_of(measure, some), is_ratio=is_positive)
        return found if found is None or is_positive else _within_rates(found)

    return {measure: one(measure) for measure in MEASURES}


def _within_rates(one: Estimate) -> Estimate:
    """Return the estimate of a rate with its interval cut to what a rate can be."""
    if one.low is None or one.high is None:
        return one
    return replace(one, low=max(one.low, 0.0), high=min(one.high, 1.0))


def compare(own: Sequence[Window], base: Sequence[Window], measure: str) -> Estimate | None:
    """Return the ratio of one arm's measure to another's, paired by cluster."""
    mine, theirs = totals_by_cluster(own), totals_by_cluster(base)
    pairs = [(mine[key], theirs[key]) for key in mine if key in theirs]

    def ratio_of(chosen: Sequence[tuple[Totals, Totals]]) -> float | None:
        one = measure_of(measure, [totals for totals, _ in chosen])
        other = measure_of(measure, [totals for _, totals in chosen])
        return None if one is None or other is None else ratio(one, other)

    return estimate(pairs, ratio_of, is_ratio=True) if pairs else None


def ratio(part: float, whole: float) -> float | None:
    """Return part / whole; None where the whole is nothing."""
    return part / whole if whole else None
