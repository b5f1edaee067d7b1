from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.tiny_models import CHAT_TEMPLATE, tiny_spec, write_tiny_gguf

from leeway.core.errors import ModelError
from leeway.models.gguf import GGUFFiles

FAMILIES = ("llama", "qwen2", "qwen3")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("quantisation", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0"])
def test_every_tensor_is_read_back(tmp_path: Path, family: str, quantisation: str) -> None:
    written = write_tiny_gguf(tmp_path / "m.gguf", family, quantisation=quantisation)
    files = GGUFFiles(written.path)
    for name, values in written.tensors.items():
        read = files.tensor(name)
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, values, err_msg=name)
        assert files.has_tensor(name)


@pytest.mark.parametrize("family", FAMILIES)
def test_spec_is_read(tmp_path: Path, family: str) -> None:
    spec = tiny_spec(family, rope_base=50000.0, context_len=77, num_layers=3)
    read = GGUFFiles(write_tiny_gguf(tmp_path / "m.gguf", family, spec=spec).path).spec
    assert read.norm_eps == pytest.approx(spec.norm_eps, rel=1e-6)
    assert read == replace(spec, norm_eps=read.norm_eps)


def test_name_tokenizer_and_template(tmp_path: Path) -> None:
    files = GGUFFiles(write_tiny_gguf(tmp_path / "my-model.gguf").path)
    assert files.name == "my-model"
    assert files.tokenizer.chat_template == CHAT_TEMPLATE
    assert files.tokenizer.eos_token_ids == (2, 0)
    assert files.tokenizer.bos_token_id == 0
    assert not files.tokenizer.add_bos


def test_untied_output(tmp_path: Path) -> None:
    spec = tiny_spec(tied_output=False)
    written = write_tiny_gguf(tmp_path / "m.gguf", spec=spec)
    files = GGUFFiles(written.path)
    assert not files.spec.tied_output
    np.testing.assert_array_equal(files.tensor("output"), written.tensors["output"])
    tied = GGUFFiles(write_tiny_gguf(tmp_path / "tied.gguf").path)
    assert tied.spec.tied_output
    assert not tied.has_tensor("output")
    with pytest.raises(ModelError, match="no tensor 'output'"):
        tied.tensor("output")


def test_llama_biases_are_unpermuted(tmp_path: Path) -> None:
    spec = tiny_spec("llama", attention_bias=True)
    written = write_tiny_gguf(tmp_path / "m.gguf", spec=spec)
    files = GGUFFiles(written.path)
    assert files.spec.attention_bias
    for part in ("q_bias", "k_bias", "v_bias"):
        name = f"layers.1.{part}"
        np.testing.assert_array_equal(files.tensor(name), written.tensors[name])


