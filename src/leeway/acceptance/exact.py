"""Exact laws judged by coins: token-by-token rejection sampling, and block verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from leeway.acceptance.algebra import (
    at,
    capped_ratio,
    namespace,
    normalise,
    one_hot,
    positive_part,
    total,
    without,
)
from leeway.acceptance.base import Array, Guarantee, LawInfo, RowPair
from leeway.acceptance.rule import Rule
from leeway.core.receipt import LawOption

REJECTION = LawInfo(
    name="rejection",
    guarantee=Guarantee.EXACT_DISTRIBUTION,
    summary="keep a drafted token with the ratio of target to draft probability",
    formula="a = min(1, p/q); on rejection draw (p - q)+; emitted p; A = 1 - D",
    source="Leviathan et al. 2023, arXiv 2211.17192, Algorithm 1; "
    "Chen et al. 2023, arXiv 2302.01318, Algorithm 2",
    temperature_zero="greedy match: keeps the target's most likely token",
    knobs=(),
    needs_draft_rows=False,
    may_leave_support=False,
)

BLOCK = LawInfo(
    name="block",
    guarantee=Guarantee.EXACT_DISTRIBUTION,
    summary="judge the drafted block as a whole; never accepts fewer tokens than rejection",
    formula="P_i = min(1, P_(i-1) p/q); Z = sum (P_i p' - q')+ of the next position; "
    "h_i = Z / (Z + 1 - P_i), last h = P; keep up to the last i whose coin is below h_i; "
    "on rejection draw (P_i p - q)+; emitted p",
    source="Sun et al. 2025, arXiv 2403.10444, Algorithm 2",
    temperature_zero="greedy match: keeps the target's most likely token",
    knobs=(),
    needs_draft_rows=False,
    may_leave_support=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection(Rule):
    """The exact coin: a = min(1, p/q), residual (p - q)+.

    Under block verification the methods describe a block of one token, where both verifiers agree.

    **Guarantee**: exact_distribution (tests/laws/test_single_position.py, test_joint_law.py).
    **Source**: Leviathan et al. 2023, arXiv 2211.17192, Algorithm 1.
    """

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return the exact coin, and whether it is 1."""
        accept = exact_coin(rows, draft_columns)
        return accept >= 1, accept

    def accept_probs(self, rows: RowPair) -> Array:
        """Return min(1, p/q)."""
        return capped_ratio(rows.target_probs, rows.draft_probs)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return norm((p - q)+)."""
        return residual(rows, draft_columns)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return p."""
        return rows.target_probs

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return 1 - D = sum min(p, q)."""
        xp = namespace(rows.target_probs)
        return total(xp.minimum(rows.target_probs, rows.draft_probs))

    def total_variation(self, rows: RowPair) -> Array:
        """Return 0."""
        return nothing(rows)


def exact_coin(rows: RowPair, draft_columns: Array) -> Array:
    """Return min(1, p/q) of the drafted columns: [...]."""
    return capped_ratio(at(rows.target_probs, draft_columns), draft_at(rows, draft_columns))


def draft_at(rows: RowPair, draft_columns: Array) -> Array:
    """Return q of the drafted columns, 1 where drafts are point masses: [...]."""
    if rows.draft_probs is not None:
        return at(rows.draft_probs, draft_columns)
    target = rows.target_probs
    return namespace(target).ones(draft_columns.shape, dtype=target.dtype, device=target.device)


def residual(rows: RowPair, draft_columns: Array | None = None) -> Array:
    """Return norm((p - q)+), the residual of every law that accepts at least min(1, p/q).

    Of point masses it is p without the drafted token; without draft rows the columns are needed.
    """
    target = rows.target_probs
    if rows.draft_probs is None:
        return normalise(without(target, draft_columns), target)
    return normalise(positive_part(target - rows.draft_probs), target)


def with_draft_rows(rows: RowPair, draft_columns: Array | None) -> RowPair:
    """Return rows with their point masses written out, if they are such: [..., num_columns]."""
    if rows.draft_probs is not None:
        return rows
    return replace(rows, draft_probs=one_hot(draft_columns, rows.target_probs))


def nothing(rows: RowPair) -> Array:
    """Return zeros: [...]."""
    target = rows.target_probs
    shape = target.shape[:-1]
    return namespace(target).zeros(shape, dtype=target.dtype, device=target.device)


def build_rejection(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `rejection`."""
    return Rejection(info=REJECTION, options=dict(options))


def build_block(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `block`."""
    return Rejection(info=BLOCK, options=dict(options), verifier="block")
