"""Log probabilities of a served answer: those of the target's raw rows, whatever was drafted.

The table is the independent source: the entry of a token is the logarithm of its probability in
the row behind the tokens before it.
"""

import math

import pytest
from tests.support.serving_cases import SERVED, case_label, serve
from tests.support.tabular_engine import make_engine, run_all, text, token_ids

from leeway.backends.tabular import random_table
from leeway.core.types import Provenance, Request, SamplingParams
from leeway.llm import LLM

TABLE, DRAFT_TABLE = random_table(5, 2, seed=4), random_table(5, 2, seed=5)
PROMPT = (0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0)
SAMPLING = {"max_tokens": 30, "seed": 6, "temperature": 0.8, "top_k": 4, "frequency_penalty": 0.3}


def run(law=None, drafter="draft_model", *, num_top=2, num_prompt_top=None, **sampling):
    engine = serve(law, drafter, TABLE, DRAFT_TABLE, order=2)
    params = SamplingParams(**{**SAMPLING, **sampling})
    request = Request("a", PROMPT, params, None, None, num_top, num_prompt_top)
    return run_all(engine, request)["a"]


def forced(tokens, start):
    """The table's own log probabilities of `tokens[start:]`, and its whole rows."""
    rows = [TABLE[tuple(tokens[max(0, at - 2) : at])] for at in range(start, len(tokens))]
    return [math.log(row[one]) for row, one in zip(rows, tokens[start:], strict=True)], rows


def check(entries, tokens, start):
    values, rows = forced(tokens, start)
    assert [entry.token_id for entry in entries] == list(tokens[start:])
    assert [entry.logprob for entry in entries] == pytest.approx(values, abs=1e-12)
    for entry, row in zip(entries, rows, strict=True):
        best = sorted(range(5), key=lambda one: (-row[one], one))[:2]
        assert [one for one, _ in entry.top] == best
        assert [value for _, value in entry.top] == pytest.approx([math.log(row[b]) for b in best])


@pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)
def test_t09_every_token_has_the_teacher_forced_value(law, drafter):
    deltas = run(law, drafter)
    assert all(len(delta.logprobs) == len(delta.token_ids) for delta in deltas)
    entries = [entry for delta in deltas for entry in delta.logprobs]
    check(entries, (*PROMPT, *token_ids(deltas)), len(PROMPT))
    if drafter == "draft_model":
        assert {origin for delta in deltas for origin in delta.provenance} == set(Provenance)


def test_t09_nothing_is_reported_unless_asked():
    assert all(delta.logprobs == () == delta.prompt_logprobs for delta in run(num_top=None))


def test_t09_the_answer_is_the_same_with_and_without():
    assert token_ids(run(num_top=None)) == token_ids(run(num_prompt_top=1))


@pytest.mark.parametrize("max_tokens", [0, 1, 7])
def test_t09_prompt_entries_come_once_and_whole(max_tokens):
    deltas = run(num_prompt_top=2, max_tokens=max_tokens)
    first, *rest = deltas
    assert first.prompt_logprobs[0] is None and len(first.prompt_logprobs) == len(PROMPT)
    check(first.prompt_logprobs[1:], PROMPT, 1)
    assert all(delta.prompt_logprobs == () for delta in rest)


def test_t09_a_prompt_of_one_token_has_one_empty_entry():
    engine = make_engine(TABLE, order=2)
    request = Request("a", (3,), SamplingParams(max_tokens=0), prompt_logprobs=0)
    (delta,) = run_all(engine, request)["a"]
    assert delta.prompt_logprobs == (None,)


def test_t09_entries_stop_where_a_stop_string_ends_the_answer():
    whole = text(run())
    deltas = run(stop=(whole[9:12],))
    entries = [entry for delta in deltas for entry in delta.logprobs]
    assert len(entries) == len(token_ids(deltas)) < 30
    check(entries, (*PROMPT, *token_ids(deltas)), len(PROMPT))


def test_the_offline_face_gives_them_too():
    llm = LLM.from_engine(make_engine(TABLE, order=2, context_len=200))
    sampling = SamplingParams(max_tokens=5, seed=1)
    answer, other = llm.generate([PROMPT, (1, 2)], sampling, logprobs=2, prompt_logprobs=2)
    check(answer.logprobs, (*PROMPT, *answer.token_ids), len(PROMPT))
    check(answer.prompt_logprobs[1:], PROMPT, 1)
    assert len(other.prompt_logprobs) == 2
    assert llm.chat([{"role": "user", "content": "ab"}], sampling).logprobs == ()
