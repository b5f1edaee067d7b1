"""Company, lack of room and shared beginnings change no request's tokens, and lose no block."""

from dataclasses import replace

import pytest
from tests.support.loaded_engine import (
    DRAFTERS,
    LAWS,
    TABLE,
    VOCAB,
    alone,
    answer_of,
    caches_of,
    check_books,
    engine_of,
    serve,
)
from tests.support.tabular_engine import ask, run_all, token_ids

from leeway.core.errors import CapacityError, ContextLengthError
from leeway.core.types import Acceptance, FinishReason, Request, SamplingParams
from leeway.drafters.draft_model import ModelDrafter
from leeway.drafters.mtp import MTPDrafter
from leeway.scheduler.scheduler import Scheduler

SYSTEM = (0, 1, 2, 3, 3, 1, 0, 2, 2, 1, 3)
DRAFTING = [drafter for drafter in DRAFTERS if drafter != "none"]


def mixed_requests(num=10):
    """Requests of many lengths, laws and samplings, most of which begin alike."""
    samplings = [
        {},
        {"temperature": 0.0},
        {"temperature": 0.7, "top_k": 3},
        {"frequency_penalty": 0.8, "logit_bias": {2: -1.0}},
        {"stop": ("ab",)},
    ]
    requests = []
    for index in range(num):
        prompt = (*SYSTEM[: 11 - index % 4], *((index, 1, 2)[: index % 4]))
        prompt = tuple(token % VOCAB for token in (prompt if index % 5 else (3,) * (index + 1)))
        sampling = SamplingParams(
            seed=index, max_tokens=12 + 3 * (index % 5), **samplings[index % len(samplings)]
        )
        depth = None if index % 4 else index % 3
        requests.append(Request(f"r{index}", prompt, sampling, LAWS[index % len(LAWS)], depth))
    return requests


@pytest.fixture(scope="module")
def serial_answers():
    """Answers of each request alone, with room, and nothing cached."""
    return {
        drafter: {one.request_id: alone(drafter, one) for one in mixed_requests()}
        for drafter in DRAFTERS
    }


def preemptions(engine):
    return sum(tally.num_preemptions for tally in engine.totals.values())


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
@pytest.mark.parametrize(("capacity_tokens", "max_num_seqs"), [(1024, 10), (1024, 3), (64, 10)])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t17_requests_together_equal_each_alone(
    drafter, capacity_tokens, max_num_seqs, prefix_cache, serial_answers
):
    engine = engine_of(
        drafter,
        capacity_tokens=capacity_tokens,
        max_num_seqs=max_num_seqs,
        prefix_cache=prefix_cache,
    )
    requests = mixed_requests()
    assert serve(engine, *requests) == serial_answers[drafter]
    assert serve(engine, *reversed(requests)) == serial_answers[drafter]
    cached = sum(tally.num_cached_tokens for tally in engine.totals.values())
    assert (cached > 0) == (prefix_cache == "on")
    assert (preemptions(engine) > 0) == (capacity_tokens == 64)


@pytest.mark.parametrize("capacity_tokens", [48, 52, 60])
@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t17_lack_of_room_changes_no_token_under_any_law(drafter, acceptance, capacity_tokens):
    requests = [ask(SYSTEM[: 4 + seed], f"r{seed}", max_tokens=28, seed=seed) for seed in range(4)]
    engine = engine_of(drafter, acceptance, capacity_tokens=capacity_tokens)
    answers = serve(engine, *requests)
    for request in requests:
        assert answers[request.request_id] == alone(drafter, request, acceptance=acceptance)
    assert preemptions(engine) > 0


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t17_equal_requests_get_equal_answers(drafter):
    requests = [ask(SYSTEM, f"r{index}", max_tokens=20, seed=4) for index in range(6)]
    engine = engine_of(drafter, capacity_tokens=80)
    answers = serve(engine, *requests)
    assert set(answers.values()) == {alone(drafter, requests[0])}
    assert preemptions(engine) > 0


