"""The listing of all laws and presets, ready for JSON: `leeway laws --json` and GET /laws."""

from __future__ import annotations

import math
from typing import Any

from leeway.acceptance.base import Knob, LawInfo
from leeway.acceptance.presets import PRESETS
from leeway.acceptance.registry import law_infos
from leeway.core.config_limits import LIMIT_SETTINGS


def law_listing() -> dict[str, Any]:
    """Return `laws`, each with what it declares, `presets`, and the `limits` on lossy laws."""
    presets = [
        {
            "name": preset.name,
            "law": preset.law,
            "options": dict(preset.options),
            "source": preset.source,
        }
        for preset in PRESETS
    ]
    limits = [{"name": one.name, "meaning": one.meaning} for one in LIMIT_SETTINGS]
    laws = [_law_dict(info) for info in law_infos()]
    return {"laws": laws, "presets": presets, "limits": limits}


def _law_dict(info: LawInfo) -> dict[str, Any]:
    """Return what a law declares; an unbounded end is None."""
    return {
        "name": info.name,
        "guarantee": str(info.guarantee),
        "summary": info.summary,
        "formula": info.formula,
        "options": [_knob_dict(knob) for knob in info.knobs],
        "needs_draft_rows": info.needs_draft_rows,
        "may_leave_support": info.may_leave_support,
        "temperature_zero": info.temperature_zero,
        "source": info.source,
    }


def _knob_dict(knob: Knob) -> dict[str, Any]:
    return {
        "name": knob.name,
        "meaning": knob.meaning,
        "default": knob.default,
        "is_required": knob.is_required,
        "low": knob.low if math.isfinite(knob.low) else None,
        "high": knob.high if math.isfinite(knob.high) else None,
        "low_open": knob.low_open,
        "is_integer": knob.is_integer,
        "choices": list(knob.choices),
        "exact_end": knob.exact_end,
    }
