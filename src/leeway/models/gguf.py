"""A GGUF file as `ModelFiles`: architecture, canonical tensors, tokenizer.

In: a path. Out: float32 tensors under the names of `models.base`, dequantised when asked for, one
at a time and from any thread. Nothing here knows what is done with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.models.base import ArchitectureSpec
from leeway.models.dequantise import dequantise
from leeway.models.gguf_container import Container, RawTensor, read_container
from leeway.models.tensor_shapes import FAMILIES, check_tensors
from leeway.models.tokenizer_from_gguf import tokenizer_data

_TOP_NAMES = {
    "token_embd.weight": "embed",
    "output.weight": "output",
    "output_norm.weight": "final_norm",
    "rope_freqs.weight": "rope_factors",
}
LAYER_NAMES = {
    "attn_norm.weight": "attn_norm",
    "attn_q.weight": "q",
    "attn_k.weight": "k",
    "attn_v.weight": "v",
    "attn_q.bias": "q_bias",
    "attn_k.bias": "k_bias",
    "attn_v.bias": "v_bias",
    "attn_q_norm.weight": "q_norm",
    "attn_k_norm.weight": "k_norm",
    "attn_output.weight": "o",
    "ffn_norm.weight": "ffn_norm",
    "ffn_gate.weight": "gate",
    "ffn_up.weight": "up",
    "ffn_down.weight": "down",
}
_OWN_TOP_NAMES = {canonical: own for own, canonical in _TOP_NAMES.items()}
_OWN_LAYER_NAMES = {part: own for own, part in LAYER_NAMES.items()}
_IGNORED_PARTS = frozenset({"attn_rot_embd"})  # a constant that old converters wrote out


class GGUFFiles:
    """An opened GGUF file; satisfies `ModelFiles`.

    `head_tensors` are those of a draft head that came with the model: the blocks behind its own,
    by the file's own names; what they mean is the business of `models.head_gguf`.
    """

    def __init__(self, path: Path, *, sha256: str | None = None) -> None:
        """Open and check the file.

        Args:
            path: of the file.
            sha256: the file's checksum where it was compared already, so that it is not read whole
                again.

        Raises:
            ModelError: the file is not GGUF, is truncated, is of another architecture, or lacks a
                tensor; the message names which.
        """
        self._container = read_container(path)
        _refuse_split(path, self._container.metadata)
        metadata = self._container.metadata
        self.num_head_blocks = _num_head_blocks(path, metadata)
        tensors = dict(self._container.tensors)
        self.head_tensors = _take_head_tensors(tensors, path, metadata, self.num_head_blocks)
        self._own_names = _canonical_names(self._container, tensors)
        self.path = path
        self.name = path.stem
        self._known_sha256 = sha256
        self.spec = _read_spec(self._container, self._own_names, self.num_head_blocks)
        found = {name: self._container.tensors[own].shape for name, own in self._own_names.items()}
        check_tensors(str(path), self.spec, found, _own_name)
        self._linear_rope = _read_rope_scaling(path, metadata, self.spec.family)
        self.tokenizer = tokenizer_data(metadata, source=str(path))

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return one tensor by canonical name. Raises ModelError naming a missing tensor."""
        if name == "rope_factors" and self._rope_factors is not None:
            return self._rope_factors.copy()
        if name not in self._own_names or name == "rope_factors":
            raise ModelError(f"{self.path} has no tensor {name!r}")
        return in_half_split_order(self._read(name), self.spec, name)

    def has_tensor(self, name: str) -> bool:
        """Return whether a tensor of this canonical name exists."""
        if name == "rope_factors":
            return self._rope_factors is not None
        return name in self._own_names

    def sha256(self) -> str:
        """Return the checksum of the whole file (hex); read once, then remembered."""
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        if self._known_sha256 is not None:
            return self._known_sha256
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def _rope_factors(self) -> NDArray[np.float32] | None:
        factors = np.full(self.spec.head_size // 2, self._linear_rope, dtype=np.float32)
        if "rope_factors" in self._own_names:
            factors = factors * self._read("rope_factors")
        return None if (factors == 1).all() else factors

    def _read(self, name: str) -> NDArray[np.float32]:
        raw = self._container.tensors[self._own_names[name]]
        return dequantise(raw.data, raw.type_name, raw.shape, raw.name)


def _num_head_blocks(path: Path, metadata: Mapping[str, Any]) -> int:
    """Return how many of the blocks that `block_count` counts are a draft head's: the last ones.

    Source: llama.cpp (n_layer_all and n_layer_nextn).
    """
    key = f"{metadata.get('general.architecture')}.nextn_predict_layers"
    value = metadata.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ModelError(f"{path}: {key} is {value!r}; it must be a whole number >= 0")
    return value


def _take_head_tensors(
    tensors: dict[str, RawTensor], path: Path, metadata: Mapping[str, Any], num_blocks: int
) -> dict[str, RawTensor]:
    """Take the tensors of a head's blocks out of `tensors` and return them, by own name."""
    if num_blocks == 0:
        return {}
    family = _check_architecture(path, metadata)
    first = _Keys(path, metadata, family).count("block_count") - num_blocks
    if first < 1:
        raise ModelError(
            f"{path}: {family}.nextn_predict_layers is {num_blocks} but {family}.block_count, "
            f"which counts them, is {first + num_blocks}; the file is inconsistent, convert it "
            "again"
        )
    taken = [name for name in tensors if (_block_index(name) or 0) >= first]
    return {name: tensors.pop(name) for name in taken}


def _block_index(own: str) -> int | None:
    index = own.removeprefix("blk.").partition(".")[0]
    return int(index) if own.startswith("blk.") and index.isdecimal() else None


def _canonical_names(container: Container, tensors: Iterable[str]) -> dict[str, str]:
    """Return {canonical name: the file's own name}; a tensor of unknown use is an error."""
    names = {}
    for own in tensors:
        canonical = _TOP_NAMES.get(own)
        if canonical is None and own.startswith("blk."):
            index, _, part = own.removeprefix("blk.").partition(".")
            if part.split(".")[0] in _IGNORED_PARTS:
                continue
            if part in LAYER_NAMES:
                canonical = f"layers.{index}.{LAYER_NAMES[part]}"
        if canonical is None:
            _check_architecture(container.path, container.metadata)
            raise ModelError(
                f"{container.path}: tensor {own!r} has no place in the "
                f"{', '.join(FAMILIES)} architectures; leaving it out would give wrong text, so "
                "this variant cannot be loaded"
            )
        names[canonical] = own
    return names


def _own_name(canonical: str) -> str:
    """Return what a GGUF file calls a tensor."""
    if canonical in _OWN_TOP_NAMES:
        return _OWN_TOP_NAMES[canonical]
    _, index, part = canonical.split(".")
    return f"blk.{index}.{_OWN_LAYER_NAMES[part]}"


def _refuse_split(path: Path, metadata: Mapping[str, Any]) -> None:
    num_parts = metadata.get("split.count", 0)
    if num_parts > 1:
        raise ModelError(
            f"{path} is one of {num_parts} parts of a model; merge them into one file first "
            "(llama-gguf-split --merge)"
        )


def _check_architecture(path: Path, metadata: Mapping[str, Any]) -> str:
    family = metadata.get("general.architecture")
    if family not in FAMILIES:
        raise ModelError(
            f"{path} has architecture {family!r}; known architectures are {', '.join(FAMILIES)}"
        )
    return str(family)


def _read_spec(
    container: Container, names: Mapping[str, str], num_head_blocks: int
) -> ArchitectureSpec:
    path, metadata = container.path, container.metadata
    family = _check_architecture(path, metadata)
    keys = _Keys(path, metadata, family)
    for key in ("expert_count", "attention.sliding_window"):
        if metadata.get(f"{family}.{key}"):
            raise ModelError(
                f"{path}: {family}.{key} is {metadata[f'{family}.{key}']}; mixtures of experts and "
                "sliding windows are not supported, choose a dense model"
            )
    hidden_size, num_heads = keys.count("embedding_length"), keys.count("attention.head_count")
    head_size = keys.count("attention.key_length", hidden_size // num_heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if keys.count(key, head_size) != head_size:
            raise ModelError(
                f"{path}: {family}.{key} is {keys.count(key)} but the head size is {head_size}; "
                "partial rotation and unequal head sizes are not supported"
            )
    tokens = metadata.get("tokenizer.ggml.tokens", ())
    return ArchitectureSpec(
        family=family,
        num_layers=keys.count("block_count") - num_head_blocks,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=keys.count("attention.head_count_kv", num_heads),
        head_size=head_size,
        ffn_size=keys.count("feed_forward_length"),
        vocab_size=len(tokens) or keys.count("vocab_size"),
        context_len=keys.count("context_length"),
        rope_base=keys.number("rope.freq_base", 10000.0),
        norm_eps=keys.number("attention.layer_norm_rms_epsilon"),
        tied_output="output" not in names,
        attention_bias="layers.0.q_bias" in names,
        qk_norm="layers.0.q_norm" in names or family == "qwen3",
    )


class _Keys:
    """Typed access to the metadata of one architecture."""

    def __init__(self, path: Path, metadata: Mapping[str, Any], family: str) -> None:
        self._path, self._metadata, self._family = path, metadata, family

    def count(self, key: str, default: int | None = None) -> int:
        """Return a positive whole number; an array must repeat one value, as per-layer ones do."""
        value = self._get(key, default)
        if isinstance(value, np.ndarray):
            if value.size == 0 or (value != value[0]).any():
                raise self._wrong(key, value.tolist(), "the same number for every layer")
            value = int(value[0])
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._wrong(key, value, "a positive whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a positive number."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise self._wrong(key, value, "a positive number")
        return float(value)

    def _get(self, key: str, default: float | None) -> object:
        value = self._metadata.get(f"{self._family}.{key}", default)
        if value is None:
            raise ModelError(
                f"{self._path}: metadata lacks {self._family}.{key}; convert or fetch it again"
            )
        return value

    def _wrong(self, key: str, value: object, allowed: str) -> ModelError:
        return ModelError(f"{self._path}: {self._family}.{key} is {value!r}; it must be {allowed}")


def _read_rope_scaling(path: Path, metadata: Mapping[str, Any], family: str) -> float:
    """Return the factor that linear scaling divides every rotary frequency by (1: no scaling)."""
    prefix = f"{family}.rope."
    factor = metadata.get(f"{prefix}scaling.factor") or metadata.get(f"{prefix}scale_linear") or 1.0
    kind = metadata.get(f"{prefix}scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise ModelError(
            f"{path}: rope scaling {kind!r} is not supported; none, linear and the factors of "
            "llama3 (tensor rope_freqs.weight) are"
        )
    return float(factor) if kind == "linear" else 1.0


def in_half_split_order(
    values: NDArray[np.float32], spec: ArchitectureSpec, name: str
) -> NDArray[np.float32]:
    """Return a tensor of this canonical name as `models.base` wants it, from a file's own order."""
    heads = _rotary_heads(spec, name) if spec.family == "llama" else 0
    return _half_split(values, heads) if heads else values


def _rotary_heads(spec: ArchitectureSpec, name: str) -> int:
    """Return over how many heads a tensor's rows are rotated; 0 for all but q and k."""
    part = name.rpartition(".")[2]
    if part in ("q", "q_bias"):
        return spec.num_heads
    return spec.num_kv_heads if part in ("k", "k_bias") else 0


def _half_split(values: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """Undo the interleaved rotary order (pairs beside each other) of llama GGUF files.

    Rows 2i and 2i + 1 of each head become rows i and i + head_size / 2.
    """
    pairs = values.reshape(num_heads, -1, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)
