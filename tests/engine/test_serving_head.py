"""Requests served with a draft head: alone, together, cut short, and where the head fails.

Heads are tables that refuse every state that is not due (`test_served_law_mtp`).
"""

import itertools

import numpy as np
import pytest
from tests.engine.test_served_law import EXACT, label
from tests.engine.test_served_law_mtp import Fleeting, make_head
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.backends.tabular import random_table
from leeway.backends.tabular_head import TabularHead
from leeway.core.errors import BackendError
from leeway.core.types import Acceptance


def run_seeded(requests, ids=(0, 2, 3), seed=6, chunk_len=4, head_options=None, **options):
    """Run requests on one engine with keyed coins: name to (tokens, steps)."""
    table = random_table(4, 1, seed=seed)
    head = make_head(table, ids, prefill_chunk_len=chunk_len, **(head_options or {}))
    engine = make_engine(
        table,
        drafter=Fleeting(head, 4),
        num_speculative_tokens=3,
        prefill_chunk_len=chunk_len,
        **options,
    )
    finished = run_all(engine, *requests)
    assert head.num_open() == engine.parts.backend.num_open() == 0
    return {
        name: (token_ids(deltas), deltas[-1].receipt.per_step) for name, deltas in finished.items()
    }


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
@pytest.mark.parametrize("seed", range(4))
def test_t01_greedy_answers_are_those_of_plain_decoding(acceptance, seed):
    request = ask((0, 2), max_tokens=20, temperature=0.0)
    tokens, steps = run_seeded([request], seed=seed, acceptance=acceptance)["a"]
    table, context = random_table(4, 1, seed=seed), [0, 2]
    for _ in range(20):
        context.append(int(table[tuple(context[-1:])].argmax()))
    assert list(tokens) == context[2:]
    assert sum(drafted for drafted, _ in steps) > 0


LONG = tuple(np.random.default_rng(3).integers(0, 4, size=37).tolist())
REQUESTS = [
    ask((0,), "one", max_tokens=20, seed=1),
    ask((3, 1, 2, 2, 0, 1), "six", max_tokens=14, seed=2, temperature=0.7, top_k=3),
    ask(LONG, "long", max_tokens=18, seed=3, top_p=0.9),
    ask((1, 1), "greedy", max_tokens=9, temperature=0.0, frequency_penalty=0.4),
]


@pytest.mark.parametrize("law", ["rejection", "block"])
def test_t17_requests_together_equal_each_alone(law):
    together = run_seeded(REQUESTS, acceptance=Acceptance(law))
    waiting = run_seeded(REQUESTS, acceptance=Acceptance(law), max_num_seqs=2)
    for request in REQUESTS:
        alone = run_seeded([request], acceptance=Acceptance(law))[request.request_id]
        assert alone == together[request.request_id] == waiting[request.request_id]
        steps = alone[1]
        assert sum(drafted for drafted, _ in steps) > 0
        assert request.request_id == "greedy" or sum(accepted for _, accepted in steps) > 0


@pytest.mark.parametrize("chunk_len", [1, 3, 16, 17, 64])
def test_t24_where_prompts_are_cut_changes_no_draft(chunk_len):
    assert run_seeded(REQUESTS, chunk_len=chunk_len) == run_seeded(REQUESTS)


@pytest.mark.parametrize("context_len", [1, 2, 12, 30, 38, 50])
def test_t16_t24_a_head_of_shorter_context_drafts_less_and_then_nothing(context_len):
    """Tokens t of the text take positions 0 to t - 1 of the head; no step fails."""
    options = {"context_len": context_len}
    for request in REQUESTS:
        tokens, steps = run_seeded([request], head_options=options)[request.request_id]
        assert len(tokens) == request.sampling.max_tokens
        text_len = len(request.prompt_token_ids) + 1
        for drafted, accepted in steps[1:]:
            assert drafted <= max(0, context_len - text_len + 2)
            text_len += accepted + 1


def fail_once(monkeypatch, num_good):
    """Let one forward of table heads fail behind `num_good` good ones; return their counter."""
    forward, calls = TabularHead.forward, itertools.count()

    def failing(self, inputs):
        if next(calls) == num_good:
            raise BackendError("a passing failure")
        return forward(self, inputs)

    monkeypatch.setattr(TabularHead, "forward", failing)
    return calls


@pytest.mark.parametrize("num_good", range(1, 16, 2))
def test_a_forward_of_the_head_that_fails_once_is_made_up_for(num_good, monkeypatch):
    """The engine tries each request alone; drafts and answers are those of an undisturbed run."""
    expected = run_seeded(REQUESTS)
    calls = fail_once(monkeypatch, num_good)
    assert run_seeded(REQUESTS) == expected
    assert next(calls) > num_good


def test_t24_a_head_that_always_fails_costs_drafts_and_nothing_else(monkeypatch, caplog):
    def failing(self, inputs):
        raise BackendError("the head is broken")

    monkeypatch.setattr(TabularHead, "forward", failing)
    found = run_seeded(REQUESTS)
    for request in REQUESTS:
        tokens, steps = found[request.request_id]
        assert len(tokens) == request.sampling.max_tokens
        assert set(steps) == {(0, 0)} and len(steps) == len(tokens)
    warned = [
        f"{one.request_id}: mtp failed and is given up: the head is broken" for one in REQUESTS
    ]
    assert sorted(caplog.messages) == sorted(warned)


def test_t15_a_cancelled_request_leaves_nothing_behind():
    table = random_table(4, 1, seed=6)
    head = make_head(table, (0, 2, 3))
    engine = make_engine(table, drafter=Fleeting(head, 4))
    for request in REQUESTS:
        engine.add(request)
    for _ in range(5):
        engine.step()
    assert head.num_open() > 0
    for request in REQUESTS:
        engine.cancel(request.request_id)
    assert head.num_open() == 0
