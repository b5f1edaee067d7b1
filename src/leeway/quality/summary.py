"""What the results of a run say of each arm, and of each beside the first one.

In: results. Out: one summary an arm and one comparison an arm, with intervals. No time enters here,
so that the same answers always give the same summary to the byte; `speeds` adds them for reports.
Only tasks and samples at which every arm has a result count, so that all arms stand on the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from leeway.bench.intervals import Estimate, t_quantile
from leeway.bench.window import tally_from_json
from leeway.core.receipt import Tally
from leeway.quality.loss_meter import HIGH_LOSS, total_losses
from leeway.quality.paired import Comparison, compare
from leeway.quality.rates import design_effect, wilson_interval
from leeway.quality.repetition import LONGEST, REPEATED, distinct_rate, repetition_rate
from leeway.quality.results import Result

ALL_INSTRUCTIONS = "num_instructions"
"""Measure of a suite whose tasks hold several instructions: how many, of which others are parts."""

DEFINITIONS = {
    "strict": "pass@1: answers that are right and whole / answers; one that was cut at its most "
    "tokens has failed, whatever it says",
    "completed": "right answers among those that were not cut",
    "truncated": "answers cut at their most tokens or by the context / answers",
    "interval": "95 %; of rates Wilson's, with as many answers as samples of one task are worth "
    "(design effect); of means over tasks with all their samples, Student's t",
    "errors": "requests that gave no answer; counted beside the answers, never among them, and "
    "asked again by the same command",
    "tokens": "output tokens of an answer, mean and most",
    "repetition": f"1 - distinct / all {REPEATED}-grams of the words of an answer; mean over "
    "answers",
    "distinct-n": "distinct / all n-grams of the words of an answer; mean over answers",
    "loss mean, p99, above": "total variation between the row emitted and the target's row over "
    f"decided positions: mean, what 99 % do not exceed, share above {HIGH_LOSS:g}; 0 for an exact "
    "law",
    "outside": "decided positions whose emitted row gives some probability to tokens that the "
    "target's row, truncated as asked for, gives none / decided positions",
    "KL": "divergence of the row emitted from the target's row, nats, mean over the decided "
    "positions that are not outside",
    "accepted (draft_acceptance_rate)": "draft tokens accepted / drafted",
    "kept (kept_draft_rate)": "draft tokens accepted / positions decided",
    "deferred (deferral_rate)": "positions at which the rule deferred to the target / positions "
    "decided",
    "tokens/step": "output tokens / verify steps; 1 without drafts",
    "lost": "points: strict rate of the first arm less this arm's, over the same tasks, samples "
    "and seeds; above 0 this arm is worse; 95 % by bootstrap over tasks with all their samples, "
    "which says nothing where no pair differs",
    "fewer / more": "pairs that only the first arm got right / that only this one did",
    "McNemar p": "exact and two-sided: how often arms that are right equally often at every task "
    "would differ as much",
    "detectable": "points: smallest loss that so many pairs, as discordant as these, find with a "
    "power of 0.8 at 5 %; a smaller loss may be there unseen",
    "margin p": "against a loss as large as the margin or larger (Tango's score test, widened by "
    "the design effect); below 0.05 such a loss is ruled out",
    "same": "pairs at which both arms said the same to the letter; seeds are shared by task and "
    "sample",
}


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of answers with its interval; `effect` is the design effect that widened it."""

    value: float
    low: float
    high: float
    num: int
    effect: float


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """What one arm did.

    Attributes:
        law, options, guarantee, drafter: as engaged; empty where no request was answered.
        void: why the arm does not count; None if it does.
        num_errors: requests without an answer, left out of all below.
        strict, completed, truncated: None without answers.
        parts: means of the suite's further measures, and shares of all instructions.
        tokens: of an answer.
        repetition: None where no answer is long enough.
        distinct: by n.
        loss: mean, p99, share above, most, share outside, KL; None where there are no decided
            positions.
        loss_mean: the mean with its interval.
    """

    name: str
    definition: str
    law: str
    options: dict[str, Any]
    guarantee: str
    drafter: str
    void: str | None
    note: str | None
    num_tasks: int
    num_answers: int
    num_errors: int
    num_correct: int
    strict: Rate | None
    completed: Rate | None
    truncated: Rate | None
    parts: dict[str, float]
    tokens: Estimate | None
    most_tokens: int
    repetition: float | None
    distinct: dict[str, float | None]
    rates: dict[str, float | None]
    loss: dict[str, float | None]
    loss_mean: Estimate | None


@dataclass(frozen=True, slots=True)
class ArmPair:
    """An arm beside the first one.

    Attributes:
        comparison: of strict results.
        num_same: pairs at which both said the same.
    """

    name: str
    first: str
    comparison: Comparison
    num_same: int


def whole_results(results: Sequence[Result], arms: Sequence[str]) -> list[Result]:
    """Return the results of tasks and samples at which every arm has one, in order."""
    by_key: dict[tuple[str, int], dict[str, Result]] = {}
    for one in results:
        if one.arm in arms:
            by_key.setdefault((one.task_id, one.sample), {})[one.arm] = one
    whole = {key: found for key, found in by_key.items() if len(found) == len(arms)}
    return [whole[key][arm] for arm in arms for key in sorted(whole)]


def summarise(results: Sequence[Result], arms: Mapping[str, str]) -> list[ArmSummary]:
    """Return one summary an arm.

    Args:
        results: whole ones.
        arms: definitions by name, in order.
    """
    return [
        _summarise(name, text, [one for one in results if one.arm == name])
        for name, text in arms.items()
    ]


