"""Row rules: keep the whole draft row or defer to the exact coin; the cascades OPT and Diff.

The decision never looks at the drafted token, so on a kept row every token of the draft passes,
unlikely ones too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from leeway.acceptance.algebra import (
    capped_ratio,
    is_known,
    kl_divergence,
    namespace,
    peak,
    total,
    total_variation,
)
from leeway.acceptance.base import Array, Guarantee, Knob, LawInfo, RowPair
from leeway.acceptance.exact import exact_coin, nothing, residual
from leeway.acceptance.options import number
from leeway.acceptance.rule import ROWS, VERIFIER, Rule, mask_absent
from leeway.core.receipt import LawOption

_AT_ZERO = "greedy match with processed rows; with rows=raw keeps the draft where the rule says so"

OPT = LawInfo(
    name="opt",
    guarantee=Guarantee.NONE,
    summary="keep the draft row where its peak makes up for the price of deferring",
    formula="keep iff max q >= max p - alpha D; kept: a = 1; deferred: a = min(1, p/q), (p - q)+",
    source="Narasimhan et al. 2025, arXiv 2405.19261, equation 10",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "alpha",
            "price of deferring, times D = TV(p, q); higher is looser",
            default=None,
            is_required=True,
            exact_end="-inf",
        ),
        ROWS,
        VERIFIER,
    ),
    needs_draft_rows=True,
    may_leave_support=True,
)

DIFF = LawInfo(
    name="diff",
    guarantee=Guarantee.NONE,
    summary="keep the draft row where its peak comes within alpha of the target's",
    formula="keep iff max q >= max p - alpha; kept: a = 1; deferred: a = min(1, p/q), (p - q)+",
    source="Narasimhan et al. 2025, arXiv 2405.19261, equation 5",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "alpha",
            "allowed distance between the peaks; higher is looser",
            default=None,
            low=-1.0,
            high=1.0,
            is_required=True,
            exact_end="-1",
        ),
        ROWS,
        VERIFIER,
    ),
    needs_draft_rows=True,
    may_leave_support=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLaw(Rule):
    """Keep the row (emits q) or defer (emits p).

    Attributes:
        alpha: the knob.
        is_per_divergence: whether alpha multiplies D (OPT) or stands alone (Diff). D is taken
            between the rows that are sampled, whatever rows the peaks are read from: it is the
            probability that deferring rejects.
    """

    alpha: float
    is_per_divergence: bool

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return whether the row is kept, and 1 or the exact coin."""
        coin = exact_coin(rows, draft_columns)
        kept = self._is_row_kept(rows)
        return kept, namespace(coin).where(kept, 1.0, coin)

    def accept_probs(self, rows: RowPair) -> Array:
        """Return 1 on kept rows, min(1, p/q) on others."""
        coin = capped_ratio(rows.target_probs, rows.draft_probs)
        kept = self._is_row_kept(rows)[..., None]
        return mask_absent(namespace(coin).where(kept, 1.0, coin), rows)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return norm((p - q)+)."""
        return residual(rows, draft_columns)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return q on kept rows, p on others."""
        kept = self._is_row_kept(rows)[..., None]
        return namespace(kept).where(kept, rows.draft_probs, rows.target_probs)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return 1 on kept rows, 1 - D on others."""
        xp = namespace(rows.target_probs)
        overlap = total(xp.minimum(rows.target_probs, rows.draft_probs))
        return xp.where(self._is_row_kept(rows), 1.0, overlap)

    def total_variation(self, rows: RowPair) -> Array:
        """Return D on kept rows, 0 on others."""
        divergence = total_variation(rows.target_probs, rows.draft_probs)
        return namespace(divergence).where(self._is_row_kept(rows), divergence, 0.0)

    def loss(self, rows: RowPair) -> tuple[Array, Array]:
        """Return (D, KL(q || p)) on kept rows, 0 on others."""
        kept = self._is_row_kept(rows)
        xp = namespace(kept)
        if is_known(xp.all(~kept)):
            return nothing(rows), nothing(rows)
        p, q = rows.target_probs, rows.draft_probs
        divergence = xp.where(kept, total_variation(q, p), 0.0)
        return divergence, xp.where(kept, kl_divergence(q, p), 0.0)

    def _is_row_kept(self, rows: RowPair) -> Array:
        target, draft = self.threshold_rows(rows)
        margin = peak(draft) - peak(target)
        if self.alpha == -math.inf:
            return margin > math.inf
        if not self.is_per_divergence:
            return margin >= -self.alpha
        return margin >= -self.alpha * total_variation(rows.target_probs, rows.draft_probs)


def build_opt(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `opt`."""
    return _law(OPT, options, is_per_divergence=True)


def build_diff(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `diff`."""
    return _law(DIFF, options, is_per_divergence=False)


def _law(info: LawInfo, options: Mapping[str, LawOption], *, is_per_divergence: bool) -> Rule:
    return RowLaw(
        info=info,
        options=dict(options),
        reads_raw_rows=options["rows"] == "raw",
        alpha=number(options, "alpha"),
        is_per_divergence=is_per_divergence,
    )
