"""The scored report of a run: all that answers say, and nothing that a clock says.

In: a folder's results and what they have in common. Out: summaries, comparisons and warnings, and
the same as JSON, to the byte alike whenever the answers are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leeway.acceptance.base import Guarantee
from leeway.core.errors import ConfigError
from leeway.quality.asks import subset_text
from leeway.quality.results import SCHEMA, Result, read_info, read_results
from leeway.quality.summary import (
    DEFINITIONS,
    ArmPair,
    ArmSummary,
    pair_arms,
    summarise,
    whole_results,
)

DEFAULT_MARGIN = 0.03


@dataclass(frozen=True, slots=True)
class Scored:
    """What a run's results say.

    Attributes:
        identity: what the results have in common.
        results: whole ones, arm by arm.
        arms: in the order of the run.
        pairs: every arm but the first beside it.
    """

    identity: Mapping[str, Any]
    results: Sequence[Result]
    arms: Sequence[ArmSummary]
    pairs: Sequence[ArmPair]
    warnings: Sequence[str]

    @property
    def num_tasks(self) -> int:
        """Tasks that every arm was asked."""
        return len({one.task_id for one in self.results})

    @property
    def num_samples(self) -> int:
        """Samples of a task."""
        return len({one.sample for one in self.results})

    @property
    def subset(self) -> str:
        """The name of what was asked."""
        return subset_text(self.num_tasks, self.identity["suite"]["num_tasks"])


def score_run(
    identity: Mapping[str, Any], results: Sequence[Result], *, margin: float = DEFAULT_MARGIN
) -> Scored | None:
    """Return what results say; None where no task was answered by every arm.

    Args:
        identity: of the run; names the arms in order.
        results: of all arms, whole or not.
        margin: loss that would matter.
    """
    texts = ordered_arms(identity)
    whole = whole_results(results, list(texts))
    if not whole:
        return None
    arms = summarise(whole, texts)
    own = {name: [one for one in whole if one.arm == name] for name in texts}
    first, *others = texts
    pairs = [pair_arms(own[first], own[name], margin=margin) for name in others]
    known = [pair for pair in pairs if pair is not None]
    warnings = _warnings(identity, arms, known, num_left=len(results) - len(whole))
    return Scored(identity, whole, arms, known, warnings)


def score_folder(folder: Path, *, margin: float = DEFAULT_MARGIN) -> Scored:
    """Return what the results of a folder say.

    Raises:
        ConfigError: the folder holds no run, or no task that every arm answered.
    """
    info = read_info(folder) if folder.is_dir() else None
    if info is None:
        raise ConfigError(
            f"{str(folder)!r} holds no quality run; name a folder that `leeway quality run --out` "
            "filled"
        )
    scored = score_run(info.identity, read_results(folder), margin=margin)
    if scored is None:
        raise ConfigError(
            f"{str(folder)!r} holds no task that every arm was asked; let `leeway quality run` go "
            "on"
        )
    return scored


def ordered_arms(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the definitions of a run's arms by name, the first one first."""
    arms, first = identity["arms"], identity["first_arm"]
    return {first: arms[first], **arms}


def check_margin(margin: float) -> None:
    """Refuse a margin that is no loss.

    Raises:
        ConfigError: it is not between 0 and 1.
    """
    if not 0 < margin < 1:
        raise ConfigError(
            f"--margin {margin:g} is out of range; give a loss as a share between 0 and 1, like "
            "0.03 for three points"
        )


def as_json(scored: Scored) -> dict[str, Any]:
    """Return the scored report as JSON holds it."""
    return {
        "schema": SCHEMA,
        "definitions": DEFINITIONS,
        "identity": dict(scored.identity),
        "subset": scored.subset,
        "num_tasks": scored.num_tasks,
        "num_samples": scored.num_samples,
        "warnings": list(scored.warnings),
        "arms": [asdict(one) for one in scored.arms],
        "comparisons": [pair_json(one) for one in scored.pairs],
    }


def pair_json(pair: ArmPair) -> dict[str, Any]:
    """Return a comparison as JSON holds it."""
    found = pair.comparison
    return {
        "arm": pair.name,
        "first": pair.first,
        **asdict(found),
        "discordance": found.discordance,
        "is_different": found.is_different,
        "is_within_margin": found.is_within_margin,
        "num_same_answers": pair.num_same,
    }


def _warnings(
    identity: Mapping[str, Any],
    arms: Sequence[ArmSummary],
    pairs: Sequence[ArmPair],
    *,
    num_left: int,
) -> list[str]:
    found = []
    suite = identity["suite"]
    if not suite["is_known"]:
        found.append(
            f"the data of {suite['name']} is not the file that published figures rest on (SHA-256 "
            f"{suite['sha256'][:12]}...)"
        )
    if num_left:
        found.append(f"{num_left} results count in no table: other arms have none at their tasks")
    for one in arms:
        if one.num_errors:
            found.append(
                f"arm {one.name}: {one.num_errors} requests gave no answer and count nowhere; the "
                "same command asks them again"
            )
        if one.void is not None:
            found.append(f"arm {one.name} is void: {one.void}")
        if one.note is not None:
            found.append(f"arm {one.name}: {one.note}")
    return found + _greedy_differences(identity, arms, pairs)


def _greedy_differences(
    identity: Mapping[str, Any], arms: Sequence[ArmSummary], pairs: Sequence[ArmPair]
) -> list[str]:
    """Say where arms that have to say the same at temperature 0 do not."""
    if identity["sampling"]["temperature"] != 0:
        return []
    bound = {one.name for one in arms if one.guarantee not in (Guarantee.NONE, "")}
    return [
        f"at temperature 0 arm {pair.name} said something else than {pair.first} at "
        f"{pair.comparison.num_pairs - pair.num_same} of {pair.comparison.num_pairs} answers, and "
        "both decode greedily: their row shapes or drafts round otherwise"
        for pair in pairs
        if {pair.name, pair.first} <= bound and pair.num_same < pair.comparison.num_pairs
    ]
