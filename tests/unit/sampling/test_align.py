"""Aligned rows hold the same probabilities under every combination of compact and dense."""

import numpy as np
import pytest

from leeway.core.types import Draft, Rows
from leeway.sampling.align import align, expand

VOCAB = 6
TARGET = np.array([[0.0, 0.5, 0.5, 0, 0, 0], [0, 0, 1.0, 0, 0, 0], [0, 0.25, 0.75, 0, 0, 0]])
DRAFT = np.array([[0.0, 0, 0.4, 0, 0.6, 0], [0, 0, 0, 0, 1.0, 0]])


def target(compact):
    return Rows(TARGET[:, [1, 2]], np.array([1, 2])) if compact else Rows(TARGET)


def draft(kind):
    rows = {
        "point": None,
        "compact": Rows(DRAFT[:, [2, 4]], np.array([2, 4])),
        "dense": Rows(DRAFT),
    }[kind]
    return Draft((2, 4), rows)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("kind", ["point", "compact", "dense"])
def test_every_combination_means_the_same(compact, kind):
    aligned = align(target(compact), draft(kind), VOCAB)
    assert (aligned.token_ids is None) == (not compact or kind == "dense")
    assert [aligned.token_id(int(column)) for column in aligned.draft_columns] == [2, 4]
    whole = expand(aligned, VOCAB)
    assert whole.token_ids is None
    assert np.array_equal(whole.target_probs, TARGET)
    expected = np.eye(VOCAB)[[2, 4]] if kind == "point" else DRAFT
    assert np.array_equal(whole.draft_probs, expected)
    assert whole.draft_columns.tolist() == [2, 4]


@pytest.mark.parametrize("compact", [True, False])
def test_an_empty_draft_leaves_the_bonus_row(compact):
    row = Rows(target(compact).probs[2:], target(compact).token_ids)
    aligned = align(row, Draft(()), VOCAB)
    assert aligned.draft_probs.shape[0] == 0 and len(aligned.draft_columns) == 0
    assert np.array_equal(expand(aligned, VOCAB).target_probs, TARGET[2:])
