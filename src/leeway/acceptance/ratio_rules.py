"""Ratio rules: the exact coin with a looser ratio; lenience and the clip (mentored) family."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from leeway.acceptance.algebra import (
    at,
    capped_ratio,
    dot,
    is_known,
    is_numpy,
    namespace,
    normalise,
    positive_part,
    smallest,
    total,
)
from leeway.acceptance.base import Array, Guarantee, Knob, LawInfo, RowPair
from leeway.acceptance.exact import draft_at, residual
from leeway.acceptance.options import number
from leeway.acceptance.rule import VERIFIER, Rule
from leeway.core.receipt import LawOption

_MAX_POWER_STEPS = 8
_NUM_UNSEEN_STEPS = 8
_NEAR = 1.5
_AT_ZERO = "greedy match: between point masses the ratio is 0 or infinite"

LENIENT = LawInfo(
    name="lenient",
    guarantee=Guarantee.NONE,
    summary="the exact coin, as if the draft row were smaller by a factor",
    formula="a = min(1, p/(l q)); on rejection draw (p - q)+; emitted min(q, p/l) + rho (p - q)+/D;"
    " no token above p/l",
    source="Leviathan et al. 2023, arXiv 2211.17192, appendix A.5",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "leniency",
            "l, factor on the draft probability; lower is looser",
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
    may_leave_support=False,
)

CLIP = LawInfo(
    name="clip",
    guarantee=Guarantee.NONE,
    summary="clip the draft row to between two multiples of the target row",
    formula="a = min(1, c1 p/q); on rejection draw (c0 p - q)+; emitted median(c0 p, q, c1 p), "
    "c0 from normalisation; no token above c1 p",
    source="mentored decoding, Tran-Thien 2023; optimal for every f-divergence; framework: "
    "Yin et al. 2024, arXiv 2411.00841",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "c1",
            "largest multiple of a token's target probability; higher is looser",
            default=None,
            low=1.0,
            is_required=True,
            exact_end="1",
        ),
        VERIFIER,
    ),
    needs_draft_rows=False,
    may_leave_support=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lenient(Rule):
    """a = min(1, p/(l q)), residual (p - q)+; on the frontier, TV <= min(D, 1 - l)."""

    leniency: float

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return the lenient coin, and whether it is 1."""
        q = self.leniency * draft_at(rows, draft_columns)
        accept = capped_ratio(at(rows.target_probs, draft_columns), q)
        return accept >= 1, accept

    def accept_probs(self, rows: RowPair) -> Array:
        """Return min(1, p/(l q))."""
        return capped_ratio(rows.target_probs, self.leniency * rows.draft_probs)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return norm((p - q)+)."""
        return residual(rows, draft_columns)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return min(q, p/l) + rho norm((p - q)+)."""
        base = self._base(rows)
        return base + total(rows.draft_probs - base)[..., None] * residual(rows)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return sum min(q, p/l)."""
        return total(self._base(rows))

    def total_variation(self, rows: RowPair) -> Array:
        """Return sum (min(q, p/l) - p)+."""
        return total(positive_part(self._base(rows) - rows.target_probs))

    def _base(self, rows: RowPair) -> Array:
        xp = namespace(rows.target_probs)
        return xp.minimum(rows.draft_probs, rows.target_probs / self.leniency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip(Rule):
    """a = min(1, c1 p/q), residual (c0 p - q)+; on the frontier, TV <= min(D, 1 - 1/c1)."""

    c1: float

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return the coin of the upper multiple, and whether it is 1."""
        p = self.c1 * at(rows.target_probs, draft_columns)
        accept = capped_ratio(p, draft_at(rows, draft_columns))
        return accept >= 1, accept

    def accept_probs(self, rows: RowPair) -> Array:
        """Return min(1, c1 p/q)."""
        return capped_ratio(self.c1 * rows.target_probs, rows.draft_probs)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return norm((c0 p - q)+)."""
        if rows.draft_probs is None:  # c0 p stays below a point mass
            return residual(rows, draft_columns)
        return normalise(self._raised(rows), rows.target_probs)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return median(c0 p, q, c1 p)."""
        return self._capped(rows) + self._raised(rows)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return sum min(q, c1 p)."""
        return total(self._capped(rows))

    def total_variation(self, rows: RowPair) -> Array:
        """Return sum (min(q, c1 p) - p)+."""
        return total(positive_part(self._capped(rows) - rows.target_probs))

    def _capped(self, rows: RowPair) -> Array:
        xp = namespace(rows.target_probs)
        return xp.minimum(rows.draft_probs, self.c1 * rows.target_probs)

    def _raised(self, rows: RowPair) -> Array:
        p, q = rows.target_probs, rows.draft_probs
        missing = total(positive_part(q - self.c1 * p))
        return positive_part(lower_multiple(p, q, missing)[..., None] * p - q)


def lower_multiple(target: Array, draft: Array, missing: Array) -> Array:
    """Return c0 in [0, 1] with sum (c0 p - q)+ = `missing`, which is at most TV(p, q): [...].

    The sum is convex, increasing and piecewise linear in c0: a Newton step from anywhere gives an
    upper bound, and from an upper bound such steps fall from piece to piece and end at the root
    itself, without a tolerance. A few steps along the power law through the current point (never
    above the bound) save most of that way on long rows. Where nobody may look, a fixed number of
    steps is made; those behind the root do not move it.
    """
    xp = namespace(target)
    bound = xp.ones_like(missing)
    slope, offset = _raised_mass(target, draft, bound)
    goal = xp.where(missing > 0, missing, slope - offset)
    multiple, num_steps = bound, 0
    while num_steps < _MAX_POWER_STEPS and not _is_near(multiple * slope - offset, goal):
        reached = multiple * slope - offset
        elasticity = reached / xp.where(slope > 0, multiple * slope, 1.0)
        ratio = goal / xp.where(reached > goal, reached, goal + smallest(goal))
        bound = _newton_bound(goal, slope, offset, bound)
        multiple = xp.minimum(multiple * ratio**elasticity, bound)
        slope, offset = _raised_mass(target, draft, multiple)
        num_steps += 1
    multiple = _newton_bound(goal, slope, offset, bound)
    for step in itertools.count(1):
        above = multiple
        multiple = _newton_bound(goal, *_raised_mass(target, draft, above), above)
        is_unseen_end = step == _NUM_UNSEEN_STEPS and not is_numpy(target)
        if is_unseen_end or is_known(xp.all(multiple >= above)):
            break
    return xp.where(missing > 0, multiple, 0.0)


def _is_near(reached: Array, goal: Array) -> bool:
    return is_known(namespace(goal).all(reached <= _NEAR * goal))


def _raised_mass(target: Array, draft: Array, multiple: Array) -> tuple[Array, Array]:
    """Return the mass of p and of q where c p > q: slope and offset of the sum at c, each [...]."""
    xp = namespace(target)
    raised = xp.astype(multiple[..., None] * target > draft, target.dtype)
    return dot(raised, target), dot(raised, draft)


def _newton_bound(goal: Array, slope: Array, offset: Array, bound: Array) -> Array:
    """Return where the tangent c slope - offset meets the goal, at most `bound`."""
    xp = namespace(goal)
    has_slope = slope > 0
    return xp.where(
        has_slope, xp.minimum(bound, (goal + offset) / xp.where(has_slope, slope, 1.0)), bound
    )


def least_leniency(options: Mapping[str, LawOption]) -> float:
    """Return the option `leniency`, not so small that float32 rows overflow on division."""
    return max(number(options, "leniency"), 1e-30)


def build_lenient(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `lenient`."""
    return Lenient(info=LENIENT, options=dict(options), leniency=least_leniency(options))


def build_clip(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `clip`."""
    return Clip(info=CLIP, options=dict(options), c1=number(options, "c1"))
