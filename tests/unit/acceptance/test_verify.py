"""Verdicts: counts, provenance, deferral and which coins are thrown."""

import numpy as np
import pytest
from tests.support.law_cases import build

from leeway.acceptance.base import RowPair
from leeway.acceptance.verify import verify
from leeway.core.rng import Purpose

P = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
Q = np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.6, 0.2, 0.2]])
BONUS = np.array([0.0, 0.0, 1.0])


class Scripted:
    """Coins that answer from a script and note what was asked."""

    def __init__(self, accepts=()):
        self._accepts = list(accepts)
        self.thrown = []

    def accepts(self, probability, *, step, row, purpose):
        self.thrown.append((purpose, step, row, round(float(probability), 9)))
        return self._accepts.pop(0)

    def draw(self, probs, *, step, row, purpose):
        self.thrown.append((purpose, step, row, np.round(probs, 9).tolist()))
        return int(np.argmax(probs))


def judge(law, drafted, coins, rows=None):
    rows = rows or RowPair(P[: len(drafted)], Q[: len(drafted)])
    return verify(law, rows, BONUS, np.array(drafted, dtype=np.int64), coins, 7)


def test_all_accepted_gives_the_bonus():
    coins = Scripted([True])
    verdict = judge(build("rejection"), [2, 1], coins)
    assert (verdict.num_accepted, verdict.next_column, verdict.is_bonus) == (2, 2, True)
    assert verdict.deferred == (True, False)
    assert coins.thrown == [
        (Purpose.ACCEPT, 7, 0, 0.4),
        (Purpose.BONUS, 7, 2, [0, 0, 1]),
    ]


def test_the_first_rejection_ends_the_block():
    coins = Scripted([False])
    verdict = judge(build("rejection"), [1, 1, 0], coins)
    assert (verdict.num_accepted, verdict.next_column, verdict.is_bonus) == (2, 2, False)
    assert verdict.deferred == (False, False, True)
    assert coins.thrown == [
        (Purpose.ACCEPT, 7, 2, round(1 / 3, 9)),
        (Purpose.RECOVER, 7, 2, [0, 0, 1]),
    ]


def test_certain_outcomes_throw_no_coin():
    coins = Scripted()
    verdict = judge(build("tokenv3", alpha=0.1, off_set="redraw"), [2], coins)
    assert (verdict.num_accepted, verdict.deferred) == (0, (True,))
    assert [purpose for purpose, *_ in coins.thrown] == [Purpose.RECOVER]


@pytest.mark.parametrize("name", ["rejection", "block", "sample_match"])
def test_without_drafts_only_the_bonus_is_drawn(name):
    coins = Scripted()
    verdict = judge(build(name), [], coins)
    assert (verdict.num_accepted, verdict.next_column, verdict.is_bonus) == (0, 2, True)
    assert verdict.deferred == ()
    assert coins.thrown == [(Purpose.BONUS, 7, 0, [0, 0, 1])]


def test_match_throws_the_coins_of_plain_decoding():
    coins = Scripted()
    verdict = judge(build("sample_match"), [0, 1, 0], coins)
    assert (verdict.num_accepted, verdict.next_column, verdict.is_bonus) == (2, 2, False)
    assert verdict.deferred == (True, True, True)
    assert [key[:3] for key in coins.thrown] == [(Purpose.BONUS, step, 0) for step in (7, 8, 9)]


def test_match_with_all_accepted():
    coins = Scripted()
    verdict = judge(build("sample_match"), [0, 1, 2], coins)
    assert (verdict.num_accepted, verdict.next_column, verdict.is_bonus) == (3, 2, True)
    assert len(verdict.deferred) == 3


def test_greedy_match_throws_nothing():
    coins = Scripted()
    verdict = judge(build("greedy_match"), [0, 1, 0], coins)
    assert (verdict.num_accepted, verdict.next_column) == (2, 2)
    assert verdict.deferred == (False, False, True)
    assert judge(build("greedy_match"), [0, 1, 2], coins).is_bonus
    assert coins.thrown == []


def test_block_consults_coins_from_the_end():
    # P_1 = 0.4 (token 2: 0.2/0.5), P_2 = 0.4, P_3 = 0.4 * 0.2/0.6
    coins = Scripted([False, True])
    verdict = judge(build("block"), [2, 1, 0], coins)
    assert (verdict.num_accepted, verdict.is_bonus) == (2, False)
    assert verdict.deferred == (True, True, True)
    leftover = np.maximum(0.4 * P[2] - Q[2], 0)
    threshold = leftover.sum() / (leftover.sum() + 0.6)
    assert coins.thrown == [
        (Purpose.ACCEPT, 7, 2, round(0.4 / 3, 9)),
        (Purpose.ACCEPT, 7, 1, round(threshold, 9)),
        (Purpose.RECOVER, 7, 2, [0, 0, 1]),
    ]


def test_block_keeps_without_a_coin_where_the_path_weight_is_one():
    coins = Scripted()
    verdict = judge(build("block"), [0, 1], coins)
    assert (verdict.num_accepted, verdict.is_bonus, verdict.deferred) == (2, True, (False, False))
    assert [purpose for purpose, *_ in coins.thrown] == [Purpose.BONUS]


def test_block_may_reject_all():
    coins = Scripted([False, False, False])
    verdict = judge(build("block"), [2, 1, 0], coins)
    assert (verdict.num_accepted, verdict.is_bonus, verdict.deferred) == (0, False, (True,))
    assert coins.thrown[-1] == (Purpose.RECOVER, 7, 0, [1, 0, 0])


def test_block_with_an_impossible_draft_token_rejects_it_without_a_coin():
    rows = RowPair(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))
    coins = Scripted()
    verdict = judge(build("block"), [1], coins, rows)
    assert (verdict.num_accepted, verdict.next_column) == (0, 0)
    assert [purpose for purpose, *_ in coins.thrown] == [Purpose.RECOVER]


@pytest.mark.parametrize("verifier", ["token", "block"])
def test_raw_rows_reach_the_recovered_row(verifier):
    law = build("tokenv3", alpha=0.0, off_set="pi", rows="raw", verifier=verifier)
    raw = np.array([[0.4, 0.6, 0.0]])
    rows = RowPair(P[:1], Q[:1], threshold_target_probs=raw, threshold_draft_probs=raw)
    coins = Scripted([False])
    verdict = judge(law, [2], coins, rows)
    assert verdict.num_accepted == 0
    pi = np.array([0.7 * 0.5, 0.3 + 0.7 * 0.3, 0.7 * 0.2])
    residual = np.maximum(pi - Q[0], 0)
    assert coins.thrown[-1][3] == np.round(residual / residual.sum(), 9).tolist()
