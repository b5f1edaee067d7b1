"""What switches over by length, width or room changes no token, and what is given up is told.

Answers on both sides of a switch are compared with what knows no switch: plain decoding, the table
itself, the same few tokens in a narrow vocabulary.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.loaded_engine import DRAFTERS, LAWS, alone, engine_of
from tests.support.loaded_engine import TABLE as LOADED_TABLE
from tests.support.loaded_engine import serve as serve_all
from tests.support.serving_cases import SERVED, case_label
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.backends.tabular import TabularBackend, random_table
from leeway.backends.tabular_head import TabularHead
from leeway.core.errors import BackendError
from leeway.core.types import Acceptance, Request, SamplingParams
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.mtp_ngram import MTPNGramDrafter

DRAFTING = [drafter for drafter in DRAFTERS if drafter != "none"]
TEXT = (0, 1, 2, 3, 3, 1, 0, 2, 2, 1, 3)
LONG = {"context_len": 420, "capacity_tokens": 2048, "head_context_len": 150}


def long_engine(drafter, law, draft_length="fixed", **options):
    engine = engine_of(drafter, law, num_speculative_tokens=5, **{**LONG, **options})
    engine.draft_length = replace(
        engine.draft_length, is_adaptive=draft_length == "adaptive", draft_cost=0.2
    )
    return engine


@pytest.mark.parametrize("draft_length", ["fixed", "adaptive"])
@pytest.mark.parametrize("drafter", DRAFTING)
def test_t24_a_long_answer_is_plain_decodings_own_past_every_length(drafter, draft_length):
    """Past chunks, blocks, shared backlogs, probes of a given-up length, the head's own context."""
    sampled = ask(TEXT * 4, "sampled", max_tokens=350, seed=3)
    greedy = ask(TEXT * 4, "greedy", max_tokens=350, temperature=0.0)
    law = Acceptance("sample_match")
    plain = serve_all(engine_of("none", law, **LONG), sampled, greedy)
    for options in ({}, {"capacity_tokens": 424}, {"prefill_chunk_len": 100}):
        engine = long_engine(drafter, law, draft_length, **options)
        found = serve_all(engine, sampled, greedy)
        for name, answer in found.items():
            assert answer.token_ids == plain[name].token_ids
            drafted = {drafted for drafted, _ in answer.per_step[1:]}
            assert len(drafted) > 1 or draft_length == "fixed"
    text = list(greedy.prompt_token_ids)
    for token in plain["greedy"].token_ids:
        assert token == LOADED_TABLE[tuple(text[-2:])].argmax()
        text.append(token)


SWITCHES = {
    "backlog of a head": ("leeway.drafters.mtp.MAX_SHARED_BACKLOG", 1),
    "backlog of a draft model": ("leeway.drafters.draft_model.MAX_SHARED_BACKLOG", 1),
    "rows of prompts": ("leeway.scheduler.sequence.MAX_PROMPT_ROWS", 3),
    "groups of columns": ("leeway.core.rng._GROUP", 2),
}


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t24_where_a_switch_lies_changes_no_answer(drafter, switch, monkeypatch):
    samplings = [{}, {"top_k": 2}, {"top_p": 0.8, "temperature": 0.7}, {"temperature": 0.0}]
    # A draft model reads a chunk a step: a longer prompt would begin to be drafted for later.
    prompt = TEXT[:4] if switch == "backlog of a draft model" else TEXT * 2
    asked = [
        replace(
            ask(prompt, f"r{index}", max_tokens=40, seed=index, **samplings[index % 4]),
            acceptance=law,
            prompt_logprobs=1 if index % 2 else None,
        )
        for index, law in enumerate(LAWS)
    ]
    options = {"context_len": 80, "capacity_tokens": 200}
    expected = serve_all(engine_of(drafter, **options), *asked)
    monkeypatch.setattr(*SWITCHES[switch])
    assert serve_all(engine_of(drafter, **options), *asked) == expected


NARROW = 4
TABLES = [random_table(NARROW, 1, seed=91), random_table(NARROW, 1, seed=92)]
HEAD_TABLES = [random_table(NARROW, 2, seed=93 + depth) for depth in range(2)]
SAMPLINGS = [
    {},
    {"top_k": 2},
    {"top_p": 0.8, "temperature": 1.2},
    {"min_p": 0.3, "frequency_penalty": 0.4},
    {"temperature": 0.0},
]


