"""The prefix cache: hits change nothing but the time, and nothing unverified is ever found."""

import pytest
from tests.support.loaded_engine import (
    DRAFTERS,
    LAWS,
    VOCAB,
    alone,
    answer_of,
    check_books,
    check_contents,
    engine_of,
    serve,
)
from tests.support.tabular_engine import ask, run_all, token_ids

from leeway.backends.tabular import TabularBackend
from leeway.core.errors import BackendError
from leeway.core.types import FinishReason, Request, SamplingParams
from leeway.drafters.mtp import MTPDrafter
from leeway.engine.prefix_cache import PrefixCache
from leeway.kvcache.prefix_index import PrefixIndex

SAMPLINGS = [{}, {"temperature": 0.0}, {"temperature": 0.7, "top_k": 3, "presence_penalty": 0.5}]
SYSTEM = (0, 1, 2, 3, 3, 1, 0, 2, 2, 1, 3)
DRAFTING = [drafter for drafter in DRAFTERS if drafter != "none"]


def cached_tokens(deltas):
    return deltas[-1].receipt.tally.num_cached_tokens


def turn(name, prompt, **sampling):
    return ask(tuple(prompt), name, **{"max_tokens": 14, "seed": 5} | sampling)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t18_a_then_b_then_a_again_equals_cold_answers(drafter, acceptance, sampling):
    engine = engine_of(drafter, acceptance)
    for round_, prompt in enumerate((SYSTEM, (*SYSTEM[:6], 0, 0, 2), SYSTEM, SYSTEM[:8])):
        request = turn(f"r{round_}", prompt, **sampling)
        assert serve(engine, request)[request.request_id] == alone(
            drafter, request, acceptance=acceptance
        )
    total = sum(tally.num_cached_tokens for tally in engine.totals.values())
    assert total == 0 + 4 + 8 + 4


@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t18_a_conversation_reads_only_what_is_new(drafter, acceptance):
    engine = engine_of(drafter, acceptance)
    prompt, known = list(SYSTEM), 0
    for round_ in range(4):
        request = turn(f"r{round_}", prompt, max_tokens=7, seed=round_)
        deltas = run_all(engine, request)[request.request_id]
        assert answer_of(deltas) == alone(drafter, request, acceptance=acceptance)
        if round_:
            # Nothing behind the last committed pair is the head's to share.
            least = (known - (5 if drafter.startswith("mtp") else 0)) // 4 * 4
            assert least <= cached_tokens(deltas) <= known // 4 * 4
            assert cached_tokens(deltas) % 4 == 0
        prompt += token_ids(deltas)
        known = len(prompt) - 1
        prompt += (round_ % VOCAB, 1)
    check_books(engine)


