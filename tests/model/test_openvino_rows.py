"""Row shapes on the real small model: a token's logits do not depend on what shares its forward."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from leeway.backends.base import SequenceInput
from leeway.backends.openvino import OpenVINOBackend
from leeway.models.open import open_model

pytestmark = pytest.mark.model

NUM_TOKENS = 192
IDS = np.random.default_rng(5).integers(17, 49_000, NUM_TOKENS).tolist()

Logits = NDArray[np.float32]


@pytest.fixture(
    scope="module",
    params=[("int8", "16bit"), ("int8", "u8"), ("int4", "16bit"), ("16bit", "16bit")],
)
def backend(request: pytest.FixtureRequest, smollm2_path: Path) -> OpenVINOBackend:
    weights, kv_cache = request.param
    return OpenVINOBackend(
        open_model(str(smollm2_path)), weights=weights, kv_cache=kv_cache, kv_memory_bytes=2**26
    )


@pytest.fixture(scope="module")
def expected(backend: OpenVINOBackend) -> Logits:
    handle = backend.open()
    logits = run(backend, handle, IDS)
    backend.close(handle)
    return logits


def run(backend: OpenVINOBackend, handle: int, token_ids: list[int]) -> Logits:
    output = backend.forward([SequenceInput(handle, token_ids, len(token_ids))])
    return output.logits.copy()


@pytest.mark.parametrize("num_rows", [1, 2, 3, 4, 5, 6, 8, 9, 16, 17, 33, 64])
def test_t24_any_number_of_rows(backend: OpenVINOBackend, expected: Logits, num_rows: int) -> None:
    handle = backend.open()
    start = max((NUM_TOKENS - 8 * num_rows) // 2, 1)
    backend.forward([SequenceInput(handle, IDS[:start], 0)])
    for position in range(start, min(start + 8 * num_rows, NUM_TOKENS), num_rows):
        rows = run(backend, handle, IDS[position : position + num_rows])
        np.testing.assert_array_equal(rows, expected[position : position + num_rows])
    backend.close(handle)


def test_t17_t24_other_sequences(backend: OpenVINOBackend, expected: Logits) -> None:
    past_lens, new_lens = (1, 31, 63, 64, 150, 100), (1, 4, 1, 8, 3, 92)
    handles = [backend.open() for _ in past_lens]
    for handle, past_len in zip(handles, past_lens, strict=True):
        backend.forward([SequenceInput(handle, IDS[:past_len], 0)])
    for chosen in ([0, 1, 2, 3, 4, 5], [0, 2], [2], [1, 4, 3], [5, 0]):
        output = backend.forward(
            [SequenceInput(handles[i], IDS[past_lens[i] :][: new_lens[i]], 1) for i in chosen]
        )
        wanted = expected[[past_lens[i] + new_lens[i] - 1 for i in chosen]]
        np.testing.assert_array_equal(output.logits, wanted, f"sequences {chosen}")
        for i in chosen:
            backend.truncate(handles[i], past_lens[i])
    for handle in handles:
        backend.close(handle)
    backend.check_integrity()


def test_t18_t24_rollback_to_any_length(backend: OpenVINOBackend, expected: Logits) -> None:
    handle = backend.open()
    backend.forward([SequenceInput(handle, IDS[:90], 0)])
    junk = IDS[::-1]
    for kept_len in range(90, 140):
        drafted = junk[kept_len : kept_len + 1 + kept_len % 5]
        rows = run(backend, handle, [IDS[kept_len], *drafted])
        np.testing.assert_array_equal(rows[0], expected[kept_len])
        backend.truncate(handle, kept_len + 1)
    for kept_len in (139, 128, 127, 97, 96, 1, 0):
        backend.truncate(handle, kept_len)
        rows = run(backend, handle, IDS[kept_len : kept_len + 2])
        np.testing.assert_array_equal(rows, expected[kept_len : kept_len + 2])
    backend.close(handle)
