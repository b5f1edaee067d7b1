import math

import numpy as np
import pytest
from tests.support.law_cases import build

from leeway.acceptance.base import RowPair
from leeway.acceptance.loss import draft_total_variation, loss

ROWS = RowPair(
    np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]), np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
)


class NoArithmetic:
    """A law that may only be asked what it is."""

    info = build("rejection").info


def test_an_exact_law_costs_nothing_and_is_not_even_asked():
    tv, kl = loss(NoArithmetic(), ROWS)
    assert tv.tolist() == kl.tolist() == [0, 0]


def test_a_budget_is_what_the_meter_shows():
    tv, kl = loss(build("tv_budget", budget=0.1), ROWS)
    assert tv == pytest.approx([0.1, 0.1])
    expected = sum(
        e * math.log(e / p) for e, p in zip([0.4, 0.3, 0.3], [0.5, 0.3, 0.2], strict=True)
    )
    assert kl[0] == pytest.approx(expected)
    assert kl[1] == math.inf


def test_greedy_match_is_measured_against_the_distribution_it_does_not_follow():
    tv, kl = loss(build("greedy_match"), ROWS)
    assert tv == pytest.approx([0.5, 0])
    assert kl == pytest.approx([math.log(2), 0])


def test_draft_total_variation():
    assert draft_total_variation(ROWS) == pytest.approx([0.3, 1])


def test_no_rows_no_numbers():
    empty = RowPair(np.empty((0, 3)), np.empty((0, 3)))
    assert all(value.shape == (0,) for value in loss(build("lenient", leniency=0.5), empty))
