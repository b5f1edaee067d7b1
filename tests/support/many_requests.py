"""Batches of blocks for `verify_many`: random ones, and every draft and coin of small tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from leeway.acceptance.base import Law, RowPair
from leeway.acceptance.blocks import Blocks
from leeway.acceptance.verify_block import verify_block
from leeway.acceptance.verify_many import ManyVerdicts, verify_many
from leeway.acceptance.verify_token import verify_token
from leeway.core.rng import Purpose, invert_cdf
from tests.support.array_kinds import ArrayKind, numbers
from tests.support.toy_decoding import Prefix, Tables

_EDGE = 1e-9  # how far inside a piece of [0, 1) its ends are tried, as a share of its length


@dataclass(frozen=True)
class Batch:
    """One block of each of several requests, as NumPy arrays."""

    rows: RowPair
    columns: np.ndarray
    lengths: np.ndarray
    next_probs: np.ndarray | None
    coins: np.ndarray
    next_coins: np.ndarray
    gap: int = 0  # rows that lie behind each block and belong to nobody

    @property
    def first_rows(self) -> np.ndarray:
        """Row of each request's first draft token."""
        return np.cumsum(self.lengths + self.gap) - self.lengths - self.gap

    def blocks(self, kind: ArrayKind) -> Blocks:
        """Return where the rows lie."""
        return Blocks(kind.array(self.first_rows), kind.array(self.lengths), self.coins.shape[1])

    def verify(self, law: Law, kind: ArrayKind) -> ManyVerdicts:
        """Return the verdicts, reached on arrays of that kind."""
        return verify_many(
            law,
            kind.rows(self.rows),
            kind.array(self.columns),
            self.blocks(kind),
            None if self.next_probs is None else kind.array(self.next_probs),
            kind.array(self.coins),
            kind.array(self.next_coins),
        )

    def alone(self, request: int) -> Batch:
        """Return the batch of one request."""
        first = self.first_rows[request]
        own = slice(first, first + self.lengths[request])
        one = slice(request, request + 1)
        return Batch(
            self.rows.part(own),
            self.columns[own],
            self.lengths[one],
            None if self.next_probs is None else self.next_probs[one],
            self.coins[one],
            self.next_coins[one],
        )


def random_batch(lengths, vocab_size, seed, gap=0, dtype=np.float64) -> Batch:
    """Return blocks of given lengths with random rows, some with holes, and random coins."""
    generator = np.random.default_rng(seed)
    lengths = np.array(lengths, dtype=np.int64)
    num_rows = int(np.sum(lengths + gap))

    def rows(num: int) -> np.ndarray:
        probs = generator.dirichlet(np.full(vocab_size, 0.7), size=num) * 0.98 + 0.02 / vocab_size
        holes = generator.random(num) < 1 / 4
        probs[holes, generator.integers(vocab_size, size=num)[holes]] = 0.0
        return (probs / probs.sum(axis=-1, keepdims=True)).astype(dtype)

    draft = rows(num_rows)
    columns = np.array([generator.choice(vocab_size, p=row / row.sum()) for row in draft])
    return Batch(
        RowPair(rows(num_rows), draft),
        columns.astype(np.int64),
        lengths,
        rows(len(lengths)),
        generator.random((len(lengths), int(lengths.max(initial=0)))),
        generator.random(len(lengths)),
        gap,
    )


class GivenCoins:
    """The coins of one request of a batch, for `verify`."""

    def __init__(self, coins: np.ndarray, next_coin: float) -> None:
        self._coins, self._next_coin = coins, next_coin

    def accepts(self, probability: float, *, step: int, row: int, purpose: Purpose) -> bool:
        return bool(self._coins[row] < probability)

    def draw(self, probs: np.ndarray, *, step: int, row: int, purpose: Purpose) -> int:
        return invert_cdf(probs, self._next_coin)


class _Probe:
    """Coins that accept up to a position, and note every threshold and row on the way."""

    def __init__(self, num_accepted: int) -> None:
        self._num_accepted = num_accepted
        self.thresholds: dict[int, float] = {}
        self.rows: list[np.ndarray] = []

    def accepts(self, probability: float, *, step: int, row: int, purpose: Purpose) -> bool:
        self.thresholds[row] = probability
        return row < self._num_accepted

    def draw(self, probs: np.ndarray, *, step: int, row: int, purpose: Purpose) -> int:
        self.rows.append(probs)
        return 0


