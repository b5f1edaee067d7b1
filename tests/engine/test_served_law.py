"""The served loop, enumerated: every drafted token and every coin, through the real engine.

Exact laws must give the target's joint law; lossy ones the documented one. The first token comes
from the prefill and is the target's own. With max_tokens = k + 2 every later position but the last
is judged against a draft, whatever was rejected before, and the last is the target's own again: so
the joint law is the product of the law's emitted rows, in closed form. Longer answers are compared
with a slow reference that follows blocks one by one.
"""

import itertools

import numpy as np
import pytest
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.acceptance.base import RowPair
from leeway.acceptance.registry import build_law
from leeway.backends.tabular import random_table
from leeway.core.rng import Purpose
from leeway.core.types import Acceptance, Draft, Rows, SamplingParams
from leeway.drafters.draft_model import ModelDrafter
from leeway.sampling.warp import warp

EXACT = [Acceptance("rejection"), Acceptance("sample_match"), Acceptance("block")]
LOSSY = [
    Acceptance("typical", {"delta": 0.6}),
    Acceptance("typical", {"delta": 0.6, "off_set": "coin"}),
    Acceptance("typical", {"delta": 0.6, "off_set": "argmax"}),
    Acceptance("opt", {"alpha": 0.2}),
    Acceptance("diff", {"alpha": 0.1}),
    Acceptance("tokenv1", {"alpha": 0.2}),
    Acceptance("tokenv2", {"alpha": 0.2}),
    Acceptance("tokenv3", {"alpha": 0.5}),
    Acceptance("tokenv3", {"alpha": 0.5, "off_set": "coin"}),
    Acceptance("relaxed_top_k", {"rank": 2, "ratio": 0.4}),
    Acceptance("threshold", {"floor": 0.3}),
    Acceptance("lenient", {"leniency": 0.5}),
    Acceptance("clip", {"c1": 1.5}),
    Acceptance("tv_budget", {"budget": 0.1}),
    Acceptance("ensemble", {"weight": 0.6}),
]
SAMPLINGS = [
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 2},
    {"temperature": 1.3, "top_p": 0.8},
    {"presence_penalty": 1.0, "repetition_penalty": 1.4},
]
PROMPT = (0,)


def label(acceptance):
    return acceptance.law + "".join(f"-{value}" for value in acceptance.options.values())


def served_law(
    table,
    draft_table,
    acceptance,
    *,
    drafter="draft_model",
    k=2,
    max_tokens=4,
    wrap=None,
    **sampling,
):
    """Enumerate the engine: outcome (token ids) to probability."""

    def run(coins):
        engine = make_engine(
            table,
            drafter=drafter,
            draft_table=draft_table,
            acceptance=acceptance,
            num_speculative_tokens=k,
            make_coins=lambda _: wrap(coins) if wrap else coins,
        )
        request = ask(PROMPT, max_tokens=max_tokens, seed=0, **sampling)
        deltas = run_all(engine, request)["a"]
        deltas[-1].receipt.tally.check()
        return token_ids(deltas)

    return enumerate_outcomes(run)


def target_law(table, max_tokens, prompt=PROMPT):
    """The target's joint law at temperature 1."""
    vocab_size = len(table[()])
    law = {}
    for outcome in itertools.product(range(vocab_size), repeat=max_tokens):
        context, probability = prompt, 1.0
        for token in outcome:
            probability *= table[context[-1:]][token]
            context = (*context, token)
        law[outcome] = probability
    return law


def distance(one, other):
    return 0.5 * sum(abs(one.get(key, 0) - other.get(key, 0)) for key in {*one, *other})


def tables(vocab_size, seed=0):
    return random_table(vocab_size, 1, seed=seed), random_table(vocab_size, 1, seed=seed + 100)


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
@pytest.mark.parametrize(
    ("vocab_size", "k", "max_tokens"),
    [(2, 1, 4), (2, 2, 5), (3, 2, 4), (2, 3, 5), (2, 4, 6), (4, 1, 3)],
)
def test_t02_exact_laws_give_the_targets_joint_law(acceptance, vocab_size, k, max_tokens):
    table, draft_table = tables(vocab_size)
    law = served_law(table, draft_table, acceptance, k=k, max_tokens=max_tokens)
    assert distance(law, target_law(table, max_tokens)) < 1e-12


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
@pytest.mark.parametrize("drafter", ["ngram", "none"])
def test_t02_exact_laws_with_point_mass_drafts(acceptance, drafter):
    table, _ = tables(2, seed=3)
    law = served_law(table, None, acceptance, drafter=drafter, k=3, max_tokens=6)
    assert distance(law, target_law(table, 6)) < 1e-12


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("acceptance", EXACT, ids=label)
def test_t02_drafts_may_be_drawn_at_another_temperature(acceptance, scale):
    table, draft_table = tables(3, seed=7)

    def run(coins):
        engine = make_engine(
            table,
            drafter="draft_model",
            draft_table=draft_table,
            acceptance=acceptance,
            num_speculative_tokens=2,
            draft_temperature=scale,
            make_coins=lambda _: coins,
        )
        return token_ids(run_all(engine, ask(PROMPT, max_tokens=4, seed=0))["a"])

    assert distance(enumerate_outcomes(run), target_law(table, 4)) < 1e-12


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("acceptance", EXACT, ids=label)
def test_t02_t10_t11_speculation_changes_nothing_about_sampling(acceptance, sampling):
    table, draft_table = tables(3, seed=5)
    plain = served_law(table, None, Acceptance(), drafter="none", max_tokens=3, **sampling)
    drafted = served_law(table, draft_table, acceptance, k=2, max_tokens=3, **sampling)
    assert distance(plain, drafted) < 1e-12


