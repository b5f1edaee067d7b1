"""The served loop with a draft head, enumerated: every drafted token and every coin.

The head is a table over a part of the vocabulary. Its rows depend on the target's state, on the
token behind it and on the depth, and it refuses every state that is not due (`tabular_head`); what
the drafter is shown is spoilt as soon as it has been shown. Exact laws must give the target's joint
law; lossy ones the documented one, with draft probability zero for the tokens that the head cannot
draft. A wrong state never shows in an exact law: there the head's own refusals are the witness.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.engine.test_served_law import EXACT, LOSSY, PROMPT, distance, label, target_law
from tests.engine.test_served_law import served_law as plain_law
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.acceptance.base import RowPair
from leeway.acceptance.registry import build_law
from leeway.backends.tabular import TabularBackend, random_table
from leeway.backends.tabular_head import TabularHead
from leeway.core.types import Acceptance, Draft, Rows, SamplingParams
from leeway.drafters.mtp import MTPDrafter
from leeway.engine import engine as engine_module
from leeway.sampling.warp import warp


class Fleeting(MTPDrafter):
    """The drafter, its observations spoilt behind every call as a device's buffers may be."""

    def observe(self, seen):
        copies = [replace(one, hidden=one.hidden.copy()) for one in seen]
        super().observe(copies)
        for one in copies:
            one.hidden.fill(np.nan)


def make_head(table, ids, depth=3, seed=50, order=2, **options):
    """A head with other rows at every depth; `ids` None is the whole vocabulary."""
    vocab_size = len(table[()])
    num_columns = vocab_size if ids is None else len(ids)
    tables = [
        random_table(vocab_size, order, seed=seed + level, num_columns=num_columns)
        for level in range(depth)
    ]
    ids = None if ids is None else np.array(ids)
    return TabularHead(TabularBackend(table, 1), tables, order, ids, **options)


def served_law(table, head, acceptance, *, k, max_tokens, drafter=Fleeting, seen=None, **sampling):
    """Enumerate the engine: outcome (token ids) to probability; `seen` collects steps."""

    def run(coins):
        engine = make_engine(
            table,
            drafter=drafter(head, len(table[()])),
            acceptance=acceptance,
            num_speculative_tokens=k,
            make_coins=lambda _: coins,
        )
        request = ask(PROMPT, max_tokens=max_tokens, seed=0, **sampling)
        deltas = run_all(engine, request)["a"]
        receipt = deltas[-1].receipt
        receipt.tally.check()
        assert receipt.drafter == "mtp" and head.num_open() == 0
        if seen is not None:
            seen.update(receipt.per_step)
        return token_ids(deltas)

    return enumerate_outcomes(run)


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
@pytest.mark.parametrize(
    ("vocab_size", "k", "max_tokens", "ids"),
    [
        (2, 1, 4, (1,)),
        (2, 2, 4, None),
        (2, 3, 5, (0,)),
        (2, 3, 5, None),
        (3, 1, 4, (0, 2)),
        (3, 2, 4, (0, 2)),
        (3, 3, 4, (1, 2)),
        (4, 1, 3, (0, 1, 3)),
        (4, 2, 3, (1, 3)),
        (4, 3, 4, (2,)),
    ],
)
def test_t02_exact_laws_give_the_targets_joint_law(acceptance, vocab_size, k, max_tokens, ids):
    table, seen = random_table(vocab_size, 1, seed=vocab_size), set()
    head = make_head(table, ids)
    law = served_law(table, head, acceptance, k=k, max_tokens=max_tokens, seen=seen)
    assert distance(law, target_law(table, max_tokens)) < 1e-12
    deepest = min(k, max_tokens - 2)
    assert {(deepest, accepted) for accepted in range(deepest + 1)} <= seen


