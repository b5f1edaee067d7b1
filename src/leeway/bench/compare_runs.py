"""Two runs beside one another: the requests that both ran, arm by arm.

A request is paired by its digest, which covers prompt, sampling parameters and seed. In: windows of
two runs. Out: ratios with intervals, and what differs between the runs. Requests that are not the
same are refused, never compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leeway.bench.intervals import Estimate
from leeway.bench.runs import differences
from leeway.bench.tables import interval_text
from leeway.bench.totals import compare, estimates, has_prompt_clusters
from leeway.bench.window import Window
from leeway.core.errors import ConfigError, did_you_mean

MEASURES = (
    "decode_tokens_per_s",
    "end_to_end_tokens_per_s",
    "prefill_tokens_per_s",
    "tokens_per_verify_step",
    "draft_acceptance_rate",
)
DEFINITIONS = {
    "B / A": "B's measure / A's, over the requests that both ran, with a 95 % interval over "
    "prompts (with seeds, where there are few prompts); it says what other requests would give, "
    "not what else changed between two runs, which are never interleaved",
    "request": "prompt, sampling parameters and seed; two are the same when their digests are",
    "same answers": "requests to which both runs gave the same tokens",
}


@dataclass(frozen=True, slots=True)
class ArmPair:
    """One arm of A beside one of B.

    Attributes:
        first, second: names; `first_definition` and `second_definition` say what they are.
        void: why nothing is compared; None if it is.
        num_requests: that both ran, rounds not counted; `num_windows` counts them.
        num_left_out: windows of either run without a partner.
        clusters: what the intervals are over.
        first_values, second_values, ratios: by measure.
    """

    first: str
    second: str
    first_definition: str
    second_definition: str
    void: str | None
    num_requests: int
    num_windows: int
    num_left_out: int
    num_same_answers: int
    clusters: str
    first_values: dict[str, Estimate | None]
    second_values: dict[str, Estimate | None]
    ratios: dict[str, Estimate | None]


def differing(first: Sequence[Window], second: Sequence[Window]) -> list[tuple[str, Any, Any]]:
    """Return what differs between two runs: code, model, head, machine, settings, arms."""
    return list(differences(first[0].identity, second[0].identity))


def choose_arms(
    first: Sequence[Window],
    second: Sequence[Window],
    first_arm: str | None = None,
    second_arm: str | None = None,
) -> list[tuple[str, str]]:
    """Return the pairs of arms to compare: those named, else every name that both runs have.

    Raises:
        ConfigError: a run has no arm of that name, or the two have no name in common.
    """
    mine, theirs = (list(run[0].identity["arms"]) for run in (first, second))
    if first_arm is None and second_arm is None:
        common = [name for name in mine if name in theirs]
        if not common:
            raise ConfigError(
                f"the runs have no arm in common: A has {', '.join(mine)}; B has "
                f"{', '.join(theirs)}; name one of each with --arm-a and --arm-b"
            )
        return [(name, name) for name in common]
    one, other = first_arm or second_arm, second_arm or first_arm
    assert one is not None and other is not None
    for name, names, run in ((one, mine, "A"), (other, theirs, "B")):
        if name not in names:
            raise ConfigError(
                f"run {run} has no arm {name!r}{did_you_mean(name, names)}; it has "
                f"{', '.join(names)}"
            )
    return [(one, other)]


def compare_arms(
    first: Sequence[Window], second: Sequence[Window], pair: tuple[str, str]
) -> ArmPair:
    """Return one arm of each run beside the other, over the requests that both ran.

    Raises:
        ConfigError: the runs ask different things under one name, or have no request in common.
    """
    mine = [one for one in first if one.arm == pair[0]]
    theirs = [one for one in second if one.arm == pair[1]]
    _check_same_requests(mine, theirs)
    base, own = _paired(mine, theirs)
    void = _void(base, own)
    ratios = {name: None if void else compare(own, base, name) for name in MEASURES}
    return ArmPair(
        first=pair[0],
        second=pair[1],
        first_definition=base[0].definition,
        second_definition=own[0].definition,
        void=void,
        num_requests=len({one.request_digest for one in base}),
        num_windows=len(base),
        num_left_out=len(mine) + len(theirs) - 2 * len(base),
        num_same_answers=len(
            {
                one.request_digest
                for one, other in zip(base, own, strict=True)
                if one.output_digest == other.output_digest
            }
        ),
        clusters="prompts" if has_prompt_clusters(base) else "pairs of prompt and seed",
        first_values=estimates(base),
        second_values=estimates(own),
        ratios=ratios,
    )


def _check_same_requests(mine: Sequence[Window], theirs: Sequence[Window]) -> None:
    digests = {(one.prompt_id, one.seed): one for one in mine}
    for other in theirs:
        one = digests.get((other.prompt_id, other.seed))
        if one is not None and one.request_digest != other.request_digest:
            raise ConfigError(
                f"the runs did not ask the same: prompt {one.prompt_id!r} with seed {one.seed} "
                f"differs in {_what_differs(one, other)}; compare runs of the same requests"
            )
    if not {one.request_digest for one in mine} & {one.request_digest for one in theirs}:
        raise ConfigError(
            "the runs have no request in common: a prompt, its sampling parameters and its seed "
            "must be the same in both"
        )


def _what_differs(one: Window, other: Window) -> str:
    sampling = differences(one.identity.get("sampling", {}), other.identity.get("sampling", {}))
    found = [f"{name} ({old}, {new})" for name, old, new in sampling]
    if one.prompt_digest != other.prompt_digest:
        found.insert(0, f"the prompt's tokens ({one.prompt_tokens}, {other.prompt_tokens} of them)")
    return ", ".join(found) or "its digest"


def _paired(mine: Sequence[Window], theirs: Sequence[Window]) -> tuple[list[Window], list[Window]]:
    """Return the windows of both that have a partner, in one order, numbered as A numbers them."""
    waiting: dict[tuple[str, int], list[Window]] = {}
    for other in theirs:
        waiting.setdefault((other.request_digest, other.round), []).append(other)
    base, own = [], []
    for one in mine:
        partners = waiting.get((one.request_digest, one.round))
        if partners:
            base.append(one)
            own.append(replace(partners.pop(0), prompt_index=one.prompt_index))
    if not base:
        raise ConfigError("the runs have no round of a request in common; measure both again")
    return base, own


def _void(base: Sequence[Window], own: Sequence[Window]) -> str | None:
    for name, windows in (("A", base), ("B", own)):
        fault = next((one.void for one in windows if one.void is not None), None)
        if fault is not None:
            return f"in {name} {fault}"
    return None


def comparison_rows(pair: ArmPair) -> list[list[str]]:
    """Return the table of one pair of arms, its head first."""
    rows = [["measure", f"A: {pair.first}", f"B: {pair.second}", "B / A"]]
    for name in MEASURES:
        ratio = pair.ratios[name]
        if pair.first_values[name] is None and pair.second_values[name] is None:
            continue
        digits = 3 if name.endswith("rate") else 2
        rows.append(
            [
                name,
                interval_text(pair.first_values[name], digits),
                interval_text(pair.second_values[name], digits),
                "void" if pair.void else interval_text(ratio, 3),
            ]
        )
    return rows
