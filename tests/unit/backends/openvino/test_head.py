"""Draft heads on tiny random decoders, against an independent reference and to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.array_files import ArrayFiles
from tests.support.array_heads import ArrayHead
from tests.support.numpy_reference import reference_head

from leeway.backends.base import HeadInput, SequenceInput
from leeway.backends.openvino import OpenVINOBackend
from leeway.backends.openvino.head import OpenVINOHead
from leeway.core.errors import BackendError, CapacityError, ModelError

RNG = np.random.default_rng(3)
IDS = RNG.integers(0, 256, 200).tolist()
STATES = RNG.standard_normal((200, 64)).astype(np.float32)
PRECISIONS = (("int8", "16bit"), ("int4", "16bit"), ("16bit", "16bit"), ("f32", "f32"))


def exact(head: ArrayHead, target: ArrayFiles, **settings: object) -> OpenVINOHead:
    return OpenVINOHead(head, target, weights="f32", kv_cache="f32", num_threads=1, **settings)


def pairs(handle: int, start: int, end: int, num_logit_rows: int | None = None) -> HeadInput:
    """The positions from `start` to `end`, with every row of logits unless told otherwise."""
    num_logit_rows = end - start if num_logit_rows is None else num_logit_rows
    return HeadInput(handle, STATES[start:end], IDS[start + 1 : end + 1], num_logit_rows)


def run(head: OpenVINOHead, *inputs: HeadInput) -> tuple[np.ndarray, np.ndarray]:
    output = head.forward(inputs)
    return output.logits.copy(), output.hidden.copy()


def one_shot(head: OpenVINOHead, end: int) -> tuple[np.ndarray, np.ndarray]:
    handle = head.open()
    rows = run(head, pairs(handle, 0, end))
    head.close(handle)
    return rows


def same(rows: tuple[np.ndarray, ...], expected: tuple[np.ndarray, ...]) -> None:
    for got, wanted in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("num_draft_tokens", [None, 40], ids=["whole", "reduced"])
@pytest.mark.parametrize("optional", [(), ("embed",), ("output",)], ids=["bare", "embed", "output"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_agrees_with_the_numpy_reference(
    family: str, optional: tuple[str, ...], num_draft_tokens: int | None, num_layers: int
) -> None:
    target = ArrayFiles(family, tied_output=optional != ())
    head = ArrayHead(
        family, optional=optional, num_draft_tokens=num_draft_tokens, num_layers=num_layers
    )
    logits, hidden = one_shot(exact(head, target), 70)
    expected_logits, expected_hidden = reference_head(head, target, STATES[:70], IDS[1:71])
    assert logits.shape == (70, target.spec.vocab_size if num_draft_tokens is None else 40)
    assert np.abs(logits - expected_logits).max() < 1e-4
    assert np.abs(hidden - expected_hidden).max() < 1e-4


def test_embedding_and_state_cannot_be_swapped() -> None:
    target, head = ArrayFiles(), ArrayHead()
    logits, _ = one_shot(exact(head, target), 30)
    project = head.tensors["project"]
    head.tensors["project"] = np.concatenate([project[:, 64:], project[:, :64]], axis=1)
    assert np.abs(logits - reference_head(head, target, STATES[:30], IDS[1:31])[0]).max() > 0.1


@pytest.mark.parametrize(("weights", "kv_cache"), PRECISIONS)
class TestBits:
    """Whatever shares its forward, a position has the same logits and state to the bit."""

    def test_chunks_of_any_length(self, weights: str, kv_cache: str) -> None:
        head = OpenVINOHead(
            ArrayHead("qwen2", num_draft_tokens=40),
            ArrayFiles("qwen2"),
            weights=weights,
            kv_cache=kv_cache,
        )
        expected = one_shot(head, 80)
        for length in (1, 2, 3, 4, 5, 16, 17, 33):
            handle = head.open()
            parts = [
                run(head, pairs(handle, start, min(start + length, 80)))
                for start in range(0, 80, length)
            ]
            head.close(handle)
            same(tuple(np.concatenate(part) for part in zip(*parts, strict=True)), expected)

    def test_the_last_row_alone_and_none(self, weights: str, kv_cache: str) -> None:
        head = OpenVINOHead(ArrayHead(), ArrayFiles(), weights=weights, kv_cache=kv_cache)
        logits, hidden = one_shot(head, 60)
        handle = head.open()
        none, states = run(head, pairs(handle, 0, 40, 0))
        assert none.shape == (0, logits.shape[1])
        same((states,), (hidden[:40],))
        same(run(head, pairs(handle, 40, 43, 1)), (logits[42:43], hidden[40:43]))
        same(run(head, pairs(handle, 43, 60, 1)), (logits[59:60], hidden[43:60]))

    def test_other_sequences_beside_it(self, weights: str, kv_cache: str) -> None:
        head = OpenVINOHead(ArrayHead(), ArrayFiles(), weights=weights, kv_cache=kv_cache)
        logits, hidden = one_shot(head, 120)
        begins, lens = (31, 64, 5, 100, 0, 63), (1, 4, 1, 7, 50, 2)
        handles = [head.open() for _ in begins]
        for handle, begin in zip(handles, begins, strict=True):
            if begin:
                head.forward([pairs(handle, 0, begin, 0)])
        for chosen in ([0, 1, 2, 3, 4, 5], [0, 2], [2], [5, 0], [4, 3]):
            ends = {i: begins[i] + lens[i] for i in chosen}
            rows = run(head, *(pairs(handles[i], begins[i], ends[i], 1) for i in chosen))
            states = np.concatenate([hidden[begins[i] : ends[i]] for i in chosen])
            same(rows, (logits[[ends[i] - 1 for i in chosen]], states))
            for i in chosen:
                head.truncate(handles[i], begins[i])

    def test_rolled_back_positions_leave_no_trace(self, weights: str, kv_cache: str) -> None:
        head = OpenVINOHead(ArrayHead(), ArrayFiles(), weights=weights, kv_cache=kv_cache)
        logits, _ = one_shot(head, 70)
        handle = head.open()
        head.forward([pairs(handle, 0, 20, 0)])
        for kept_len in range(20, 66):
            rows, states = run(head, pairs(handle, kept_len, kept_len + 1))
            np.testing.assert_array_equal(rows[0], logits[kept_len])
            for _ in range(kept_len % 4):  # go on from its own state
                _, states = run(head, HeadInput(handle, states[-1:], [IDS[100]], 1))
            head.truncate(handle, kept_len + 1)
        head.check_integrity()


@pytest.mark.parametrize("weights", ["int8", "int4", "16bit", "f32"])
def test_shares_the_targets_embedding_whatever_its_form(weights: str) -> None:
    target, settings = ArrayFiles("qwen2"), {"weights": weights, "num_threads": 1}
    embedding = OpenVINOBackend(target, **settings).embedding
    shared = OpenVINOHead(ArrayHead("qwen2"), target, embedding=embedding, **settings)
    own = OpenVINOHead(ArrayHead("qwen2"), target, **settings)
    told = [head.describe()["shares_embedding"] for head in (shared, own)]
    assert told == [True, False]
    expected = one_shot(own, 50)
    same(one_shot(shared, 50), expected)
    embedding.codes[...] = embedding.codes[::-1].copy()
    assert not np.array_equal(one_shot(shared, 50)[0], expected[0])  # the very memory, no copy


def test_a_head_with_an_embedding_of_its_own_uses_that() -> None:
    target = ArrayFiles()
    embedding = OpenVINOBackend(target, num_threads=1).embedding
    head = OpenVINOHead(ArrayHead(optional=("embed",)), target, embedding=embedding, num_threads=1)
    assert head.describe()["shares_embedding"] is False
    logits, _ = one_shot(head, 50)
    expected, _ = reference_head(ArrayHead(optional=("embed",)), target, STATES[:50], IDS[1:51])
    assert np.abs(logits - expected).mean() < 0.1


def test_the_target_runs_on_when_its_files_are_gone() -> None:
    backend = OpenVINOBackend(ArrayFiles(), num_threads=1)
    head = OpenVINOHead(ArrayHead(), ArrayFiles(), embedding=backend.embedding, num_threads=1)
    expected = one_shot(head, 20)
    handle = backend.open()
    logits = backend.forward([SequenceInput(handle, IDS[:20], 20)]).logits.copy()
    del backend
    junk = [np.full(70_000, 7, np.int8) for _ in range(50)]
    same(one_shot(head, 20), expected)
    assert np.isfinite(logits).all() and len(junk) == 50


def test_no_room_and_bad_numbers_append_nothing() -> None:
    head = exact(ArrayHead(), ArrayFiles(), kv_capacity_tokens=64)
    handle = head.open()
    head.forward([pairs(handle, 0, 60, 0)])
    with pytest.raises(CapacityError, match="0 of 2 blocks"):
        head.forward([pairs(handle, 60, 65)])
    bad = np.full((1, 64), np.nan, np.float32)
    with pytest.raises(BackendError, match="not finite"):
        head.forward([HeadInput(handle, bad, [5], 1)])
    assert head.cached_len(handle) == 60
    logits, _ = run(head, pairs(handle, 60, 64))
    expected, _ = reference_head(ArrayHead(), ArrayFiles(), STATES[:64], IDS[1:65])
    assert np.abs(logits - expected[60:]).max() < 1e-4
    head.close(handle)
    head.check_integrity()


def test_the_context_is_a_limit() -> None:
    target = ArrayFiles(context_len=40)
    head = exact(ArrayHead(target=target.spec), target)
    handle = head.open()
    head.forward([pairs(handle, 0, 39, 0)])
    logits, _ = run(head, pairs(handle, 39, 40))  # its padding lies outside the context
    expected, _ = reference_head(ArrayHead(target=target.spec), target, STATES[:40], IDS[1:41])
    assert np.abs(logits - expected[39]).max() < 1e-4
    with pytest.raises(CapacityError, match="context of 40"):
        head.forward([pairs(handle, 40, 41)])


def test_what_it_is_made_of_is_told() -> None:
    head = OpenVINOHead(
        ArrayHead(num_draft_tokens=40), ArrayFiles(), num_threads=1, kv_capacity_tokens=96
    )
    told = head.describe()
    assert told["name"] == "tiny-head" and told["draft_vocab_size"] == 40
    assert told["depth"] == head.depth == 3 and told["capacity_tokens"] == 96
    assert told["INFERENCE_NUM_THREADS"] == 1 and told["weights"] == "int8"


def test_a_missing_tensor_is_named() -> None:
    head = ArrayHead()
    del head.tensors["layers.0.up"]
    with pytest.raises(ModelError, match=r"layers\.0\.up"):
        OpenVINOHead(head, ArrayFiles())
