"""A Hugging Face config.json as an architecture spec.

In: the parsed JSON. Out: an `ArchitectureSpec` and the rotary factors. What would change the
forward pass and is not understood is refused by name, never skipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.models.base import ArchitectureSpec
from leeway.models.tensor_shapes import FAMILIES

MIMO = "mimo"
"""A body of the qwen2 family, with a draft head beside it."""

_ROPE_KINDS = ("default", "linear", "llama3")


def read_spec(config: Mapping[str, Any], source: str) -> ArchitectureSpec:
    """Return the architecture; `source` names the folder in errors.

    Raises:
        ModelError: another architecture, or a setting that is missing or not supported.
    """
    found = config.get("model_type")
    family = "qwen2" if found == MIMO else found
    if family not in FAMILIES:
        raise ModelError(
            f"{source} has model_type {found!r}; known architectures are "
            f"{', '.join((*FAMILIES, MIMO))}"
        )
    _refuse_unsupported(config, source)
    hidden_size = _count(config, "hidden_size", source)
    num_heads = _count(config, "num_attention_heads", source)
    default_head_size = 128 if family == "qwen3" else hidden_size // num_heads
    return ArchitectureSpec(
        family=family,
        num_layers=_count(config, "num_hidden_layers", source),
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=_count(config, "num_key_value_heads", source, num_heads),
        head_size=_count(config, "head_dim", source, default_head_size),
        ffn_size=_count(config, "intermediate_size", source),
        vocab_size=_count(config, "vocab_size", source),
        context_len=_count(config, "max_position_embeddings", source),
        rope_base=_number(_rope(config), "rope_theta", source, config.get("rope_theta", 10000.0)),
        norm_eps=_number(config, "rms_norm_eps", source, 1e-6),
        tied_output=bool(config.get("tie_word_embeddings", False)),
        attention_bias=family == "qwen2" or bool(config.get("attention_bias", False)),
        qk_norm=family == "qwen3",
    )


def read_rope_factors(
    config: Mapping[str, Any], spec: ArchitectureSpec, source: str
) -> NDArray[np.float32] | None:
    """Return what the rotary frequencies are divided by, [head_size / 2], or None for all ones.

    Raises:
        ModelError: a kind of scaling that is not supported, or one of its numbers is missing.

    Source: the llama3 rule of the Hugging Face `transformers` library (rope_type "llama3").
    """
    rope = _rope(config)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in _ROPE_KINDS:
        raise ModelError(
            f"{source}: rope scaling {kind!r} is not supported; {', '.join(_ROPE_KINDS)} are"
        )
    if kind == "default":
        return None
    factor = _number(rope, "factor", source)
    if kind == "linear":
        return np.full(spec.head_size // 2, factor, dtype=np.float32)
    low = _number(rope, "low_freq_factor", source)
    high = _number(rope, "high_freq_factor", source)
    original_len = _number(rope, "original_max_position_embeddings", source)
    exponents = np.arange(0, spec.head_size, 2, dtype=np.float64) / spec.head_size
    turns = original_len / (2 * math.pi * spec.rope_base**exponents)  # in the original context
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / factor + smooth)).astype(np.float32)


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def _refuse_unsupported(config: Mapping[str, Any], source: str) -> None:
    refused = {
        "quantization_config": "fetch the unquantised model or a GGUF file",
        "use_sliding_window": "sliding windows are not supported",
        "mlp_bias": "biases of the feed-forward layers are not supported",
    }
    for key, reason in refused.items():
        if config.get(key):
            raise ModelError(f"{source}: {key} is {config[key]!r}; {reason}")
    activation = config.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ModelError(f"{source}: hidden_act is {activation!r}; only silu is supported")
    if config.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(
            f"{source}: partial_rotary_factor must be 1; partial rotation is not known"
        )


def _count(config: Mapping[str, Any], key: str, source: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelError(
            f"{source}: config.json has {key} {value!r}; it must be a whole number > 0"
        )
    return value


def _number(
    config: Mapping[str, Any], key: str, source: str, default: float | None = None
) -> float:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ModelError(f"{source}: config.json has {key} {value!r}; it must be a number > 0")
    return float(value)
