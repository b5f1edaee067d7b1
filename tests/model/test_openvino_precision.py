"""How far each precision lies from float32 on the real small model, against plain NumPy.

The bounds are about twice what was measured on the text below on a CPU with AVX-512, VNNI and BF16.
KL is of the next-token distribution at temperature 1, in nats, reference first. On 2,048 tokens of
mathematics and instructions, 256 a forward, against the float32 graph:

    weights  cache  mean KL  total variation  argmax agrees
    f32      16bit  8.5e-7   0.0003           1.000
    f32      u8     4.4e-4   0.0081           0.990
    16bit    16bit  3.6e-4   0.0075           0.992
    int8     16bit  3.8e-3   0.0257           0.969
    int8     u8     4.3e-3   0.0267           0.969
    int4     16bit  2.0e-1   0.1888           0.797

The small model's file holds 4-bit codes with fractional zero points, which int4 must round. Of
Qwen2.5-Coder-0.5B (1,024 tokens): int8 9.4e-4, int4 4.5e-2, 16bit 2.7e-4.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.numpy_reference import reference_forward

from leeway.backends.base import SequenceInput
from leeway.backends.openvino import OpenVINOBackend
from leeway.models.base import ModelFiles
from leeway.models.open import open_model
from leeway.text.tokenizer import Tokenizer

pytestmark = pytest.mark.model

TEXT = """<|im_start|>user
My bakery sells 36 loaves a day at 4 dollars each. If I raise the price by a quarter and sell a
sixth fewer, do I earn more?<|im_end|>
<|im_start|>assistant
Today you earn 36 * 4 = 144 dollars. A quarter more makes the price 5 dollars, and a sixth fewer
makes 30 loaves. Then you earn 30 * 5 = 150 dollars, which is 6 dollars more each day.<|im_end|>
<|im_start|>user
Write a Python function that returns the longest word of a sentence.<|im_end|>
<|im_start|>assistant
```python
def longest_word(sentence: str) -> str:
    words = sentence.split()
    return max(words, key=len) if words else ""
```
The function splits the sentence at white space and compares the lengths of the words.<|im_end|>
<|im_start|>user
Why is the sky dark at night?<|im_end|>
<|im_start|>assistant
At night our side of the Earth is turned away from the Sun, so there is no sunlight for the air
above us to scatter.<|im_end|>
"""


@pytest.fixture(scope="module")
def files(smollm2_path: Path) -> ModelFiles:
    return open_model(str(smollm2_path))


@pytest.fixture(scope="module")
def token_ids(files: ModelFiles) -> list[int]:
    return Tokenizer(files.tokenizer).encode(TEXT)


@pytest.fixture(scope="module")
def reference(files: ModelFiles, token_ids: list[int]) -> NDArray[np.float32]:
    return reference_forward(files, token_ids)[0]


def logits_of(backend: OpenVINOBackend, token_ids: list[int]) -> NDArray[np.float32]:
    handle = backend.open()
    return backend.forward([SequenceInput(handle, token_ids, len(token_ids))]).logits


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def test_float32_agrees_with_numpy(
    files: ModelFiles, token_ids: list[int], reference: NDArray[np.float32]
) -> None:
    backend = OpenVINOBackend(files, weights="f32", kv_cache="f32", kv_memory_bytes=2**26)
    logits = logits_of(backend, token_ids)
    assert np.abs(logits - reference).max() < 2e-3
    np.testing.assert_array_equal(logits.argmax(axis=-1), reference.argmax(axis=-1))


@pytest.mark.parametrize(
    ("weights", "kv_cache", "max_mean_kl", "min_argmax_rate", "max_difference"),
    [
        ("f32", "16bit", 1e-6, 0.995, 0.08),
        ("f32", "u8", 9e-4, 0.97, 1.8),
        ("16bit", "16bit", 7e-4, 0.97, 1.6),
        ("int8", "16bit", 9e-3, 0.95, 4.5),
        ("int8", "u8", 1.2e-2, 0.95, 5.0),
        ("int4", "16bit", 0.6, 0.5, 40.0),
    ],
)
def test_distance_from_float32(
    files: ModelFiles,
    token_ids: list[int],
    reference: NDArray[np.float32],
    weights: str,
    kv_cache: str,
    max_mean_kl: float,
    min_argmax_rate: float,
    max_difference: float,
) -> None:
    backend = OpenVINOBackend(files, weights=weights, kv_cache=kv_cache, kv_memory_bytes=2**26)
    logits = logits_of(backend, token_ids)
    expected = log_softmax(reference)
    mean_kl = (np.exp(expected) * (expected - log_softmax(logits))).sum(axis=-1).mean()
    argmax_rate = np.mean(logits.argmax(axis=-1) == reference.argmax(axis=-1))
    difference = np.abs(logits - reference).max()
    assert mean_kl < max_mean_kl
    assert argmax_rate >= min_argmax_rate
    assert difference < max_difference
