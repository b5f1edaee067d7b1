"""Tiny random models of every family, written as GGUF files and as Hugging Face folders.

Both writers draw the same weights from the same seed and return them under canonical names, so that
a test can compare what a reader gives with what was written. The tokenizer is byte-level with a few
merges and the ChatML tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
from numpy.typing import NDArray
from safetensors.numpy import save_file

from leeway.models.base import ArchitectureSpec
from leeway.models.tensor_shapes import expected_shapes

MERGES = (("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("o", "r"))
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

Tensors = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class TinyModel:
    """What was written: `tensors` are what a reader must return, under canonical names."""

    path: Path
    spec: ArchitectureSpec
    tensors: Tensors


def tiny_spec(family: str = "llama", **changes: Any) -> ArchitectureSpec:
    """Return a spec of two layers; qwen3 heads are wider than hidden_size / num_heads."""
    spec = ArchitectureSpec(
        family=family,
        num_layers=2,
        hidden_size=64,
        num_heads=4,
        num_kv_heads=2,
        head_size=32 if family == "qwen3" else 16,
        ffn_size=96,
        vocab_size=len(vocabulary()),
        context_len=256,
        rope_base=10000.0,
        norm_eps=1e-5,
        tied_output=True,
        attention_bias=family == "qwen2",
        qk_norm=family == "qwen3",
    )
    return replace(spec, **changes)


def vocabulary() -> list[str]:
    """Return the tokens in id order: special ones, the 256 byte letters, merged ones."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    return [*SPECIAL, *letters, *(left + right for left, right in MERGES)]


