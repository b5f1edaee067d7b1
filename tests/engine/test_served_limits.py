"""Limits through the served loop, enumerated: every drafted token and every coin.

With max_tokens = k + 2 every later position but the last is judged against a draft, so that what a
limit allows at a position is a function of the tokens before it, and the joint law is a product of
rows: written down here from the plain law's emitted rows, without the code under test. Longer
answers are compared with a slow reference that follows blocks one by one.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.engine.test_served_law import (
    LOSSY,
    PROMPT,
    distance,
    label,
    tables,
    target_law,
)
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.acceptance.base import RowPair
from leeway.acceptance.registry import build_law
from leeway.core.errors import LawError
from leeway.core.limits import Limits
from leeway.core.types import Acceptance, SamplingParams
from leeway.llm import LLM
from leeway.scheduler.limit_state import LimitState

BUDGET = Limits(tv_budget=0.12)
PREFIX = Limits(exact_prefix=2)
SUPPORT = Limits(hard_support=True)
PHASE = Limits(phase="reasoning", phase_begin="b", phase_end="a")
OPENED = Limits(phase="reasoning", phase_begin="a", phase_end="b")
ALL = Limits(0.15, 2, hard_support=True, phase="reasoning", phase_begin="b", phase_end="a")
LEAVING = [
    Acceptance("ensemble", {"weight": 0.5}),
    Acceptance("opt", {"alpha": 0.3}),
    Acceptance("tokenv1", {"alpha": 0.3}),
    Acceptance("tokenv1", {"alpha": 0.3, "off_set": "coin"}),
]


def under(acceptance, verifier):
    return Acceptance(acceptance.law, {**acceptance.options, "verifier": verifier})


def served(table, draft_table, acceptance, limits, *, k, max_tokens, drafter="draft_model", **more):
    """Enumerate the engine: outcome (token ids) to probability, and E[spent]; each receipt held."""

    def run(coins):
        engine = make_engine(
            table,
            drafter=drafter,
            draft_table=draft_table,
            acceptance=acceptance,
            num_speculative_tokens=k,
            make_coins=lambda _: coins,
        )
        request = replace(ask(PROMPT, max_tokens=max_tokens, seed=0, **more), limits=limits)
        deltas = run_all(engine, request)["a"]
        said = deltas[-1].receipt.to_dict()["limits"]
        if limits.tv_budget is not None:
            assert said["tv_spent"] <= limits.tv_budget == said["tv_budget"]
        return token_ids(deltas), said["tv_spent"]

    outcomes = enumerate_outcomes(run)
    law = {}
    for (tokens, _), weight in outcomes.items():
        law[tokens] = law.get(tokens, 0.0) + weight
    return law, sum(spent * weight for (_, spent), weight in outcomes.items())


def is_open(limits, output):
    """Whether a lossy law may act behind this output (tokens are the letters a, b, c ...)."""
    if len(output) < limits.exact_prefix:
        return False
    if limits.phase == "all":
        return True
    letters = "".join(chr(ord("a") + token) for token in (*PROMPT, *output))
    behind_prompt = letters[len(PROMPT) :]
    if letters[len(PROMPT) - 1] == limits.phase_begin:
        return limits.phase_end not in behind_prompt
    return behind_prompt.startswith(limits.phase_begin) and limits.phase_end not in behind_prompt


def emitted_row(law, target, draft, limits, *, may_act, left):
    """The row emitted under the limits, and what it spends."""
    row = law.emitted_probs(RowPair(target[None], draft[None]))[0]
    if limits.hard_support:
        outside = row[target == 0].sum()
        row = np.where(target == 0, 0.0, row)
        missing = np.clip(target - row, 0, None)
        row += outside * missing / missing.sum() if outside > 0 else 0.0
    full = 0.5 * np.abs(row - target).sum()
    share = float(may_act) if left is None or full <= left else may_act * left / full
    return target + share * (row - target), share * full


def limited_product(table, draft_table, acceptance, limits, max_tokens, warp=lambda row: row):
    """The joint law and E[spent] as a product of rows, with a ledger along each path."""
    law = build_law(acceptance)
    product, mean_spent = {}, 0.0
    for outcome in itertools.product(range(len(table[()])), repeat=max_tokens):
        context, probability, spent = PROMPT, 1.0, 0.0
        for index, token in enumerate(outcome):
            row, draft = warp(table[context[-1:]]), warp(draft_table[context[-1:]])
            if index not in (0, max_tokens - 1):
                may_act = is_open(limits, outcome[:index])
                left = None if limits.tv_budget is None else limits.tv_budget - spent
                row, cost = emitted_row(law, row, draft, limits, may_act=may_act, left=left)
                spent += cost
            probability *= row[token]
            context = (*context, token)
        product[outcome] = probability
        mean_spent += probability * spent
    return product, mean_spent


@pytest.mark.parametrize(
    "limits", [BUDGET, PREFIX, PHASE, OPENED], ids=["budget", "prefix", "phase", "opened"]
)
@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_t02_every_law_keeps_its_limits_as_documented(acceptance, verifier, limits):
    table, draft_table = tables(2, seed=11)
    acceptance = under(acceptance, verifier)
    law, spent = served(table, draft_table, acceptance, limits, k=2, max_tokens=4)
    expected, expected_spent = limited_product(table, draft_table, acceptance, limits, 4)
    assert distance(law, expected) < 1e-12
    assert spent == pytest.approx(expected_spent, abs=1e-12)
    assert distance(law, target_law(table, 4)) <= spent + 1e-12


def top_2(row):
    kept = np.where(row >= np.sort(row)[-2], row, 0.0)
    return kept / kept.sum()


@pytest.mark.parametrize("limits", [SUPPORT, ALL], ids=["support", "all"])
@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize("acceptance", LEAVING, ids=label)
def test_hard_support_on_truncated_rows(acceptance, verifier, limits):
    table, draft_table = tables(3, seed=2)
    acceptance = under(acceptance, verifier)
    law, spent = served(table, draft_table, acceptance, limits, k=2, max_tokens=4, top_k=2)
    expected, expected_spent = limited_product(table, draft_table, acceptance, limits, 4, top_2)
    assert distance(law, expected) < 1e-12
    assert spent == pytest.approx(expected_spent, abs=1e-12)
    possible = {outcome for outcome, weight in plain_law(table, 4).items() if weight > 0}
    assert all(outcome in possible for outcome, weight in law.items() if weight > 1e-14)


def plain_law(table, max_tokens):
    truncated = {context: top_2(row) for context, row in table.items()}
    return target_law(truncated, max_tokens)


def test_without_hard_support_the_same_laws_leave_it():
    table, draft_table = tables(3, seed=2)
    for acceptance in LEAVING:
        outcomes, _ = served(table, draft_table, acceptance, PREFIX, k=2, max_tokens=4, top_k=2)
        possible = plain_law(table, 4)
        assert sum(weight for one, weight in outcomes.items() if possible[one] == 0) > 1e-3


@pytest.mark.parametrize("acceptance", LEAVING, ids=label)
def test_the_first_tokens_are_the_targets_own(acceptance):
    table, draft_table = tables(2, seed=11)
    limits = Limits(exact_prefix=3)
    law, _ = served(table, draft_table, acceptance, limits, k=3, max_tokens=5)
    first = {}
    for outcome, weight in law.items():
        first[outcome[:3]] = first.get(outcome[:3], 0.0) + weight
    assert distance(first, target_law(table, 3)) < 1e-12


def reference_law(table, draft_table, acceptance, limits, k, max_tokens):
    """Follow blocks one by one, with the ledger: tokens to probability, and E[spent]."""
    law = build_law(acceptance)
    vocab_size, outcomes, spent_at = len(table[()]), {}, []

    def emit(output, spent, probability):
        if probability == 0:
            return
        if len(output) == max_tokens:
            outcomes[output] = outcomes.get(output, 0.0) + probability
            spent_at.append((spent, probability))
            return
        judge(output, spent, min(k, max_tokens - len(output) - 1), probability)

    def judge(output, spent, num_left, probability):
        last = (*PROMPT, *output)[-1:]
        target, draft = table[last], draft_table[last]
        if num_left == 0:
            for token in range(vocab_size):
                emit((*output, token), spent, probability * target[token])
            return
        left = None if limits.tv_budget is None else limits.tv_budget - spent
        may_act = is_open(limits, output)
        row, cost = emitted_row(law, target, draft, limits, may_act=may_act, left=left)
        rows = RowPair(target[None], draft[None])
        full = float(law.total_variation(rows)[0])
        share = cost / full if full else float(may_act)
        exact = np.minimum(1, target / draft)
        accept = share * law.accept_probs(rows)[0] + (1 - share) * exact
        for token in range(vocab_size):
            kept = draft[token] * accept[token]
            judge((*output, token), spent + cost, num_left - 1, probability * kept)
            emit((*output, token), spent + cost, probability * (row[token] - kept))

    for token in range(vocab_size):
        emit((token,), 0.0, table[PROMPT[-1:]][token])
    return outcomes, sum(spent * weight for spent, weight in spent_at)


@pytest.mark.parametrize("limits", [BUDGET, PHASE], ids=["budget", "phase"])
@pytest.mark.parametrize("acceptance", LOSSY[::2], ids=label)
def test_t02_over_several_blocks_limits_equal_the_slow_reference(acceptance, limits):
    table, draft_table = tables(2, seed=21)
    law, spent = served(table, draft_table, acceptance, limits, k=2, max_tokens=5)
    expected, expected_spent = reference_law(table, draft_table, acceptance, limits, 2, 5)
    assert distance(law, expected) < 1e-12
    assert spent == pytest.approx(expected_spent, abs=1e-12)


@pytest.mark.parametrize("budget", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("drafter", ["draft_model", "ngram"])
@pytest.mark.parametrize("verifier", ["token", "block"])
def test_the_answers_law_lies_within_the_budget(drafter, verifier, budget):
    table, draft_table = tables(2, seed=5)
    acceptance = Acceptance("ensemble", {"weight": 0.1, "verifier": verifier})
    law, spent = served(
        table,
        draft_table,
        acceptance,
        Limits(tv_budget=budget),
        k=2,
        max_tokens=5,
        drafter=drafter,
    )
    moved = distance(law, target_law(table, 5))
    assert moved - 1e-12 <= spent <= budget
    assert budget == 0 or moved > budget / 20


def budget_fault():
    """Distance of the served law from the documented one, and what was spent at most."""
    table, draft_table = tables(2, seed=21)
    acceptance = Acceptance("ensemble", {"weight": 0.3})
    law, _ = served(table, draft_table, acceptance, BUDGET, k=2, max_tokens=5)
    return distance(law, reference_law(table, draft_table, acceptance, BUDGET, 2, 5)[0])


def test_a_share_that_looks_at_the_drafted_token_is_caught(monkeypatch):
    apply = LimitState.apply

    def peeking(self, law, rows, draft_token_ids, output_len):
        rows = apply(self, law, rows, draft_token_ids, output_len)
        if not draft_token_ids:
            return rows
        return replace(rows, lossy_share=rows.lossy_share * np.array(draft_token_ids))

    assert budget_fault() < 1e-12
    monkeypatch.setattr(LimitState, "apply", peeking)
    assert 1e-3 < budget_fault() < 0.5


def test_a_ledger_that_forgets_is_caught(monkeypatch):
    def forget(self, token_ids, loss_tv):
        """Charge nothing."""

    monkeypatch.setattr(LimitState, "advance", forget)
    assert 1e-3 < budget_fault() < 0.5


def test_bonus_tokens_and_positions_without_a_draft_cost_nothing():
    table, _ = tables(2)
    engine = make_engine(table, drafter="none", acceptance=Acceptance("ensemble", {"weight": 0.5}))
    request = replace(ask(PROMPT, max_tokens=4, seed=0), limits=BUDGET)
    said = run_all(engine, request)["a"][-1].receipt.to_dict()["limits"]
    assert said == {
        "tv_budget": 0.12,
        "tv_spent": 0.0,
        "tv_bound": 0.12,
        "exact_prefix": 0,
        "hard_support": False,
        "phase": "all",
    }


class NoCoins:
    """Randomness that must not be asked for."""

    def accepts(self, probability, *, step, row, purpose):
        raise AssertionError("a coin was thrown")

    def draw(self, probs, *, step, row, purpose):
        assert np.count_nonzero(probs) == 1
        return int(np.argmax(probs))


@pytest.mark.parametrize(("budget", "num_other"), [(0.9, 0), (1.0, 1), (2.5, 2)])
def test_at_temperature_0_a_budget_counts_whole_tokens(budget, num_other):
    # The target always says 0, the draft 1; every draft is near enough on raw rows.
    table = {(0,): np.array([0.6, 0.4]), (1,): np.array([0.6, 0.4])}
    draft_table = {(0,): np.array([0.1, 0.9]), (1,): np.array([0.1, 0.9])}
    acceptance = Acceptance("tokenv3", {"alpha": 0.5, "rows": "raw"})
    engine = make_engine(
        {**table, (): table[0,]},
        drafter="draft_model",
        draft_table={**draft_table, (): draft_table[0,]},
        acceptance=acceptance,
        make_coins=lambda _: NoCoins(),
    )
    limits = Limits(tv_budget=budget)
    deltas = run_all(engine, replace(ask(PROMPT, max_tokens=7, temperature=0), limits=limits))["a"]
    said = deltas[-1].receipt.to_dict()["limits"]
    assert token_ids(deltas) == (0, *[1] * num_other, *[0] * (6 - num_other))
    assert said["tv_spent"] == num_other
    assert said["tv_bound"] == min(1, budget)


@pytest.mark.parametrize("law", ["rejection", "block", "sample_match"])
def test_exact_laws_have_nothing_to_spend(law):
    table, draft_table = tables(2, seed=3)
    exact, spent = served(table, draft_table, Acceptance(law), ALL, k=2, max_tokens=4)
    assert spent == 0
    assert distance(exact, target_law(table, 4)) < 1e-12


def test_greedy_decoding_above_temperature_0_can_keep_no_limit_by_position():
    engine = make_engine(tables(2)[0], acceptance=Acceptance("greedy_match"))
    for limits in (BUDGET, PREFIX, PHASE):
        with pytest.raises(LawError, match=r"'greedy_match' at temperature 1 .*allowed"):
            engine.check(replace(ask(PROMPT), limits=limits))
        engine.check(replace(ask(PROMPT, temperature=0), limits=limits))
    request = replace(ask(PROMPT, max_tokens=2, seed=0), limits=SUPPORT)
    said = run_all(engine, request)["a"][-1].receipt.to_dict()["limits"]
    assert said["tv_spent"] is None
    assert said["tv_bound"] is None


def test_python_asks_for_limits_by_call():
    table, draft_table = tables(3)
    law = Acceptance("ensemble", {"weight": 0.1})
    engine = make_engine(table, drafter="draft_model", draft_table=draft_table, acceptance=law)
    llm, sampling = LLM.from_engine(engine), SamplingParams(max_tokens=20, seed=1)
    free, limited = (
        llm.generate([PROMPT], sampling, limits=limits)[0].receipt.to_dict()
        for limits in (None, Limits(tv_budget=0.2))
    )
    assert free["limits"] is None
    assert limited["limits"]["tv_spent"] == pytest.approx(0.2)
    chat = llm.chat([{"role": "user", "content": "ab"}], sampling, limits=Limits(exact_prefix=20))
    assert chat.receipt.to_dict()["limits"]["tv_spent"] == 0
