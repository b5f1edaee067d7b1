"""The real default model, read from its GGUF file."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from leeway.models.base import ArchitectureSpec
from leeway.models.catalogue import find_entry
from leeway.models.gguf import GGUFFiles

pytestmark = pytest.mark.model

Reference = dict[str, gguf.ReaderTensor]


@pytest.fixture(scope="module")
def files(smollm2_path: Path) -> GGUFFiles:
    return GGUFFiles(smollm2_path)


@pytest.fixture(scope="module")
def reference(smollm2_path: Path) -> Reference:
    return {tensor.name: tensor for tensor in gguf.GGUFReader(smollm2_path).tensors}


def test_spec_of_smollm2(files: GGUFFiles) -> None:
    assert files.spec == ArchitectureSpec(
        family="llama",
        num_layers=30,
        hidden_size=576,
        num_heads=9,
        num_kv_heads=3,
        head_size=64,
        ffn_size=1536,
        vocab_size=49152,
        context_len=8192,
        rope_base=100000.0,
        norm_eps=files.spec.norm_eps,
        tied_output=True,
    )
    assert files.spec.norm_eps == pytest.approx(1e-5, rel=1e-6)
    assert files.tokenizer.eos_token_ids == (2, 0)
    assert not files.has_tensor("rope_factors")
    assert not files.has_tensor("output")


def test_checksum_of_smollm2(files: GGUFFiles) -> None:
    assert files.sha256() == find_entry("smollm2-135m-instruct").sha256


def test_tensors_equal_the_reference_reader(files: GGUFFiles, reference: Reference) -> None:
    for name, own in [
        ("embed", "token_embd.weight"),
        ("layers.0.down", "blk.0.ffn_down.weight"),
        ("layers.29.v", "blk.29.attn_v.weight"),
        ("layers.7.ffn_norm", "blk.7.ffn_norm.weight"),
        ("final_norm", "output_norm.weight"),
    ]:
        stored = reference[own]
        expected = gguf.quants.dequantize(stored.data, stored.tensor_type)
        np.testing.assert_array_equal(files.tensor(name), expected, err_msg=name)


def test_rotary_rows_are_in_half_split_order(files: GGUFFiles, reference: Reference) -> None:
    for part, heads in (("q", 9), ("k", 3)):
        stored = reference[f"blk.4.attn_{part}.weight"]
        interleaved = gguf.quants.dequantize(stored.data, stored.tensor_type)
        read = files.tensor(f"layers.4.{part}")
        for head in range(heads):
            for pair in range(32):
                first, second = head * 64 + pair, head * 64 + 32 + pair
                np.testing.assert_array_equal(read[first], interleaved[head * 64 + 2 * pair])
                np.testing.assert_array_equal(read[second], interleaved[head * 64 + 2 * pair + 1])


def test_qwen_coder_is_read(qwen_coder_path: Path) -> None:
    files = GGUFFiles(qwen_coder_path)
    assert (files.spec.family, files.spec.num_layers, files.spec.num_kv_heads) == ("qwen2", 24, 2)
    assert files.spec.attention_bias
    assert not files.spec.tied_output
    assert files.tokenizer.eos_token_ids == (151645, 151643)
    assert files.tensor("layers.23.k_bias").shape == (128,)
