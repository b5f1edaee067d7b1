import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.tiny_models import (
    CHAT_TEMPLATE,
    tiny_spec,
    tiny_tokenizer_json,
    write_safetensors,
    write_tiny_gguf,
    write_tiny_hf_folder,
)

from leeway.core.errors import ModelError
from leeway.models.hf_folder import HFFolder

FAMILIES = ("llama", "qwen2", "qwen3")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("type_name", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("num_shards", [1, 3])
def test_every_tensor_is_read_back(
    tmp_path: Path, family: str, type_name: str, num_shards: int
) -> None:
    written = write_tiny_hf_folder(
        tmp_path / "m", family, type_name=type_name, num_shards=num_shards
    )
    files = HFFolder(written.path)
    for name, values in written.tensors.items():
        assert files.has_tensor(name)
        read = files.tensor(name)
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, values, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_folder_and_gguf_give_the_same_model(tmp_path: Path, family: str) -> None:
    from leeway.models.gguf import GGUFFiles

    folder = HFFolder(write_tiny_hf_folder(tmp_path / "m", family).path)
    gguf = GGUFFiles(write_tiny_gguf(tmp_path / "m.gguf", family).path)
    assert folder.spec == replace(gguf.spec, norm_eps=folder.spec.norm_eps)
    assert folder.spec.norm_eps == pytest.approx(gguf.spec.norm_eps, rel=1e-6)
    for name in ("embed", "layers.0.q", "layers.1.k", "layers.1.down"):
        np.testing.assert_array_equal(folder.tensor(name), gguf.tensor(name))
    assert folder.tokenizer.eos_token_ids == gguf.tokenizer.eos_token_ids == (2, 0)


def test_tied_output_ignores_a_stored_head(tmp_path: Path) -> None:
    spec = tiny_spec(tied_output=False)
    untied = write_tiny_hf_folder(tmp_path / "untied", spec=spec)
    np.testing.assert_array_equal(HFFolder(untied.path).tensor("output"), untied.tensors["output"])
    config = {"tie_word_embeddings": True}
    tied = HFFolder(write_tiny_hf_folder(tmp_path / "tied", spec=spec, config=config).path)
    assert tied.spec.tied_output
    assert not tied.has_tensor("output")
    with pytest.raises(ModelError, match="no tensor 'output'"):
        tied.tensor("output")


def llama3_factor(exponent: float, base: float, scaling: dict[str, Any]) -> float:
    """The published rule, one frequency at a time, by wavelength."""
    frequency = base**-exponent
    wavelength = 2 * math.pi / frequency
    original = scaling["original_max_position_embeddings"]
    if wavelength < original / scaling["high_freq_factor"]:
        return 1.0
    if wavelength > original / scaling["low_freq_factor"]:
        return scaling["factor"]
    span = scaling["high_freq_factor"] - scaling["low_freq_factor"]
    smooth = (original / wavelength - scaling["low_freq_factor"]) / span
    scaled = (1 - smooth) * frequency / scaling["factor"] + smooth * frequency
    return frequency / scaled


@pytest.mark.parametrize("kind_key", ["rope_type", "type"])
@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_llama3_scaling(tmp_path: Path, kind_key: str, place: str) -> None:
    scaling = {
        kind_key: "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    if place == "rope_parameters":
        scaling["rope_theta"] = 500.0
    base = 500.0 if place == "rope_parameters" else 10000.0
    files = HFFolder(write_tiny_hf_folder(tmp_path / "m", config={place: scaling}).path)
    assert files.spec.rope_base == base
    expected = [llama3_factor(2 * index / 16, base, scaling) for index in range(8)]
    assert 1.0 in expected
    assert 8.0 in expected
    assert any(1.0 < factor < 8.0 for factor in expected)
    np.testing.assert_allclose(files.tensor("rope_factors"), expected, rtol=1e-6)


def test_linear_and_default_scaling(tmp_path: Path) -> None:
    linear = {"rope_scaling": {"type": "linear", "factor": 4.0}}
    files = HFFolder(write_tiny_hf_folder(tmp_path / "linear", config=linear).path)
    np.testing.assert_array_equal(files.tensor("rope_factors"), np.full(8, 4, dtype=np.float32))
    plain = {"rope_scaling": {"rope_type": "default"}}
    files = HFFolder(write_tiny_hf_folder(tmp_path / "plain", config=plain).path)
    assert not files.has_tensor("rope_factors")


def test_defaults_of_config(tmp_path: Path) -> None:
    folder = write_tiny_hf_folder(
        tmp_path / "m",
        spec=tiny_spec(num_kv_heads=4),
        config={"num_key_value_heads": None, "head_dim": None},
    ).path
    spec = HFFolder(folder).spec
    assert (spec.num_kv_heads, spec.head_size) == (4, 16)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba'; known architectures are llama, qwen2"),
        ({"model_type": None}, "model_type None"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope scaling 'yarn' is not supported"),
        ({"rope_scaling": {"type": "dynamic"}}, "rope scaling 'dynamic'"),
        ({"rope_scaling": {"type": "linear"}}, "factor None; it must be a number"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; only silu"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"hidden_size": "64"}, "hidden_size '64'; it must be a whole number"),
        ({"hidden_size": 128}, "has shape .* asks for"),
        ({"num_hidden_layers": 1}, r"tensor 'model\.layers\.1\..*' is one too many"),
        ({"num_hidden_layers": 10**12}, r"'model\.layers\.2\.input_layernorm\.weight'"),
        ({"num_hidden_layers": 3}, r"no tensor 'model\.layers\.2\.input_layernorm\.weight'"),
        ({"attention_bias": True}, r"no tensor 'model\.layers\.0\.self_attn\.q_proj\.bias'"),
        ({"tie_word_embeddings": False}, r"no tensor 'lm_head\.weight'"),
        ({"rms_norm_eps": 0}, "rms_norm_eps 0; it must be a number"),
    ],
)
def test_what_is_not_supported_is_named(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    folder = write_tiny_hf_folder(tmp_path / "m", config=config).path
    with pytest.raises(ModelError, match=message):
        HFFolder(folder)


def test_missing_tensor_is_named(tmp_path: Path) -> None:
    folder = write_tiny_hf_folder(tmp_path / "m", omit=("layers.1.up",)).path
    with pytest.raises(ModelError, match=r"no tensor 'model\.layers\.1\.mlp\.up_proj\.weight'"):
        HFFolder(folder)


@pytest.mark.parametrize(
    "missing", ["config.json", "model.safetensors", "tokenizer.json", "model-00002-of-00002"]
)
def test_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    num_shards = 2 if "00002" in missing else 1
    folder = write_tiny_hf_folder(tmp_path / "m", num_shards=num_shards).path
    next(path for path in folder.iterdir() if path.name.startswith(missing)).unlink()
    with pytest.raises(ModelError, match=missing):
        HFFolder(folder)


@pytest.mark.parametrize(
    ("filename", "content", "message"),
    [
        ("config.json", "{", r"cannot read .*config\.json"),
        ("config.json", "[]", "holds no JSON object"),
        ("tokenizer.json", "{}", r"cannot read .*tokenizer\.json"),
        ("tokenizer_config.json", "{", r"cannot read .*tokenizer_config\.json"),
        ("generation_config.json", "3", "holds no JSON object"),
        ("model.safetensors.index.json", "{}", "has no weight_map"),
    ],
)
def test_broken_json_is_named(tmp_path: Path, filename: str, content: str, message: str) -> None:
    folder = write_tiny_hf_folder(tmp_path / "m").path
    (folder / filename).write_text(content)
    with pytest.raises(ModelError, match=message):
        HFFolder(folder)


def test_a_tensor_without_a_place_is_named(tmp_path: Path) -> None:
    folder = write_tiny_hf_folder(tmp_path / "m").path
    extra = {"model.layers.0.self_attn.o_proj.bias": np.zeros(64, dtype=np.float32)}
    write_safetensors(folder / "model.safetensors", extra, "F32")
    with pytest.raises(ModelError, match=r"'model\.layers\.0\.self_attn\.o_proj\.bias' has no"):
        HFFolder(folder)


def test_rotary_constants_of_old_checkpoints_are_left_out(tmp_path: Path) -> None:
    written = write_tiny_hf_folder(tmp_path / "m", num_shards=2)
    index_path = written.path / "model.safetensors.index.json"
    index = json.loads(index_path.read_text())
    index["weight_map"]["model.layers.0.self_attn.rotary_emb.inv_freq"] = "extra.safetensors"
    index_path.write_text(json.dumps(index))
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, dtype=np.float32)}
    write_safetensors(written.path / "extra.safetensors", extra, "F32")
    assert HFFolder(written.path).has_tensor("layers.0.q")


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({}, CHAT_TEMPLATE),
        ({"chat_template.jinja": "own file"}, "own file"),
        ({"tokenizer_config.json": {"chat_template": "plain"}}, "plain"),
        (
            {
                "tokenizer_config.json": {
                    "chat_template": [
                        {"name": "tool_use", "template": "tools"},
                        {"name": "default", "template": "first choice"},
                    ]
                }
            },
            "first choice",
        ),
        ({"tokenizer_config.json": {}, "chat_template.json": {"chat_template": "x"}}, "x"),
        ({"tokenizer_config.json": {}}, None),
    ],
)
def test_where_the_chat_template_comes_from(
    tmp_path: Path, files: dict[str, Any], template: str | None
) -> None:
    folder = write_tiny_hf_folder(tmp_path / "m").path
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text)
    assert HFFolder(folder).tokenizer.chat_template == template


