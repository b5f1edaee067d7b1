"""The draft head as drafter: rows are those drawn from, its cache follows the committed text."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from tests.support.array_files import ArrayFiles
from tests.support.array_heads import ArrayHead

from leeway.backends.base import ForwardOutput, HeadInput
from leeway.backends.openvino.head import OpenVINOHead
from leeway.core.errors import BackendError, CapacityError
from leeway.core.rng import KeyedCoins, Purpose
from leeway.core.types import Draft, SamplingParams
from leeway.drafters.base import MAX_SHARED_BACKLOG, DraftAsk, Observation
from leeway.drafters.mtp import MTPDrafter
from leeway.sampling.penalties import History
from leeway.sampling.warp import softmax, warp

VOCAB, HIDDEN = 265, 64
IDS = 2 * np.arange(100)
PLAIN = SamplingParams()
TOP = SamplingParams(top_k=12, top_p=0.95)
TARGET, HEAD = ArrayFiles(), ArrayHead(num_draft_tokens=100)


def make_head(**settings: object) -> OpenVINOHead:
    return OpenVINOHead(HEAD, TARGET, num_threads=1, **{"kv_capacity_tokens": 4096, **settings})


@pytest.fixture(scope="module")
def head():
    return make_head()


def state(tokens) -> np.ndarray:
    """A target's hidden state at the last of these tokens: any function of the text will do."""
    seed = np.frombuffer(np.array(tokens, np.int32).tobytes(), np.uint8)
    return np.random.default_rng(seed).standard_normal(HIDDEN).astype(np.float32)


@dataclass
class Text:
    """One request as the engine drives it: shown what was cached, asked for drafts."""

    drafter: MTPDrafter
    tokens: list[int]
    sampling: SamplingParams = PLAIN
    name: str = "a"
    num_observed: int = field(default=0, init=False)

    def observe(self, end: int | None = None) -> None:
        end = len(self.tokens) - 1 if end is None else end
        rows = [state(self.tokens[: t + 1]) for t in range(self.num_observed, end)]
        hidden = np.array(rows, np.float32).reshape(len(rows), HIDDEN)
        self.drafter.observe([Observation(self.name, self.tokens, self.num_observed, hidden)])
        hidden[...] = np.nan  # valid only during the call
        self.num_observed = end

    def ask(self, num: int = 3, raw: bool = False) -> DraftAsk:
        counts = Counter(self.tokens[10:])
        return DraftAsk(
            request_id=self.name,
            token_ids=self.tokens,
            num_draft_tokens=num,
            sampling=self.sampling,
            history=History(frozenset(self.tokens[:10]), counts),
            coins=KeyedCoins(3),
            step=len(self.tokens),
            keep_raw_probs=raw,
        )

    def propose(self, num: int = 3) -> Draft:
        return self.drafter.propose([self.ask(num)])[0]

    def commit(self, draft: Draft, num_accepted: int, last: int) -> None:
        self.tokens += [*draft.token_ids[:num_accepted], last]
        self.observe()


def fresh(head, text: Text, num: int = 3) -> Draft:
    """The draft of a drafter that saw the whole text at once."""
    other = Text(MTPDrafter(head, VOCAB), list(text.tokens), text.sampling, text.name)
    other.observe()
    draft = other.propose(num)
    other.drafter.forget(text.name)
    return draft


def same(one: Draft, other: Draft) -> bool:
    assert one.token_ids == other.token_ids
    np.testing.assert_array_equal(one.rows.token_ids, other.rows.token_ids)
    np.testing.assert_array_equal(one.rows.probs, other.rows.probs)
    return True


def text_of(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 256, length).tolist()


