"""The self-check: right laws pass, planted wrong ones do not."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from tests.support.law_cases import EXACT as EXACT_LAWS
from tests.support.law_cases import OTHER_LAWS, SET_LAWS, label, under

from leeway.acceptance.base import RowPair
from leeway.acceptance.exact import REJECTION, Rejection
from leeway.acceptance.registry import build_law
from leeway.core.errors import BackendError
from leeway.vllm import judge, self_check
from leeway.vllm.self_check import check_law, chi_square_limit

CPU = torch.device("cpu")
EXACT = Rejection(info=REJECTION, options={})
LAWS = [*EXACT_LAWS, *SET_LAWS, *OTHER_LAWS, under(OTHER_LAWS[2], "block")]


@pytest.mark.parametrize("acceptance", LAWS, ids=label)
def test_every_law_emits_its_closed_form(acceptance):
    law = build_law(acceptance)
    check_law(law, CPU, has_rows=True)
    if not law.info.needs_draft_rows:
        check_law(law, CPU, has_rows=False)


@pytest.mark.parametrize("law", [build_law(one) for one in SET_LAWS[:2]], ids=["redraw", "pi"])
def test_laws_on_raw_rows(law):
    check_law(replace(law, reads_raw_rows=True), CPU, has_rows=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eager(Rejection):
    """Accepts a little more than it says."""

    def judge(self, rows, draft_columns):
        kept, accept = Rejection.judge(self, rows, draft_columns)
        return kept, accept + 0.08 * (1 - accept) * (accept > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redraws(Rejection):
    """Draws from p after a rejection, as an exact law must not."""

    def recovered_probs(self, rows, draft_columns=None):
        return rows.target_probs


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks(Rejection):
    """Now and then keeps a token that the target's row gives nothing."""

    def judge(self, rows, draft_columns):
        kept, accept = Rejection.judge(self, rows, draft_columns)
        return kept, accept.clip(0.002)


@pytest.mark.parametrize(
    ("kind", "message"),
    [(Eager, "differs"), (Redraws, "its first token"), (Leaks, "where it has no probability")],
    ids=["eager", "redraws", "leaks"],
)
def test_a_planted_wrong_law_is_caught(kind, message):
    with pytest.raises(BackendError, match=message):
        check_law(kind(info=REJECTION, options={}), CPU, has_rows=True)


def test_a_coin_used_twice_is_caught(monkeypatch):
    right = judge.verify_many

    def reused(law, rows, ids, blocks, bonus, accept, recover):
        return right(law, rows, ids, blocks, bonus, accept, accept[:, 0])

    monkeypatch.setattr(judge, "verify_many", reused)
    with pytest.raises(BackendError, match="its first token"):
        check_law(EXACT, CPU, has_rows=True)


def test_a_wrong_greedy_path_is_caught(monkeypatch):
    right = judge._match

    def shifted(step, blocks):
        verdicts = right(step, blocks)
        return replace(verdicts, next_columns=verdicts.next_columns + 1)

    monkeypatch.setattr(judge, "_match", shifted)
    with pytest.raises(BackendError, match="temperature 0"):
        check_law(EXACT, CPU, has_rows=True)


@pytest.mark.parametrize("degrees", [1, 2, 7, 30])
def test_a_false_alarm_is_rarer_than_one_in_a_billion(degrees):
    assert 1e-12 < chi2.sf(chi_square_limit(degrees), degrees) < 1e-9


def test_the_reference_is_computed_apart_from_torch():
    case = self_check._case(True)
    emitted = EXACT.emitted_probs(RowPair(case.target_probs, case.draft_probs))
    assert isinstance(emitted, np.ndarray)
    assert emitted.dtype == np.float64
