"""Admission, chunked prefill, reservation and refusals, without any model."""

import pytest

from leeway.backends.tabular import TabularBackend, random_table
from leeway.core.errors import CapacityError, ContextLengthError
from leeway.core.types import Request, SamplingParams
from leeway.scheduler.budget import draft_budget
from leeway.scheduler.scheduler import Scheduler
from leeway.scheduler.sequence import Sequence


def backend(**changes):
    return TabularBackend(random_table(3, 0, seed=0), order=0, **changes)


def sequence(name, prompt_len, max_tokens=4, num_speculative_tokens=3):
    request = Request(name, tuple([1] * prompt_len), SamplingParams(max_tokens=max_tokens))
    return Sequence(
        request=request,
        law=None,
        requested_law="rejection",
        num_speculative_tokens=num_speculative_tokens,
        seed=0,
        coins=None,
        detokenizer=None,
        stop_strings=None,
    )


def names(sequences):
    return [one.request.request_id for one in sequences]


def test_prompts_are_fed_in_chunks_that_share_one_budget():
    scheduler = Scheduler(backend(prefill_chunk_len=4), max_num_seqs=4)
    for name, prompt_len in (("a", 6), ("b", 3), ("c", 2)):
        scheduler.add(sequence(name, prompt_len))
    plan = scheduler.plan()
    assert plan.decoding == ()
    assert [(one.request.request_id, size) for one, size in plan.prefilling] == [("a", 4)]
    plan.prefilling[0][0].num_cached = 4
    plan = scheduler.plan()
    assert [(one.request.request_id, size) for one, size in plan.prefilling] == [("a", 2), ("b", 2)]


def test_decoding_goes_on_beside_a_prefill():
    scheduler = Scheduler(backend(), max_num_seqs=4)
    first = sequence("a", 3)
    scheduler.add(first)
    scheduler.plan()
    first.num_cached = 3
    first.token_ids.append(2)
    scheduler.add(sequence("b", 5))
    plan = scheduler.plan()
    assert names(plan.decoding) == ["a"]
    assert [(one.request.request_id, size) for one, size in plan.prefilling] == [("b", 4)]


def test_admission_is_first_come_and_bounded_by_sequences():
    scheduler = Scheduler(backend(), max_num_seqs=2)
    first, second, third = (sequence(name, 2) for name in "abc")
    for one in (first, second, third):
        scheduler.add(one)
    assert names(scheduler.plan().members()) == ["a", "b"]
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 1)
    scheduler.remove(first)
    assert names(scheduler.plan().members()) == ["b", "c"]
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 0)


def grow(one, num_tokens=1):
    """Commit so many tokens, as a step does: all but the last are cached."""
    one.token_ids += [2] * num_tokens
    one.num_cached = len(one.token_ids) - 1


def test_admission_waits_for_room_for_the_text_and_a_little_more():
    """Of 6 blocks of 4 the first one's text, drafts and spare take 3, and so do the second's."""
    target = backend(capacity_tokens=24, block_len=4)
    scheduler = Scheduler(target, max_num_seqs=4)
    first, second, third = (sequence(name, 5, max_tokens=19) for name in "abc")
    for one in (first, second, third):
        scheduler.add(one)
    scheduler.plan()
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 1)
    assert target.num_open() == 2 and scheduler.num_reserved_tokens == 0
    grow(first)
    assert scheduler.num_reserved_tokens == 8
    scheduler.remove(second)
    scheduler.plan()
    assert (scheduler.num_running, scheduler.num_waiting) == (1, 1)  # the first one needs 4 now
    scheduler.remove(first)
    scheduler.add(sequence("d", 5, max_tokens=19))
    scheduler.plan()
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 0)


def test_a_short_answer_is_promised_no_more_than_it_can_become():
    target = backend(capacity_tokens=16, block_len=4)
    scheduler = Scheduler(target, max_num_seqs=4)
    for name in "abcde":
        scheduler.add(sequence(name, 2, max_tokens=2))
    scheduler.plan()
    assert (scheduler.num_running, scheduler.num_waiting) == (4, 1)