@pytest.mark.parametrize(
    "sampling",
    [PLAIN, TOP, SamplingParams(temperature=0.7, min_p=0.1), SamplingParams(temperature=0)],
    ids=["plain", "top", "min_p", "greedy"],
)
@pytest.mark.parametrize("num", [1, 3, 6])
def test_rows_are_the_heads_and_tokens_are_drawn_from_them(head, sampling, num):
    """Step by step by hand: the head's own state goes on, and a longer draft recurses."""
    text = Text(MTPDrafter(head, VOCAB), text_of(9), sampling)
    text.observe()
    draft = text.propose(num)
    assert len(draft.token_ids) == num
    handle = head.open()
    states = np.array([state(text.tokens[: t + 1]) for t in range(8)])
    next_ids = text.tokens[1:]
    for index, token_id in enumerate(draft.token_ids):
        output = head.forward([HeadInput(handle, states, next_ids, 1)])
        rows = warp(output.logits, sampling)
        whole = np.zeros(VOCAB)
        whole[IDS if rows.token_ids is None else IDS[rows.token_ids]] = rows.probs[0]
        drafted = np.zeros(VOCAB)
        drafted[draft.rows.token_ids] = draft.rows.probs[index]
        np.testing.assert_array_equal(drafted, whole)
        assert token_id in IDS and drafted[token_id] > 0
        column = KeyedCoins(3).draw(
            rows.probs[0], step=len(text.tokens), row=index, purpose=Purpose.DRAFT
        )
        ids = IDS if rows.token_ids is None else IDS[rows.token_ids]
        assert ids[column] == token_id
        states, next_ids = output.hidden[-1:].copy(), [token_id]
    head.close(handle)
    text.drafter.forget("a")


@pytest.mark.parametrize("sampling", [PLAIN, TOP], ids=["plain", "top"])
def test_every_pattern_of_accepted_counts_leaves_the_state_of_a_fresh_reading(head, sampling):
    for pattern in itertools.product(range(4), repeat=2):
        text = Text(MTPDrafter(head, VOCAB), text_of(12), sampling)
        text.observe()
        for step, num_accepted in enumerate(pattern):
            draft = text.propose()
            assert same(draft, fresh(head, text))
            text.commit(draft, num_accepted, last=40 + step)
        assert same(text.propose(), fresh(head, text))
        text.drafter.forget("a")
    head.check_integrity()


def test_long_random_histories_across_blocks_and_lengths(head):
    rng = np.random.default_rng(8)
    text = Text(MTPDrafter(head, VOCAB), text_of(25), TOP)
    text.observe()
    for step in range(50):
        draft = text.propose(int(rng.integers(1, 6)))
        text.commit(draft, int(rng.integers(0, len(draft.token_ids) + 1)), int(rng.integers(256)))
        if step % 5 == 0:
            assert same(text.propose(), fresh(head, text))
    assert len(text.tokens) > 130
    text.drafter.forget("a")
    head.check_integrity()


def test_a_cache_that_keeps_drafts_is_caught(head):
    """The planted fault: without the roll-back the comparison above must fail."""

    class Forgetful(MTPDrafter):
        def propose(self, asks):
            kept, self.head.truncate = self.head.truncate, lambda *args: None
            try:
                return super().propose(asks)
            finally:
                self.head.truncate = kept

    text = Text(Forgetful(make_head(), VOCAB), text_of(12))
    text.observe()
    draft = text.propose()
    text.tokens += [*draft.token_ids[:2], 40]
    text.observe()
    with pytest.raises((AssertionError, IndexError, ValueError)):
        same(text.propose(), fresh(head, text))


def test_steps_without_a_draft_are_caught_up_with(head):
    text = Text(MTPDrafter(head, VOCAB), text_of(12))
    text.observe()
    for token_id in text_of(50, seed=2):
        text.tokens.append(token_id)
        text.observe()
    assert same(text.propose(), fresh(head, text))
    assert same(text.propose(), fresh(head, text))  # asked again: nothing was committed
    text.drafter.forget("a")


@pytest.mark.parametrize("prefill_chunk_len", [16, 512])
@pytest.mark.parametrize("length", [2, 17, 18, 19, 150])
def test_how_the_prompt_is_shown_does_not_change_drafts(head, length, prefill_chunk_len):
    expected = fresh(head, Text(MTPDrafter(head, VOCAB), text_of(length)))
    other = make_head(prefill_chunk_len=prefill_chunk_len)
    for chunk_len in (1, 7, 16, 90):
        text = Text(MTPDrafter(other, VOCAB), text_of(length))
        for end in range(chunk_len, length - 1, chunk_len):
            text.observe(end)
        text.observe()
        assert other.cached_len(text.drafter._followers["a"].handle) <= length - 2
        assert len(text.drafter._followers["a"].states) <= MAX_SHARED_BACKLOG
        assert same(text.propose(), expected)
        text.drafter.forget("a")


