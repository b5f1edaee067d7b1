"""Answers in a given form, for every law with every drafter.

Exact laws are enumerated: the joint law of whole answers is the target's own with every row cut to
what may come next and rescaled. What may come next is found here from the list of words alone.
"""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.engine.test_served_law import distance
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.serving_cases import EXACT, SERVED, SERVED_EXACT, case_label, serve
from tests.support.tabular_engine import make_engine, run_all, text, token_ids

from leeway.backends.tabular import random_table
from leeway.core.errors import RequestError
from leeway.core.types import Acceptance, FinishReason, Grammar, Request, SamplingParams
from leeway.grammar.state import GrammarState
from leeway.llm import LLM

END = 3
TABLE, DRAFT_TABLE = random_table(4, 1, seed=51), random_table(4, 1, seed=52)
WORDS = ("ab", "abc", "abab", "b", "ba", "cab")
CHOICE = Grammar("choice", json.dumps(WORDS), "guided_choice")
LOOPS = Grammar("regex", "(ab|ca){1,3}c?b?", "guided_regex")
PROMPT = (0, 1, 2, 0, 1, 2, 0, 1)
every_law = pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)


def spelt(ids):
    return "".join("abc"[token] for token in ids if token != END)


def masked_law(table, max_tokens, last):
    """The law of plain decoding over the words, row by row."""
    law = {}

    def go_on(answer, probability):
        if len(answer) == max_tokens or answer[-1:] == (END,):
            law[answer] = law.get(answer, 0.0) + probability
            return
        so_far = spelt(answer)
        allowed = [any(word.startswith(so_far + letter) for word in WORDS) for letter in "abc"]
        allowed.append(so_far in WORDS)
        row = table[((last, *answer)[-1],)] * allowed
        for token in np.flatnonzero(row):
            go_on((*answer, int(token)), probability * row[token] / row.sum())

    go_on((), 1.0)
    return law


@pytest.mark.parametrize(("law", "drafter"), SERVED_EXACT, ids=case_label)
def test_t12_exact_laws_give_the_masked_targets_own_law(law, drafter):
    def run(coins):
        engine = make(law, drafter, num_speculative_tokens=2, make_coins=lambda _: coins)
        sampling = SamplingParams(max_tokens=5, seed=0)
        return token_ids(run_all(engine, Request("a", PROMPT, sampling, grammar=CHOICE))["a"])

    expected = masked_law(TABLE, 5, PROMPT[-1])
    assert {spelt(answer) for answer in expected} == set(WORDS)
    assert distance(enumerate_outcomes(run), expected) < 1e-12


@pytest.mark.parametrize(("law", "drafter"), SERVED_EXACT, ids=case_label)
def test_t12_a_draft_into_a_dead_end_ends_an_answer_no_more_often_than_plain_decoding(law, drafter):
    dead_end = Grammar("regex", "a(bq|c|ab)", "guided_regex")

    def law_of(law, drafter):
        def run(coins):
            engine = make(law, drafter, make_coins=lambda _: coins)
            one = Request("a", PROMPT, SamplingParams(max_tokens=5, seed=0), grammar=dead_end)
            deltas = run_all(engine, one)["a"]
            is_dead = deltas[-1].finish_reason is FinishReason.ERROR
            return (-1,) if is_dead else token_ids(deltas)

        return enumerate_outcomes(run)

    plain = law_of(Acceptance(), "none")
    assert set(plain) == {(-1,), (0, 2, END), (0, 0, 1, END)}
    assert distance(law_of(law, drafter), plain) < 1e-12


def make(law, drafter, **options):
    return serve(law, drafter, TABLE, DRAFT_TABLE, eos_token_id=END, **options)


def ask(name, grammar=LOOPS, **sampling):
    return Request(name, PROMPT, SamplingParams(**{"max_tokens": 24, **sampling}), grammar=grammar)