def pair_arms(
    first: Sequence[Result], second: Sequence[Result], *, margin: float
) -> ArmPair | None:
    """Return one arm's results beside another's, over what both answered; None if nothing.

    Args:
        first: results of the arm that is compared with.
        second: results of the other arm.
        margin: loss that would matter.
    """
    theirs = {(one.task_id, one.sample): one for one in first if one.error is None}
    outcomes: dict[str, list[tuple[bool, bool]]] = {}
    num_same = 0
    for one in second:
        other = theirs.get((one.task_id, one.sample))
        if other is None or one.error is not None:
            continue
        pair = (other.is_strictly_correct, one.is_strictly_correct)
        outcomes.setdefault(one.task_id, []).append(pair)
        num_same += one.text_digest == other.text_digest
    if not outcomes:
        return None
    return ArmPair(second[0].arm, first[0].arm, compare(outcomes, margin=margin), num_same)


def by_task(results: Sequence[Result], value: Callable[[Result], float]) -> dict[str, list[float]]:
    """Return values grouped by task."""
    groups: dict[str, list[float]] = {}
    for one in results:
        groups.setdefault(one.task_id, []).append(value(one))
    return groups


def mean_estimate(tops: Sequence[float], bottoms: Sequence[float]) -> Estimate | None:
    """Return the ratio of two totals with its interval over clusters, linearised.

    Args:
        tops: one entry a cluster.
        bottoms: likewise.
    """
    top, bottom = np.array(tops, dtype=float), np.array(bottoms, dtype=float)
    whole, num = float(bottom.sum()), len(tops)
    if whole <= 0:
        return None
    value = float(top.sum()) / whole
    if num < 2:
        return Estimate(value, None, None, num)
    rest = (top - value * bottom) / whole
    half = t_quantile(num - 1) * float(np.sqrt(rest @ rest * num / (num - 1)))
    return Estimate(value, value - half, value + half, num)


def total_tally(results: Sequence[Result]) -> Tally:
    """Return the sum of the results' tallies."""
    whole = Tally()
    for one in results:
        if one.tally is not None:
            whole.add(tally_from_json(one.tally))
    return whole


def _summarise(name: str, definition: str, results: Sequence[Result]) -> ArmSummary:
    answered = [one for one in results if one.error is None]
    kept = [one for one in answered if not one.is_truncated]
    tally = total_tally(answered)
    receipt = answered[0].receipt if answered else {}
    lengths = by_task(answered, lambda one: float(one.output_tokens))
    ngrams = list(zip(*(one.ngrams for one in answered), strict=True))
    return ArmSummary(
        name=name,
        definition=definition,
        law=str(receipt.get("law", "")),
        options=dict(receipt.get("options", {})),
        guarantee=str(receipt.get("guarantee", "")),
        drafter=str(receipt.get("drafter", "")),
        void=next((one.void for one in answered if one.void is not None), None),
        note=next((one.note for one in answered if one.note is not None), None),
        num_tasks=len(lengths),
        num_answers=len(answered),
        num_errors=len(results) - len(answered),
        num_correct=sum(one.is_strictly_correct for one in answered),
        strict=_rate(by_task(answered, lambda one: float(one.is_strictly_correct))),
        completed=_rate(by_task(kept, lambda one: float(bool(one.is_correct)))),
        truncated=_rate(by_task(answered, lambda one: float(one.is_truncated))),
        parts=_parts(answered),
        tokens=mean_estimate(
            [sum(group) for group in lengths.values()],
            [float(len(group)) for group in lengths.values()],
        ),
        most_tokens=max((one.output_tokens for one in answered), default=0),
        repetition=repetition_rate(ngrams[REPEATED - 1]) if ngrams else None,
        distinct={
            str(length): distinct_rate(ngrams[length - 1]) if ngrams else None
            for length in range(1, LONGEST)
        },
        rates=tally.rates(),
        loss=_loss(answered, tally),
        loss_mean=_loss_mean(answered),
    )


def _rate(groups: Mapping[str, Sequence[float]]) -> Rate | None:
    values = [value for group in groups.values() for value in group]
    if not values:
        return None
    rate, effect = fmean(values), design_effect(list(groups.values()))
    low, high = wilson_interval(rate, len(values) / effect)
    return Rate(rate, low, high, len(values), effect)


def _parts(results: Sequence[Result]) -> dict[str, float]:
    """Return means over answers; of counts `num_X` of instructions, the share of all of them."""
    names = dict.fromkeys(name for one in results for name in one.parts)
    values = {name: [one.parts[name] for one in results if name in one.parts] for name in names}
    asked = sum(values.pop(ALL_INSTRUCTIONS, []))
    return {
        name.replace("num_", "instruction_", 1): sum(found) / asked
        if name.startswith("num_")
        else fmean(found)
        for name, found in values.items()
    }


def _loss(results: Sequence[Result], tally: Tally) -> dict[str, float | None]:
    seen = total_losses(one.losses for one in results if one.losses is not None)
    known = tally.loss()
    return {
        "mean": known["total_variation_mean"],
        "p99": seen.tail,
        "high_rate": seen.high_rate,
        "max": known["total_variation_max"],
        "kl_mean": known["kl_mean"],
        "outside_rate": tally.num_outside_support / tally.num_decided
        if tally.num_decided
        else None,
    }


def _loss_mean(results: Sequence[Result]) -> Estimate | None:
    tallied = [one for one in results if one.tally is not None]
    sums = by_task(tallied, lambda one: float((one.tally or {})["loss_tv_sum"]))
    sizes = by_task(tallied, lambda one: float((one.tally or {})["num_decided"]))
    return mean_estimate(
        [sum(group) for group in sums.values()], [sum(group) for group in sizes.values()]
    )
