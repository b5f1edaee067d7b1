"""Acceptance: what a law is.

In: aligned probability rows of target and draft, and the drafted columns. Out: accept
probabilities, the row to draw from on rejection, and closed forms of what is emitted. Pure
functions on the array namespace of their arguments (NumPy, torch); no I/O, no model, no randomness:
coins are thrown by the verifiers (`verify_token`, `verify_block`, `verify_match`, `verify_many`).

Symbols in formulas: p target row, q draft row, x ~ q the drafted token, a(x) its accept
probability, T the keep-set, eta = q(not T), D = TV(p, q).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal, Protocol

from leeway.core.receipt import LawOption

Array = Any  # any array-API array; shapes are in the docstrings

VerifierName = Literal["token", "block", "match"]


class Guarantee(StrEnum):
    """What a law promises about the output; a proof, never a benchmark."""

    EXACT_DISTRIBUTION = "exact_distribution"
    EXACT_GREEDY = "exact_greedy"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Knob:
    """One option of a law.

    `exact_end` is the value at which the law becomes exact, in words where no number in the range
    does it. Numeric knobs have `low` and `high` (inclusive unless `low_open`); others `choices`.
    `default` None means that the option must be given.
    """

    name: str
    meaning: str
    default: LawOption | None
    low: float = float("-inf")
    high: float = float("inf")
    low_open: bool = False
    choices: tuple[str, ...] = ()
    is_integer: bool = False
    is_required: bool = False
    exact_end: str = ""


@dataclass(frozen=True, slots=True)
class RowPair:
    """Target and draft rows over the same columns.

    Attributes:
        target_probs: [..., num_columns], the user's rows (after temperature, top-k ...).
        draft_probs: [..., num_columns], the very rows the drafted tokens were drawn from. None
            stands for point masses at the drafted columns: `judge`, `emitted_point` and whoever is
            told the columns can do without the rows.
        threshold_target_probs: rows that thresholds read, where a law is asked to read raw rows;
            None means `target_probs`.
        threshold_draft_probs: likewise for the draft; None means `draft_probs`.
        target_entropies: [...], nats, of `target_probs` where somebody knows them already.
        lossy_share: [...], by how much a law under limits may act at each position, in [0, 1];
            None is 1. Other laws do not look at it.
    """

    target_probs: Array
    draft_probs: Array
    threshold_target_probs: Array | None = None
    threshold_draft_probs: Array | None = None
    target_entropies: Array | None = None
    lossy_share: Array | None = None

    def part(self, index: int | slice | Array) -> RowPair:
        """Return the pair at one position of the leading axis, or at several."""
        values = (getattr(self, field.name) for field in fields(self))
        return RowPair(*(None if rows is None else rows[index] for rows in values))


@dataclass(frozen=True, slots=True)
class LawInfo:
    """What `leeway laws` prints of a law."""

    name: str
    guarantee: Guarantee
    summary: str
    formula: str
    source: str
    temperature_zero: str
    knobs: tuple[Knob, ...]
    needs_draft_rows: bool
    may_leave_support: bool


class Law(Protocol):
    """An acceptance law with its options filled in. All methods batch over leading axes."""

    @property
    def info(self) -> LawInfo:
        """What the law is, by its true name (never a preset's)."""
        ...

    @property
    def options(self) -> dict[str, LawOption]:
        """Every option in force, defaults included."""
        ...

    @property
    def verifier(self) -> VerifierName:
        """Which verifier judges a block under this law."""
        ...

    @property
    def reads_raw_rows(self) -> bool:
        """Whether thresholds read the model's rows before temperature and truncation."""
        ...

    def judge(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return (`is_kept`, `accept_prob`) of the drafted columns; statistics are computed once.

        Args:
            rows: rows [..., num_columns].
            draft_columns: [...], integer column of each drafted token.
        """
        ...

    def accept_prob(self, rows: RowPair, draft_columns: Array) -> Array:
        """Return a(x) of the drafted columns.

        Args:
            rows: rows [..., num_columns].
            draft_columns: [...], integer column of each drafted token.

        Returns:
            [...], in [0, 1].
        """
        ...

    def accept_probs(self, rows: RowPair) -> Array:
        """Return a(x) of every column: [..., num_columns]; 0 where neither row has the token."""
        ...

    def is_kept(self, rows: RowPair, draft_columns: Array) -> Array:
        """Return [...], whether the rule keeps the drafted token without a coin."""
        ...

    def recovered_probs(self, rows: RowPair, draft_columns: Array | None = None) -> Array:
        """Return the row drawn from on rejection: [..., num_columns], sums to 1.

        `draft_columns` are the rejected tokens; only `sample_match` depends on them, and without
        them it returns the average over rejected tokens.
        """
        ...

    def emitted_probs(self, rows: RowPair) -> Array:
        """Return the closed form of the row emitted at a drafted position: [..., num_columns]."""
        ...

    def emitted_point(self, rows: RowPair, draft_columns: Array) -> tuple[Array, Array]:
        """Return (columns, probs) of the emitted rows where drafts are point masses: each [...].

        Such a row is the target row with probability moved to one column: `probs` is what that
        column gets, and all others keep their proportions.
        """
        ...

    def acceptance_rate(self, rows: RowPair) -> Array:
        """Return the closed form of A = sum q a: [...]."""
        ...

    def total_variation(self, rows: RowPair) -> Array:
        """Return the closed form of TV(emitted, target): [...]; 0 for an exact law."""
        ...

    def loss(self, rows: RowPair) -> tuple[Array, Array]:
        """Return (TV, KL in nats) of the emitted row against the target row, each [...].

        The same numbers as `emitted_probs` gives, in as few passes over the columns as the law
        allows: the loss meter reads them at every step.
        """
        ...