@every_law
def test_t12_every_answer_has_the_form(law, drafter):
    engine = make(law, drafter)
    asked = [ask(f"r{seed}", seed=seed, temperature=1.5) for seed in range(6)]
    asked += [ask(f"c{seed}", CHOICE, seed=seed, top_p=0.9) for seed in range(6)]
    free = [Request(f"f{seed}", PROMPT, SamplingParams(max_tokens=24)) for seed in range(2)]
    found = run_all(engine, *asked, *free)
    answers = {}
    for one in asked:
        deltas = found[one.request_id]
        assert deltas[-1].finish_reason is FinishReason.STOP
        assert token_ids(deltas)[-1] == END
        assert text(deltas) == spelt(token_ids(deltas))
        answers.setdefault(one.grammar.kind, set()).add(text(deltas))
    assert answers["choice"] <= set(WORDS) and len(answers["choice"]) > 1
    assert all(re.fullmatch(LOOPS.text, answer) for answer in answers["regex"])
    assert len(answers["regex"]) > 1
    drafted = sum(found[one.request_id][-1].receipt.tally.num_draft_tokens for one in asked)
    assert (drafted > 0) == (drafter != "none")


@every_law
def test_t12_at_temperature_0_every_law_decodes_plainly(law, drafter):
    plain = run_all(make(Acceptance(), "none"), ask("a", temperature=0.0))["a"]
    drafted = run_all(make(law, drafter), ask("a", temperature=0.0))["a"]
    assert token_ids(drafted) == token_ids(plain)
    assert re.fullmatch(LOOPS.text, text(plain))


@every_law
def test_t12_t03_t17_the_same_seed_gives_the_same_answer_alone_and_among_others(law, drafter):
    alone = [run_all(make(law, drafter), ask("a", seed=seed))["a"] for seed in range(2)]
    others = [ask(f"r{seed}", seed=seed) for seed in range(2)]
    found = run_all(make(law, drafter), ask("x", CHOICE, seed=7), *others)
    for seed, deltas in enumerate(alone):
        assert token_ids(found[f"r{seed}"]) == token_ids(deltas)


@pytest.mark.parametrize(("law", "drafter"), SERVED_EXACT, ids=case_label)
def test_t12_t17_lack_of_room_changes_no_token_of_the_form(law, drafter):
    form = Grammar("regex", "(ab|ca|b){13,15}", "guided_regex")
    asked = [ask(f"r{seed}", form, seed=seed, max_tokens=40) for seed in range(4)]
    crowded = serve(law, drafter, TABLE, DRAFT_TABLE, eos_token_id=END, capacity_tokens=64)
    found = run_all(crowded, *asked)
    assert sum(tally.num_preemptions for tally in crowded.totals.values()) > 0
    for one in asked:
        alone = run_all(make(law, drafter), one)[one.request_id]
        assert token_ids(found[one.request_id]) == token_ids(alone)
        assert re.fullmatch(form.text, text(alone))


@every_law
def test_t12_t07_the_limit_cuts_an_answer_that_could_still_be_completed(law, drafter):
    asked = [
        ask(f"r{seed}-{limit}", CHOICE, max_tokens=limit, seed=seed)
        for seed, limit in itertools.product(range(2), range(1, 6))
    ]
    found = run_all(make(law, drafter), *asked)
    for one in asked:
        deltas = found[one.request_id]
        assert len(token_ids(deltas)) <= one.sampling.max_tokens
        assert any(word.startswith(text(deltas)) for word in WORDS)
        if deltas[-1].finish_reason is FinishReason.STOP:
            assert text(deltas) in WORDS


@every_law
def test_t12_rejected_drafts_leave_nothing_in_the_state(law, drafter, monkeypatch):
    read = []
    advance = GrammarState.advance

    def note(self, ids):
        advance(self, ids)
        read.append(tuple(ids))

    monkeypatch.setattr(GrammarState, "advance", note)
    num_rejected = 0
    for seed in range(5, 11):
        read.clear()
        deltas = run_all(make(law, drafter), ask("a", temperature=1.5, seed=seed))["a"]
        assert tuple(itertools.chain.from_iterable(read)) == token_ids(deltas)
        tally = deltas[-1].receipt.tally
        num_rejected += tally.num_draft_tokens - tally.num_accepted_tokens
    assert num_rejected > 0 or drafter == "none" or law not in EXACT  # others may keep all


def test_t12_a_state_that_keeps_rejected_drafts_is_caught(monkeypatch):
    def go_ahead(self, draft_ids):
        for token_id in draft_ids[len(self._ahead_ids) :]:
            self._committed.consume_token(token_id)
        self._ahead_ids = draft_ids
        return self._committed

    monkeypatch.setattr(GrammarState, "_matcher_after", go_ahead)
    engine = make(Acceptance(), "draft_model")
    found = run_all(engine, *(ask(f"r{seed}", seed=seed, temperature=1.5) for seed in range(9)))
    assert any(deltas[-1].finish_reason is FinishReason.ERROR for deltas in found.values())


