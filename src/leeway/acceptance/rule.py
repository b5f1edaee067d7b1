"""Rules: what every law object shares, and the judging of a row as a target of its own.

Two constructors cover all laws. An *accept function* a(x) rejects into norm((p - q a)+). A *target
row* pi has a = min(1, pi/q), rejects into norm((pi - q)+) and emits pi; it is what block
verification takes, so any law composes with it through its emitted row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from leeway.acceptance.algebra import (
    at,
    capped_ratio,
    kl_divergence,
    namespace,
    normalise,
    positive_part,
    total,
    total_variation,
)
from leeway.acceptance.base import Array, Knob, LawInfo, RowPair, VerifierName
from leeway.core.receipt import LawOption

VERIFIER = Knob(
    "verifier",
    "judge token by token, or a block as a whole against the emitted row",
    default="token",
    choices=("token", "block"),
)

ROWS = Knob(
    "rows",
    "rows that the threshold reads: after temperature and truncation, or the model's own",
    default="processed",
    choices=("processed", "raw"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(ABC):
    """A law with its options filled in; the base of every law here (see `base.Law`)."""

    info: LawInfo
    options: dict[str, LawOption]
    verifier: VerifierName = "token"
    reads_raw_rows: bool = False

    @abstractmethod
    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return (is_kept, accept_prob) of the drafted columns, each [...]."""

    @abstractmethod
    def accept_probs(self, rows: RowPair) -> Array:
        """Return a(x) of every column; 0 where neither row has the token."""

    @abstractmethod
    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return the row drawn from on rejection."""

    @abstractmethod
    def emitted_probs(self, rows: RowPair) -> Array:
        """Return the row emitted at a drafted position."""

    @abstractmethod
    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return A = sum q a."""

    @abstractmethod
    def total_variation(self, rows: RowPair) -> Array:
        """Return TV(emitted, target)."""

    def accept_prob(self, rows: RowPair, draft_columns: Array) -> Array:
        """Return a(x) of the drafted columns."""
        return self.judge(rows, draft_columns)[1]

    def is_kept(self, rows: RowPair, draft_columns: Array) -> Array:
        """Return whether the rule keeps the drafted token without a coin."""
        return self.judge(rows, draft_columns)[0]

    def emitted_point(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return the drafted columns and a(x): what is drawn on rejection is p without x."""
        return draft_columns, self.judge(rows, draft_columns)[1]

    def loss(self, rows: RowPair) -> tuple[Array, Array]:
        """Return (TV, KL) of the emitted row against the target row."""
        emitted, target = self.emitted_probs(rows), rows.target_probs
        is_inside = not self.info.may_leave_support
        return total_variation(emitted, target), kl_divergence(emitted, target, is_inside=is_inside)

    def threshold_rows(self, rows: RowPair) -> tuple[Array, Array]:
        """Return the (target, draft) rows that thresholds read."""
        target, draft = rows.target_probs, rows.draft_probs
        if self.reads_raw_rows and rows.threshold_target_probs is not None:
            target = rows.threshold_target_probs
        if self.reads_raw_rows and rows.threshold_draft_probs is not None:
            draft = rows.threshold_draft_probs
        return target, draft


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderBlock(Rule):
    """Another law's emitted row, judged by block verification.

    The methods describe a block of one token; `verify_block` judges longer blocks jointly, with
    the same emitted row at each position.

    **Guarantee**: the joint law of the drafted positions is the product of the emitted rows
    (tests/laws/test_joint_law.py).

    **Source**: Sun et al. 2025, "Block Verification Accelerates Speculative Decoding",
    arXiv 2403.10444, Algorithm 2. **Deviates**: the target row is the lossy law's emitted row.
    """

    law: Rule

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return a = min(1, pi/q), and whether it is 1."""
        emitted = at(self.emitted_probs(rows), draft_columns)
        accept = capped_ratio(emitted, at(rows.draft_probs, draft_columns))
        return accept >= 1, accept

    def accept_probs(self, rows: RowPair) -> Array:
        """Return min(1, pi/q)."""
        return capped_ratio(self.emitted_probs(rows), rows.draft_probs)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return norm((pi - q)+)."""
        emitted = self.emitted_probs(rows)
        return normalise(positive_part(emitted - rows.draft_probs), emitted)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return pi, the inner law's emitted row."""
        return self.law.emitted_probs(rows)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return sum min(pi, q)."""
        emitted = self.emitted_probs(rows)
        return total(namespace(emitted).minimum(emitted, rows.draft_probs))

    def total_variation(self, rows: RowPair) -> Array:
        """Return the inner law's total variation."""
        return self.law.total_variation(rows)

    def emitted_point(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return the inner law's."""
        return self.law.emitted_point(rows, draft_columns)

    def loss(self, rows: RowPair) -> tuple[Array, Array]:
        """Return the inner law's loss."""
        return self.law.loss(rows)


def mask_absent(accept: Array, rows: RowPair) -> Array:
    """Return accept probabilities with 0 where neither row has the token."""
    xp = namespace(accept)
    return xp.where((rows.target_probs > 0) | (rows.draft_probs > 0), accept, 0.0)
