"""Keep-sets against their published definitions, written out token by token."""

import math

import numpy as np
import pytest

from leeway.acceptance.keep_sets import DraftNearPeak, Floor, Ranked, Typical, log_gap_scale

GENERATOR = np.random.default_rng(5)
ROWS = [GENERATOR.dirichlet(np.full(6, sharpness), size=2) for sharpness in (0.2, 1.0, 4.0) * 8]


def typical(p, q, delta, eps):
    entropy = -sum(v * math.log(v) for v in p if v > 0)
    return [v > min(eps, delta * math.exp(-entropy)) for v in p]


def rank_of(p, column):
    """One-based; the lower column ranks first among equals."""
    return 1 + sum(v > p[column] or (v == p[column] and c < column) for c, v in enumerate(p))


CASES = [
    (Typical(0.7, 1.0), lambda p, q: typical(p, q, 0.7, 1.0)),
    (Typical(0.3, 0.09), lambda p, q: typical(p, q, 0.3, 0.09)),
    (DraftNearPeak(0.3), lambda p, q: [v >= max(p) - 0.3 for v in q]),
    (Floor(gap=0.3), lambda p, q: [v >= max(p) - 0.3 for v in p]),
    (Floor(gap=-0.1), lambda p, q: [False for _ in p]),
    (Floor(scale=0.4), lambda p, q: [v >= 0.4 * max(p) for v in p]),
    (Floor(scale=log_gap_scale(1.2)), lambda p, q: [math.log(max(p) / v) <= 1.2 for v in p]),
    (Floor(scale=0.0, base=0.3), lambda p, q: [v >= 0.3 for v in p]),
    (
        Ranked(Floor(gap=0.9), 2),
        lambda p, q: [rank_of(p, c) <= 2 and v >= max(p) - 0.9 for c, v in enumerate(p)],
    ),
    (
        Ranked(Floor(scale=0.5), 3),
        lambda p, q: [rank_of(p, c) <= 3 and v >= 0.5 * max(p) for c, v in enumerate(p)],
    ),
    (Ranked(Floor(gap=0.2), 60), lambda p, q: [v >= max(p) - 0.2 for v in p]),
]


@pytest.mark.parametrize(("keep_set", "definition"), CASES, ids=[str(case[0]) for case in CASES])
def test_sets_are_their_definitions(keep_set, definition):
    for target, draft in ROWS:
        expected = definition(target.tolist(), draft.tolist())
        mask = keep_set.mask(target, draft)
        assert mask.tolist() == expected
        tiled = (np.tile(target, (6, 1)), np.tile(draft, (6, 1)))
        assert keep_set.contains(*tiled, np.arange(6)).tolist() == expected


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_rank_breaks_ties_by_the_lower_column(rank):
    target = np.array([[0.2, 0.3, 0.2, 0.2, 0.1], [0.2, 0.2, 0.2, 0.2, 0.2]])
    keep_set = Ranked(Floor(scale=0.0), rank)
    mask = keep_set.mask(target, target)
    assert mask.sum(axis=-1).tolist() == [rank, rank]
    for row, probs in enumerate(target.tolist()):
        assert mask[row].tolist() == [rank_of(probs, column) <= rank for column in range(5)]
        tiled = np.tile(target[row], (5, 1))
        assert np.array_equal(keep_set.contains(tiled, tiled, np.arange(5)), mask[row])


@pytest.mark.parametrize(
    "keep_set",
    [Floor(gap=1.0), Floor(scale=0.0), Ranked(Floor(gap=1.0), 3), Ranked(Floor(scale=0.0), 9)],
)
def test_no_set_over_the_target_row_holds_a_token_it_rules_out(keep_set):
    target = np.array([0.0, 0.7, 0.3, 0.0])
    assert keep_set.mask(target, target).tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("keep_set", "kept"),
    [
        (Typical(1e9, 0.5), [False, False, False]),
        (Typical(1e9, 0.25), [True, False, False]),
        (Floor(gap=0.25), [True, True, True]),
        (Floor(scale=0.5), [True, True, True]),
        (Floor(scale=0.0, base=0.25), [True, True, True]),
        (DraftNearPeak(0.25), [True, True, True]),
    ],
)
def test_boundaries_are_strict_for_typical_and_inclusive_for_floors(keep_set, kept):
    target = np.array([0.5, 0.25, 0.25])
    tiled = np.tile(target, (3, 1))
    assert keep_set.mask(target, target).tolist() == kept
    assert keep_set.contains(tiled, tiled, np.arange(3)).tolist() == kept


def test_a_point_mass_is_typical_below_delta_one():
    target = np.eye(3)
    assert Typical(0.99, 1.0).mask(target, target).tolist() == np.eye(3, dtype=bool).tolist()
    assert not Typical(1.0, 1.0).mask(target, target).any()
