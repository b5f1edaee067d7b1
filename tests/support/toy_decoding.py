"""A decoder in twenty lines over tables of rows: what the verifiers are judged in."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leeway.acceptance.base import Law, RowPair
from leeway.acceptance.verdict import Verdict
from leeway.acceptance.verify import verify
from leeway.core.rng import Coins, Purpose

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Tables:
    """Target and draft row behind every prefix of up to `depth` tokens."""

    vocab_size: int
    depth: int
    target: dict[Prefix, np.ndarray]
    draft: dict[Prefix, np.ndarray]


def random_tables(vocab_size: int, depth: int, seed: int = 0, *, holes: bool = False) -> Tables:
    """Return random tables; with `holes`, a third of the rows lack a token each."""
    generator = np.random.default_rng(seed)

    def row() -> np.ndarray:
        probs = generator.dirichlet(np.full(vocab_size, 0.8)) * 0.98 + 0.02 / vocab_size
        if holes and generator.random() < 1 / 3:
            probs[generator.integers(vocab_size)] = 0.0
            probs /= probs.sum()
        return probs

    prefixes = [
        prefix
        for length in range(depth + 1)
        for prefix in itertools.product(range(vocab_size), repeat=length)
    ]
    target = {prefix: row() for prefix in prefixes}
    draft = {prefix: row() for prefix in prefixes}
    return Tables(vocab_size, depth, target, draft)


def point_mass_drafts(tables: Tables) -> Tables:
    """Return the same target with drafts that are certain of their most likely token."""
    draft = {
        prefix: np.eye(tables.vocab_size)[row.argmax()] for prefix, row in tables.draft.items()
    }
    return Tables(tables.vocab_size, tables.depth, tables.target, draft)


def judge_block(
    law: Law,
    tables: Tables,
    prefix: Prefix,
    num_draft_tokens: int,
    coins: Coins,
    *,
    bonus_probs: np.ndarray | None = None,
    believed_draft: Callable[[np.ndarray], np.ndarray] = lambda row: row,
) -> tuple[Prefix, Verdict]:
    """Draft one block behind `prefix` and verify it; return the new prefix and the verdict.

    `bonus_probs` replaces the target's row behind the block; `believed_draft` falsifies the draft
    rows that the verifier sees.
    """
    drafted: Prefix = ()
    for row in range(num_draft_tokens):
        probs = tables.draft[prefix + drafted]
        column = coins.draw(probs, step=len(prefix), row=row, purpose=Purpose.DRAFT)
        drafted = (*drafted, column)
    shape = (num_draft_tokens, tables.vocab_size)
    seen = [prefix + drafted[:row] for row in range(num_draft_tokens)]
    rows = RowPair(
        np.array([tables.target[one] for one in seen]).reshape(shape),
        np.array([believed_draft(tables.draft[one]) for one in seen]).reshape(shape),
    )
    if bonus_probs is None:
        bonus_probs = tables.target[prefix + drafted]
    columns = np.array(drafted, dtype=np.int64)
    verdict = verify(law, rows, bonus_probs, columns, coins, len(prefix))
    return (*prefix, *drafted[: verdict.num_accepted], verdict.next_column), verdict


def decode(law: Law, tables: Tables, length: int, coins: Coins, **options: object) -> Prefix:
    """Return `length` tokens, all of them at drafted positions: each block is as long as the rest.

    The bonus token of the last block lies behind the end and is dropped, so it is not even drawn.
    """
    certain = np.eye(tables.vocab_size)[0]
    prefix: Prefix = ()
    while len(prefix) < length:
        left = length - len(prefix)
        prefix, _ = judge_block(law, tables, prefix, left, coins, bonus_probs=certain, **options)
    return prefix[:length]


def product_law(row: Callable[[Prefix], np.ndarray], length: int) -> dict[Prefix, float]:
    """Return the joint law of `length` tokens that follow `row(prefix)` each."""
    law: dict[Prefix, float] = {(): 1.0}
    for _ in range(length):
        law = {
            (*prefix, token): weight * float(probability)
            for prefix, weight in law.items()
            for token, probability in enumerate(row(prefix))
        }
    return law


def emitted_row(law: Law, tables: Tables) -> Callable[[Prefix], np.ndarray]:
    """Return the closed-form emitted row behind each prefix, computed once."""
    rows: dict[Prefix, np.ndarray] = {}

    def row(prefix: Prefix) -> np.ndarray:
        if prefix not in rows:
            pair = RowPair(tables.target[prefix], tables.draft[prefix])
            rows[prefix] = law.emitted_probs(pair)
        return rows[prefix]

    return row


def largest_difference(one: dict[Prefix, float], other: dict[Prefix, float]) -> float:
    """Return the largest difference of probability over all outcomes."""
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other})


def distance(one: dict[Prefix, float], other: dict[Prefix, float]) -> float:
    """Return the total variation between two laws."""
    return 0.5 * sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other})
