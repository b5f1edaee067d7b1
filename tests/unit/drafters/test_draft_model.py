"""The draft model: rows are those drawn from, and its cache follows the committed text."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from leeway.backends.base import SequenceInput
from leeway.backends.tabular import TabularBackend, random_table
from leeway.core.errors import CapacityError
from leeway.core.rng import KeyedCoins, Purpose
from leeway.core.types import SamplingParams
from leeway.drafters.base import DraftAsk
from leeway.drafters.draft_model import ModelDrafter
from leeway.sampling.penalties import History

VOCAB = 4


@pytest.fixture
def backend():
    return TabularBackend(random_table(VOCAB, 2, seed=1), order=2, context_len=40)


PLAIN = SamplingParams()


def ask(tokens, num=3, sampling=PLAIN, request_id="a", step=0, raw=False):
    history = History(frozenset(tokens), Counter())
    return DraftAsk(request_id, tokens, num, sampling, history, KeyedCoins(3), step, raw)


def dense(draft):
    if draft.rows.token_ids is None:
        return draft.rows.probs
    probs = np.zeros((len(draft.token_ids), VOCAB))
    probs[:, draft.rows.token_ids] = draft.rows.probs
    return probs


@pytest.mark.parametrize(
    "sampling", [SamplingParams(), SamplingParams(top_k=2), SamplingParams(temperature=0)]
)
def test_rows_are_the_models_and_tokens_are_drawn_from_them(backend, sampling):
    tokens = [0, 1, 2]
    draft = ModelDrafter(backend, VOCAB).propose([ask(tokens, sampling=sampling, step=5)])[0]
    context = list(tokens)
    for index, (token_id, row) in enumerate(zip(draft.token_ids, dense(draft), strict=True)):
        exact = backend.row(context)
        if sampling.top_k:
            exact = np.where(exact >= np.sort(exact)[-2], exact, 0)
        if sampling.temperature == 0:
            exact = np.where(exact == exact.max(), 1.0, 0)
        assert np.allclose(row, exact / exact.sum(), atol=1e-12)
        drawn = KeyedCoins(3).draw(row, step=5, row=index, purpose=Purpose.DRAFT)
        assert drawn == token_id
        context.append(token_id)


@pytest.mark.parametrize("scale", [0.5, 0.0])
def test_rows_at_another_temperature_are_still_those_drawn_from(backend, scale):
    asked = SamplingParams(temperature=0.8, top_k=3)
    scaled = replace(ask([1, 2], sampling=asked), temperature_scale=scale)
    (draft,) = ModelDrafter(backend, backend.vocab_size).propose([scaled])
    cooler = SamplingParams(temperature=0.8 * scale, top_k=3)
    (wanted,) = ModelDrafter(backend, backend.vocab_size).propose([ask([1, 2], sampling=cooler)])
    assert draft.token_ids == wanted.token_ids
    np.testing.assert_array_equal(draft.rows.probs, wanted.rows.probs)
    if scale == 0:
        assert draft.rows.probs.max(axis=1).tolist() == [1.0] * len(draft.token_ids)


@pytest.mark.parametrize("num_kept", [0, 1, 2, 3])
def test_the_cache_follows_commit_and_rollback(backend, num_kept):
    drafter = ModelDrafter(backend, VOCAB)
    tokens = [0, 1, 2, 3, 0, 1]
    draft = drafter.propose([ask(tokens)])[0]
    wrong = (draft.token_ids[num_kept] + 1) % VOCAB if num_kept < 3 else 0
    tokens = [*tokens, *draft.token_ids[:num_kept], wrong]
    again = drafter.propose([ask(tokens, step=num_kept + 1)])[0]
    fresh = ModelDrafter(backend, VOCAB).propose([ask(tokens, step=num_kept + 1, request_id="b")])[
        0
    ]
    assert again.token_ids == fresh.token_ids
    assert np.array_equal(dense(again), dense(fresh))


def test_a_rejected_token_that_comes_back_later_is_not_taken_for_cached(backend):
    drafter = ModelDrafter(backend, VOCAB)
    tokens = [0, 1]
    first = drafter.propose([ask(tokens)])[0].token_ids
    tokens = [0, 1, (first[0] + 1) % VOCAB, first[1]]
    again = drafter.propose([ask(tokens, step=2)])[0]
    fresh = ModelDrafter(backend, VOCAB).propose([ask(tokens, step=2, request_id="b")])[0]
    assert np.array_equal(dense(again), dense(fresh))


def test_a_batch_equals_singles(backend):
    asks = [
        ask([0, 1, 2], 3, request_id="a"),
        ask([3], 1, request_id="b"),
        ask([2] * 9, 2, request_id="c"),
    ]
    together = ModelDrafter(backend, VOCAB).propose(asks)
    for one, draft in zip(asks, together, strict=True):
        alone = ModelDrafter(backend, VOCAB).propose([one])[0]
        assert alone.token_ids == draft.token_ids
        assert np.array_equal(dense(alone), dense(draft))


def test_a_long_prompt_is_read_one_chunk_a_step_and_the_drafts_are_the_same(backend):
    tokens = [index % VOCAB for index in range(37)]
    drafter = ModelDrafter(backend, VOCAB)
    drafts = [drafter.propose([ask(tokens)])[0] for _ in range(6)]
    assert [len(draft.token_ids) for draft in drafts] == [0, 0, 0, 0, 0, 3]
    assert backend.cached_len(0) == 37 + 2
    big = TabularBackend(backend.table, 2, context_len=40, prefill_chunk_len=64)
    at_once = ModelDrafter(big, VOCAB).propose([ask(tokens)])[0]
    assert drafts[-1].token_ids == at_once.token_ids
    assert np.array_equal(dense(drafts[-1]), dense(at_once))


def test_drafts_stop_at_the_context_end_and_forget_frees_the_cache():
    backend = TabularBackend(
        random_table(VOCAB, 2, seed=1), 2, context_len=40, prefill_chunk_len=64
    )
    drafter = ModelDrafter(backend, VOCAB)
    assert len(drafter.propose([ask([0] * 38)])[0].token_ids) == 2
    assert drafter.propose([ask([0] * 40, request_id="full")])[0].token_ids == ()
    assert backend.num_open() == 2
    drafter.forget("a")
    drafter.forget("full")
    drafter.forget("never seen")
    assert backend.num_open() == 0


def test_a_smaller_vocabulary_is_padded_with_impossible_tokens(backend):
    draft = ModelDrafter(backend, VOCAB + 3).propose([ask([0, 1])])[0]
    assert draft.rows.probs.shape == (3, VOCAB + 3)
    assert np.all(draft.rows.probs[:, VOCAB:] == 0)


def test_raw_rows_are_kept_when_asked_for(backend):
    sampling = SamplingParams(temperature=0)
    draft = ModelDrafter(backend, VOCAB).propose([ask([0, 1], sampling=sampling, raw=True)])[0]
    assert np.allclose(draft.raw_probs[0], backend.row([0, 1]), atol=1e-12)
    assert draft.raw_probs.shape == (3, VOCAB)


@pytest.mark.parametrize("num_before", range(1, 8))
def test_a_suspended_request_drafts_on_as_if_it_had_not_been(backend, num_before):
    """In the middle of reading a long prompt, and behind it; its cache is free meanwhile."""
    tokens = [index % VOCAB for index in range(30)]
    other = TabularBackend(backend.table, 2, context_len=40)
    drafters = ModelDrafter(backend, VOCAB), ModelDrafter(other, VOCAB)
    for step in range(10):
        if step == num_before:
            drafters[0].suspend("a")
            assert backend.num_open() == 0
        one, two = (drafter.propose([ask(tokens, step=step)])[0] for drafter in drafters)
        assert one.token_ids == two.token_ids
        if one.token_ids:
            assert np.array_equal(dense(one), dense(two))
            tokens += [*one.token_ids[:1], 2]
            tokens = tokens[:34]
    assert len(one.token_ids) == 3
    drafters[0].suspend("a")
    drafters[0].forget("a")
    drafters[0].suspend("a")
    backend.check_integrity()


def test_a_suspended_request_whose_text_has_no_room_yet_is_read_when_it_has(backend):
    tokens = [index % VOCAB for index in range(30)]
    backend = TabularBackend(backend.table, 2, context_len=40, capacity_tokens=40)
    drafter = ModelDrafter(backend, VOCAB)
    drafts = [drafter.propose([ask(tokens)])[0] for _ in range(6)]
    drafter.suspend("a")
    taken = backend.open()
    backend.forward([SequenceInput(taken, [0] * 20, 0)])
    for _ in range(2):
        with pytest.raises(CapacityError):
            drafter.propose([ask(tokens)])
        assert backend.num_open() == 1
    backend.close(taken)
    assert drafter.propose([ask(tokens)])[0].token_ids == drafts[-1].token_ids
    backend.check_integrity()
