"""The numbers of docs/laws: every law and preset on the same rows, from its own closed forms.

Out: what `explain` says of a pair of rows, and the same as text for the words that quote it (the
names are in `law_words`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from leeway.acceptance.algebra import entropy, peak, positive_part, total
from leeway.acceptance.base import RowPair
from leeway.acceptance.explain import EXAMPLE_DRAFT_PROBS, EXAMPLE_TARGET_PROBS, explain
from leeway.acceptance.keep_sets import DraftNearPeak, Floor, Ranked
from leeway.acceptance.mixtures import Mixture
from leeway.acceptance.presets import PRESETS, Preset
from leeway.acceptance.ratio_rules import Clip, Lenient, lower_multiple
from leeway.acceptance.registry import build_law, law_infos
from leeway.acceptance.row_rules import RowLaw
from leeway.acceptance.set_law import SetLaw
from leeway.acceptance.verify import verify
from leeway.cli.explain import EXAMPLE_OPTIONS
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance
from tests.support.enumerate_coins import enumerate_outcomes

# The draft overrates a likely token, an unlikely one and an impossible one.
FIVE = ((0.44, 0.31, 0.23, 0.02, 0.0), (0.26, 0.38, 0.11, 0.15, 0.10))
THREE = (EXAMPLE_TARGET_PROBS, EXAMPLE_DRAFT_PROBS)
BLOCK_LEN = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """What a page is about; `options` are those that have to be given, a preset's are its own."""

    name: str
    options: Mapping[str, LawOption]
    law: Any
    preset: Preset | None = None


def subjects() -> list[Subject]:
    """Return every law with the options of `leeway explain`, then every preset."""
    found = []
    for info in law_infos():
        options = EXAMPLE_OPTIONS.get(info.name, {})
        found.append(Subject(info.name, options, build_law(Acceptance(info.name, options))))
    for preset in PRESETS:
        law = build_law(Acceptance(preset.name, {}))
        found.append(Subject(preset.name, {}, law, preset))
    return found


def with_option(law: Any, name: str, value: LawOption) -> Any:
    """Return the same law with one option changed."""
    return build_law(Acceptance(law.info.name, {**law.options, name: value}))


def fill(subject: Subject, words: str) -> str:
    """Return the words with their numbers."""
    law = subject.law
    options = {name: option_text(value) for name, value in law.options.items()}
    return words.format(three=shown(law, THREE), five=shown(law, FIVE), own=_own(law), o=options)


def shown(law: Any, pair: tuple[Sequence[float], Sequence[float]]) -> SimpleNamespace:
    """Return everything about a law on a pair of rows as text."""
    facts = explain(law, *pair)
    rows = RowPair(np.array(pair[0]), np.array(pair[1]))
    kept = [token for token, is_kept in enumerate(facts["is_kept"]) if is_kept]
    kept_mass = sum(pair[1][token] for token in kept)
    rates = {
        "A": facts["acceptance_rate"],
        "R": 1 - facts["acceptance_rate"],
        "TV": facts["total_variation"],
        "KL": facts["kl_divergence"],
        "D": facts["draft_tv"],
        "away": 1 - facts["draft_tv"] + facts["total_variation"] - facts["acceptance_rate"],
        "H": float(entropy(rows.target_probs)),
        "exp_H": math.exp(-float(entropy(rows.target_probs))),
        "qT": kept_mass,
        "eta": 1 - kept_mass,
        **_inner(law, rows),
    }
    columns = {"p": "target", "q": "draft", "a": "accept", "r": "recovered", "e": "emitted"}
    told = SimpleNamespace(
        T=_and(kept),
        kept=facts["is_kept"],
        **{name: [number(x) for x in facts[f"{word}_probs"]] for name, word in columns.items()},
        **{name: number(value) for name, value in rates.items()},
    )
    if law.options.get("off_set", "coin") != "coin":
        told.coin = shown(with_option(law, "off_set", "coin"), pair)
    return told


def number(value: float | None) -> str:
    """Return a number in at most four digits; None is an infinite divergence."""
    return "infinite" if value is None else f"{round(value, 9) + 0.0:.4g}"


def option_text(value: LawOption) -> str:
    """Return an option's value as it is given on the command line."""
    return value if isinstance(value, str) else f"{value:g}"


def options_text(options: Mapping[str, LawOption]) -> str:
    """Return options in words."""
    return ", ".join(f"{name} {option_text(value)}" for name, value in options.items())


def _inner(law: Any, rows: RowPair) -> dict[str, float]:
    """Return what only this kind of law computes on its way."""
    p, q = rows.target_probs, rows.draft_probs
    if isinstance(law, SetLaw):
        return {"cut": float(_cut(law.keep_set, p))}
    if isinstance(law, Clip):
        missing = total(positive_part(q - law.c1 * p))
        return {"c0": float(lower_multiple(p, q, missing))}
    if isinstance(law, Mixture):
        return {"lam": float(law.share(rows))}
    return {}


def _cut(keep_set: Any, target: np.ndarray) -> float:
    """Return the probability from which, or above which, a token is in the set."""
    if isinstance(keep_set, Ranked):
        return keep_set.floor.floor(target)
    if isinstance(keep_set, Floor):
        return keep_set.floor(target)
    if isinstance(keep_set, DraftNearPeak):
        return peak(target) - keep_set.alpha
    return keep_set._floor(target, None)


def _own(law: Any) -> SimpleNamespace:
    """Return what a page compares its law with."""
    exact = build_law(Acceptance("rejection", {}))
    told = SimpleNamespace(exact=shown(exact, THREE))
    if law.info.name == "block":
        told.token = number(accepted_in_block(exact))
        told.block = number(accepted_in_block(law))
    if isinstance(law, Lenient):
        clip = build_law(Acceptance("clip", {"c1": 1 / law.leniency}))
        told.c1, told.clip = number(clip.c1), shown(clip, FIVE)
    if isinstance(law, RowLaw):
        facts = explain(law, *FIVE)
        price = facts["draft_tv"] if law.is_per_divergence else 1.0
        told.bar = number(max(facts["target_probs"]) - law.alpha * price)
    return told


def accepted_in_block(law: Any, pair: tuple[Sequence[float], Sequence[float]] = THREE) -> float:
    """Return how many tokens of a block of three are accepted on average, by enumerated coins."""
    target, draft = np.array(pair[0]), np.array(pair[1])
    rows = RowPair(np.tile(target, (BLOCK_LEN, 1)), np.tile(draft, (BLOCK_LEN, 1)))
    mean = 0.0
    for drafted in itertools.product(range(len(draft)), repeat=BLOCK_LEN):
        columns = np.array(drafted)
        outcomes = enumerate_outcomes(
            lambda coins, columns=columns: verify(law, rows, target, columns, coins, 0).num_accepted
        )
        share = float(np.prod(draft[columns]))
        mean += share * sum(count * weight for count, weight in outcomes.items())
    return mean


def _and(tokens: Sequence[int]) -> str:
    """Return tokens in words."""
    *most, last = [str(token) for token in tokens] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last