def test_the_youngest_gives_up_its_cache_and_is_first_in_line():
    told = []
    target = backend(capacity_tokens=24, block_len=4)
    scheduler = Scheduler(target, max_num_seqs=2, on_preempt=told.append)
    first, second, third = (sequence(name, 5, max_tokens=19) for name in "abc")
    for one in (first, second, third):
        scheduler.add(one)
    scheduler.plan()
    grow(first, 4)
    grow(second, 3)
    assert names(scheduler.plan().decoding) == ["a", "b"]  # 3 + 3 blocks with the drafts
    grow(first, 1)
    plan = scheduler.plan()
    assert names(plan.decoding) == ["a"] and told == [second]
    assert second.handle is None and target.num_open() == 1
    assert (second.num_cached, second.num_observed) == (0, 0)
    assert second.tally.num_preemptions == 1
    assert (scheduler.num_running, scheduler.num_waiting) == (1, 2)
    scheduler.remove(first)
    plan = scheduler.plan()
    assert [(one.request.request_id, size) for one, size in plan.prefilling] == [("b", 4)]
    second.num_cached = 4
    assert second.num_to_prefill == 3  # all but the last of 8
    assert second.num_prefill_rows(3) == 0


def test_the_oldest_always_goes_on_alone():
    target = backend(capacity_tokens=24, block_len=4)
    scheduler = Scheduler(target, max_num_seqs=4)
    first, second = sequence("a", 5, max_tokens=19), sequence("b", 5, max_tokens=19)
    scheduler.add(first)
    scheduler.add(second)
    scheduler.plan()
    for _ in range(18):
        grow(first)
        assert "a" in names(scheduler.plan().decoding)
    assert scheduler.num_running == 1


def test_a_waiting_request_can_be_removed():
    target = backend()
    scheduler = Scheduler(target, max_num_seqs=1)
    first, second = sequence("a", 2), sequence("b", 2)
    scheduler.add(first)
    scheduler.add(second)
    scheduler.plan()
    scheduler.remove(second)
    assert (scheduler.num_running, scheduler.num_waiting, target.num_open()) == (1, 0, 1)


def test_a_plan_splits_into_one_a_sequence():
    scheduler = Scheduler(backend(), max_num_seqs=4)
    first, second = sequence("a", 3), sequence("b", 4)
    scheduler.add(first)
    scheduler.plan()
    first.num_cached = 3
    first.token_ids.append(2)
    scheduler.add(second)
    parts = scheduler.plan().split()
    assert [part.decoding for part in parts] == [(first,), ()]
    assert [part.prefilling for part in parts] == [(), ((second, 4),)]


@pytest.mark.parametrize("prompt_len", [64, 65, 200])
def test_a_prompt_as_long_as_the_context_is_refused_with_the_numbers(prompt_len):
    scheduler = Scheduler(backend(context_len=64), max_num_seqs=1)
    with pytest.raises(ContextLengthError, match=rf"{prompt_len} tokens.*64"):
        scheduler.check_fits(sequence("a", prompt_len).request)


def test_what_can_never_fit_the_cache_is_refused_with_the_numbers():
    scheduler = Scheduler(backend(context_len=64, capacity_tokens=32), max_num_seqs=1)
    scheduler.check_fits(sequence("a", 20, max_tokens=12).request)
    with pytest.raises(CapacityError, match=r"36 cache slots.*20 tokens.*13.*blocks of 4.*has 32"):
        scheduler.check_fits(sequence("a", 20, max_tokens=13).request)


def test_max_tokens_beyond_the_context_reserves_only_the_context():
    scheduler = Scheduler(backend(context_len=64, capacity_tokens=64), max_num_seqs=1)
    scheduler.check_fits(sequence("a", 20, max_tokens=10_000).request)


@pytest.mark.parametrize(
    ("output_len", "max_tokens", "context_len", "expected"),
    [(0, 10, 64, 3), (7, 10, 64, 2), (8, 10, 64, 1), (9, 10, 64, 0), (0, 10, 7, 1), (0, 10, 6, 0)],
)
def test_the_draft_budget_never_exceeds_what_can_be_committed(
    output_len, max_tokens, context_len, expected
):
    one = sequence("a", 5, max_tokens=max_tokens)
    one.token_ids += [1] * output_len
    assert draft_budget(one, context_len) == expected


def test_only_what_was_cached_counts_as_given_up():
    """The third is admitted and has read nothing when the first outgrows the cache."""
    target = backend(capacity_tokens=32, block_len=4)
    scheduler = Scheduler(target, max_num_seqs=3)
    first, second, third = sequence("a", 3, 29), sequence("b", 3, 29), sequence("c", 2, 1)
    for one in (first, second, third):
        scheduler.add(one)
    scheduler.plan()
    assert scheduler.num_running == 3
    grow(first, 24)
    grow(second, 1)
    scheduler.plan()
    assert scheduler.num_running == 1
    assert [one.tally.num_preemptions for one in (first, second, third)] == [0, 1, 0]