@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", DRAFTING)
def test_t18_rejected_drafts_are_never_cached(drafter, acceptance):
    engine = engine_of(drafter, acceptance)
    requests = [turn(f"r{seed}", SYSTEM[: 5 + seed], seed=seed) for seed in range(4)]
    answers = serve(engine, *requests)
    assert sum(drafted - accepted for one in answers.values() for drafted, accepted in one.per_step)
    texts = [
        (*request.prompt_token_ids, *answers[request.request_id].token_ids[:-1])
        for request in requests
    ]
    assert check_contents(engine, *texts) >= max(len(one) // 4 for one in texts)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t06_t18_nothing_behind_an_end_token_is_cached(drafter):
    engine = engine_of(drafter, eos_token_id=2, num_speculative_tokens=5)
    texts, num_discarded = [], 0
    for seed in range(30):
        request = turn(f"r{seed}", (0, 3, 3, 2, 0, 1, 3), seed=seed, max_tokens=50)
        deltas = run_all(engine, request)[request.request_id]
        ids = token_ids(deltas)
        assert deltas[-1].finish_reason is FinishReason.STOP and ids.index(2) == len(ids) - 1
        texts.append((*request.prompt_token_ids, *ids[:-1]))
        num_discarded += deltas[-1].receipt.tally.num_discarded_tokens
        check_contents(engine, *texts)
    assert num_discarded > 0 or drafter == "none"


@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t05_t18_nothing_behind_a_stop_string_is_cached(drafter, acceptance):
    """A token is a letter: what completed the string is text of the answer, what follows is not."""
    engine = engine_of(drafter, acceptance, num_speculative_tokens=5)
    texts, num_discarded = [], 0
    for seed in range(12):
        prompt = (0, 3, 3, 2, 0, 1, 3, 2, 0)
        request = turn(f"r{seed}", prompt, seed=seed, max_tokens=40, stop=("c", "bd"))
        deltas = run_all(engine, request)[request.request_id]
        texts.append((*prompt, *token_ids(deltas)[:-1]))
        num_discarded += deltas[-1].receipt.tally.num_discarded_tokens
        check_contents(engine, *texts)
        again = turn("again", texts[-1], seed=seed, max_tokens=6)
        answer = serve(engine, again)["again"]
        cold = alone(drafter, again, acceptance=acceptance, num_speculative_tokens=5)
        assert answer == cold
        texts.append((*texts[-1], *answer.token_ids[:-1]))
        check_contents(engine, *texts)
    assert num_discarded > 0 or drafter in {"none", "ngram"} or acceptance.law == "greedy_match"


@pytest.mark.parametrize("num_steps", range(1, 7))
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t15_t18_a_cancelled_request_leaves_only_what_it_had_committed(drafter, num_steps):
    engine = engine_of(drafter)
    engine.add(turn("a", SYSTEM, max_tokens=30))
    deltas = [delta for _ in range(num_steps) for delta in engine.step()]
    assert engine.cancel("a").finish_reason is FinishReason.CANCELLED
    check_books(engine)
    check_contents(engine, (*SYSTEM, *token_ids(deltas)[:-1]))
    again = turn("b", SYSTEM)
    assert serve(engine, again)["b"] == alone(drafter, again)


def test_t18_the_answer_that_an_error_ended_is_not_cached(monkeypatch):
    engine = engine_of()
    engine.add(turn("a", SYSTEM, max_tokens=30))
    for _ in range(12):
        engine.step()

    def failing(self, inputs):
        raise BackendError("the runtime failed")

    monkeypatch.setattr(TabularBackend, "forward", failing)
    assert engine.step()[-1].finish_reason is FinishReason.ERROR
    check_books(engine)
    assert check_contents(engine, SYSTEM) == 2


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_requests_that_run_together_share_a_prompt_as_soon_as_it_is_read(drafter):
    """A head reads the last of a prompt with its first draft, and shares that at the end."""
    engine, prompt = engine_of(drafter, prefill_chunk_len=32), (*SYSTEM, *SYSTEM)
    engine.add(turn("a", prompt))
    while not engine.step():
        pass
    engine.add(turn("b", prompt, seed=6))
    deltas = {"a": [], "b": []}
    while engine.has_work:
        for delta in engine.step():
            deltas[delta.request_id].append(delta)
    assert cached_tokens(deltas["b"]) == 20
    assert answer_of(deltas["b"]) == alone(drafter, turn("b", prompt, seed=6))
    check_books(engine)


@pytest.mark.parametrize("chunk_len", [4, 7, 16])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_equal_prompts_that_come_together_are_read_once(drafter, chunk_len):
    """All but the last of a prompt's chunks, and what a head reads with its first draft."""
    prompt = (*SYSTEM, *SYSTEM[::-1], *SYSTEM, 0, 3, 1)
    engine = engine_of(drafter, prefill_chunk_len=chunk_len)
    requests = [turn(f"r{seed}", prompt, seed=seed) for seed in range(4)]
    finished = run_all(engine, *requests)
    cached = [cached_tokens(finished[request.request_id]) for request in requests]
    unread_len = 16 if drafter.startswith("mtp") else 0
    assert cached[0] == 0
    assert min(cached[1:]) >= (len(prompt) - chunk_len - unread_len) // 4 * 4 > 0
    for request in requests:
        assert answer_of(finished[request.request_id]) == alone(drafter, request)
    check_books(engine)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_request_that_does_not_draft_needs_no_states(drafter):
    engine = engine_of(drafter)
    requests = [
        Request(name, SYSTEM, SamplingParams(max_tokens=9, seed=3), num_speculative_tokens=0)
        for name in ("a", "b")
    ]
    first, second = (run_all(engine, one)[one.request_id] for one in requests)
    assert answer_of(first) == answer_of(second)
    assert (cached_tokens(first), cached_tokens(second)) == (0, 8)
    drafted = turn("c", SYSTEM)
    assert serve(engine, drafted)["c"] == alone(drafter, drafted)
    check_books(engine)


@pytest.mark.parametrize("head_context_len", [3, 7, 8, 13, 20])
def test_a_head_of_shorter_context_shares_what_it_holds(head_context_len):
    options = {"head_context_len": head_context_len}
    engine = engine_of("mtp", **options)
    for name in "abc":
        request = turn(name, SYSTEM, max_tokens=30)
        assert serve(engine, request)[name] == alone("mtp", request, **options)


def test_off_shares_nothing():
    engine = engine_of("mtp", prefix_cache="off")
    for name in "ab":
        deltas = run_all(engine, turn(name, SYSTEM))[name]
        assert cached_tokens(deltas) == 0
        assert check_contents(engine) == 0


def test_entries_of_a_prompt_are_those_of_a_cold_one():
    engine = engine_of()
    run_all(engine, turn("a", SYSTEM))
    request = Request("b", SYSTEM, SamplingParams(max_tokens=3, seed=1), prompt_logprobs=2)
    warm = run_all(engine, request)["b"]
    cold = run_all(engine_of(prefix_cache="off"), request)["b"]
    assert warm[0].prompt_logprobs == cold[0].prompt_logprobs
    assert len(warm[0].prompt_logprobs) == len(SYSTEM) and cached_tokens(warm) == 0


def test_the_receipt_and_the_totals_name_the_cached_tokens():
    engine = engine_of()
    answers = [run_all(engine, turn(name, SYSTEM))[name][-1].receipt for name in "ab"]
    assert [one.to_dict()["cached_tokens"] for one in answers] == [0, 8]
    assert engine.totals["rejection", "none"].counts()["cached_tokens"] == 8


@pytest.mark.parametrize("drafter", ["ngram", "draft_model"])
def test_who_gave_up_nothing_is_not_counted_and_still_told_what_was_cached(drafter):
    """The first outgrows the cache while the second reads and the third has not begun."""
    engine = engine_of(drafter, capacity_tokens=64, max_num_seqs=3, prefill_chunk_len=2)
    prompt = (2, 2, *SYSTEM[:7])
    run_all(engine, ask(prompt, "warm", max_tokens=1))
    requests = [
        ask(prompt, "a", max_tokens=40, seed=6),
        ask((3,) * 34, "b", max_tokens=1),
        ask(prompt, "c", max_tokens=1),
    ]
    found = run_all(engine, *requests)
    preempted = {name: found[name][-1].receipt.tally.num_preemptions for name in "abc"}
    assert preempted == {"a": 0, "b": 1, "c": 0}
    assert (cached_tokens(found["a"]), cached_tokens(found["c"])) == (8, 8)
    assert cached_tokens(found["b"]) > 0  # what it had read itself and found again
    check_books(engine)


class TestFaults:
    """Each of these faults must be seen."""

    def serve_turns(self, drafter="none"):
        engine = engine_of(drafter)
        prompts = [SYSTEM, (*SYSTEM[:4], 0, 0, 0, 0, 1, 2), SYSTEM, (*SYSTEM[4:8], *SYSTEM)]
        for index, prompt in enumerate(prompts):
            request = turn(f"r{index}", prompt)
            assert serve(engine, request)[request.request_id] == alone(drafter, request)

    @pytest.mark.parametrize("drafter", DRAFTERS)
    def test_without_a_fault_all_is_well(self, drafter):
        self.serve_turns(drafter)

    def test_a_block_found_behind_any_beginning(self, monkeypatch):
        def keys(self, contents):
            return [bytes(contents[end - 4 : end]) for end in range(4, len(contents) + 1, 4)]

        monkeypatch.setattr(PrefixIndex, "_keys", keys)
        with pytest.raises(AssertionError, match="another text"):
            self.serve_turns()

    def test_a_block_taken_away_and_still_found(self, monkeypatch):
        monkeypatch.setattr(PrefixIndex, "take_idle", lambda self: next(iter(self._idle)))
        with pytest.raises(AssertionError):
            engine = engine_of(capacity_tokens=32)
            for seed in range(4):
                serve(engine, turn(f"r{seed}", [seed] * 9, seed=seed))

    def test_a_token_that_is_not_cached_is_shared(self, monkeypatch):
        def share(self, sequence):
            ids = sequence.token_ids[: sequence.num_cached + 1]
            self._backend.share_prefix(sequence.handle, ids)

        monkeypatch.setattr(PrefixCache, "share", share)
        with pytest.raises(AssertionError):
            self.serve_turns()

    def test_drafts_that_are_shared(self, monkeypatch):
        """Shared before the block is rolled back: what was drafted counts as text."""
        truncate = TabularBackend.truncate

        def share_first(self, handle, kept_len):
            self.share_prefix(handle, self.cached_token_ids(handle))
            truncate(self, handle, kept_len)

        monkeypatch.setattr(TabularBackend, "truncate", share_first)
        with pytest.raises(AssertionError):
            self.serve_turns("ngram")

    def test_a_head_that_claims_to_know_what_it_does_not(self, monkeypatch):
        start = MTPDrafter.start

        def boasting(self, request_id, token_ids, num_cached):
            start(self, request_id, token_ids, 0)
            self._followers[request_id].start = num_cached
            return num_cached

        monkeypatch.setattr(MTPDrafter, "start", boasting)
        with pytest.raises(AssertionError):
            self.serve_turns("mtp")
