"""The tables of a quality run in words, the same for a terminal and a page.

In: summaries. Out: rows of text, the first of each table its head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leeway.bench.intervals import Estimate
from leeway.bench.tables import Rows, interval_text, number_text
from leeway.quality.loss_meter import HIGH_LOSS
from leeway.quality.paired import Comparison
from leeway.quality.speeds import Speed
from leeway.quality.summary import ArmPair, ArmSummary, Rate

_LAW_RATES = {
    "draft_acceptance_rate": "accepted",
    "kept_draft_rate": "kept",
    "deferral_rate": "deferred",
}


def quality_rows(arms: Sequence[ArmSummary]) -> Rows:
    """Return what each arm's answers are worth."""
    rows = [
        [
            *("arm", "guarantee", "strict", "95 %", "completed", "truncated"),
            *("right", "answers", "errors"),
        ]
    ]
    for one in arms:
        rows.append(
            [
                one.name,
                "void" if one.void is not None else one.guarantee or "-",
                *_rate_cells(one.strict),
                _percent(one.completed),
                _percent(one.truncated),
                str(one.num_correct),
                str(one.num_answers),
                str(one.num_errors),
            ]
        )
    return rows


def pair_rows(pairs: Sequence[ArmPair]) -> Rows:
    """Return every arm beside the first one."""
    if not pairs:
        return []
    head = [
        *(f"against {pairs[0].first}", "lost", "95 %", "fewer / more", "McNemar p"),
        *("detectable", "margin p", "same"),
    ]
    return [head, *(_pair_row(pair) for pair in pairs)]


def loss_rows(arms: Sequence[ArmSummary]) -> Rows:
    """Return how far each arm's emitted rows lie from the target's."""
    rows = [["arm", "law", "loss mean", "p99", f"above {HIGH_LOSS:g}", "most", "outside", "KL"]]
    for one in arms:
        rows.append(
            [
                one.name,
                one.law or "-",
                interval_text(one.loss_mean, 4),
                number_text(one.loss["p99"], 3),
                _share(one.loss["high_rate"]),
                number_text(one.loss["max"], 3),
                _share(one.loss["outside_rate"]),
                number_text(one.loss["kl_mean"], 4),
            ]
        )
    return rows


def law_rows(arms: Sequence[ArmSummary]) -> Rows:
    """Return what each arm's law did with drafts."""
    rows = [["arm", "tokens/step", *_LAW_RATES.values()]]
    for one in arms:
        tokens = number_text(one.rates["tokens_per_verify_step"], 2)
        rows.append([one.name, tokens, *(number_text(one.rates[name], 3) for name in _LAW_RATES)])
    return rows


def text_rows(arms: Sequence[ArmSummary]) -> Rows:
    """Return how long and how varied each arm's answers are."""
    rows = [
        [
            *("arm", "tokens", "95 %", "longest", "truncated", "repetition"),
            *(f"distinct-{length}" for length in arms[0].distinct),
        ]
    ]
    for one in arms:
        mean = one.tokens
        rows.append(
            [
                one.name,
                number_text(None if mean is None else mean.value, 1),
                _bounds(mean),
                str(one.most_tokens),
                _percent(one.truncated),
                number_text(one.repetition, 4),
                *(number_text(value, 3) for value in one.distinct.values()),
            ]
        )
    return rows


def part_rows(arms: Sequence[ArmSummary]) -> Rows:
    """Return the suite's further measures; no rows where it has none."""
    names = dict.fromkeys(name for one in arms for name in one.parts)
    if not names:
        return []
    return [
        ["arm", *names],
        *([one.name, *(_share(one.parts.get(name)) for name in names)] for one in arms),
    ]


def speed_rows(speeds: Mapping[str, Speed], batch: int) -> Rows:
    """Return how fast each arm decoded in this run's batch."""
    first = next(iter(speeds))
    where = "alone" if batch == 1 else f"{batch} at once"
    return [
        [f"arm, {where}", "tokens/s", f"x {first}"],
        *(
            [
                name,
                number_text(one.tokens_per_s, 1),
                "1" if name == first else interval_text(one.ratio),
            ]
            for name, one in speeds.items()
        ),
    ]


def percent_text(value: float) -> str:
    """Return a share in per cent, to a tenth."""
    return f"{100 * value:.1f}"


def verdict_text(pair: ArmPair) -> str:
    """Return what a comparison allows one to say, in one sentence."""
    found = pair.comparison
    seen = _seen_text(found)
    if found.is_different:
        word = "worse" if found.loss > 0 else "better"
        return (
            f"{pair.name} is {word} than {pair.first} by {percent_text(abs(found.loss))} points "
            f"(McNemar p = {found.p_value:.3g})"
        )
    ruled = f"a loss of {percent_text(found.margin)} points"
    within = f"{ruled} is ruled out" if found.is_within_margin else f"{ruled} is not ruled out"
    return (
        f"{pair.name}: no difference from {pair.first} shown ({percent_text(found.loss)} points "
        f"lost, p = {found.p_value:.2g}); {within}; {seen}"
    )


def _seen_text(found: Comparison) -> str:
    if found.detectable_loss is None:
        return f"{found.num_pairs} pairs can detect no loss at all"
    return (
        f"{found.num_pairs} pairs detect a loss of {percent_text(found.detectable_loss)} points or "
        "more"
    )


def _pair_row(pair: ArmPair) -> list[str]:
    found = pair.comparison
    interval = found.interval
    bounds = "-" if interval is None else " to ".join(percent_text(end) for end in interval)
    return [
        pair.name,
        f"{100 * found.loss:+.1f}",
        bounds,
        f"{found.only_first} / {found.only_second}",
        f"{found.p_value:.3g}",
        "-" if found.detectable_loss is None else percent_text(found.detectable_loss),
        f"{found.margin_p:.3g}",
        f"{100 * pair.num_same / found.num_pairs:.0f} %",
    ]


def _rate_cells(rate: Rate | None) -> list[str]:
    if rate is None:
        return ["-", "-"]
    return [
        f"{percent_text(rate.value)} %",
        f"{percent_text(rate.low)} to {percent_text(rate.high)}",
    ]


def _percent(rate: Rate | None) -> str:
    return "-" if rate is None else f"{percent_text(rate.value)} %"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _bounds(mean: Estimate | None) -> str:
    if mean is None or mean.low is None or mean.high is None:
        return "-"
    return f"{mean.low:.1f} to {mean.high:.1f}"
