"""The backend on tiny random decoders; also the gate for another version of the runtime."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray
from tests.support.array_files import ArrayFiles
from tests.support.numpy_reference import reference_forward

from leeway.backends.base import SequenceInput
from leeway.backends.openvino import OpenVINOBackend
from leeway.core.errors import BackendError, CapacityError, ConfigError, ModelError

FAMILIES = ("llama", "qwen2", "qwen3")
PRECISIONS = (
    ("int8", "16bit"),
    ("int8", "u8"),
    ("int4", "16bit"),
    ("16bit", "16bit"),
    ("f32", "16bit"),
    ("f32", "u8"),
    ("f32", "f32"),
)
IDS = np.random.default_rng(3).integers(0, 256, 200).tolist()

Rows = NDArray[np.float32]


def exact(files: ArrayFiles, **settings: object) -> OpenVINOBackend:
    return OpenVINOBackend(files, weights="f32", kv_cache="f32", num_threads=1, **settings)


def run(backend: OpenVINOBackend, handle: int, token_ids: list[int]) -> tuple[Rows, Rows]:
    """One forward of one sequence with logits for every row, copied out."""
    output = backend.forward([SequenceInput(handle, token_ids, len(token_ids))])
    return output.logits.copy(), output.hidden.copy()


def one_shot(backend: OpenVINOBackend, token_ids: list[int]) -> tuple[Rows, Rows]:
    handle = backend.open()
    rows = run(backend, handle, token_ids)
    backend.close(handle)
    return rows


@pytest.mark.parametrize("tied_output", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_the_numpy_reference(family: str, tied_output: bool) -> None:
    files = ArrayFiles(family, tied_output=tied_output)
    logits, hidden = one_shot(exact(files), IDS[:90])
    expected_logits, expected_hidden = reference_forward(files, IDS[:90])
    assert np.abs(logits - expected_logits).max() < 1e-4  # logits have deviation 1.6
    assert np.abs(hidden - expected_hidden).max() < 1e-4


def test_rope_factors_slow_the_rotation() -> None:
    factors = np.array([1, 1, 2, 4, 8, 8, 8, 8], np.float32)
    files = ArrayFiles(changes={"rope_factors": factors})
    logits, _ = one_shot(exact(files), IDS[:60])
    assert np.abs(logits - reference_forward(files, IDS[:60])[0]).max() < 1e-4
    assert np.abs(logits - reference_forward(ArrayFiles(), IDS[:60])[0]).max() > 0.1


@pytest.mark.parametrize(
    ("weights", "kv_cache", "bound"),
    [
        ("f32", "16bit", 0.03),
        ("f32", "u8", 0.6),
        ("16bit", "16bit", 0.8),
        ("int8", "16bit", 1.6),
    ],
)
def test_each_precision_stays_near_the_reference(weights: str, kv_cache: str, bound: float) -> None:
    # A decoder of 64 random numbers a row magnifies rounding; a real one is bounded elsewhere.
    files = ArrayFiles()
    backend = OpenVINOBackend(files, weights=weights, kv_cache=kv_cache)
    logits, _ = one_shot(backend, IDS[:90])
    assert np.abs(logits - reference_forward(files, IDS[:90])[0]).max() < bound


def test_several_sequences_in_one_forward() -> None:
    files = ArrayFiles("qwen3")
    backend = exact(files)
    prompts = [IDS[:40], IDS[50:51], IDS[60:125]]
    handles = [backend.open() for _ in prompts]
    backend.forward([SequenceInput(handles[0], prompts[0][:33], 0)])
    output = backend.forward(
        [
            SequenceInput(handles[0], prompts[0][33:], 3),
            SequenceInput(handles[1], prompts[1], 1),
            SequenceInput(handles[2], prompts[2], 65),
        ]
    )
    assert output.logits.shape == (3 + 1 + 65, files.spec.vocab_size)
    assert output.hidden.shape == (7 + 1 + 65, files.spec.hidden_size)
    expected = [reference_forward(files, prompt) for prompt in prompts]
    logits = np.concatenate([expected[0][0][-3:], expected[1][0], expected[2][0]])
    hidden = np.concatenate([expected[0][1][33:], expected[1][1], expected[2][1]])
    assert np.abs(output.logits - logits).max() < 1e-4
    assert np.abs(output.hidden - hidden).max() < 1e-4
    assert [backend.cached_len(handle) for handle in handles] == [40, 1, 65]


@pytest.mark.parametrize(("weights", "kv_cache"), PRECISIONS)
class TestBits:
    """Whatever shares its forward, a token has the same logits and states to the bit."""

    def test_chunks_of_any_length(self, weights: str, kv_cache: str) -> None:
        backend = OpenVINOBackend(ArrayFiles("qwen2"), weights=weights, kv_cache=kv_cache)
        expected = one_shot(backend, IDS[:80])
        for length in (1, 2, 3, 4, 5, 8, 17, 31, 32, 33, 64):
            handle = backend.open()
            parts = [
                run(backend, handle, IDS[start : min(start + length, 80)])
                for start in range(0, 80, length)
            ]
            backend.close(handle)
            for chunked, whole in zip(zip(*parts, strict=True), expected, strict=True):
                np.testing.assert_array_equal(np.concatenate(chunked), whole, f"chunks of {length}")

    def test_other_sequences_beside_it(self, weights: str, kv_cache: str) -> None:
        backend = OpenVINOBackend(ArrayFiles(), weights=weights, kv_cache=kv_cache)
        expected, _ = one_shot(backend, IDS[:120])
        past_lens, new_lens = (31, 64, 5, 100, 0, 63), (1, 4, 1, 7, 50, 2)
        handles = [backend.open() for _ in past_lens]
        for handle, past_len in zip(handles, past_lens, strict=True):
            if past_len:
                backend.forward([SequenceInput(handle, IDS[:past_len], 0)])
        for chosen in ([0, 1, 2, 3, 4, 5], [0, 2], [2], [5, 0], [4, 3]):
            output = backend.forward(
                [
                    SequenceInput(handles[i], IDS[past_lens[i] :][: new_lens[i]], new_lens[i])
                    for i in chosen
                ]
            )
            wanted = [expected[past_lens[i] : past_lens[i] + new_lens[i]] for i in chosen]
            np.testing.assert_array_equal(output.logits, np.concatenate(wanted), f"{chosen}")
            for i in chosen:
                backend.truncate(handles[i], past_lens[i])

    def test_rolled_back_tokens_leave_no_trace(self, weights: str, kv_cache: str) -> None:
        backend = OpenVINOBackend(ArrayFiles(), weights=weights, kv_cache=kv_cache)
        expected, _ = one_shot(backend, IDS[:70])
        handle = backend.open()
        backend.forward([SequenceInput(handle, IDS[:20], 0)])
        junk = IDS[100:200]
        for kept_len in range(20, 66):
            drafts = junk[kept_len : kept_len + 1 + kept_len % 7]
            rows, _ = run(backend, handle, [IDS[kept_len], *drafts])
            np.testing.assert_array_equal(rows[0], expected[kept_len])
            backend.truncate(handle, kept_len + 1)
        for kept_len in (64, 33, 32, 31, 1, 0):
            backend.truncate(handle, kept_len)
            rows, _ = run(backend, handle, IDS[kept_len : kept_len + 3])
            np.testing.assert_array_equal(rows, expected[kept_len : kept_len + 3])
        backend.check_integrity()


@pytest.mark.parametrize("weights", ["int8", "int4", "16bit", "f32"])
@pytest.mark.parametrize(
    ("ffn_size", "tied_output"), [(4160, True), (1152, False)], ids=["narrow", "wide"]
)
def test_bits_of_wide_matrices(weights: str, ffn_size: int, tied_output: bool) -> None:
    """Kernels that take long inner axes in pieces take other pieces for other numbers of rows."""
    hidden_size = 64 if tied_output else 576
    files = ArrayFiles(ffn_size=ffn_size, hidden_size=hidden_size, tied_output=tied_output)
    backend = OpenVINOBackend(files, weights=weights)
    expected, _ = one_shot(backend, IDS[:170])  # from 81 rows on
    for length in (1, 2, 4, 5, 16, 80, 90):
        handle = backend.open()
        for start in range(0, min(170, 8 * length) - length + 1, length):
            rows, _ = run(backend, handle, IDS[start : start + length])
            wanted = expected[start : start + length]
            np.testing.assert_array_equal(rows, wanted, f"chunks of {length}")
        backend.close(handle)


def test_fast_shape_differs_only_in_rounding() -> None:
    backend = exact(ArrayFiles(), row_shape="fast")
    expected, _ = one_shot(backend, IDS[:50])
    handle = backend.open()
    backend.forward([SequenceInput(handle, IDS[:40], 0)])
    for position in range(40, 50):
        rows, _ = run(backend, handle, [IDS[position]])
        assert np.abs(rows[0] - expected[position]).max() < 1e-4
    assert backend.describe()["row_shape"] == "fast"


def test_the_row_shape_can_change_while_sequences_are_open() -> None:
    stable, fast = exact(ArrayFiles()), exact(ArrayFiles(), row_shape="fast")
    expected = {"stable": one_shot(stable, IDS[:50])[0]}
    expected["fast"] = expected["stable"].copy()
    handle = fast.open()
    fast.forward([SequenceInput(handle, IDS[:40], 0)])
    for position in range(40, 50):
        expected["fast"][position] = run(fast, handle, [IDS[position]])[0][0]
    handle = stable.open()
    stable.forward([SequenceInput(handle, IDS[:40], 0)])
    for row_shape in ("fast", "stable", "fast"):
        stable.set_row_shape(row_shape)
        assert stable.describe()["row_shape"] == row_shape
        for position in range(40, 50):
            rows, _ = run(stable, handle, [IDS[position]])
            np.testing.assert_array_equal(rows[0], expected[row_shape][position])
        stable.truncate(handle, 40)
    with pytest.raises(ConfigError, match="quick"):
        stable.set_row_shape("quick")


def test_no_room_appends_nothing() -> None:
    probe = exact(ArrayFiles())
    block_bytes = probe.describe()["kv_cache_bytes"] // (probe.capacity_tokens // probe.block_len)
    backend = exact(ArrayFiles(), kv_memory_bytes=3 * block_bytes)
    assert backend.capacity_tokens == 96
    first, second = backend.open(), backend.open()
    backend.forward([SequenceInput(first, IDS[:40], 0), SequenceInput(second, IDS[:10], 0)])
    with pytest.raises(CapacityError, match="0 of 3 blocks"):
        backend.forward([SequenceInput(second, IDS[10:12], 1), SequenceInput(first, IDS[40:70], 1)])
    assert (backend.cached_len(first), backend.cached_len(second)) == (40, 10)
    backend.check_integrity()
    rows, _ = run(backend, first, IDS[40:64])
    assert np.abs(rows - reference_forward(ArrayFiles(), IDS[:64])[0][40:]).max() < 1e-4
    backend.close(second)
    run(backend, first, IDS[64:70])


def test_context_is_a_limit() -> None:
    files = ArrayFiles(context_len=40)
    backend = exact(files)
    handle = backend.open()
    with pytest.raises(CapacityError, match="context of 40"):
        backend.forward([SequenceInput(handle, IDS[:41], 1)])
    rows, _ = run(backend, handle, IDS[:39])
    last, _ = run(backend, handle, IDS[39:40])  # its padding row lies outside the context
    expected, _ = reference_forward(files, IDS[:40])
    assert np.abs(np.concatenate([rows, last]) - expected).max() < 1e-4


def files_where_token_7_overflows() -> ArrayFiles:
    """Only token 7 writes to feature 0, and the last norm multiplies that by nearly the maximum."""
    files = ArrayFiles(tied_output=False)
    files.tensors["embed"][:, 0] = 0
    for layer in range(files.spec.num_layers):
        files.tensors[f"layers.{layer}.o"][0] = 0
        files.tensors[f"layers.{layer}.down"][0] = 0
    files.tensors["embed"][7, 0] = 100
    files.tensors["final_norm"][0] = 3e38
    return files


def test_numbers_that_are_not_finite_are_an_error_and_leave_no_trace() -> None:
    backend = exact(files_where_token_7_overflows())
    token_ids = [token_id for token_id in IDS if token_id != 7]
    expected, _ = one_shot(backend, token_ids[:50])
    handle = backend.open()
    backend.forward([SequenceInput(handle, token_ids[:33], 0)])
    with pytest.raises(BackendError, match="not finite"):
        backend.forward([SequenceInput(handle, [token_ids[33], 7, 7], 3)])
    assert backend.cached_len(handle) == 33
    rows, _ = run(backend, handle, token_ids[33:50])
    np.testing.assert_array_equal(rows, expected[33:50])


def test_closed_sequences_give_everything_back() -> None:
    backend = exact(ArrayFiles())
    for _ in range(3):
        handles = [backend.open() for _ in range(4)]
        backend.forward([SequenceInput(handle, IDS[:70], 1) for handle in handles])
        for handle in handles:
            backend.close(handle)
    backend.check_integrity()
    assert backend.capacity_tokens == backend.block_len * 8 * 8  # 8 sequences of 256 tokens


def test_settings_in_force_are_told() -> None:
    settings = OpenVINOBackend(ArrayFiles(), kv_cache="u8", num_threads=1).describe()
    assert settings["weights"] == "int8"
    assert settings["KV_CACHE_PRECISION"] == "u8"
    assert settings["KEY_CACHE_QUANT_MODE"] == "BY_TOKEN"
    assert settings["INFERENCE_NUM_THREADS"] == 1
    assert settings["ENABLE_CPU_PINNING"] is False
    assert settings["INFERENCE_PRECISION_HINT"] == "f32"
    assert settings["row_shape"] == "stable"
    assert settings["exact_rollback"] is True
    assert settings["runtime_version"] == ov.__version__


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", "int9"),
        ("kv_cache", "8bit"),
        ("row_shape", "quick"),
    ],
)
def test_unknown_settings_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown {name} '{value}'") as error:
        OpenVINOBackend(ArrayFiles(), **{name: value})
    assert error.value.param == name


def test_missing_tensor_is_named() -> None:
    with pytest.raises(ModelError, match=r"layers\.1\.up"):
        OpenVINOBackend(ArrayFiles(changes={"layers.1.up": None}))
