"""Limits on a lossy law: closed forms against enumeration, for every law, off-set and verifier."""

import numpy as np
import pytest
from tests.support.law_cases import LOSSY, build, edge_pairs, is_on_frontier, label, random_pairs

from leeway.acceptance.algebra import total_variation
from leeway.acceptance.base import RowPair
from leeway.acceptance.limits import limit_law, plan_shares
from leeway.acceptance.registry import build_law
from leeway.core.limits import Limits
from leeway.core.types import Acceptance

IN_SUPPORT = Limits(hard_support=True)
BY_SHARE = Limits(tv_budget=0.1)
BOTH = Limits(tv_budget=0.1, hard_support=True)
ON_FRONTIER = [one for one in LOSSY if is_on_frontier(build_law(one))]
PAIRS = {**edge_pairs(), **{str(index): pair for index, pair in enumerate(random_pairs(4, 4))}}


def enumerated(law, rows):
    """Emitted row and acceptance rate by throwing every coin: draft x, accept, else recover."""
    accept = law.accept_probs(rows)
    kept = rows.draft_probs * accept
    emitted = kept + (1 - kept.sum()) * law.recovered_probs(rows)
    return emitted, kept.sum()


def shared(pair, share):
    return RowPair(pair.target_probs, pair.draft_probs, lossy_share=np.asarray(share))


