"""Tiny checkpoints that carry their own draft head, and what such a head computes.

The reference works on the checkpoint's own tensor names, straight from the definition of its
format, and shares nothing with the readers: neither names, nor column order, nor rotary order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from leeway.models.base import ArchitectureSpec
from tests.support.tiny_models import (
    Tensors,
    tiny_spec,
    write_safetensors,
    write_tiny_gguf,
    write_tiny_hf_folder,
)

FloatArray = NDArray[np.float32]

MIMO_SPEC = tiny_spec("qwen2", tied_output=False, rope_base=640000.0)
_MIMO_NORMS = ("token_layernorm", "hidden_layernorm", "input_layernorm")
_MIMO_NORMS += ("post_attention_layernorm", "final_layernorm")


def mimo_head_tensors(
    spec: ArchitectureSpec = MIMO_SPEC, seed: int = 3, module: int = 0
) -> Tensors:
    """Return random tensors of one module under the names of a MiMo checkpoint."""
    size, ffn = spec.hidden_size, spec.ffn_size
    widths = {"q": spec.num_heads * spec.head_size, "k": spec.num_kv_heads * spec.head_size}
    widths["v"] = widths["k"]
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": (size,) for name in _MIMO_NORMS}
    shapes["input_proj.weight"] = (size, 2 * size)
    for part, width in widths.items():
        shapes[f"self_attn.{part}_proj.weight"] = (width, size)
        shapes[f"self_attn.{part}_proj.bias"] = (width,)
    shapes["self_attn.o_proj.weight"] = (size, widths["q"])
    shapes |= {f"mlp.{part}_proj.weight": (ffn, size) for part in ("gate", "up")}
    shapes["mlp.down_proj.weight"] = (size, ffn)
    return {f"model.mtp_layers.{module}.{name}": t for name, t in _random(shapes, seed).items()}


def write_mimo_folder(
    folder: Path,
    head: Tensors | None = None,
    *,
    type_name: str = "F32",
    config: Mapping[str, Any] | None = None,
) -> dict[str, FloatArray]:
    """Write a MiMo folder, its head in a file of its own; return all stored tensors by own name."""
    head = mimo_head_tensors() if head is None else head
    extra = {"model_type": "mimo", "num_nextn_predict_layers": 1, "attention_bias": True}
    extra |= {"architectures": ["MiMoForCausalLM"], "use_sliding_window": False}
    write_tiny_hf_folder(
        folder,
        spec=MIMO_SPEC,
        type_name=type_name,
        num_shards=2,
        config={**extra, **(config or {})},
    )
    if head:
        index_path = folder / "model.safetensors.index.json"
        index = json.loads(index_path.read_text())
        index["weight_map"] |= dict.fromkeys(head, "mtp.safetensors")
        index_path.write_text(json.dumps(index))
        write_safetensors(folder / "mtp.safetensors", head, type_name)
    stored: dict[str, FloatArray] = {}
    for path in folder.glob("*.safetensors"):
        stored |= {name: values.astype(np.float32) for name, values in load_file(path).items()}
    return stored


def nextn_head_tensors(
    family: str, block: int = 2, seed: int = 3, *, optional: bool = False
) -> Tensors:
    """Return random tensors of one block under the names of a GGUF file.

    `optional` adds those that can be left out: the norm, embedding and output of its own.
    """
    spec = tiny_spec(family)
    size, ffn, head = spec.hidden_size, spec.ffn_size, spec.head_size
    widths = {"q": spec.num_heads * head, "k": spec.num_kv_heads * head}
    widths["v"] = widths["k"]
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (size,),
        "ffn_norm.weight": (size,),
        "attn_output.weight": (size, widths["q"]),
        "ffn_gate.weight": (ffn, size),
        "ffn_up.weight": (ffn, size),
        "ffn_down.weight": (size, ffn),
        "nextn.eh_proj.weight": (size, 2 * size),
        "nextn.enorm.weight": (size,),
        "nextn.hnorm.weight": (size,),
    }
    for part, width in widths.items():
        shapes[f"attn_{part}.weight"] = (width, size)
        if spec.attention_bias:
            shapes[f"attn_{part}.bias"] = (width,)
        if spec.qk_norm and part != "v":
            shapes[f"attn_{part}_norm.weight"] = (head,)
    if optional:
        shapes["nextn.shared_head_norm.weight"] = (size,)
        shapes["nextn.embed_tokens.weight"] = (spec.vocab_size, size)
        shapes["nextn.shared_head_head.weight"] = (spec.vocab_size, size)
    return {f"blk.{block}.{name}": values for name, values in _random(shapes, seed).items()}


def write_nextn_gguf(
    path: Path,
    family: str,
    head: Tensors | None = None,
    *,
    num_modules: int = 1,
    rope_factors: FloatArray | None = None,
    metadata: Mapping[str, int] | None = None,
) -> dict[str, FloatArray]:
    """Write a GGUF file of two layers and a head block; return all stored tensors by own name."""
    head = nextn_head_tensors(family) if head is None else head
    counts = {"block_count": 2 + num_modules, "nextn_predict_layers": num_modules}
    keys = {f"{family}.{key}": value for key, value in counts.items()} | dict(metadata or {})
    write_tiny_gguf(
        path,
        family,
        extra_tensors=head,
        metadata=keys,
        rope_factors=rope_factors,
        quantisation="F32",
    )
    reader = gguf.GGUFReader(path)
    return {tensor.name: np.array(tensor.data, dtype=np.float32) for tensor in reader.tensors}


def _random(shapes: Mapping[str, tuple[int, ...]], seed: int) -> Tensors:
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes.items():
        values = rng.standard_normal(shape).astype(np.float32) * np.float32(0.2)
        tensors[name] = values + np.float32(1) if "norm.weight" in name else values
    return tensors


@dataclass(frozen=True)
class Drafted:
    """What the reference gives: `states` [tokens, hidden_size] in the format's own sense are what
    the head reads at each position and, at the next depth, what it gives; `logits` [tokens, vocab].
    """

    logits: FloatArray
    states: FloatArray


class MiMoReference:
    """A MiMo checkpoint computed from its own names; states are those before any last norm."""

    def __init__(
        self, stored: Mapping[str, FloatArray], spec: ArchitectureSpec = MIMO_SPEC
    ) -> None:
        self.stored, self.spec = stored, spec

    def body_states(self, token_ids: list[int]) -> FloatArray:
        rows = self.stored["model.embed_tokens.weight"][np.array(token_ids)]
        for layer in range(self.spec.num_layers):
            rows = self._layer(f"model.layers.{layer}.", rows)
        return rows

    def body_logits(self, token_ids: list[int]) -> FloatArray:
        normed = self._norm(self.body_states(token_ids), "model.norm.weight")
        return normed @ self.stored["lm_head.weight"].T

    def draft(self, states: FloatArray, next_ids: list[int]) -> Drafted:
        prefix = "model.mtp_layers.0."
        tokens = self.stored["model.embed_tokens.weight"][np.array(next_ids)]
        left = self._norm(states, prefix + "hidden_layernorm.weight")
        right = self._norm(tokens, prefix + "token_layernorm.weight")
        both = np.concatenate([left, right], axis=1)
        rows = self._layer(prefix, both @ self.stored[prefix + "input_proj.weight"].T)
        normed = self._norm(rows, prefix + "final_layernorm.weight")
        return Drafted(normed @ self.stored["lm_head.weight"].T, rows)

    def _norm(self, rows: FloatArray, name: str) -> FloatArray:
        return _rms(rows, self.spec.norm_eps) * self.stored[name]

    def _layer(self, prefix: str, rows: FloatArray) -> FloatArray:
        def linear(name: str, values: FloatArray) -> FloatArray:
            product = values @ self.stored[f"{prefix}{name}.weight"].T
            bias = self.stored.get(f"{prefix}{name}.bias")
            return product if bias is None else product + bias

        normed = self._norm(rows, prefix + "input_layernorm.weight")
        parts = [linear(f"self_attn.{part}_proj", normed) for part in "qkv"]
        mixed = _attend(self.spec, *parts, turn=_turn_halves)
        rows = rows + linear("self_attn.o_proj", mixed)
        normed = self._norm(rows, prefix + "post_attention_layernorm.weight")
        gate, up = linear("mlp.gate_proj", normed), linear("mlp.up_proj", normed)
        return rows + linear("mlp.down_proj", gate / (1 + np.exp(-gate)) * up)


class NextNReference:
    """A GGUF file computed from its own names; states are those behind the last norm."""

    def __init__(self, stored: Mapping[str, FloatArray], family: str) -> None:
        self.stored = stored
        self.spec = tiny_spec(family)
        # llama files keep the two halves of a rotated pair beside each other.
        self._turn = _turn_neighbours if family == "llama" else _turn_halves

    def body_states(self, token_ids: list[int]) -> FloatArray:
        rows = self.stored["token_embd.weight"][np.array(token_ids)]
        for block in range(self.spec.num_layers):
            rows = self._block(f"blk.{block}.", rows)
        return self._norm(rows, "output_norm.weight")

    def body_logits(self, token_ids: list[int]) -> FloatArray:
        return self.body_states(token_ids) @ self.stored["token_embd.weight"].T

    def draft(self, states: FloatArray, next_ids: list[int]) -> Drafted:
        prefix = "blk.2."
        embed = self._own("nextn.embed_tokens.weight", "token_embd.weight")
        output = self._own("nextn.shared_head_head.weight", "token_embd.weight")
        last_norm = self._own("nextn.shared_head_norm.weight", "output_norm.weight")
        left = self._norm(embed[np.array(next_ids)], prefix + "nextn.enorm.weight")
        right = self._norm(states, prefix + "nextn.hnorm.weight")
        both = np.concatenate([left, right], axis=1)
        rows = self._block(prefix, both @ self.stored[prefix + "nextn.eh_proj.weight"].T)
        state = _rms(rows, self.spec.norm_eps) * last_norm
        return Drafted(state @ output.T, state)

    def _own(self, part: str, otherwise: str) -> FloatArray:
        return self.stored.get(f"blk.2.{part}", self.stored[otherwise])

    def _norm(self, rows: FloatArray, name: str) -> FloatArray:
        return _rms(rows, self.spec.norm_eps) * self.stored[name]

    def _block(self, prefix: str, rows: FloatArray) -> FloatArray:
        stored, spec = self.stored, self.spec
        normed = self._norm(rows, prefix + "attn_norm.weight")
        parts = []
        for part in "qkv":
            values = normed @ stored[f"{prefix}attn_{part}.weight"].T
            if f"{prefix}attn_{part}.bias" in stored:
                values = values + stored[f"{prefix}attn_{part}.bias"]
            if f"{prefix}attn_{part}_norm.weight" in stored:
                heads = values.reshape(len(values), -1, spec.head_size)
                heads = _rms(heads, spec.norm_eps) * stored[f"{prefix}attn_{part}_norm.weight"]
                values = heads.reshape(values.shape)
            parts.append(values)
        factors = stored.get("rope_freqs.weight")
        mixed = _attend(spec, *parts, turn=self._turn, factors=factors)
        rows = rows + mixed @ stored[prefix + "attn_output.weight"].T
        normed = self._norm(rows, prefix + "ffn_norm.weight")
        gate = normed @ stored[prefix + "ffn_gate.weight"].T
        up = normed @ stored[prefix + "ffn_up.weight"].T
        return rows + (gate / (1 + np.exp(-gate)) * up) @ stored[prefix + "ffn_down.weight"].T


def _rms(rows: FloatArray, eps: float) -> FloatArray:
    return rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + np.float32(eps))


Turn = Callable[[FloatArray, FloatArray], FloatArray]


def _attend(
    spec: ArchitectureSpec,
    query: FloatArray,
    key: FloatArray,
    value: FloatArray,
    *,
    turn: Turn,
    factors: FloatArray | None = None,
) -> FloatArray:
    """Causal attention, one position and one head at a time."""
    size = spec.head_size
    frequencies = spec.rope_base ** (-np.arange(0, size, 2) / size)
    if factors is not None:
        frequencies = frequencies / factors
    mixed = np.zeros_like(query)
    for position in range(len(query)):
        for head in range(spec.num_heads):
            own = slice(head * size, (head + 1) * size)
            shared = head // (spec.num_heads // spec.num_kv_heads)
            other = slice(shared * size, (shared + 1) * size)
            asked = turn(query[position, own], position * frequencies)
            keys = [turn(key[at, other], at * frequencies) for at in range(position + 1)]
            scores = np.array([asked @ one for one in keys]) / np.sqrt(size)
            weights = np.exp(scores - scores.max())
            mixed[position, own] = weights / weights.sum() @ value[: position + 1, other]
    return mixed


def _turn_halves(values: FloatArray, angles: FloatArray) -> FloatArray:
    """Rotate number i together with number i + size / 2."""
    pairs = values.reshape(2, -1)
    turned = (pairs[0] + 1j * pairs[1]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag]).astype(np.float32)


def _turn_neighbours(values: FloatArray, angles: FloatArray) -> FloatArray:
    """Rotate number 2 i together with number 2 i + 1."""
    pairs = values.reshape(-1, 2)
    turned = (pairs[:, 0] + 1j * pairs[:, 1]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=1).reshape(-1).astype(np.float32)
