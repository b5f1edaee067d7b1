"""Batches: answers packed into rows of one length, in a new order each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from leeway.heads.dataset import Answer
from leeway.heads.network import Packed

HELD_OUT = 0.04
Piece = tuple[int, int, int]
"""Answer, first position, number of positions."""


def split(
    answers: Sequence[Answer], held_out: float = HELD_OUT
) -> tuple[list[Answer], list[Answer]]:
    """Return (training, held out); every so-many-th answer is held out."""
    every = round(1 / held_out)
    kept = [answer for index, answer in enumerate(answers) if index % every != every - 1]
    return kept, [answer for index, answer in enumerate(answers) if index % every == every - 1]


def packed_rows(
    answers: Sequence[Answer], row_len: int, generator: np.random.Generator
) -> list[list[Piece]]:
    """Return rows of pieces: answers one behind the other, long ones and the last one cut."""
    rows: list[list[Piece]] = []
    row: list[Piece] = []
    room = row_len
    for index in generator.permutation(len(answers)):
        answer = answers[int(index)]
        length = len(answer.hidden)
        # Of a long answer a window; where it begins differs from epoch to epoch.
        first = int(generator.integers(0, max(length - row_len, 0) + 1))
        length = min(length, row_len)
        taken = min(length, room)
        if taken >= min(32, length):
            row.append((int(index), first, taken))
            room -= taken
        if room < 32:
            rows.append(row)
            row, room = [], row_len
    return [*rows, row] if row else rows


def batches(
    answers: Sequence[Answer], *, row_len: int, rows: int, seed: int, num_done: int = 0
) -> Iterator[tuple[Packed, int]]:
    """Yield (batch, labelled positions) of one epoch, without its first `num_done` batches."""
    packed = packed_rows(answers, row_len, np.random.default_rng(seed))
    for first in range(num_done * rows, len(packed), rows):
        yield pack(answers, packed[first : first + rows], row_len)


def pack(
    answers: Sequence[Answer], rows: Sequence[Sequence[Piece]], row_len: int
) -> tuple[Packed, int]:
    """Return the rows as tensors, and how many positions have a label at depth 1."""
    size = answers[0].hidden.shape[1]
    token_ids = np.zeros((len(rows), row_len + 1), np.int64)
    hidden = np.zeros((len(rows), row_len, size), np.float16)
    segments = np.full((len(rows), row_len), -1, np.int64)
    positions = np.zeros((len(rows), row_len), np.int64)
    places = np.zeros((len(rows), row_len), np.int64)
    for index, row in enumerate(rows):
        at = 0
        for number, (which, first, length) in enumerate(row):
            answer, place = answers[which], slice(at, at + length)
            # The token behind the last position belongs to it; the next answer overwrites it,
            # which costs that one position its label only (see `labelled`).
            token_ids[index, at : at + length + 1] = answer.token_ids[first : first + length + 1]
            hidden[index, place] = answer.hidden[first : first + length]
            segments[index, place] = number
            positions[index, place] = np.arange(length)
            places[index, place] = np.arange(length) + first - answer.start
            at += length
    arrays = (token_ids, hidden, segments, positions, places)
    batch = Packed(*(torch.from_numpy(array) for array in arrays))
    return batch, int(labelled(batch, 0).sum())


def labelled(batch: Packed, step: int) -> torch.Tensor:
    """Return [rows, length - 1]: whether depth step + 1 at p is drafted in use and has a label.

    Drafts begin with the answer's second token, its first one given: what is drafted deeper has as
    many drafted tokens before it. The label is the target's row at p + 1, in the same answer.
    """
    here, there = batch.segments[:, :-1], batch.segments[:, 1:]
    is_whole = (here >= 0) & (here == there) & (batch.positions[:, :-1] >= step)
    return is_whole & (batch.places[:, :-1] >= step - 1)
