"""The registry: every law by name, and how to build one from what the user asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from leeway.acceptance import exact, matching, mixtures, ratio_rules, row_rules, set_rules
from leeway.acceptance.base import Law, LawInfo
from leeway.acceptance.options import resolve
from leeway.acceptance.presets import PRESETS
from leeway.acceptance.rule import Rule, UnderBlock
from leeway.core.errors import LawError, did_you_mean
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance

_Builder = Callable[[Mapping[str, LawOption]], Rule]

_LAWS: tuple[tuple[LawInfo, _Builder], ...] = (
    (exact.REJECTION, exact.build_rejection),
    (exact.BLOCK, exact.build_block),
    (matching.SAMPLE_MATCH, matching.build_sample_match),
    (matching.GREEDY_MATCH, matching.build_greedy_match),
    (set_rules.TYPICAL, set_rules.build_typical),
    (set_rules.TOKENV1, set_rules.build_tokenv1),
    (set_rules.TOKENV2, set_rules.build_tokenv2),
    (set_rules.TOKENV3, set_rules.build_tokenv3),
    (set_rules.RELAXED_TOP_K, set_rules.build_relaxed_top_k),
    (set_rules.THRESHOLD, set_rules.build_threshold),
    (row_rules.OPT, row_rules.build_opt),
    (row_rules.DIFF, row_rules.build_diff),
    (ratio_rules.LENIENT, ratio_rules.build_lenient),
    (ratio_rules.CLIP, ratio_rules.build_clip),
    (mixtures.TV_BUDGET, mixtures.build_tv_budget),
    (mixtures.ENSEMBLE, mixtures.build_ensemble),
)


def law_infos() -> tuple[LawInfo, ...]:
    """Return what every law declares, exact laws first (presets: `presets.PRESETS`)."""
    return tuple(info for info, _ in _LAWS)


def build_law(acceptance: Acceptance) -> Law:
    """Return the law asked for, with every option filled in and checked.

    A preset's name is a law too; given options override the preset's. The law's own name is always
    its true one.

    Raises:
        LawError: unknown law or option, or a value out of range, missing or in conflict.
    """
    name, options = _expand(acceptance)
    builders = {info.name: (info, build) for info, build in _LAWS}
    if name not in builders:
        known = [*builders, *(preset.name for preset in PRESETS)]
        hint = did_you_mean(name, known) or ";"
        raise LawError(
            f"unknown law {name!r}{hint} the laws are {', '.join(builders)} "
            "(`leeway laws` lists all, presets too)",
            param="law",
        )
    info, build = builders[name]
    law = build(resolve(info, options))
    if law.reads_raw_rows and not info.may_leave_support:
        law = replace(law, info=replace(info, may_leave_support=True))
    if law.options.get("verifier") != "block":
        return law
    return UnderBlock(
        info=law.info,
        options=law.options,
        verifier="block",
        reads_raw_rows=law.reads_raw_rows,
        law=law,
    )


def _expand(acceptance: Acceptance) -> tuple[str, dict[str, LawOption]]:
    """Return law name and options with a preset's filled in below the given ones."""
    given = dict(acceptance.options)
    for preset in PRESETS:
        if preset.name == acceptance.law:
            own = dict(preset.options)
            if set_rules.GAPS & given.keys():
                own = {name: value for name, value in own.items() if name not in set_rules.GAPS}
            return preset.law, {**own, **given}
    return acceptance.law, given
