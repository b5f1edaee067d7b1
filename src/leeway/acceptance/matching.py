"""Laws that compare the drafted token with the token the target itself would emit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leeway.acceptance.algebra import (
    at,
    most_likely,
    namespace,
    normalise,
    one_hot,
    peak,
    total,
    without,
)
from leeway.acceptance.base import Array, Guarantee, LawInfo, RowPair
from leeway.acceptance.exact import nothing
from leeway.acceptance.rule import Rule
from leeway.core.receipt import LawOption

SAMPLE_MATCH = LawInfo(
    name="sample_match",
    guarantee=Guarantee.EXACT_DISTRIBUTION,
    summary="sample from the target as plain decoding would, and keep the draft while it agrees",
    formula="a = p(x): y ~ p equals x; on rejection y, i.e. p without x; emitted p; A = sum p q",
    source="the sampler of plain decoding applied at each drafted position "
    "(llama.cpp, mlx-lm and others); one-hot q: Leviathan et al. 2023, arXiv 2211.17192",
    temperature_zero="greedy match: keeps the target's most likely token",
    knobs=(),
    needs_draft_rows=False,
    may_leave_support=False,
)

GREEDY_MATCH = LawInfo(
    name="greedy_match",
    guarantee=Guarantee.EXACT_GREEDY,
    summary="emit the target's most likely token, at any temperature; keep the draft if it is that",
    formula="a = 1[x = argmax p]; on rejection argmax p; emitted 1[argmax p]; A = q(argmax p)",
    source="Stern et al. 2018, arXiv 1811.03115 (exact acceptance)",
    temperature_zero="what greedy decoding emits, token for token",
    knobs=(),
    needs_draft_rows=False,
    may_leave_support=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMatch(Rule):
    """Draw y from the target row; accept iff it is the drafted token; emit y either way.

    **Guarantee**: exact_distribution, and with a seed the very stream of plain decoding
    (tests/laws/test_single_position.py, test_joint_law.py, test_coins.py).
    """

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return p(x), and whether it is 1."""
        accept = at(rows.target_probs, draft_columns)
        return accept >= 1, accept

    def accept_probs(self, rows: RowPair) -> Array:
        """Return p."""
        return rows.target_probs

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return p without the rejected token; without one, averaged over rejected tokens."""
        target = rows.target_probs
        if draft_columns is None:
            return normalise(target * (1 - rows.draft_probs), target)
        return normalise(without(target, draft_columns), target)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return p."""
        return rows.target_probs

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return sum p q."""
        return total(rows.target_probs * rows.draft_probs)

    def total_variation(self, rows: RowPair) -> Array:
        """Return 0."""
        return nothing(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyMatch(Rule):
    """Emit argmax p; a draft is kept if it is that token. The first of equals counts as argmax.

    **Guarantee**: exact_greedy (tests/laws/test_single_position.py, test_joint_law.py).
    """

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return whether x is the most likely token, as truth and as number."""
        kept = draft_columns == most_likely(rows.target_probs)
        return kept, namespace(rows.target_probs).astype(kept, rows.target_probs.dtype)

    def accept_probs(self, rows: RowPair) -> Array:
        """Return 1[argmax p]."""
        return self.emitted_probs(rows)

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return 1[argmax p]."""
        return self.emitted_probs(rows)

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return 1[argmax p]."""
        return one_hot(most_likely(rows.target_probs), rows.target_probs)

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return q(argmax p)."""
        return at(rows.draft_probs, most_likely(rows.target_probs))

    def total_variation(self, rows: RowPair) -> Array:
        """Return 1 - max p."""
        return 1 - peak(rows.target_probs)

    def emitted_point(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return argmax p and 1."""
        target = rows.target_probs
        return most_likely(target), namespace(target).ones_like(peak(target))

    def loss(self, rows: RowPair) -> tuple[Array, Array]:
        """Return (1 - max p, -log max p)."""
        best = peak(rows.target_probs)
        return 1 - best, -namespace(best).log(best)


def build_sample_match(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `sample_match`."""
    return SampleMatch(info=SAMPLE_MATCH, options=dict(options), verifier="match")


def build_greedy_match(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `greedy_match`."""
    return GreedyMatch(info=GREEDY_MATCH, options=dict(options), verifier="match")
