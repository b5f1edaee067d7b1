"""Configuration: the settings of the limits on a lossy law.

Unlike the law itself, each of them is its own: the highest layer that gives it decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leeway.core import config_values as read
from leeway.core.config_setting import Setting
from leeway.core.limits import MAX_TOKENS, PHASE_BEGIN, PHASE_END, PHASES, Limits


def _budget(raw: object) -> float:
    value = read.non_negative(raw)
    if value > MAX_TOKENS:
        raise ValueError(f"is out of range; give 0 to {MAX_TOKENS}")
    return value


LIMIT_SETTINGS = (
    Setting(
        "tv_budget",
        "law",
        "Most total variation that a lossy law may spend on one answer.",
        read.optional(_budget),
        unset="no limit",
        metavar="B",
    ),
    Setting(
        "exact_prefix",
        "law",
        "So many first tokens of an answer are exact under any law.",
        read.integer(0, MAX_TOKENS),
        0,
        metavar="N",
    ),
    Setting(
        "hard_support",
        "law",
        "Under no law emit a token that the target's truncated row gives nothing.",
        read.switch,
        False,
        is_switch=True,
    ),
    Setting(
        "phase",
        "law",
        "Where a lossy law may act: all, or reasoning (between the markers; exact elsewhere).",
        read.choice(*PHASES),
        "all",
        metavar="NAME",
        choices=PHASES,
    ),
    Setting(
        "phase_begin",
        "law",
        "Marker that begins a reasoning span.",
        read.text,
        PHASE_BEGIN,
        metavar="TEXT",
    ),
    Setting(
        "phase_end",
        "law",
        "Marker that ends a reasoning span.",
        read.text,
        PHASE_END,
        metavar="TEXT",
    ),
)

LIMIT_NAMES = frozenset(setting.name for setting in LIMIT_SETTINGS)


def limits_of(plain: Mapping[str, Any]) -> Limits:
    """Return the limits among checked values by name."""
    return Limits(**{name: plain[name] for name in LIMIT_NAMES})