def emitted_law(
    law: Law, tables: Tables, max_len: int, kind: ArrayKind
) -> dict[int, dict[Prefix, float]]:
    """Return, for each block length, the law of what a block emits, over all drafts and coins.

    [0, 1) of every coin is cut where `verify` says that its outcome changes, and both ends of each
    piece are tried, each with half the piece's weight. All lengths are judged as one batch.
    """
    drafts = list(_drafts(tables, max_len))
    pieces = [_pieces(law, tables, draft) for draft, _ in drafts]
    verdicts = _all_at_once(tables, [draft for draft, _ in drafts], pieces, max_len).verify(
        law, kind
    )
    ends = np.cumsum([len(weights) for _, weights in pieces])
    accepted = np.split(numbers(verdicts.num_accepted), ends[:-1])
    columns = np.split(numbers(verdicts.next_columns), ends[:-1])
    laws: dict[int, dict[Prefix, float]] = {length: {} for length in range(max_len + 1)}
    for place, (draft, probability) in enumerate(drafts):
        size = tables.vocab_size
        codes = accepted[place] * size + columns[place]
        weights = np.bincount(codes, weights=probability * pieces[place][1])
        for code in np.flatnonzero(weights).tolist():
            outcome, own = (*draft[: code // size], code % size), laws[len(draft)]
            own[outcome] = own.get(outcome, 0.0) + float(weights[code])
    return laws


def _all_at_once(
    tables: Tables,
    drafts: list[Prefix],
    pieces: list[tuple[np.ndarray, np.ndarray]],
    max_len: int,
) -> Batch:
    """Return the batch that holds every draft once for each of its coins."""
    targets, draft_rows, columns, coins = [], [], [], []
    for draft, (points, _) in zip(drafts, pieces, strict=True):
        rows, num_points = _rows(tables, draft), len(points)
        targets.append(np.tile(rows.target_probs, (num_points, 1)))
        draft_rows.append(np.tile(rows.draft_probs, (num_points, 1)))
        columns.append(np.tile(np.array(draft, dtype=np.int64), num_points))
        padding = np.full((num_points, max_len - len(draft)), np.nan)
        coins.append(np.concatenate([points[:, :-1], padding], axis=1))
    sizes = [len(points) for points, _ in pieces]
    return Batch(
        RowPair(np.concatenate(targets), np.concatenate(draft_rows)),
        np.concatenate(columns),
        np.repeat(np.array([len(draft) for draft in drafts]), sizes),
        np.repeat(np.array([tables.target[draft] for draft in drafts]), sizes, axis=0),
        np.concatenate(coins),
        np.concatenate([points[:, -1] for points, _ in pieces]),
    )


def _drafts(tables: Tables, max_len: int) -> Iterator[tuple[Prefix, float]]:
    """Return every draft of up to `max_len` tokens with its probability."""
    for length in range(max_len + 1):
        for draft in itertools.product(range(tables.vocab_size), repeat=length):
            steps = [tables.draft[draft[:place]][token] for place, token in enumerate(draft)]
            if np.prod(steps) > 0:
                yield draft, float(np.prod(steps))


def _pieces(law: Law, tables: Tables, draft: Prefix) -> tuple[np.ndarray, np.ndarray]:
    """Return coins ([num_points, len(draft) + 1], the last draws) and their weights."""
    judge = verify_block if law.verifier == "block" else verify_token
    cuts: list[set[float]] = [set() for _ in range(len(draft) + 1)]
    for num_accepted in range(len(draft) + 1):
        probe = _Probe(num_accepted)
        columns = np.array(draft, dtype=np.int64)
        judge(law, _rows(tables, draft), tables.target[draft], columns, probe, 0)
        for row, threshold in probe.thresholds.items():
            cuts[row].add(float(threshold))
        for probs in probe.rows:
            cuts[-1].update(np.cumsum(probs / probs.sum()).tolist())
    axes = [_ends(own) for own in cuts]
    points = np.meshgrid(*(points for points, _ in axes), indexing="ij")
    weights = np.meshgrid(*(weights for _, weights in axes), indexing="ij")
    return (
        np.stack([one.ravel() for one in points], axis=-1),
        np.prod([one.ravel() for one in weights], axis=0),
    )


def _ends(cuts: set[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of every piece of [0, 1), and half its length each."""
    edges = np.array([0.0, *sorted(cut for cut in cuts if 0 < cut < 1), 1.0])
    widths = np.diff(edges)
    real = widths > 1e-14  # shorter ones come from rounding
    low, width = edges[:-1][real], widths[real]
    points = np.concatenate([low + _EDGE * width, low + (1 - _EDGE) * width])
    return points, np.concatenate([width, width]) / 2


def _rows(tables: Tables, draft: Prefix) -> RowPair:
    """Return the rows of a draft, [len(draft), vocab_size]."""
    shape = (len(draft), tables.vocab_size)
    prefixes = [draft[:place] for place in range(len(draft))]
    return RowPair(
        np.array([tables.target[prefix] for prefix in prefixes]).reshape(shape),
        np.array([tables.draft[prefix] for prefix in prefixes]).reshape(shape),
    )