@pytest.mark.parametrize("draft_length", ["fixed", "adaptive"])
@pytest.mark.parametrize("drafter", DRAFTING)
def test_adaptive_lengths_do_not_depend_on_company_either(drafter, draft_length):
    def engine(**options):
        made = engine_of(drafter, num_speculative_tokens=5, **options)
        made.draft_length = replace(
            made.draft_length, is_adaptive=draft_length == "adaptive", draft_cost=0.2
        )
        return made

    requests = [ask(SYSTEM[: 3 + seed], f"r{seed}", max_tokens=30, seed=seed) for seed in range(5)]
    crowded = engine(capacity_tokens=64)
    answers = serve(crowded, *requests)
    assert preemptions(crowded) > 0
    for request in requests:
        own = serve(engine(prefix_cache="off"), request)
        assert answers[request.request_id] == own[request.request_id]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t03_a_seed_is_kept_in_company_and_behind_a_restart(drafter):
    request = ask(SYSTEM, "a", max_tokens=20, seed=7)
    others = [ask(SYSTEM[index:], f"o{index}", max_tokens=15) for index in range(4)]
    first = alone(drafter, request)
    assert serve(engine_of(drafter), *others[:2], request, *others[2:])["a"] == first
    assert serve(engine_of(drafter), request)["a"] == first
    seeds = {
        alone(drafter, replace(request, sampling=replace(request.sampling, seed=seed))).token_ids
        for seed in range(8)
    }
    assert len(seeds) == 8
    unseeded = [run_all(engine_of(drafter), others[0])["o0"][-1].receipt.seed for _ in range(3)]
    assert len(set(unseeded)) == 3


@pytest.mark.parametrize("num_speculative_tokens", range(1, 6))
@pytest.mark.parametrize("law", ["rejection", "block", "greedy_match", "typical", "tokenv3"])
@pytest.mark.parametrize("drafter", DRAFTING)
def test_t01_greedy_answers_are_plain_ones_across_block_borders(
    drafter, law, num_speculative_tokens
):
    """With hits, without, and with too little room; prompts end at every place of a block."""
    options = {"typical": {"delta": 0.4}, "tokenv3": {"alpha": 0.5}}.get(law, {})
    engine = engine_of(
        drafter,
        Acceptance(law, options),
        num_speculative_tokens=num_speculative_tokens,
        capacity_tokens=60,
    )
    requests = [
        ask(SYSTEM[:length], f"r{length}", max_tokens=17, temperature=0.0)
        for length in range(1, len(SYSTEM) + 1)
    ]
    answers = serve(engine, *requests)
    for request in requests:
        context = list(request.prompt_token_ids)
        while len(context) < len(request.prompt_token_ids) + 17:
            context.append(int(TABLE[tuple(context[-2:])].argmax()))
        got = answers[request.request_id]
        assert (*request.prompt_token_ids, *got.token_ids) == tuple(context)
        assert got.law == ("greedy_match" if options else law)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t15_a_hundred_cancellations_leave_nothing_and_disturb_nobody(drafter):
    engine = engine_of(drafter, capacity_tokens=64, max_num_seqs=3)
    engine.add(ask(SYSTEM, "kept", max_tokens=40, seed=2))
    deltas, reasons = [], []
    for index in range(100):
        one = ask(SYSTEM[: 1 + index % 11], f"c{index}", max_tokens=30, seed=index)
        engine.add(replace(one, acceptance=LAWS[index % len(LAWS)]))
        for _ in range(index % 4):
            deltas += [delta for delta in engine.step() if delta.request_id == "kept"]
        last = engine.cancel(f"c{index}")
        reasons.append(None if last is None else last.finish_reason)
        for cache in caches_of(engine):
            cache.check_integrity()
    while engine.has_work:
        deltas += [delta for delta in engine.step() if delta.request_id == "kept"]
    assert set(reasons) == {FinishReason.CANCELLED}
    check_books(engine)
    assert answer_of(deltas) == alone(drafter, ask(SYSTEM, "kept", max_tokens=40, seed=2))


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t15_cancelling_frees_the_cache_at_once_whatever_the_request_is_doing(drafter):
    """In prefill, in decoding, waiting, and waiting to go on."""
    engine = engine_of(drafter, capacity_tokens=48)
    for name, num_steps in (("prefill", 1), ("decoding", 6)):
        engine.add(ask(SYSTEM, name, max_tokens=30))
        for _ in range(num_steps):
            engine.step()
        engine.cancel(name)
        check_books(engine)
    engine.add(ask(SYSTEM, "old", max_tokens=30, seed=1))
    engine.add(ask(SYSTEM[:5], "young", max_tokens=30, seed=1))
    engine.add(ask(SYSTEM, "waiting", max_tokens=30))
    while engine.status()["num_requests_running"] < 2:
        engine.step()
    while engine.status()["num_requests_running"] == 2:
        engine.step()
    assert engine.cancel("young").receipt.tally.num_preemptions == 1
    assert engine.cancel("waiting").receipt.tally.num_preemptions == 0
    assert engine.parts.backend.num_open() == 1
    while engine.has_work:
        engine.step()
    check_books(engine)