def widened(table, ids, vocab_size):
    """Return the table with its tokens at `ids` of a vocabulary, in which no other can come."""
    wide = {}
    for context, row in table.items():
        wide[tuple(ids[token] for token in context)] = np.zeros(vocab_size)
        wide[tuple(ids[token] for token in context)][ids] = row
    return wide


def wide_engine(law, drafter, ids, vocab_size):
    """Return an engine over tables whose tokens lie at `ids`, drafts included."""
    table, draft_table = (widened(one, ids, vocab_size) for one in TABLES)
    sizes = {"context_len": 64, "capacity_tokens": 512}
    made = drafter
    if drafter in {"mtp", "mtp_ngram"}:
        tables = [widened(one, ids, vocab_size) for one in HEAD_TABLES]
        head = TabularHead(TabularBackend(table, 1, **sizes), tables, 2, **sizes)
        made = MTPDrafter(head, vocab_size)
        if drafter == "mtp_ngram":
            made = MTPNGramDrafter(head, vocab_size, ngram_cost=0.03, head_cost=0.11)
    return make_engine(table, drafter=made, draft_table=draft_table, acceptance=law, **sizes)


def answers_at(law, drafter, ids, vocab_size):
    """Return tokens, counts and loss of answers with the coins that serve, ids mapped back."""
    back = {token: place for place, token in enumerate(ids)}
    asked = []
    for index, sampling in enumerate(SAMPLINGS):
        prompt = tuple(ids[token] for token in (0, 1, 2, 3, 0, 1))
        params = SamplingParams(max_tokens=14, seed=index, **sampling)
        asked.append(Request(f"r{index}", prompt, params, logprobs=2))
    found = {}
    for name, deltas in run_all(wide_engine(law, drafter, ids, vocab_size), *asked).items():
        tally = deltas[-1].receipt.tally
        tokens = tuple(back[token] for token in token_ids(deltas))
        entries = [entry.logprob for delta in deltas for entry in delta.logprobs]
        found[name] = tokens, tally.counts(), (tally.loss_tv_sum, tally.draft_tv_sum, *entries)
    return found


@pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)
def test_t24_the_width_of_a_vocabulary_changes_no_answer(law, drafter):
    """On both sides of where columns are grouped, of where rows are long, and of both in drafts."""
    narrow = answers_at(law, drafter, list(range(NARROW)), NARROW)
    for vocab_size in (256, 257, 2047, 2048):
        ids = [1, vocab_size // 3, vocab_size // 2 + 1, vocab_size - 1]
        wide = answers_at(law, drafter, ids, vocab_size)
        for name, (tokens, counts, numbers) in wide.items():
            assert (tokens, counts) == narrow[name][:2], (vocab_size, name)
            assert numbers == pytest.approx(narrow[name][2], abs=1e-9)


@pytest.mark.parametrize("num_good", [0, 3, 12])
@pytest.mark.parametrize("drafter", ["draft_model", "mtp", "mtp_ngram"])
def test_t24_a_drafter_that_is_given_up_is_named_in_the_receipt(drafter, num_good, monkeypatch):
    engine = engine_of(drafter, capacity_tokens=512)
    kind = TabularBackend if drafter == "draft_model" else TabularHead
    forward, target, calls = kind.forward, engine.parts.backend, []

    def failing(self, inputs):
        if self is not target:
            calls.append(1)
            if len(calls) > num_good:
                raise BackendError("it broke")
        return forward(self, inputs)

    greedy = ask(TEXT, "greedy", max_tokens=30, temperature=0.0)
    expected = alone("none", greedy).token_ids
    assert run_all(engine, greedy)["greedy"][-1].receipt.demotion is None
    monkeypatch.setattr(kind, "forward", failing)
    deltas = run_all(engine, replace(greedy, request_id="b"))["b"]
    receipt = deltas[-1].receipt
    assert token_ids(deltas) == expected
    has_failed = len(calls) > num_good  # n-grams may have taken over before
    assert has_failed or (drafter, num_good) == ("mtp_ngram", 12)
    expected_demotion = "drafter_failed" if has_failed else None
    assert receipt.demotion == receipt.to_dict()["demotion"] == expected_demotion
    assert receipt.law == "rejection"
    off = Request("off", TEXT, greedy.sampling, num_speculative_tokens=0)
    assert run_all(engine, off)["off"][-1].receipt.demotion is None