def random_tensors(spec: ArchitectureSpec, seed: int = 0) -> Tensors:
    """Return weights small enough for a stable forward; norms are near one."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in expected_shapes(spec):
        values = rng.standard_normal(shape).astype(np.float32) * np.float32(0.2)
        tensors[name] = values + np.float32(1.0) if name.endswith("norm") else values
    return tensors


def write_tiny_gguf(
    path: Path,
    family: str = "llama",
    *,
    spec: ArchitectureSpec | None = None,
    quantisation: str = "F32",
    seed: int = 0,
    rope_factors: NDArray[np.float32] | None = None,
    omit: tuple[str, ...] = (),
    extra_tensors: Mapping[str, NDArray[np.float32]] | None = None,
    metadata: Mapping[str, int | float | str | bool] | None = None,
    pre: str = "gpt-2",
) -> TinyModel:
    """Write a GGUF file and return what a reader must find in it.

    `omit` names canonical tensors to leave out, `extra_tensors` are added under their own names,
    `metadata` adds keys or overwrites those of the spec, `quantisation` is that of the matrices.
    """
    spec = spec or tiny_spec(family)
    tensors = random_tensors(spec, seed)
    writer = gguf.GGUFWriter(path, spec.family)
    _write_metadata(writer, spec, dict(metadata or {}), pre)
    kind = gguf.GGMLQuantizationType[quantisation]
    expected = {}
    for name, values in tensors.items():
        if name in omit:
            continue
        stored = _interleaved(values, spec, name) if spec.family == "llama" else values
        if values.ndim == 1:
            writer.add_tensor(_gguf_name(name), stored)
            expected[name] = values
            continue
        packed = gguf.quants.quantize(stored, kind)
        writer.add_tensor(_gguf_name(name), packed, raw_dtype=kind)
        read_back = gguf.quants.dequantize(packed, kind).reshape(values.shape)
        expected[name] = _half_split(read_back, spec, name) if family == "llama" else read_back
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors)
        expected["rope_factors"] = rope_factors
    for name, values in (extra_tensors or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return TinyModel(path, spec, expected)


def write_tiny_hf_folder(
    folder: Path,
    family: str = "llama",
    *,
    spec: ArchitectureSpec | None = None,
    type_name: str = "F32",
    num_shards: int = 1,
    seed: int = 0,
    omit: tuple[str, ...] = (),
    config: Mapping[str, Any] | None = None,
) -> TinyModel:
    """Write config.json, safetensors (F32, F16 or BF16) and tokenizer files into a new folder.

    `config` adds keys to config.json or overwrites them.
    """
    spec = spec or tiny_spec(family)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: values for name, values in random_tensors(spec, seed).items() if name not in omit
    }
    stored = {hf_name(name): values for name, values in tensors.items()}
    names = sorted(stored)
    shards = [names[index::num_shards] for index in range(num_shards)]
    weight_map = {}
    for index, shard in enumerate(shards):
        filename = "model.safetensors"
        if num_shards > 1:
            filename = f"model-{index + 1:05}-of-{num_shards:05}.safetensors"
            weight_map |= dict.fromkeys(shard, filename)
        write_safetensors(folder / filename, {name: stored[name] for name in shard}, type_name)
    if num_shards > 1:
        _write_json(folder / "model.safetensors.index.json", {"weight_map": weight_map})
    _write_json(folder / "config.json", {**hf_config(spec), **(config or {})})
    (folder / "tokenizer.json").write_text(tiny_tokenizer_json(), encoding="utf-8")
    _write_json(
        folder / "tokenizer_config.json",
        {"eos_token": "<|im_end|>", "bos_token": None, "chat_template": CHAT_TEMPLATE},
    )
    expected = {name: _rounded(values, type_name) for name, values in tensors.items()}
    return TinyModel(folder, spec, expected)


def write_safetensors(path: Path, tensors: Tensors, type_name: str) -> None:
    """Write one safetensors file; BF16 by hand, since NumPy has no such type."""
    if type_name != "BF16":
        kind = {"F32": np.float32, "F16": np.float16}[type_name]
        save_file({name: values.astype(kind) for name, values in tensors.items()}, path)
        return
    header, blob = {}, b""
    for name, values in tensors.items():
        data = _bfloat16_codes(values).tobytes()
        offsets = [len(blob), len(blob) + len(data)]
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": offsets}
        blob += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + blob)


def tiny_tokenizer_json() -> str:
    """Return the tiny tokenizer as the tokenizers library itself writes it."""
    vocab = {token: index for index, token in enumerate(vocabulary())}
    raw = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=list(MERGES)))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    raw.add_special_tokens([tokenizers.AddedToken(token, special=True) for token in SPECIAL])
    return raw.to_str()


def _write_metadata(
    writer: gguf.GGUFWriter, spec: ArchitectureSpec, extra: dict[str, Any], pre: str
) -> None:
    values: dict[str, Any] = {
        "block_count": spec.num_layers,
        "context_length": spec.context_len,
        "embedding_length": spec.hidden_size,
        "feed_forward_length": spec.ffn_size,
        "attention.head_count": spec.num_heads,
        "attention.head_count_kv": spec.num_kv_heads,
        "attention.key_length": spec.head_size,
        "attention.value_length": spec.head_size,
        "attention.layer_norm_rms_epsilon": spec.norm_eps,
        "rope.freq_base": spec.rope_base,
    }
    keyed = {f"{spec.family}.{key}": value for key, value in values.items()} | extra
    adders = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
    for key, value in keyed.items():
        adders.get(type(value), writer.add_string)(key, value)
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_token_merges([f"{left} {right}" for left, right in MERGES])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)


def hf_config(spec: ArchitectureSpec) -> dict[str, Any]:
    """Return config.json of a model."""
    return {
        "model_type": spec.family,
        "hidden_size": spec.hidden_size,
        "num_hidden_layers": spec.num_layers,
        "num_attention_heads": spec.num_heads,
        "num_key_value_heads": spec.num_kv_heads,
        "head_dim": spec.head_size,
        "intermediate_size": spec.ffn_size,
        "vocab_size": spec.vocab_size,
        "max_position_embeddings": spec.context_len,
        "rope_theta": spec.rope_base,
        "rms_norm_eps": spec.norm_eps,
        "tie_word_embeddings": spec.tied_output,
        "hidden_act": "silu",
        "eos_token_id": 2,
    }


_GGUF_NAMES = {"embed": "token_embd.weight", "output": "output.weight"} | {
    "final_norm": "output_norm.weight"
}
_GGUF_PARTS = {"o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"} | {
    part: f"attn_{part}" for part in ("q", "k", "v", "q_norm", "k_norm")
}
_HF_NAMES = {"embed": "model.embed_tokens.weight", "output": "lm_head.weight"} | {
    "final_norm": "model.norm.weight"
}
_HF_PARTS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def _gguf_name(name: str) -> str:
    if name in _GGUF_NAMES:
        return _GGUF_NAMES[name]
    _, index, part = name.split(".")
    if part.endswith("_bias"):
        return f"blk.{index}.attn_{part.removesuffix('_bias')}.bias"
    return f"blk.{index}.{_GGUF_PARTS.get(part, part)}.weight"


def hf_name(name: str) -> str:
    """Return the Hugging Face name of a canonical tensor name."""
    if name in _HF_NAMES:
        return _HF_NAMES[name]
    _, index, part = name.split(".")
    kind = "weight"
    if part.endswith("_bias"):
        part, kind = part.removesuffix("_bias"), "bias"
    if part in ("q", "k", "v", "o"):
        part = f"self_attn.{part}_proj"
    elif part in ("q_norm", "k_norm"):
        part = f"self_attn.{part}"
    elif part in ("gate", "up", "down"):
        part = f"mlp.{part}_proj"
    return f"model.layers.{index}.{_HF_PARTS.get(part, part)}.{kind}"


def _heads(spec: ArchitectureSpec, name: str) -> int:
    part = name.rpartition(".")[2]
    if part in ("q", "q_bias"):
        return spec.num_heads
    return spec.num_kv_heads if part in ("k", "k_bias") else 0


def _interleaved(
    values: NDArray[np.float32], spec: ArchitectureSpec, name: str
) -> NDArray[np.float32]:
    """Return q and k as llama GGUF files store them: row i and i + half beside each other."""
    heads = _heads(spec, name)
    if not heads:
        return values
    half = spec.head_size // 2
    order = [
        head * spec.head_size + pair + side * half
        for head in range(heads)
        for pair in range(half)
        for side in (0, 1)
    ]
    return values[order]


def _half_split(
    values: NDArray[np.float32], spec: ArchitectureSpec, name: str
) -> NDArray[np.float32]:
    heads = _heads(spec, name)
    if not heads:
        return values
    rows = np.arange(values.shape[0], dtype=np.float32)
    return values[np.argsort(_interleaved(rows, spec, name))]


def _bfloat16_codes(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16)


def _rounded(values: NDArray[np.float32], type_name: str) -> NDArray[np.float32]:
    if type_name == "BF16":
        return (_bfloat16_codes(values).astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float16 if type_name == "F16" else np.float32).astype(np.float32)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
