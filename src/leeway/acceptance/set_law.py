"""Set rules: a keep-set T times what becomes of tokens outside it; every pair is one law.

With eta = q(not T) and s = norm((p - q)+):

| off-set | outside T accept | on rejection | emitted |
|---|---|---|---|
| redraw | 0 | p | q 1_T + eta p |
| argmax | 0 | argmax p | q 1_T + eta 1[argmax p] |
| pi | min(1, eta p/q) | (pi - q)+ | pi = q 1_T + eta p |
| coin | min(1, p/(l q)), l = 1 | (p - q)+ | base + rho s, base = q on T, min(q, p/l) off it |

`coin` has the highest acceptance and the lowest total variation for every p, q and T; `pi` emits
what `redraw` emits and accepts more.

**Source**: redraw: Cai et al. 2024, arXiv 2401.10774; pi: Narasimhan et al. 2025, arXiv 2405.19261,
equation 11 and Algorithm 6; the residual of coin: Yin et al. 2024, arXiv 2411.00841, Theorem 4.
"""

from __future__ import annotations

from dataclasses import dataclass

from leeway.acceptance.algebra import (
    at,
    capped_ratio,
    is_known,
    is_numpy,
    most_likely,
    namespace,
    normalise,
    one_hot,
    only_where,
    positive_part,
    total,
)
from leeway.acceptance.base import Array, Knob, RowPair
from leeway.acceptance.exact import draft_at, residual
from leeway.acceptance.keep_sets import KeepSet
from leeway.acceptance.rule import Rule, mask_absent
from leeway.acceptance.set_loss import set_loss

OFF_SETS = ("redraw", "pi", "coin", "argmax")


def off_set_knob(default: str) -> Knob:
    """Return the knob `off_set` with a law's own default."""
    meaning = "tokens outside the set: redraw from p, Algorithm 6, the exact coin, or argmax p"
    return Knob("off_set", meaning, default=default, choices=OFF_SETS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLaw(Rule):
    """A keep-set times an off-set.

    Attributes:
        keep_set: T.
        off_set: one of `OFF_SETS`.
        leniency: l of the coin outside T; 1 is the exact coin.
    """

    keep_set: KeepSet
    off_set: str
    leniency: float = 1.0

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return whether x is in T, and a(x)."""
        xp = namespace(rows.target_probs)
        reads_mask = self.off_set == "pi" and rows.draft_probs is not None
        mask = self._mask(rows) if reads_mask and not is_numpy(rows.target_probs) else None
        kept = self._contains(rows, draft_columns) if mask is None else at(mask, draft_columns)
        if self.off_set in ("redraw", "argmax") or is_known(xp.all(kept)):
            return kept, xp.astype(kept, rows.target_probs.dtype)
        p = at(rows.target_probs, draft_columns)
        if reads_mask:  # a point mass outside T has eta = 1
            p = self._eta(rows, self._mask(rows) if mask is None else mask) * p
        coin = capped_ratio(p, self.leniency * draft_at(rows, draft_columns))
        return kept, xp.where(kept, 1.0, coin)

    def accept_probs(self, rows: RowPair) -> Array:
        """Return 1 on T, and the off-set's coin outside."""
        p, q = rows.target_probs, rows.draft_probs
        xp = namespace(p)
        mask = self._mask(rows)
        if self.off_set in ("redraw", "argmax"):
            return mask_absent(xp.astype(mask, p.dtype), rows)
        if self.off_set == "pi":
            p = self._eta(rows, mask)[..., None] * p
        return mask_absent(xp.where(mask, 1.0, capped_ratio(p, self.leniency * q)), rows)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return the off-set's row."""
        p = rows.target_probs
        if self.off_set == "redraw":
            return p
        if self.off_set == "argmax":
            return one_hot(most_likely(p), p)
        if self.off_set == "coin" or rows.draft_probs is None:
            return residual(rows, draft_columns)
        pi = self.emitted_probs(rows)
        return normalise(positive_part(pi - rows.draft_probs), pi)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return the emitted row of the table above."""
        p, q = rows.target_probs, rows.draft_probs
        mask = self._mask(rows)
        if self.off_set == "coin":
            base = self._base(rows, mask)
            return base + total(q - base)[..., None] * residual(rows)
        inside = only_where(mask, q)
        eta = total(q - inside)[..., None]
        return inside + eta * (one_hot(most_likely(p), p) if self.off_set == "argmax" else p)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return q(T), plus what the off-set's coin accepts."""
        p, q = rows.target_probs, rows.draft_probs
        xp = namespace(p)
        mask = self._mask(rows)
        if self.off_set == "coin":
            return total(self._base(rows, mask))
        if self.off_set == "pi":
            return total(xp.where(mask, q, xp.minimum(q, self._eta(rows, mask)[..., None] * p)))
        return total(only_where(mask, q))

    def total_variation(self, rows: RowPair) -> Array:
        """Return the sum over T of (q - (1 - eta) p)+; coin: of (base - p)+; argmax: of (e - p)+.

        Under argmax only tokens of T and the most likely token itself can exceed p.
        """
        p, q = rows.target_probs, rows.draft_probs
        xp = namespace(p)
        mask = self._mask(rows)
        if self.off_set == "coin":
            return total(positive_part(self._base(rows, mask) - p))
        eta = self._eta(rows, mask)
        if self.off_set == "argmax":
            best = most_likely(p)
            inside = xp.where(mask & (one_hot(best, p) == 0), positive_part(q - p), 0.0)
            own = xp.where(at(mask, best), at(q, best), 0.0) + eta - at(p, best)
            return total(inside) + positive_part(own)
        return total(xp.where(mask, positive_part(q - (1 - eta)[..., None] * p), 0.0))

    def emitted_point(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return x and its probability; under argmax x if it is in T, else argmax p, and 1."""
        kept, accept = self.judge(rows, draft_columns)
        xp, target = namespace(accept), rows.target_probs
        if self.off_set == "redraw":
            return draft_columns, xp.where(kept, accept, at(target, draft_columns))
        if self.off_set == "argmax":
            return xp.where(kept, draft_columns, most_likely(target)), xp.ones_like(accept)
        return draft_columns, accept

    def loss(self, rows: RowPair) -> tuple[Array, Array]:
        """Return (TV, KL) of the emitted row against the target row."""
        if self.leniency != 1:
            return super(SetLaw, self).loss(rows)
        return set_loss(rows, self._mask(rows), self.off_set)

    def _mask(self, rows: RowPair) -> Array:
        return self.keep_set.mask(*self.threshold_rows(rows), self._entropies(rows))

    def _contains(self, rows: RowPair, draft_columns: Array) -> Array:
        target, draft = self.threshold_rows(rows)
        return self.keep_set.contains(target, draft, draft_columns, self._entropies(rows))

    def _entropies(self, rows: RowPair) -> Array | None:
        """Return the entropies of the target rows that the threshold reads, where known."""
        return None if self.reads_raw_rows else rows.target_entropies

    def _eta(self, rows: RowPair, mask: Array) -> Array:
        return total(only_where(~mask, rows.draft_probs))

    def _base(self, rows: RowPair, mask: Array) -> Array:
        """Return q a under the coin: q on T, min(q, p/l) off it."""
        xp = namespace(mask)
        q = rows.draft_probs
        return xp.where(mask, q, xp.minimum(q, rows.target_probs / self.leniency))