def test_a_batch_equals_singles(head):
    drafter = MTPDrafter(head, VOCAB)
    samplings = [PLAIN, TOP, SamplingParams(temperature=0), TOP, PLAIN]
    lengths = [3, 40, 12, 2, 130]
    texts = [
        Text(drafter, text_of(length, seed), sampling, f"r{seed}")
        for seed, (length, sampling) in enumerate(zip(lengths, samplings, strict=True))
    ]
    for text in texts:
        text.observe()
    for nums in ([3, 3, 3, 3, 3], [1, 5, 2, 3, 4]):
        asks = [text.ask(num) for text, num in zip(texts, nums, strict=True)]
        together = drafter.propose(asks)
        for text, num, draft in zip(texts, nums, together, strict=True):
            assert len(draft.token_ids) == num
            assert same(draft, fresh(head, text, num))
            text.commit(draft, num // 2, 7)
    for text in texts:
        drafter.forget(text.name)
    head.check_integrity()


BIASED = {1: 50.0, 3: -100.0, 2: 3.0, 4: -100.0}  # odd ids lie outside the draft vocabulary


@pytest.mark.parametrize("temperature", [0, 1])
def test_bias_and_penalties_act_by_token_id(head, temperature):
    text = Text(MTPDrafter(head, VOCAB), text_of(30))
    text.observe()
    logits = np.full(VOCAB, -np.inf)
    logits[IDS] = np.log(text.propose(1).rows.probs[0].astype(np.float64))
    for token_id, bias in BIASED.items():
        logits[token_id] += bias
    for token_id, count in Counter(text.tokens[10:]).items():
        logits[token_id] -= 0.3 * count + 0.5
    text.sampling = SamplingParams(
        temperature=temperature, logit_bias=BIASED, presence_penalty=0.5, frequency_penalty=0.3
    )
    draft = text.propose(1)
    if temperature:
        assert np.abs(draft.rows.probs[0] - softmax(logits[None])[0][IDS]).max() < 1e-5
    else:
        assert draft.token_ids == (int(logits.argmax()),)
    text.sampling = replace(text.sampling, repetition_penalty=2.0)
    assert len(text.propose().token_ids) == 3
    text.drafter.forget("a")


def test_banning_the_whole_draft_vocabulary_still_drafts(head):
    sampling = SamplingParams(logit_bias=dict.fromkeys(range(VOCAB), -100.0), top_k=5)
    text = Text(MTPDrafter(head, VOCAB), text_of(10), sampling)
    text.observe()
    assert same(text.propose(), fresh(head, text))
    text.drafter.forget("a")


def test_raw_rows_cover_the_whole_vocabulary(head):
    text = Text(MTPDrafter(head, VOCAB), text_of(10), SamplingParams(temperature=0))
    text.observe()
    draft = text.drafter.propose([text.ask(raw=True)])[0]
    assert draft.raw_probs.shape == (3, VOCAB)
    assert np.allclose(draft.raw_probs.sum(axis=-1), 1, atol=1e-5)
    assert not draft.raw_probs[:, 1::2].any() and not draft.raw_probs[:, 200:].any()
    warm = replace(text, sampling=PLAIN).propose(1)
    np.testing.assert_array_equal(draft.raw_probs[0, IDS], warm.rows.probs[0])
    text.drafter.forget("a")


def test_forget_frees_the_cache_and_a_name_can_come_back(head):
    shared, head = head, make_head(kv_capacity_tokens=128)
    drafter = MTPDrafter(head, VOCAB)
    for seed in range(4):
        for name in ("a", "b"):
            text = Text(drafter, text_of(60, seed), PLAIN, name)
            text.observe()
            assert same(text.propose(), fresh(shared, text))
        drafter.forget("a")
        drafter.forget("b")
        drafter.forget("never seen")
        head.check_integrity()
        assert head._model.pool.num_free_blocks == 4


def test_without_room_the_draft_fails_and_leaves_no_trace():
    head = make_head(kv_capacity_tokens=64)
    text = Text(MTPDrafter(head, VOCAB), text_of(60))
    text.observe()
    with pytest.raises(CapacityError, match="0 of 2 blocks"):
        text.propose(12)
    head.check_integrity()
    assert same(text.propose(5), fresh(make_head(), text, 5))


def test_drafts_stop_at_the_heads_context_end():
    target = ArrayFiles(context_len=40)
    settings = {"num_threads": 1, "kv_capacity_tokens": 256}
    small = OpenVINOHead(ArrayHead(target=target.spec), target, **settings)
    lens = []
    for length in (37, 39, 41, 42, 60):
        text = Text(MTPDrafter(small, VOCAB), text_of(length))
        text.observe()
        lens.append(len(text.propose(5).token_ids))
        text.drafter.forget("a")
    assert lens == [5, 3, 1, 0, 0]


def test_a_head_that_fails_on_a_prompt_says_so_when_a_draft_is_asked_for():
    class Failing:
        hidden_size, draft_token_ids, depth = HIDDEN, None, 3
        context_len, prefill_chunk_len = 256, 512
        fails = True

        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def forward(self, inputs) -> ForwardOutput:
            if self.fails:
                raise BackendError("the head gave a number that is not finite")
            return self.inner.forward(inputs)

    head = Failing(OpenVINOHead(ArrayHead(), TARGET, num_threads=1, kv_capacity_tokens=512))
    text = Text(MTPDrafter(head, VOCAB), text_of(60))
    text.observe()
    with pytest.raises(BackendError, match="not finite"):
        text.propose()
    head.fails = False
    assert same(text.propose(), fresh(head.inner, text))


@pytest.mark.parametrize(("kept_len", "found"), [(130, 128), (97, 96), (96, 64), (40, 32), (10, 0)])
def test_t18_positions_taken_over_give_the_drafts_of_a_whole_reading(head, kept_len, found):
    """The last of 32 positions needs the token behind it, so 97 alike give 96."""
    shared, head = head, make_head()
    drafter = MTPDrafter(head, VOCAB)
    first = Text(drafter, text_of(130), PLAIN, "first")
    first.observe()
    first.propose()
    drafter.share("first")
    for is_gone in (False, True):
        if is_gone:
            drafter.forget("first")
        second = Text(drafter, [*text_of(130)[:kept_len], *text_of(20, seed=9)], TOP, "second")
        second.num_observed = drafter.start("second", second.tokens, 128)
        assert second.num_observed == found
        second.observe()
        for _ in range(3):
            draft = second.propose()
            assert same(draft, fresh(shared, second))
            second.commit(draft, 1, 7)
            second.observe()
        drafter.suspend("second")
        head.check_integrity()


def test_a_suspended_request_drafts_on_as_if_it_had_not_been(head):
    drafter = MTPDrafter(make_head(), VOCAB)
    text = Text(drafter, text_of(70))
    text.observe()
    text.propose()
    drafter.suspend("a")
    assert drafter.head._model.pool.num_open == 0
    text.num_observed = 0
    text.observe()
    assert same(text.propose(), fresh(head, text))


class BrokenHead:
    """A head whose forwards fail; counts them."""

    hidden_size, draft_token_ids, depth = HIDDEN, None, 3
    context_len, prefill_chunk_len = 256, 512

    def __init__(self):
        self.inner, self.num_tried = make_head(), 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def forward(self, inputs) -> ForwardOutput:
        self.num_tried += 1
        raise BackendError("the head is broken")


def test_a_head_that_fails_twice_on_a_prompt_is_shown_no_more_of_it():
    head = BrokenHead()
    drafter = MTPDrafter(head, VOCAB)
    text = Text(drafter, text_of(200))
    for end in range(20, 200, 20):
        text.observe(end)
    assert head.num_tried == 2 and len(drafter._followers["a"].states) == 0
    text.observe()
    with pytest.raises(BackendError, match="broken"):
        text.propose()
    drafter.share("a")
    assert head.num_tried == 2


def test_a_request_that_was_given_up_takes_in_nothing_until_its_name_comes_back(head):
    drafter = MTPDrafter(head, VOCAB)
    text = Text(drafter, text_of(40))
    text.observe()
    assert drafter.give_up("a") is False and not drafter._followers
    assert drafter.start("a", text.tokens, 32) == 32
    text.commit(Draft(()), 0, 7)
    text.observe()
    assert not drafter._followers
    drafter.forget("a")
    again = Text(drafter, text_of(40))
    again.observe()
    assert len(again.propose().token_ids) == 3
    drafter.forget("a")