THOUGHT_OPEN, THOUGHT_CLOSE = 4, 5
THOUGHTS = (0, 5, 0, 1, 5, 2, 0, 5, 0)
THINKING = (random_table(6, 1, seed=53), random_table(6, 1, seed=54))


@every_law
def test_t12_the_form_begins_behind_the_reasoning_in_the_middle_of_a_block(law, drafter):
    begun = replace(LOOPS, thought_close=THOUGHT_CLOSE)
    asked = [
        ask("", one, seed=seed, max_tokens=70)
        for seed in range(8)
        for one in (begun, replace(begun, thought_open=THOUGHT_OPEN))
    ]
    asked = [
        replace(one, request_id=f"{index}", prompt_token_ids=THOUGHTS)
        for index, one in enumerate(asked)
    ]
    engine = serve(law, drafter, *THINKING, eos_token_id=END)
    inside_blocks = 0
    for deltas in run_all(engine, *asked).values():
        ids = token_ids(deltas)
        is_begun = int(deltas[0].request_id) % 2 == 0
        if is_begun or ids[0] == THOUGHT_OPEN:
            inside_blocks += any(THOUGHT_CLOSE in delta.token_ids[:-1] for delta in deltas)
            ids = ids[ids.index(THOUGHT_CLOSE) + 1 :]
        assert deltas[-1].finish_reason is FinishReason.STOP
        assert ids[-1] == END and END not in ids[:-1]
        assert re.fullmatch(LOOPS.text, "".join("abc?<>"[token] for token in ids[:-1]))
    assert inside_blocks > 0 or drafter == "none"


def test_the_python_face_takes_a_form():
    llm = LLM.from_engine(make(Acceptance(), "draft_model"))
    answers = llm.generate([PROMPT, PROMPT[:3]], SamplingParams(seed=2), grammar=CHOICE)
    assert {answer.text for answer in answers} <= set(WORDS)
    asked = [{"role": "user", "content": "ab"}]
    assert llm.chat(asked, SamplingParams(seed=2), grammar=CHOICE).text in WORDS


def test_logprobs_are_those_of_the_raw_row():
    one = Request("a", PROMPT, SamplingParams(max_tokens=1, seed=1), logprobs=4, grammar=CHOICE)
    entry = run_all(make(Acceptance(), "none"), one)["a"][0].logprobs[0]
    np.testing.assert_allclose(
        sorted(np.exp([logprob for _, logprob in entry.top])), sorted(TABLE[(1,)])
    )


@pytest.mark.parametrize(
    ("grammar", "sampling", "param", "message"),
    [
        (Grammar("regex", "a(", "guided_regex"), {}, "guided_regex", "invalid regex"),
        (Grammar("regex", "q", "guided_regex"), {}, "guided_regex", "no token of this model"),
        (Grammar("choice", "[]", "guided_choice"), {}, "guided_choice", "no choice"),
        (CHOICE, {"min_tokens": 2}, "min_tokens", "min_tokens is 2 beside guided_choice"),
        (CHOICE, {"ignore_eos": True}, "ignore_eos", "ignore_eos is true beside guided_choice"),
    ],
    ids=["broken", "unspellable", "empty", "min-tokens", "ignore-eos"],
)
def test_t12_what_cannot_work_is_refused_before_it_begins(grammar, sampling, param, message):
    engine = make(Acceptance(), "none")
    with pytest.raises(RequestError, match=message) as caught:
        engine.add(ask("a", grammar, **sampling))
    assert caught.value.param == param
    assert not engine.has_work


def test_a_model_without_an_end_token_takes_no_grammar():
    with pytest.raises(RequestError, match="no end token"):
        make_engine(TABLE).add(ask("a", CHOICE))


def test_t12_a_grammar_that_leads_nowhere_ends_its_own_request_only():
    dead_end = Grammar("regex", "abq", "guided_regex")
    found = run_all(make(Acceptance(), "ngram"), ask("dead", dead_end), ask("a", CHOICE))
    last = found["dead"][-1]
    assert last.finish_reason is FinishReason.ERROR
    assert isinstance(last.error, RequestError) and "no token" in last.error.message
    assert text(found["a"]) in WORDS
