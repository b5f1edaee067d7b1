"""What drafts are worth: known answers."""

import pytest

from leeway.core.draft_value import PRIOR_WEIGHT, estimated_rate, promises


@pytest.mark.parametrize(
    ("rate", "cost", "expected"),
    [
        (0.5, 0.0, [1.5, 1.75, 1.875]),
        (0.5, 0.25, [1.5 / 1.25, 1.75 / 1.5, 1.875 / 1.75]),
        (1.0, 1.0, [1.0, 1.0, 1.0]),
        (0.0, 1.0, [1 / 2, 1 / 3, 1 / 4]),
    ],
)
def test_a_draft_promises_its_expected_tokens_for_its_cost(rate, cost, expected):
    assert list(promises([rate] * 3, cost)) == pytest.approx(expected, abs=1e-15)


def test_a_deeper_token_is_reached_only_through_those_before_it():
    found = list(promises([0.5, 0.25, 1.0], 0.5))
    assert found == pytest.approx([1.5 / 1.5, 1.625 / 2.0, 1.75 / 2.5], abs=1e-15)
    assert list(promises([], 0.5)) == []


def test_a_rate_moves_from_its_prior_to_what_was_counted():
    assert PRIOR_WEIGHT == 2.0
    assert estimated_rate(0.0, 0.0, 0.3) == pytest.approx(0.3)
    assert estimated_rate(3.0, 4.0, 0.25) == pytest.approx(3.5 / 6.0)