@pytest.mark.parametrize("capacity_tokens", [24, 1024])
@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t16_the_last_slot_of_the_context_is_served(drafter, acceptance, capacity_tokens):
    engine = engine_of(drafter, acceptance, context_len=24, capacity_tokens=capacity_tokens)
    for prompt_len in range(19, 24):
        request = ask((*SYSTEM, *SYSTEM, 0)[:prompt_len], f"r{prompt_len}", max_tokens=50, seed=3)
        answer = serve(engine, request)[request.request_id]
        assert len(answer.token_ids) == 24 - prompt_len
        assert answer.finish_reason is FinishReason.LENGTH
        text_len = prompt_len
        for drafted, accepted in answer.per_step:
            assert text_len + drafted < 24 or not drafted
            text_len += accepted + 1
    for prompt_len in (24, 25, 40):
        with pytest.raises(ContextLengthError, match=f"{prompt_len} tokens"):
            engine.add(ask((0,) * prompt_len))
    check_books(engine)


def test_t16_what_can_never_fit_is_refused_before_anything_runs():
    engine = engine_of(capacity_tokens=24)
    with pytest.raises(CapacityError, match="28 cache slots"):
        engine.add(ask(SYSTEM, max_tokens=14))
    assert not engine.has_work
    serve(engine, ask(SYSTEM, max_tokens=13))


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t19_the_counts_of_many_requests_add_up(drafter):
    engine = engine_of(drafter, capacity_tokens=64, num_speculative_tokens=3)
    requests = mixed_requests()
    finished = run_all(engine, *requests)
    for request in requests:
        deltas = finished[request.request_id]
        tally = deltas[-1].receipt.tally
        assert tally.num_output_tokens == len(token_ids(deltas))
        assert tally.num_prompt_tokens == len(request.prompt_token_ids)
        assert tally.num_cached_tokens < tally.num_prompt_tokens
        assert 0 <= tally.num_accepted_tokens <= tally.num_draft_tokens
        assert all(len(delta.token_ids) <= 3 + 1 for delta in deltas)
        assert sorted(tally.accepted_by_depth, reverse=True) == tally.accepted_by_depth
        by_depth = zip(tally.accepted_by_depth, tally.drafted_by_depth, strict=True)
        assert all(accepted <= drafted for accepted, drafted in by_depth)
        steps = deltas[-1].receipt.per_step
        kept = sum(accepted for _, accepted in steps)
        cycles = len(steps) - 1
        assert tally.num_output_tokens == 1 + cycles + kept - tally.num_discarded_tokens
    total = sum(tally.num_output_tokens for tally in engine.totals.values())
    assert total == sum(len(token_ids(deltas)) for deltas in finished.values())
    check_books(engine)


@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t23_speculation_is_off_where_a_request_turns_it_off(drafter, acceptance):
    engine = engine_of(drafter, acceptance)
    sampling = SamplingParams(temperature=0.0, max_tokens=20)
    on = Request("on", SYSTEM, sampling)
    off = Request("off", SYSTEM, sampling, num_speculative_tokens=0)
    finished = run_all(engine, on, off)
    receipt = finished["off"][-1].receipt
    assert token_ids(finished["on"]) == token_ids(finished["off"])
    assert receipt.tally.num_draft_tokens == 0 and receipt.drafter == "none"
    assert set(receipt.per_step) == {(0, 0)}
    drafted = finished["on"][-1].receipt.tally.num_draft_tokens
    assert (drafted > 0) == (drafter != "none")