def test_rope_factors(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    files = GGUFFiles(write_tiny_gguf(tmp_path / "m.gguf", rope_factors=factors).path)
    np.testing.assert_array_equal(files.tensor("rope_factors"), factors)
    ones = write_tiny_gguf(tmp_path / "ones.gguf", rope_factors=np.ones(8, dtype=np.float32))
    assert not GGUFFiles(ones.path).has_tensor("rope_factors")
    with pytest.raises(ModelError, match="rope_factors"):
        GGUFFiles(ones.path).tensor("rope_factors")


def test_linear_rope_scaling_becomes_factors(tmp_path: Path) -> None:
    scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    files = GGUFFiles(write_tiny_gguf(tmp_path / "m.gguf", metadata=scaling).path)
    np.testing.assert_array_equal(files.tensor("rope_factors"), np.full(8, 4, dtype=np.float32))


def test_sha256_is_that_of_the_file(tmp_path: Path) -> None:
    import hashlib

    path = write_tiny_gguf(tmp_path / "m.gguf").path
    assert GGUFFiles(path).sha256() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_checksum_that_was_compared_already_is_not_computed_again(tmp_path: Path) -> None:
    files = GGUFFiles(write_tiny_gguf(tmp_path / "m.gguf").path, sha256="12" * 32)
    assert files.sha256() == "12" * 32


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"general.architecture": "mamba"}, "architecture 'mamba'; known architectures are llama"),
        ({"llama.rope.scaling.type": "yarn"}, "rope scaling 'yarn' is not supported"),
        ({"llama.rope.scaling.type": "longrope"}, "rope scaling 'longrope'"),
        ({"llama.expert_count": 8}, "expert_count is 8"),
        ({"llama.attention.sliding_window": 128}, "sliding_window is 128"),
        ({"llama.rope.dimension_count": 8}, "rope.dimension_count is 8 but the head size is 16"),
        ({"llama.attention.head_count": 0}, "head_count is 0; it must be a positive whole number"),
        (
            {"llama.attention.head_count_kv": [2, 1]},
            r"head_count_kv is \[2, 1\]; it must be the same",
        ),
        ({"llama.rope.freq_base": -1.0}, "freq_base is -1.0; it must be a positive number"),
        ({"llama.embedding_length": 128}, "has shape .* asks for"),
        ({"llama.block_count": 3}, r"no tensor 'blk.2.attn_norm.weight' \(layers.2.attn_norm"),
        ({"llama.block_count": 1}, r"tensor 'blk\.1\..*' is one too many"),
        ({"llama.block_count": 4_000_000_000}, r"no tensor 'blk\.2\.attn_norm\.weight'"),
        ({"split.count": 3}, "one of 3 parts"),
        ({"tokenizer.ggml.model": "bert"}, "tokenizer model 'bert' is not supported"),
        ({"tokenizer.ggml.pre": "quen2"}, "pre-tokenizer 'quen2'.*did you mean 'qwen2'"),
        ({"tokenizer.ggml.eos_token_id": 9999}, "eos_token_id is 9999 but the vocabulary has"),
    ],
)
def test_what_is_not_supported_is_named(
    tmp_path: Path, metadata: dict[str, object], message: str
) -> None:
    path = rewrite_gguf(write_tiny_gguf(tmp_path / "m.gguf").path, metadata)
    with pytest.raises(ModelError, match=message):
        GGUFFiles(path)


def rewrite_gguf(path: Path, metadata: dict[str, object]) -> Path:
    """Write the file again with other metadata (the writer itself refuses to set a key twice)."""
    import gguf

    reader = gguf.GGUFReader(path)
    changed = path.with_suffix(".changed.gguf")
    architecture = metadata.get("general.architecture", "llama")
    writer = gguf.GGUFWriter(changed, architecture)
    old = {
        field.name: field
        for field in reader.fields.values()
        if not field.name.startswith("GGUF.") and field.name not in {"general.architecture"}
    }
    for field in old.values():
        if field.name in metadata:
            continue
        kinds = field.types
        sub_type = kinds[1] if kinds[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kinds[0], sub_type)
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif key != "general.architecture":
            kind = {int: "UINT32", float: "FLOAT32", str: "STRING"}[type(value)]
            writer.add_key_value(key, value, gguf.GGUFValueType[kind])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return changed


@pytest.mark.parametrize(
    "omitted", ["embed", "final_norm", "layers.0.q", "layers.1.down", "layers.1.ffn_norm"]
)
def test_missing_tensor_is_named(tmp_path: Path, omitted: str) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", omit=(omitted,)).path
    with pytest.raises(ModelError, match=rf"has no tensor '.*' \({omitted}, shape"):
        GGUFFiles(path)


def test_tensor_without_a_place_is_named(tmp_path: Path) -> None:
    extra = {"blk.0.attn_output.bias": np.zeros(64, dtype=np.float32)}
    path = write_tiny_gguf(tmp_path / "m.gguf", extra_tensors=extra).path
    with pytest.raises(ModelError, match=r"tensor 'blk\.0\.attn_output\.bias' has no place"):
        GGUFFiles(path)


def test_missing_key_is_named(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf").path
    data = path.read_bytes().replace(b"llama.block_count", b"llama.block_kount")
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"lacks llama.block_count"):
        GGUFFiles(path)


def test_per_layer_counts_that_agree_are_one_count(tmp_path: Path) -> None:
    metadata = {"llama.attention.head_count_kv": [2, 2]}
    path = rewrite_gguf(write_tiny_gguf(tmp_path / "m.gguf").path, metadata)
    assert GGUFFiles(path).spec.num_kv_heads == 2


def test_rotary_constants_of_old_converters_are_left_out(tmp_path: Path) -> None:
    extra = {"blk.0.attn_rot_embd": np.ones(8, dtype=np.float32)}
    path = write_tiny_gguf(tmp_path / "m.gguf", extra_tensors=extra).path
    assert GGUFFiles(path).has_tensor("layers.0.q")
