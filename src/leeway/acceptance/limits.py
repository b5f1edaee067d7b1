"""Limits on a lossy law: keep it inside the target's support, or let it act by a share.

Both take any law and give a law again, with closed forms of their own. With e, a, A, r the law's
emitted row, accept probability, acceptance rate and recovered row, S = {p > 0}, D = TV(p, q):

| | accept | drawn on rejection | emitted | A | TV |
|---|---|---|---|---|---|
| `InSupport` | a 1_S | (1-A) r + m f | e 1_S + m f | A - m | TV - m |
| `Limited` | s a + (1-s) min(1, p/q) | s (1-A) r + (1-s) (p - q)+ | s e + (1-s) p | below | s TV |

with m = e(not S) = q a (not S), since no recovered row leaves S; f = norm((p - e 1_S)+), the row
that costs nothing: it only fills where e is below p. `Limited` has A = s A + (1-s) (1-D). What is
drawn on rejection is normalised. Both keep a law on the frontier A = 1 - D + TV there.

The share s of each position comes with the rows (`RowPair.lossy_share`); 1 is the law itself and 0
the exact coin. Whoever plans shares may use the rows up to a position and the drafted tokens before
it, never the token or the coins of the position itself: then the closed forms hold given the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leeway.acceptance.algebra import (
    at,
    capped_ratio,
    kl_divergence,
    namespace,
    normalise,
    only_where,
    positive_part,
    total,
)
from leeway.acceptance.base import Array, Guarantee, Law, LawInfo, RowPair
from leeway.acceptance.exact import exact_coin, with_draft_rows
from leeway.acceptance.rule import Rule, UnderBlock, mask_absent
from leeway.core.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapped(Rule):
    law: Rule

    def loss(self, rows: RowPair) -> tuple[Array, Array]:
        """Return the closed form of TV, and KL from the emitted row."""
        is_inside = not self.info.may_leave_support
        kl = kl_divergence(self.emitted_probs(rows), rows.target_probs, is_inside=is_inside)
        return self.total_variation(rows), kl


@dataclass(frozen=True, slots=True, kw_only=True)
class InSupport(_Wrapped):
    """A law that never emits a token to which the target row gives nothing.

    **Guarantee**: support preserved; TV no larger than the law's own (tests/laws/test_limits.py).
    """

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return the law's own judgement inside the support, a certain rejection outside."""
        kept, accept = self.law.judge(rows, draft_columns)
        is_inside = at(rows.target_probs, draft_columns) > 0
        return kept & is_inside, namespace(accept).where(is_inside, accept, 0.0)

    def accept_probs(self, rows: RowPair) -> Array:
        """Return a 1_S."""
        return only_where(rows.target_probs > 0, self.law.accept_probs(rows))

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return norm((1-A) r + m f)."""
        rows = with_draft_rows(rows, draft_columns)
        recovered = self.law.recovered_probs(rows, draft_columns)
        rejected = positive_part(1 - self.law.acceptance_rate(rows))[..., None] * recovered
        return normalise(rejected + self._filling(rows), recovered)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return e 1_S + m f."""
        inside = only_where(rows.target_probs > 0, self.law.emitted_probs(rows))
        return inside + self._filling(rows)

    def emitted_point(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return the law's own inside the support, and no probability outside."""
        columns, probs = self.law.emitted_point(rows, draft_columns)
        return columns, only_where(at(rows.target_probs, columns) > 0, probs)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return A - m."""
        return self.law.acceptance_rate(rows) - self._outside(rows)

    def total_variation(self, rows: RowPair) -> Array:
        """Return TV - m."""
        return positive_part(self.law.total_variation(rows) - self._outside(rows))

    def _outside(self, rows: RowPair) -> Array:
        """Return m, what the law emits outside the support: [...]."""
        return total(only_where(rows.target_probs <= 0, self.law.emitted_probs(rows)))

    def _filling(self, rows: RowPair) -> Array:
        """Return m f: [..., num_columns]."""
        target = rows.target_probs
        missing = positive_part(target - self.law.emitted_probs(rows))
        return self._outside(rows)[..., None] * normalise(missing, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited(_Wrapped):
    """A law that acts by the share s of each position, and is exact for the rest.

    **Guarantee**: TV is s times the law's own, so no more than was planned
    (tests/laws/test_limits.py).
    """

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return s a + (1-s) min(1, p/q); kept without a coin only where s is 1."""
        share = _share(rows)
        kept, accept = self.law.judge(rows, draft_columns)
        mixed = share * accept + (1 - share) * exact_coin(rows, draft_columns)
        return kept & (share >= 1), mixed

    def accept_probs(self, rows: RowPair) -> Array:
        """Return s a + (1-s) min(1, p/q)."""
        share = _share(rows)[..., None]
        coin = capped_ratio(rows.target_probs, rows.draft_probs)
        return mask_absent(share * self.law.accept_probs(rows) + (1 - share) * coin, rows)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return norm(s (1-A) r + (1-s) (p - q)+)."""
        rows = with_draft_rows(rows, draft_columns)
        share = _share(rows)
        recovered = self.law.recovered_probs(rows, draft_columns)
        own = share * positive_part(1 - self.law.acceptance_rate(rows))
        leftover = positive_part(rows.target_probs - rows.draft_probs)
        mixed = own[..., None] * recovered + (1 - share)[..., None] * leftover
        return normalise(mixed, rows.target_probs)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return s e + (1-s) p."""
        share = _share(rows)[..., None]
        return share * self.law.emitted_probs(rows) + (1 - share) * rows.target_probs

    def emitted_point(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return s e + (1-s) p at the law's own column."""
        share = _share(rows)
        columns, probs = self.law.emitted_point(rows, draft_columns)
        return columns, share * probs + (1 - share) * at(rows.target_probs, columns)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return s A + (1-s) (1-D)."""
        share = _share(rows)
        xp = namespace(share)
        exact = total(xp.minimum(rows.target_probs, rows.draft_probs))
        return share * self.law.acceptance_rate(rows) + (1 - share) * exact

    def total_variation(self, rows: RowPair) -> Array:
        """Return s TV."""
        return _share(rows) * self.law.total_variation(rows)


def limit_law(law: Law, limits: Limits) -> Law:
    """Return the law under these limits: the law itself where they have nothing to act on."""
    if law.info.guarantee is not Guarantee.NONE or not limits.is_active:
        return law
    assert isinstance(law, Rule)
    if isinstance(law, UnderBlock):
        inner = _limit(law.law, limits)
        return law if inner is law.law else replace(law, info=inner.info, law=inner)
    return _limit(law, limits)


def plan_shares(
    law: Law, rows: RowPair, is_open: Sequence[bool], left: float | None, *, is_whole: bool
) -> Array:
    """Return the share of each position of a block: as much as is left, in order.

    A position that is not open has share 0 and spends nothing. An open one has share 1 while its TV
    is within what the positions before it left, else what is left of it. The share of position i
    depends on the rows up to i only.

    Args:
        law: the law under its limits; acts fully where rows carry no shares.
        rows: rows of the block, [num_draft_tokens, num_columns], without shares.
        is_open: [num_draft_tokens], where the law may act at all.
        left: what is left of the budget; None for no limit.
        is_whole: shares are 0 or 1, so that no coin is thrown where rows are point masses.

    Returns:
        [num_draft_tokens], in [0, 1], in the precision of the rows.
    """
    target = rows.target_probs
    xp = namespace(target)
    if left is None or not any(is_open):
        return xp.asarray([float(one) for one in is_open], dtype=target.dtype)
    below_one = 1 - 4 * float(xp.finfo(target.dtype).eps)  # rounding never spends more than is left
    shares = []
    for one, cost in zip(is_open, law.total_variation(rows), strict=True):
        variation = float(cost)
        if not one:
            shares.append(0.0)
        elif variation <= left:
            shares.append(1.0)
            left -= variation
        else:
            shares.append(0.0 if is_whole else left / variation * below_one)
            left = left if is_whole else 0.0
    return xp.asarray(shares, dtype=target.dtype)


def _limit(law: Rule, limits: Limits) -> Rule:
    if limits.hard_support and law.info.may_leave_support:
        law = _wrap(InSupport, law, replace(law.info, may_leave_support=False))
    return _wrap(Limited, law, law.info) if limits.is_by_position else law


def _wrap(kind: type[_Wrapped], law: Rule, info: LawInfo) -> Rule:
    return kind(
        info=info,
        options=law.options,
        verifier=law.verifier,
        reads_raw_rows=law.reads_raw_rows,
        law=law,
    )


def _share(rows: RowPair) -> Array:
    """Return the share of each position; 1 where the rows carry none: [...]."""
    if rows.lossy_share is not None:
        return rows.lossy_share
    target = rows.target_probs
    shape = target.shape[:-1]
    return namespace(target).ones(shape, dtype=target.dtype, device=target.device)