@pytest.mark.parametrize(
    ("drafter", "num", "told"),
    [("none", 3, 1.0), ("ngram", 3, 1.0), ("mtp", 3, 1.5), ("mtp_ngram", 3, 1.5), ("mtp", 0, 1.0)],
)
def test_a_receipt_has_a_draft_temperature_only_where_drafts_are_drawn(drafter, num, told):
    engine = engine_of(drafter, draft_temperature=1.5)
    request = replace(ask((0, 1, 0, 1, 0), max_tokens=6, seed=1), num_speculative_tokens=num)
    [*_, last] = run_all(engine, request)["a"]
    assert last.receipt.draft_temperature == told


@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", DRAFTING)
def test_t24_long_answers_keep_their_law_past_every_threshold(drafter, acceptance):
    """Past the backlog that shares a forward, chunks, blocks, and the end of the head's context."""
    options = {"context_len": 128, "head_context_len": 50}
    sampling = SamplingParams(max_tokens=90, seed=1)
    request = Request("a", (*SYSTEM, *SYSTEM, *SYSTEM), sampling, acceptance)
    cold = alone(drafter, request, **options)
    assert cold.law == acceptance.law and len(cold.token_ids) == 90
    for capacity_tokens in (1024, 136):
        engine = engine_of(drafter, capacity_tokens=capacity_tokens, **options)
        other = replace(request, request_id="b", sampling=replace(sampling, seed=2))
        assert serve(engine, request, other)["a"] == cold
        assert serve(engine, request)["a"] == cold


def test_a_long_prompt_does_not_hold_up_what_decodes():
    engine = engine_of(context_len=256)
    engine.add(ask((0, 1), "quick", max_tokens=20, seed=1))
    engine.step()
    engine.add(ask((1,) * 60, "long", max_tokens=5))
    for _ in range(15):
        assert next(delta.request_id for delta in engine.step()) == "quick"
    assert {delta.request_id for delta in engine.step()} <= {"quick", "long"}


def test_requests_that_wait_are_admitted_in_order_of_arrival():
    """A short one behind a long one that does not fit yet waits with it."""
    engine = engine_of(capacity_tokens=64, max_num_seqs=8)
    order = []
    requests = [ask(SYSTEM, "a", max_tokens=40), ask((1,) * 40, "b", max_tokens=20), ask((2,), "c")]
    requests[2] = ask((2,), "c", max_tokens=3)
    for request in requests:
        engine.add(request)
    while engine.has_work:
        for delta in engine.step():
            if delta.request_id not in order:
                order.append(delta.request_id)
    assert order == ["a", "b", "c"]
    check_books(engine)


class TestFaults:
    """Each of these faults must be seen."""

    def crowd(self, drafter):
        engine = engine_of(drafter, capacity_tokens=52)
        requests = [ask(SYSTEM, f"r{seed}", max_tokens=28, seed=seed) for seed in range(4)]
        answers = serve(engine, *requests)
        assert preemptions(engine) > 0
        for request in requests:
            assert answers[request.request_id] == alone(drafter, request)

    @pytest.mark.parametrize("drafter", DRAFTERS)
    def test_without_a_fault_all_is_well(self, drafter):
        self.crowd(drafter)

    def test_a_draft_model_that_forgets_what_it_had_read(self, monkeypatch):
        monkeypatch.setattr(ModelDrafter, "suspend", ModelDrafter.forget)
        monkeypatch.setattr("leeway.drafters.draft_model.MAX_SHARED_BACKLOG", 4)
        with pytest.raises(AssertionError):
            self.crowd("draft_model")

    def test_a_head_that_keeps_its_cache(self, monkeypatch):
        monkeypatch.setattr(MTPDrafter, "suspend", lambda self, request_id: None)
        with pytest.raises(AssertionError):
            self.crowd("mtp")

    def test_a_block_that_is_not_given_back(self, monkeypatch):
        monkeypatch.setattr(Scheduler, "_close", lambda self, sequence: None)
        with pytest.raises(AssertionError):
            self.crowd("none")
