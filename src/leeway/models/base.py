"""Models: what every model file is turned into, whatever its format.

A `ModelFiles` value gives the architecture, float32 tensors under canonical names, tokenizer data
and checksums. This room knows neither graphs nor engines.

Canonical tensor names, all float32, linear weights [out_features, in_features], query and key rows
in the half-split rotary order of Hugging Face (never the interleaved order of GGUF files):

    embed                  [vocab_size, hidden_size]
    output                 [vocab_size, hidden_size]; absent when the output is tied to `embed`
    final_norm             [hidden_size]
    rope_factors           [head_size / 2], divides the rotary frequencies; absent when all ones
    layers.N.attn_norm     [hidden_size]
    layers.N.q, k, v       [heads * head_size, hidden_size]
    layers.N.q_bias, k_bias, v_bias   where `attention_bias`
    layers.N.q_norm, k_norm           [head_size], where `qk_norm`
    layers.N.o             [hidden_size, num_heads * head_size]
    layers.N.ffn_norm      [hidden_size]
    layers.N.gate, up      [ffn_size, hidden_size]
    layers.N.down          [hidden_size, ffn_size]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leeway.core.types import TokenizerData


@dataclass(frozen=True, slots=True)
class ArchitectureSpec:
    """The numbers that determine a decoder of the llama, qwen2 and qwen3 families."""

    family: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    ffn_size: int
    vocab_size: int
    context_len: int
    rope_base: float
    norm_eps: float
    tied_output: bool
    attention_bias: bool = False
    qk_norm: bool = False


class ModelFiles(Protocol):
    """An opened model: cheap to open, tensors are read when asked for."""

    name: str
    spec: ArchitectureSpec
    tokenizer: TokenizerData

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return one tensor by canonical name. Raises ModelError naming a missing tensor."""
        ...

    def has_tensor(self, name: str) -> bool:
        """Return whether a tensor of this canonical name exists."""
        ...

    def sha256(self) -> str:
        """Return the checksum that identifies the weights (hex)."""
        ...
