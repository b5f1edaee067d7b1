"""Arrivals, steps and cancellations in any order: books balance, and each answer is its own."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.loaded_engine import (
    DRAFTERS,
    LAWS,
    Answer,
    alone,
    answer_of,
    caches_of,
    check_books,
    engine_of,
)

from leeway.core.types import FinishReason, OutputDelta, Request, SamplingParams

TEXT = (0, 1, 2, 3, 3, 1, 0, 2, 2, 1, 3, 0, 1)


@functools.cache
def request_of(kind: int) -> Request:
    """One of 24 requests of many lengths, laws, seeds and temperatures that begin alike."""
    prompt = TEXT[: 1 + (kind * 5) % 13] if kind % 4 else TEXT[::-1][: 1 + kind % 12]
    sampling = SamplingParams(
        temperature=(1.0, 0.0, 0.6)[kind % 3], seed=kind, max_tokens=4 + (kind * 7) % 25
    )
    depth = (None, None, 0, 1)[kind % 4]
    return Request(f"kind{kind}", prompt, sampling, LAWS[kind % len(LAWS)], depth)


@functools.cache
def expected(drafter: str, kind: int) -> Answer:
    return alone(drafter, request_of(kind))


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 23)),
        st.tuples(st.just("step"), st.integers(1, 6)),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
    ),
    min_size=12,
    max_size=40,
)


@pytest.mark.parametrize("drafter", DRAFTERS)
@settings(max_examples=60, deadline=None)
@given(actions=ACTIONS, num_blocks=st.integers(10, 20), max_num_seqs=st.integers(1, 5))
def test_t15_t17_t18_any_history_of_requests(drafter, actions, num_blocks, max_num_seqs):
    engine = engine_of(drafter, capacity_tokens=4 * num_blocks, max_num_seqs=max_num_seqs)
    kinds: dict[str, int] = {}
    received: dict[str, list[OutputDelta]] = {}

    def step() -> None:
        for delta in engine.step():
            received[delta.request_id].append(delta)
        for cache in caches_of(engine):
            cache.check_integrity()

    for action, number in actions:
        if action == "add":
            name = f"r{len(kinds)}"
            kinds[name], received[name] = number, []
            plain = request_of(number)
            engine.add(
                Request(
                    name,
                    plain.prompt_token_ids,
                    plain.sampling,
                    plain.acceptance,
                    plain.num_speculative_tokens,
                )
            )
        elif action == "step":
            for _ in range(number):
                step()
        elif kinds:
            name = list(kinds)[number % len(kinds)]
            last = engine.cancel(name)
            if last is not None:
                received[name].append(last)
    while engine.has_work:
        step()
    check_books(engine)
    for name, deltas in received.items():
        got, whole = answer_of(deltas), expected(drafter, kinds[name])
        if got.finish_reason is FinishReason.CANCELLED:
            assert got.token_ids == whole.token_ids[: len(got.token_ids)]
            assert got.per_step == whole.per_step[: len(got.per_step)]
        else:
            assert got == whole