@pytest.mark.parametrize("limits", [IN_SUPPORT, BY_SHARE, BOTH], ids=["support", "share", "both"])
@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_closed_forms_equal_enumeration(acceptance, limits):
    law = limit_law(build_law(acceptance), limits)
    for name, pair in PAIRS.items():
        rows = shared(pair, 0.3)
        emitted, acceptance_rate = enumerated(law, rows)
        tv = total_variation(emitted, pair.target_probs)
        np.testing.assert_allclose(law.emitted_probs(rows), emitted, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(law.acceptance_rate(rows), acceptance_rate, atol=1e-12)
        np.testing.assert_allclose(law.total_variation(rows), tv, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(law.loss(rows)[0], tv, atol=1e-12, err_msg=name)


RAW = [
    Acceptance("tokenv3", {"alpha": 0.5, "rows": "raw"}),
    Acceptance("typical", {"delta": 0.5, "rows": "raw", "verifier": "block"}),
    Acceptance("opt", {"alpha": 0.3, "rows": "raw"}),
]


@pytest.mark.parametrize("acceptance", RAW, ids=label)
def test_laws_that_read_raw_rows_stay_within_the_processed_support(acceptance):
    target, draft = np.array([0.4, 0.35, 0.25]), np.array([0.2, 0.2, 0.6])
    rows = RowPair(np.array([0.6, 0.4, 0.0]), draft, target, draft, lossy_share=np.array(0.3))
    assert build_law(acceptance).emitted_probs(rows)[2] > 0.1
    law = limit_law(build_law(acceptance), BOTH)
    emitted, acceptance_rate = enumerated(law, rows)
    assert emitted[2] == 0
    np.testing.assert_allclose(law.emitted_probs(rows), emitted, atol=1e-12)
    np.testing.assert_allclose(law.acceptance_rate(rows), acceptance_rate, atol=1e-12)
    tv = total_variation(emitted, rows.target_probs)
    np.testing.assert_allclose(law.total_variation(rows), tv, atol=1e-12)


@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_judge_agrees_with_the_accept_probabilities(acceptance):
    law = limit_law(build_law(acceptance), BOTH)
    for pair in PAIRS.values():
        size = len(pair.target_probs)
        tiled = RowPair(*(np.tile(row, (size, 1)) for row in (pair.target_probs, pair.draft_probs)))
        rows = RowPair(tiled.target_probs, tiled.draft_probs, lossy_share=np.full(size, 0.4))
        kept, accept = law.judge(rows, np.arange(size))
        drafted = pair.draft_probs > 0
        expected = law.accept_probs(shared(pair, 0.4))
        np.testing.assert_allclose(accept[drafted], expected[drafted], atol=1e-12)
        assert not np.any(kept & (accept < 1))


@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_a_share_of_one_is_the_law_itself_and_zero_the_target(acceptance):
    law = build_law(acceptance)
    limited = limit_law(law, BY_SHARE)
    for pair in PAIRS.values():
        for rows in (pair, shared(pair, 1.0)):
            np.testing.assert_allclose(limited.emitted_probs(rows), law.emitted_probs(pair))
            np.testing.assert_allclose(limited.accept_probs(rows), law.accept_probs(pair))
        nothing = shared(pair, 0.0)
        np.testing.assert_allclose(limited.emitted_probs(nothing), pair.target_probs)
        assert float(limited.total_variation(nothing)) == 0


@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_hard_support_emits_nothing_outside_and_loses_no_more(acceptance):
    law = build_law(acceptance)
    limited = limit_law(law, IN_SUPPORT)
    assert not limited.info.may_leave_support
    for pair in PAIRS.values():
        outside = pair.target_probs == 0
        assert not np.any(limited.emitted_probs(pair)[outside])
        assert not np.any(limited.accept_probs(pair)[outside])
        assert not np.any(limited.recovered_probs(pair)[outside])
        assert float(limited.total_variation(pair)) <= float(law.total_variation(pair)) + 1e-12
        assert np.isfinite(limited.loss(pair)[1])


@pytest.mark.parametrize("acceptance", ON_FRONTIER, ids=label)
def test_limits_keep_a_law_on_the_frontier(acceptance):
    law = build_law(acceptance)
    for pair in PAIRS.values():
        limited, rows = limit_law(law, BOTH), shared(pair, 0.6)
        distance = total_variation(pair.target_probs, pair.draft_probs)
        expected = 1 - distance + limited.total_variation(rows)
        np.testing.assert_allclose(limited.acceptance_rate(rows), expected, atol=1e-12)


def test_laws_that_limits_have_nothing_to_do_with_stay_as_they_are():
    exact, inside = build("rejection"), build("clip", c1=1.4)
    assert limit_law(exact, BOTH) is exact
    assert limit_law(inside, IN_SUPPORT) is inside
    assert limit_law(inside, Limits()) is inside


def test_shares_spend_what_is_left_in_order():
    # ensemble with weight 1/2 moves half of D = 0.4: each row costs 0.2
    law = limit_law(build("ensemble", weight=0.5), BY_SHARE)
    rows = RowPair(np.tile([0.7, 0.3], (4, 1)), np.tile([0.3, 0.7], (4, 1)))
    everywhere = [True] * 4
    shares = plan_shares(law, rows, everywhere, 0.3, is_whole=False)
    np.testing.assert_allclose(shares, [1, 0.5, 0, 0], atol=1e-14)
    shares = plan_shares(law, rows, [False, True, False, True], 0.3, is_whole=False)
    np.testing.assert_allclose(shares, [0, 1, 0, 0.5], atol=1e-14)
    assert plan_shares(law, rows, everywhere, 0.3, is_whole=True).tolist() == [1, 0, 0, 0]
    assert plan_shares(law, rows, everywhere, None, is_whole=False).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_never_spends_more_than_is_left(dtype):
    law = limit_law(build("ensemble", weight=0.3), BY_SHARE)
    generator = np.random.default_rng(0)
    for _ in range(200):
        target, draft = generator.dirichlet(np.ones(5), size=(2, 3)).astype(dtype)
        left = float(generator.uniform(0, 0.5))
        rows = RowPair(target, draft)
        shares = plan_shares(law, rows, [True] * 3, left, is_whole=False)
        spent = law.loss(RowPair(target, draft, lossy_share=shares))[0]
        assert shares.dtype == dtype
        assert sum(float(value) for value in spent) <= left
