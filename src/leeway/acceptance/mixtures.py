"""Mixture rules: emit (1 - lam) p + lam q, with lam from a loss budget or fixed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from leeway.acceptance.algebra import capped_ratio, namespace
from leeway.acceptance.base import Array, Guarantee, Knob, LawInfo, RowPair
from leeway.acceptance.exact import exact_coin, residual
from leeway.acceptance.loss import draft_total_variation
from leeway.acceptance.options import number
from leeway.acceptance.rule import VERIFIER, Rule, mask_absent
from leeway.core.receipt import LawOption

TV_BUDGET = LawInfo(
    name="tv_budget",
    guarantee=Guarantee.NONE,
    summary="accept as much as a total variation of `budget` per drafted position allows",
    formula="lam = min(1, budget/D); a = lam + (1 - lam) min(1, p/q); on rejection draw (p - q)+; "
    "emitted (1 - lam) p + lam q; TV = min(budget, D)",
    source="optimal by Yin et al. 2024, arXiv 2411.00841, Theorem 5",
    temperature_zero="greedy match (this law has no raw rows to act on)",
    knobs=(
        Knob(
            "budget",
            "largest total variation per drafted position; higher is looser",
            default=None,
            low=0.0,
            high=1.0,
            is_required=True,
            exact_end="0",
        ),
        VERIFIER,
    ),
    needs_draft_rows=False,
    may_leave_support=True,
)

ENSEMBLE = LawInfo(
    name="ensemble",
    guarantee=Guarantee.NONE,
    summary="decode from a fixed mixture of target and draft",
    formula="v = w p + (1 - w) q; a = min(1, v/q); on rejection draw (p - q)+; emitted v; "
    "TV = (1 - w) D",
    source="static ensemble, the baseline of DIVERSED (2026), arXiv 2604.07622",
    temperature_zero="greedy match (this law has no raw rows to act on)",
    knobs=(
        Knob(
            "weight",
            "w, the target's share; lower is looser",
            default=None,
            low=0.0,
            high=1.0,
            low_open=True,
            is_required=True,
            exact_end="1",
        ),
        VERIFIER,
    ),
    needs_draft_rows=False,
    may_leave_support=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture(Rule):
    """a = lam + (1 - lam) min(1, p/q), residual (p - q)+; on the frontier."""

    @abstractmethod
    def share(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return lam, the draft's share of the emitted row: [...].

        Drafted columns are needed where drafts are point masses.
        """

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return a(x), and whether it is 1."""
        share = self.share(rows, draft_columns)
        accept = 1 - (1 - share) * (1 - exact_coin(rows, draft_columns))
        return accept >= 1, accept

    def accept_probs(self, rows: RowPair) -> Array:
        """Return lam + (1 - lam) min(1, p/q)."""
        coin = capped_ratio(rows.target_probs, rows.draft_probs)
        return mask_absent(1 - (1 - self.share(rows))[..., None] * (1 - coin), rows)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return norm((p - q)+)."""
        return residual(rows, draft_columns)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return (1 - lam) p + lam q."""
        share = self.share(rows)[..., None]
        return (1 - share) * rows.target_probs + share * rows.draft_probs


@dataclass(frozen=True, slots=True, kw_only=True)
class TvBudget(Mixture):
    """lam = min(1, budget/D): the most acceptance that a per-position budget of TV allows.

    **Source**: the frontier of Yin et al. 2024, arXiv 2411.00841, Theorem 5.
    """

    budget: float

    def share(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return min(1, budget/D)."""
        divergence = draft_total_variation(rows, draft_columns)
        xp = namespace(divergence)
        is_over = divergence > self.budget
        return xp.where(is_over, self.budget / xp.where(is_over, divergence, 1.0), 1.0)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return min(1, 1 - D + budget)."""
        divergence = draft_total_variation(rows)
        return namespace(divergence).clip(1 - divergence + self.budget, None, 1.0)

    def total_variation(self, rows: RowPair) -> Array:
        """Return min(budget, D)."""
        divergence = draft_total_variation(rows)
        return namespace(divergence).clip(divergence, None, self.budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble(Mixture):
    """lam = 1 - w on every row."""

    weight: float

    def share(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return 1 - w."""
        target = rows.target_probs
        xp = namespace(target)
        shape = target.shape[:-1]
        return xp.full(shape, 1 - self.weight, dtype=target.dtype, device=target.device)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return 1 - w D."""
        return 1 - self.weight * draft_total_variation(rows)

    def total_variation(self, rows: RowPair) -> Array:
        """Return (1 - w) D."""
        return (1 - self.weight) * draft_total_variation(rows)


def build_tv_budget(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `tv_budget`."""
    return TvBudget(info=TV_BUDGET, options=dict(options), budget=number(options, "budget"))


def build_ensemble(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `ensemble`."""
    return Ensemble(info=ENSEMBLE, options=dict(options), weight=number(options, "weight"))