@pytest.mark.parametrize(
    ("generation", "settings", "config", "expected"),
    [
        (None, {}, {"eos_token_id": None}, (0, 2)),
        (None, {}, {"eos_token_id": 9}, (9, 0, 2)),
        ({"eos_token_id": [7, 8]}, {}, {"eos_token_id": 9}, (7, 8, 9, 0, 2)),
        ({"eos_token_id": 7}, {"eos_token": {"content": "<|im_end|>"}}, {}, (2, 7, 0)),
    ],
)
def test_end_tokens_of_all_files_are_joined(
    tmp_path: Path,
    generation: dict[str, Any] | None,
    settings: dict[str, Any],
    config: dict[str, Any],
    expected: tuple[int, ...],
) -> None:
    folder = write_tiny_hf_folder(tmp_path / "m", config=config).path
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    assert HFFolder(folder).tokenizer.eos_token_ids == expected


@pytest.mark.parametrize("adds", [True, False])
def test_the_begin_token_is_added_if_the_tokenizer_does(tmp_path: Path, adds: bool) -> None:
    import tokenizers

    folder = write_tiny_hf_folder(tmp_path / "m", config={"bos_token_id": 0}).path
    raw = tokenizers.Tokenizer.from_str(tiny_tokenizer_json())
    if adds:
        raw.post_processor = tokenizers.processors.TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
        )
    (folder / "tokenizer.json").write_text(raw.to_str())
    tokenizer = HFFolder(folder).tokenizer
    assert (tokenizer.add_bos, tokenizer.bos_token_id) == (adds, 0)


def test_sha256_covers_every_weight_file(tmp_path: Path) -> None:
    first = HFFolder(write_tiny_hf_folder(tmp_path / "a", num_shards=2).path)
    same = HFFolder(write_tiny_hf_folder(tmp_path / "b", num_shards=2).path)
    other = HFFolder(write_tiny_hf_folder(tmp_path / "c", num_shards=2, seed=1).path)
    assert first.sha256() == same.sha256() != other.sha256()
    assert len(first.sha256()) == 64


def test_name_is_that_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny_hf_folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path / "my-model")
    assert HFFolder(Path()).name == "my-model"
