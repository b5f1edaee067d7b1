"""Explaining a law: rule, formula and arithmetic on one pair of rows, for `leeway explain`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from leeway.acceptance.base import Array, Law, RowPair
from leeway.acceptance.loss import draft_total_variation, loss
from leeway.core.errors import LawError

EXAMPLE_TARGET_PROBS = (0.5, 0.3, 0.2)
EXAMPLE_DRAFT_PROBS = (0.2, 0.3, 0.5)
_SUM_TOLERANCE = 1e-6


def explain(
    law: Law,
    target_probs: Sequence[float] | None = None,
    draft_probs: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Return everything there is to say about a law on one pair of rows, ready for JSON.

    Without rows an example pair is used; it is returned with the rest. Infinite KL is None. The
    rows serve as processed and raw rows alike.

    Raises:
        LawError: only one row is given, or they are no probability rows of one length.
    """
    rows = _rows(target_probs, draft_probs)
    kl = float(loss(law, rows)[1])
    info = law.info
    return {
        "law": info.name,
        "options": dict(law.options),
        "guarantee": str(info.guarantee),
        "verifier": law.verifier,
        "rule": info.summary,
        "formula": info.formula,
        "source": info.source,
        "temperature_zero": info.temperature_zero,
        "needs_draft_rows": info.needs_draft_rows,
        "may_leave_support": info.may_leave_support,
        "target_probs": rows.target_probs.tolist(),
        "draft_probs": rows.draft_probs.tolist(),
        "is_kept": _kept(law, rows),
        "accept_probs": law.accept_probs(rows).tolist(),
        "recovered_probs": law.recovered_probs(rows).tolist(),
        "emitted_probs": law.emitted_probs(rows).tolist(),
        "acceptance_rate": float(law.acceptance_rate(rows)),
        "total_variation": float(law.total_variation(rows)),
        "kl_divergence": kl if math.isfinite(kl) else None,
        "draft_tv": float(draft_total_variation(rows)),
    }


def _rows(target_probs: Sequence[float] | None, draft_probs: Sequence[float] | None) -> RowPair:
    if target_probs is None and draft_probs is None:
        target_probs, draft_probs = EXAMPLE_TARGET_PROBS, EXAMPLE_DRAFT_PROBS
    if target_probs is None or draft_probs is None:
        missing = "target_probs" if target_probs is None else "draft_probs"
        raise LawError(f"{missing} is missing; give both rows or neither", param=missing)
    target = _row(target_probs, "target_probs")
    draft = _row(draft_probs, "draft_probs")
    if len(target) != len(draft):
        raise LawError(
            f"draft_probs has {len(draft)} entries and target_probs {len(target)}; give one "
            "probability for each token in both",
            param="draft_probs",
        )
    return RowPair(target, draft)


def _kept(law: Law, rows: RowPair) -> list[bool]:
    """Return for each token whether the rule would keep it without a coin."""
    num_columns = len(rows.target_probs)
    repeated = RowPair(
        np.tile(rows.target_probs, (num_columns, 1)), np.tile(rows.draft_probs, (num_columns, 1))
    )
    return [bool(kept) for kept in law.is_kept(repeated, np.arange(num_columns))]


def _row(probs: Sequence[float], name: str) -> Array:
    row = np.asarray(probs, dtype=np.float64)
    if row.ndim != 1 or row.size == 0:
        raise LawError(f"{name} is {list(probs)!r}; give at least one probability", param=name)
    if not np.all(np.isfinite(row)) or np.any(row < 0):
        raise LawError(
            f"{name} is {list(probs)!r}; each probability must be a number >= 0", param=name
        )
    if abs(float(row.sum()) - 1) > _SUM_TOLERANCE:
        raise LawError(
            f"{name} sums to {float(row.sum()):.9g}; it must sum to 1 within {_SUM_TOLERANCE:g}: "
            "scale the numbers",
            param=name,
        )
    return row
