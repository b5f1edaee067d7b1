"""Where an answer ends inside a block: end tokens, stop strings, budgets; nothing leaks behind."""

import numpy as np
import pytest
from tests.support.tabular_engine import ask, make_engine, run_all, text, token_ids

from leeway.core.types import Acceptance, FinishReason, Provenance

EOS = 5
CYCLE = (0, 1, 2, 3, 4)


def deterministic_table(next_token, vocab_size=6):
    """Each token is followed by `next_token[token]` with certainty."""
    rows = {(): np.eye(vocab_size)[0]}
    for token in range(vocab_size):
        rows[(token,)] = np.eye(vocab_size)[next_token.get(token, 0)]
    return rows


COUNT = {token: (token + 1) % 5 for token in CYCLE}
ENDING = {0: 1, 1: 2, 2: 3, 3: EOS, EOS: 4, 4: 4}


def run(table, draft_table=None, *, k=3, **sampling):
    engine = make_engine(
        deterministic_table(table),
        drafter="draft_model",
        draft_table=deterministic_table(draft_table or table),
        num_speculative_tokens=k,
        eos_token_id=EOS,
    )
    deltas = run_all(engine, ask((0,), **sampling))["a"]
    check_receipt(deltas, k)
    assert engine.parts.backend.num_open() == 0
    return deltas


def check_receipt(deltas, k):
    tally = deltas[-1].receipt.tally
    tally.check()
    assert tally.num_output_tokens == len(token_ids(deltas))
    assert sum(delta.finish_reason is not None for delta in deltas) == 1
    assert all(len(delta.token_ids) <= k + 1 for delta in deltas)
    assert all(len(delta.token_ids) == len(delta.provenance) for delta in deltas)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("max_tokens", range(1, 8))
def test_t07_exactly_max_tokens_come(k, max_tokens):
    deltas = run(COUNT, k=k, max_tokens=max_tokens)
    expected = tuple((1 + index) % 5 for index in range(max_tokens))
    assert token_ids(deltas) == expected
    assert text(deltas) == "".join("abcde"[token] for token in expected)
    assert deltas[-1].finish_reason is FinishReason.LENGTH
    assert deltas[-1].receipt.tally.num_discarded_tokens == 0


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_t06_nothing_comes_behind_the_end_token(k):
    deltas = run(ENDING, k=k, max_tokens=20)
    assert token_ids(deltas) == (1, 2, 3, EOS)
    assert text(deltas) == "bcd"
    assert deltas[-1].finish_reason is FinishReason.STOP


@pytest.mark.parametrize(
    ("draft", "where"),
    [(ENDING, Provenance.ACCEPTED), ({**ENDING, 3: 0}, Provenance.RECOVERED)],
)
def test_t06_the_end_token_may_be_accepted_or_recovered(draft, where):
    deltas = run(ENDING, draft, k=4, max_tokens=20)
    assert token_ids(deltas) == (1, 2, 3, EOS)
    assert deltas[-1].provenance[-1] is where


def test_t06_the_end_token_may_be_a_bonus():
    deltas = run(ENDING, k=2, max_tokens=20)
    assert deltas[-1].provenance[-1] is Provenance.BONUS


def test_t06_t07_the_end_token_with_max_tokens_on_the_same_step_is_a_stop():
    deltas = run(ENDING, max_tokens=4)
    assert token_ids(deltas) == (1, 2, 3, EOS)
    assert deltas[-1].finish_reason is FinishReason.STOP


def test_t06_ignore_eos_goes_on_and_shows_no_special_text():
    deltas = run(ENDING, max_tokens=6, ignore_eos=True)
    assert token_ids(deltas) == (1, 2, 3, EOS, 4, 4)
    assert text(deltas) == "bcdee"
    assert deltas[-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("stop_token", [1, 2, 3, 4])
def test_t06_a_stop_token_ends_the_answer_wherever_it_falls(k, stop_token):
    deltas = run(COUNT, k=k, max_tokens=20, stop_token_ids=(stop_token,))
    assert token_ids(deltas) == tuple(range(1, stop_token + 1))
    assert text(deltas) == "bcde"[: stop_token - 1]
    assert deltas[-1].finish_reason is FinishReason.STOP


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("stop", "expected_text", "num_tokens"),
    [
        (("b",), "", 1),
        (("c",), "b", 2),
        (("de",), "bc", 4),
        (("ea", "eab"), "bcd", 5),
        (("cdeab",), "b", 6),
        (("zz", "abc"), "bcde", 7),
    ],
)
def test_t05_stop_strings_cut_text_ids_and_cache_alike(k, stop, expected_text, num_tokens):
    deltas = run(COUNT, k=k, max_tokens=20, stop=stop)
    assert text(deltas) == expected_text
    assert len(token_ids(deltas)) == num_tokens
    assert deltas[-1].finish_reason is FinishReason.STOP


def test_t05_a_stop_string_that_never_completes_is_delivered():
    deltas = run(COUNT, max_tokens=4, stop=("eax",))
    assert text(deltas) == "bcde"
    assert deltas[-1].finish_reason is FinishReason.LENGTH


def test_t16_the_context_end_is_a_length_stop():
    engine = make_engine(
        deterministic_table(COUNT),
        drafter="draft_model",
        draft_table=deterministic_table(COUNT),
        context_len=9,
        capacity_tokens=64,
    )
    deltas = run_all(engine, ask((0, 1, 2), max_tokens=50))["a"]
    assert token_ids(deltas) == (3, 4, 0, 1, 2, 3)
    assert deltas[-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("prompt_len", range(4, 9))
def test_t16_prompts_up_to_the_last_slot_are_served(prompt_len):
    engine = make_engine(deterministic_table(COUNT), drafter="ngram", context_len=9)
    deltas = run_all(engine, ask(tuple([0] * prompt_len), max_tokens=50))["a"]
    assert len(token_ids(deltas)) == 9 - prompt_len


def test_t18_the_cache_holds_only_committed_tokens_after_every_step():
    """Mutually wrong drafts: every block is rolled back somewhere."""
    engine = make_engine(
        deterministic_table(COUNT),
        drafter="draft_model",
        draft_table=deterministic_table({**COUNT, 3: 0}),
        acceptance=Acceptance("rejection"),
    )
    engine.add(ask((0, 1), max_tokens=12))
    committed = [0, 1]
    backend = engine.parts.backend
    while engine.has_work:
        for delta in engine.step():
            committed += delta.token_ids
        if engine.has_work:
            assert backend.cached_token_ids(0) == tuple(committed[:-1])
    assert backend.num_open() == 0
