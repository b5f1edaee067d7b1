"""End tokens are impossible in the first rows, over whole and reduced vocabularies."""

import numpy as np
import pytest

from leeway.core.types import Draft, Rows
from leeway.sampling.min_tokens import ban_end, cut_at_end

LOGITS = np.arange(8.0).reshape(2, 4)


def test_only_the_first_rows_and_only_end_tokens_change():
    banned = ban_end(LOGITS, frozenset({3, 1}), 1)
    expected = np.array([[0.0, -np.inf, 2.0, -np.inf], [4.0, 5.0, 6.0, 7.0]])
    np.testing.assert_array_equal(banned, expected)
    assert np.isfinite(LOGITS).all()


def test_columns_are_found_by_their_ids():
    ids = np.array([2, 5, 7, 9])
    np.testing.assert_array_equal(
        np.isneginf(ban_end(LOGITS, frozenset({7, 8}), 5, ids)),
        [[False, False, True, False]] * 2,
    )


def test_without_end_tokens_nothing_changes():
    np.testing.assert_array_equal(ban_end(LOGITS, frozenset(), 2), LOGITS)


@pytest.mark.parametrize(
    ("num_banned", "kept"), [(0, (1, 3, 3)), (1, (1, 3, 3)), (2, (1,)), (9, (1,))]
)
def test_a_point_mass_is_cut_before_an_end_that_comes_too_early(num_banned, kept):
    assert cut_at_end(Draft((1, 3, 3)), frozenset({3}), num_banned).token_ids == kept


def test_a_sampled_draft_is_left_alone():
    draft = Draft((3,), Rows(np.ones((1, 1)), np.array([3])))
    assert cut_at_end(draft, frozenset({3}), 2) is draft