SAMPLINGS = [
    {"temperature": 0.6},
    {"temperature": 0.7, "top_k": 2},
    {"temperature": 1.3, "top_p": 0.8},
    {"min_p": 0.4},
    {"logit_bias": {1: 1.5}, "top_k": 2},
    {"presence_penalty": 1.0, "frequency_penalty": 0.5, "repetition_penalty": 1.4},
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("acceptance", EXACT, ids=label)
def test_t02_t10_t11_drafting_changes_nothing_about_sampling(acceptance, sampling):
    table = random_table(3, 1, seed=5)
    head = make_head(table, (0, 2))
    drafted = served_law(table, head, acceptance, k=2, max_tokens=3, **sampling)
    plain = plain_law(table, None, Acceptance(), drafter="none", max_tokens=3, **sampling)
    assert distance(plain, drafted) < 1e-12


def draft_row(head, context, depth):
    """The head's row over the whole vocabulary, zero where it cannot draft."""
    row = np.zeros(head.target.vocab_size)
    table = head.tables[min(depth, head.depth - 1)]
    ids = slice(None) if head.draft_token_ids is None else head.draft_token_ids
    row[ids] = table[context[-head.order :]]
    return row


def emitted_product(table, head, acceptance, max_tokens):
    """Product of the law's closed-form rows; the first and last are the target's own."""
    law, product = build_law(acceptance), {}
    for outcome in itertools.product(range(len(table[()])), repeat=max_tokens):
        context, probability = PROMPT, 1.0
        for index, token in enumerate(outcome):
            row = table[context[-1:]]
            if 0 < index < max_tokens - 1:
                draft = draft_row(head, context, 0)
                row = law.emitted_probs(RowPair(row[None], draft[None]))[0]
            probability *= row[token]
            context = (*context, token)
        product[outcome] = probability
    return product


def reference_law(table, head, acceptance, k, max_tokens):
    """Follow blocks one by one: accept and go on, or emit the recovered row and start anew."""
    law, outcomes = build_law(acceptance), {}
    vocab_size = len(table[()])

    def begin(context, probability):
        left = len(PROMPT) + max_tokens - len(context)
        if left == 0:
            outcome = context[len(PROMPT) :]
            outcomes[outcome] = outcomes.get(outcome, 0) + probability
        elif probability > 0:
            judge(context, 0, min(k, left - 1), probability)

    def judge(context, depth, num_left, probability):
        target = table[context[-1:]]
        if num_left == 0:
            for token in range(vocab_size):
                begin((*context, token), probability * target[token])
            return
        draft = draft_row(head, context, depth)
        rows = RowPair(target[None], draft[None])
        kept = draft * law.accept_probs(rows)[0]
        recovered = law.recovered_probs(rows)[0]
        for token in range(vocab_size):
            judge((*context, token), depth + 1, num_left - 1, probability * kept[token])
            begin((*context, token), probability * (1 - kept.sum()) * recovered[token])

    for token in range(vocab_size):
        begin((*PROMPT, token), table[PROMPT[-1:]][token])
    return outcomes


@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_t02_lossy_laws_give_their_documented_joint_law(acceptance, verifier):
    """One table for all depths, so that a draft row hangs on the text alone."""
    table = random_table(3, 1, seed=11)
    head = make_head(table, (0, 2), depth=1)
    acceptance = Acceptance(acceptance.law, {**acceptance.options, "verifier": verifier})
    law = served_law(table, head, acceptance, k=2, max_tokens=4)
    assert distance(law, emitted_product(table, head, acceptance, 4)) < 1e-12


@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
@pytest.mark.parametrize(
    ("vocab_size", "ids", "k", "max_tokens"), [(2, None, 2, 5), (3, (1, 2), 2, 4)]
)
def test_t02_lossy_laws_with_other_rows_at_every_depth_equal_the_slow_reference(
    acceptance, vocab_size, ids, k, max_tokens
):
    table = random_table(vocab_size, 1, seed=21)
    head = make_head(table, ids)
    law = served_law(table, head, acceptance, k=k, max_tokens=max_tokens)
    assert distance(law, reference_law(table, head, acceptance, k, max_tokens)) < 1e-12


def fault_distance(drafter=Fleeting):
    """Distance from the target's law of `rejection` on tables that it serves exactly."""
    table = random_table(3, 1, seed=3)
    head = make_head(table, (0, 2))
    law = served_law(table, head, Acceptance(), k=2, max_tokens=4, drafter=drafter)
    return distance(law, target_law(table, 4))


class Untrue(Fleeting):
    """A fault: the rows handed on are flatter than those drawn from."""

    def propose(self, asks):
        flat = SamplingParams(temperature=3.0)
        return [
            replace(
                draft, rows=Rows(warp(np.log(draft.rows.probs), flat).probs, draft.rows.token_ids)
            )
            if draft.token_ids
            else draft
            for draft in super().propose(asks)
        ]


class Shifted(Fleeting):
    """A fault: column j is taken for token j in the row, not in the draft."""

    def propose(self, asks):
        return [
            Draft(draft.token_ids, Rows(draft.rows.probs, np.array([0, 1])))
            if draft.token_ids
            else draft
            for draft in super().propose(asks)
        ]


def test_without_a_fault_the_same_comparison_finds_nothing():
    assert fault_distance() < 1e-12


@pytest.mark.parametrize("drafter", [Untrue, Shifted])
def test_t02_a_draft_row_other_than_the_one_drawn_from_is_caught(drafter):
    assert fault_distance(drafter) > 1e-3


class TargetsStateAgain(Fleeting):
    """A fault: every depth goes on from the target's state, none from the head's own."""

    def _go_on(self, pending):
        super()._go_on(pending)
        for one in pending:
            one.states = one.follower.states[-1:]


class RejectedState(Fleeting):
    """A fault: the state of a token is the one it would have had, had the draft been kept."""

    def __init__(self, head, vocab_size):
        super().__init__(head, vocab_size)
        self.other = TabularBackend(head.target.table, 1)

    def observe(self, seen):
        wrong = []
        for one in seen:
            hidden = one.hidden.copy()
            tokens = list(one.token_ids[: one.start + len(hidden)])
            tokens[-1] = (tokens[-1] + 1) % self.head.target.vocab_size
            handle = self.other.open()
            inputs = [engine_module.SequenceInput(handle, tokens, 0)]
            hidden[-1] = self.other.forward(inputs).hidden[-1]
            wrong.append(replace(one, hidden=hidden))
        super().observe(wrong)


def shift_states(num_new, hidden, observations=engine_module._observations):
    """A fault: every observation is one row off."""
    return observations(num_new, np.roll(hidden, -1, axis=0))


@pytest.mark.parametrize(
    ("drafter", "complaint"),
    [(TargetsStateAgain, r"position . where . is next"), (RejectedState, "another text")],
    ids=["targets-state-again", "rejected-state"],
)
def test_a_wrong_state_is_caught_by_the_head(drafter, complaint):
    with pytest.raises(AssertionError, match=complaint):
        fault_distance(drafter)


def test_states_off_by_one_are_caught_by_the_head(monkeypatch):
    monkeypatch.setattr(engine_module, "_observations", shift_states)
    with pytest.raises(AssertionError, match=r"position . where . is next"):
        fault_distance()


def test_drafts_left_in_the_cache_are_caught_by_the_head(monkeypatch):
    monkeypatch.setattr(TabularHead, "truncate", lambda self, handle, kept_len: None)
    with pytest.raises(AssertionError, match=r"position . where . is next|a draft is shared"):
        fault_distance()
