"""The serving contract on the real small model: real text, real tokens, its own draft head."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.tabular_engine import run_all, text, token_ids

from leeway import LLM
from leeway.core.types import Acceptance, FinishReason, Request, SamplingParams
from leeway.models.heads import find_head
from leeway.models.open import open_model
from leeway.scheduler.draft_length import DraftLength

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]

REPEAT = "Repeat: the cat sat on the mat 🙂, the cat sat on the mat 🙂, the cat sat on the mat 🙂."
QUESTIONS = (REPEAT, "What is the capital of France?", "Count from one to twenty in words.")
GREEDY = SamplingParams(temperature=0, max_tokens=32)
LAWS = (
    Acceptance("rejection"),
    Acceptance("block"),
    Acceptance("sample_match"),
    Acceptance("typical", {"delta": 0.3}),
    Acceptance("tokenv3", {"alpha": 0.5, "off_set": "coin"}),
)


@pytest.fixture(scope="module", params=["ngram", "mtp", "mtp_ngram"])
def llm(request, smollm2_path):
    if request.param != "ngram" and find_head(open_model(str(smollm2_path))) is None:
        pytest.skip("no draft head for this model; `leeway heads list` shows what there is")
    with LLM(str(smollm2_path), kv_memory="256MiB", drafter=request.param) as found:
        yield found


def prompt_of(llm, question=REPEAT):
    return llm.encode_messages([{"role": "user", "content": question}])


def ask(llm, sampling=GREEDY, *, name="a", question=REPEAT, num=None, law=None, logprobs=None):
    return Request(name, prompt_of(llm, question), sampling, law, num, logprobs)


def answer(llm, *args, **fields):
    return run_all(llm.engine, ask(llm, *args, **fields))["a"]


@pytest.fixture(scope="module")
def plain(llm):
    """Deltas of plain decoding of each question, together."""
    asked = [ask(llm, name=one, question=one, num=0) for one in QUESTIONS]
    found = run_all(llm.engine, *asked)
    assert "cat sat on the mat" in text(found[REPEAT])
    return found


@pytest.mark.parametrize("law", LAWS, ids=lambda one: one.law)
def test_t01_t17_t19_t23_every_law_gives_plain_ids_at_temperature_0(llm, plain, law):
    asked = [ask(llm, name=one, question=one, law=law) for one in QUESTIONS]
    drafted = 0
    for name, deltas in run_all(llm.engine, *asked).items():
        assert token_ids(deltas) == token_ids(plain[name])
        assert text(deltas) == text(plain[name])
        tally = deltas[-1].receipt.tally
        tally.check()
        drafted += tally.num_draft_tokens
        assert plain[name][-1].receipt.tally.num_draft_tokens == 0
    assert drafted > 0


def test_t05_a_stop_string_cuts_real_text_ids_and_entries_alike(llm, plain):
    whole = text(plain[REPEAT])
    for begin in (6, 15, 24):
        stop = whole[begin : begin + 4]
        deltas = answer(llm, replace(GREEDY, stop=(stop, "UPDATED")), logprobs=0)
        assert text(deltas) == whole[: whole.index(stop)]
        assert deltas[-1].finish_reason is FinishReason.STOP
        ids = token_ids(deltas)
        assert ids == token_ids(plain[REPEAT])[: len(ids)]
        assert sum(len(delta.logprobs) for delta in deltas) == len(ids)


def test_t07_t13_cut_anywhere_the_text_is_a_beginning_of_the_whole(llm, plain):
    whole, ids = text(plain[REPEAT]), token_ids(plain[REPEAT])
    asked = [ask(llm, replace(GREEDY, max_tokens=n), name=f"{n}") for n in range(1, 24)]
    for name, deltas in run_all(llm.engine, *asked).items():
        assert token_ids(deltas) == ids[: int(name)]
        assert whole.startswith(text(deltas).removesuffix("\ufffd"))
        assert all("\ufffd" not in delta.text for delta in deltas[:-1])


def test_t03_t18_a_conversation_found_in_the_cache_is_that_of_a_cold_start(llm):
    sampling = SamplingParams(temperature=0.8, seed=5, max_tokens=24)
    first = answer(llm, sampling, question=QUESTIONS[1])
    answer(llm, sampling, question=QUESTIONS[2])
    again = answer(llm, sampling, question=QUESTIONS[1])
    assert token_ids(again) == token_ids(first)
    tally = again[-1].receipt.tally
    assert tally.num_cached_tokens == (tally.num_prompt_tokens - 1) // 32 * 32 > 0
    llm.engine.parts.backend.check_integrity()


def test_t24_a_long_answer_keeps_plain_ids_under_lengths_that_adapt(llm, monkeypatch):
    """Past blocks of the cache, wider and narrower verify steps, and steps without drafts."""
    sampling = SamplingParams(temperature=0, max_tokens=120, ignore_eos=True)
    question = "Write a story about a dog. " + REPEAT
    plain = token_ids(answer(llm, sampling, question=question, num=0))
    adaptive = DraftLength(is_adaptive=True, draft_cost=0.3)
    monkeypatch.setattr(llm.engine, "draft_length", adaptive)
    deltas = answer(llm, sampling, question=question)
    assert token_ids(deltas) == plain and len(plain) == 120
    assert len({drafted for drafted, _ in deltas[-1].receipt.per_step}) > 1


def test_t25_the_lanes_of_the_runtime_agree(llm):
    check = llm.engine.parts.self_check
    assert check.declined is None and check.has_same_bits
    assert check.largest_tv < 1e-6
