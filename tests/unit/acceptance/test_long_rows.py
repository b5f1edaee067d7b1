"""Rows as long as real vocabularies take other paths: the numbers must stay the same."""

import numpy as np
import pytest
from tests.support.law_cases import ALL, build, label, long_rows

from leeway.acceptance.base import RowPair
from leeway.acceptance.keep_sets import Floor, Ranked
from leeway.acceptance.loss import loss
from leeway.acceptance.registry import build_law

NUM_COLUMNS = 5000


def reference_loss(law, rows):
    emitted, p = law.emitted_probs(rows), rows.target_probs
    ratio = np.log(np.where(emitted > 0, emitted, 1) / np.where(emitted > 0, p, 1))
    return 0.5 * np.abs(emitted - p).sum(axis=-1), (emitted * ratio).sum(axis=-1)


@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_t24_loss_equals_the_divergence_of_the_emitted_row(acceptance):
    law, rows = build_law(acceptance), long_rows()
    for value, expected in zip(loss(law, rows), reference_loss(law, rows), strict=True):
        assert value == pytest.approx(expected, abs=1e-10)
    narrow = loss(law, long_rows(np.float32))
    for value, expected in zip(narrow, reference_loss(law, rows), strict=True):
        assert value == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("rank", [1, 3, 40, 156, 157, 4000, 4999, 5000, 9000])
def test_t24_ranks_of_long_rows(rank):
    target = np.round(long_rows().target_probs, 5)  # many ties
    target[2] = np.random.default_rng(1).permutation(NUM_COLUMNS) / NUM_COLUMNS
    mask = Ranked(Floor(scale=0.0), rank).mask(target, target)
    for row in range(3):
        order = np.argsort(-target[row], kind="stable")[:rank]
        expected = np.zeros(NUM_COLUMNS, dtype=bool)
        expected[order] = True
        assert np.array_equal(mask[row], expected & (target[row] > 0))


def test_a_batch_of_batches():
    rows = long_rows()
    nested = RowPair(*(np.stack([row, row]) for row in (rows.target_probs, rows.draft_probs)))
    for law in (build("relaxed_top_k", rank=5, ratio=0.1), build("clip", c1=1.3)):
        flat, deep = law.emitted_probs(rows), law.emitted_probs(nested)
        assert np.array_equal(deep[0], flat)
        assert np.array_equal(deep[1], flat)
        assert np.array_equal(loss(law, nested)[1][0], loss(law, rows)[1])