def emitted_product(table, draft_table, acceptance, max_tokens):
    """Product of the law's closed-form rows; the first and last are the target's own."""
    law = build_law(acceptance)
    vocab_size = len(table[()])
    product = {}
    for outcome in itertools.product(range(vocab_size), repeat=max_tokens):
        context, probability = PROMPT, 1.0
        for index, token in enumerate(outcome):
            target, draft = table[context[-1:]], draft_table[context[-1:]]
            is_own = index in (0, max_tokens - 1)
            row = target if is_own else law.emitted_probs(RowPair(target[None], draft[None]))[0]
            probability *= row[token]
            context = (*context, token)
        product[outcome] = probability
    return product


@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
@pytest.mark.parametrize(("vocab_size", "k"), [(3, 2), (2, 3)])
def test_t02_lossy_laws_give_their_documented_joint_law(acceptance, verifier, vocab_size, k):
    table, draft_table = tables(vocab_size, seed=11)
    acceptance = Acceptance(acceptance.law, {**acceptance.options, "verifier": verifier})
    law = served_law(table, draft_table, acceptance, k=k, max_tokens=k + 2)
    assert distance(law, emitted_product(table, draft_table, acceptance, k + 2)) < 1e-12


def reference_law(table, draft_table, acceptance, k, max_tokens):
    """Follow blocks one by one: accept and go on, or emit the recovered row and start anew."""
    law = build_law(acceptance)
    vocab_size = len(table[()])
    outcomes = {}

    def emit(context, probability):
        if probability == 0:
            return
        if len(context) == len(PROMPT) + max_tokens:
            outcome = context[len(PROMPT) :]
            outcomes[outcome] = outcomes.get(outcome, 0) + probability
            return
        left = len(PROMPT) + max_tokens - len(context)
        judge(context, min(k, left - 1), probability)

    def judge(context, num_left, probability):
        target, draft = table[context[-1:]], draft_table[context[-1:]]
        if num_left == 0:
            for token in range(vocab_size):
                emit((*context, token), probability * target[token])
            return
        rows = RowPair(target[None], draft[None])
        accept = law.accept_probs(rows)[0]
        recovered = law.recovered_probs(rows)[0]
        rejected = float(np.sum(draft * (1 - accept)))
        for token in range(vocab_size):
            judge((*context, token), num_left - 1, probability * draft[token] * accept[token])
            emit((*context, token), probability * rejected * recovered[token])

    for token in range(vocab_size):
        emit((*PROMPT, token), table[PROMPT[-1:]][token])
    return outcomes


@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_t02_lossy_laws_over_several_blocks_equal_the_slow_reference(acceptance):
    table, draft_table = tables(2, seed=21)
    law = served_law(table, draft_table, acceptance, k=2, max_tokens=5)
    assert distance(law, reference_law(table, draft_table, acceptance, 2, 5)) < 1e-12


class ReusedCoin:
    """A fault: the recovered token is drawn with the accept coin of its row."""

    def __init__(self, coins):
        self.coins = coins

    def accepts(self, probability, *, step, row, purpose):
        return self.coins.accepts(probability, step=step, row=row, purpose=purpose)

    def draw(self, probs, *, step, row, purpose):
        purpose = Purpose.ACCEPT if purpose is Purpose.RECOVER else purpose
        return self.coins.draw(probs, step=step, row=row, purpose=purpose)


def fault_distance(wrap=None):
    """Distance from the target's law of `rejection` on tables that it serves exactly."""
    table, draft_table = tables(3)
    law = served_law(table, draft_table, Acceptance(), max_tokens=4, wrap=wrap)
    return distance(law, target_law(table, 4))


def test_without_a_fault_the_same_comparison_finds_nothing():
    assert fault_distance() < 1e-12


def test_t04_a_reused_coin_is_caught():
    assert 1e-3 < fault_distance(wrap=ReusedCoin) < 0.5


def test_t02_a_wrong_residual_is_caught(monkeypatch):
    kind = type(build_law(Acceptance()))
    monkeypatch.setattr(kind, "recovered_probs", lambda self, rows, columns=None: rows.target_probs)
    assert 1e-3 < fault_distance() < 0.5


def test_t02_a_draft_row_other_than_the_one_drawn_from_is_caught(monkeypatch):
    propose = ModelDrafter.propose

    def untrue(self, asks):
        flat = SamplingParams(temperature=3.0)
        return [
            Draft(draft.token_ids, Rows(warp(np.log(draft.rows.probs), flat).probs))
            if draft.token_ids
            else draft
            for draft in propose(self, asks)
        ]

    monkeypatch.setattr(ModelDrafter, "propose", untrue)
    assert 1e-3 < fault_distance() < 0.5
