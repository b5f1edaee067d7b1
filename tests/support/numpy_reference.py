"""Decoders of three families, and draft heads, in plain NumPy float32: the slow reference.

Written from the architectures' definitions and sharing no code with any backend: no cache, no
batching, no fused matrices; every call computes all positions of one sequence with causal masks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leeway.models.base import ArchitectureSpec, ModelFiles
from leeway.models.head_base import HeadFiles

FloatArray = NDArray[np.float32]


def reference_forward(files: ModelFiles, token_ids: list[int]) -> tuple[FloatArray, FloatArray]:
    """Return logits [tokens, vocab_size] and final hidden states [tokens, hidden_size]."""
    spec = files.spec
    embed = files.tensor("embed")
    rows = _layers(files, spec, embed[np.array(token_ids)])
    hidden = _rms(rows, files.tensor("final_norm"), spec.norm_eps)
    output = embed if spec.tied_output else files.tensor("output")
    return hidden @ output.T, hidden


def reference_head(
    head: HeadFiles, target: ModelFiles, states: FloatArray, token_ids: list[int]
) -> tuple[FloatArray, FloatArray]:
    """Return a head's logits and states behind each (state, next token), all committed pairs."""
    spec = head.spec.decoder
    embed = (head if head.has_tensor("embed") else target).tensor("embed")
    token_rows = _rms(embed[np.array(token_ids)], head.tensor("embed_norm"), spec.norm_eps)
    reads_early = head.has_tensor("state_gain")
    if reads_early:
        states = states / head.tensor("state_gain")
    state_rows = _rms(states, head.tensor("hidden_norm"), spec.norm_eps)
    joined = np.concatenate([token_rows, state_rows], axis=-1) @ head.tensor("project").T
    rows = _layers(head, spec, joined)
    hidden = _rms(rows, head.tensor("final_norm"), spec.norm_eps)
    if head.has_tensor("output"):
        output = head.tensor("output")
    else:
        output = target.tensor("embed" if target.spec.tied_output else "output")
        if head.spec.draft_token_ids is not None:
            output = output[head.spec.draft_token_ids]
    state = _rms(rows, head.tensor("state_gain"), spec.norm_eps) if reads_early else hidden
    return hidden @ output.T, state


def _layers(files: ModelFiles | HeadFiles, spec: ArchitectureSpec, rows: FloatArray) -> FloatArray:
    cos, sin = _rotary(files, spec, len(rows))
    for layer in range(spec.num_layers):
        prefix = f"layers.{layer}."
        normed = _rms(rows, files.tensor(prefix + "attn_norm"), spec.norm_eps)
        rows = rows + _attention(files, spec, prefix, normed, cos, sin)
        normed = _rms(rows, files.tensor(prefix + "ffn_norm"), spec.norm_eps)
        gate = normed @ files.tensor(prefix + "gate").T
        up = normed @ files.tensor(prefix + "up").T
        rows = rows + (gate / (1 + np.exp(-gate)) * up) @ files.tensor(prefix + "down").T
    return rows


def _attention(
    files: ModelFiles | HeadFiles,
    spec: ArchitectureSpec,
    prefix: str,
    normed: FloatArray,
    cos: FloatArray,
    sin: FloatArray,
) -> FloatArray:
    num_tokens = normed.shape[0]

    def heads(name: str, count: int) -> FloatArray:
        rows = normed @ files.tensor(prefix + name).T
        if spec.attention_bias:
            rows = rows + files.tensor(f"{prefix}{name}_bias")
        rows = rows.reshape(num_tokens, count, spec.head_size)
        if spec.qk_norm and name != "v":
            rows = _rms(rows, files.tensor(f"{prefix}{name}_norm"), spec.norm_eps)
        return rows

    query = _rotate(heads("q", spec.num_heads), cos, sin)
    key = _rotate(heads("k", spec.num_kv_heads), cos, sin)
    value = heads("v", spec.num_kv_heads)
    future = np.triu(np.full((num_tokens, num_tokens), -np.inf, np.float32), 1)
    mixed = np.empty_like(query)
    for head in range(spec.num_heads):
        shared = head * spec.num_kv_heads // spec.num_heads
        scores = query[:, head] @ key[:, shared].T / np.float32(np.sqrt(spec.head_size)) + future
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed[:, head] = weights @ value[:, shared]
    return mixed.reshape(num_tokens, -1) @ files.tensor(prefix + "o").T


def _rms(rows: FloatArray, weight: FloatArray, eps: float) -> FloatArray:
    mean = np.mean(np.square(rows), axis=-1, keepdims=True)
    return rows / np.sqrt(mean + np.float32(eps)) * weight


def _rotary(
    files: ModelFiles | HeadFiles, spec: ArchitectureSpec, num_tokens: int
) -> tuple[FloatArray, FloatArray]:
    """Cosine and sine, [tokens, 1, head_size / 2], by position and frequency."""
    frequencies = spec.rope_base ** (-2 * np.arange(spec.head_size // 2) / spec.head_size)
    if files.has_tensor("rope_factors"):
        frequencies = frequencies / files.tensor("rope_factors")
    angles = np.outer(np.arange(num_tokens), frequencies)[:, None]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotate(heads: FloatArray, cos: FloatArray, sin: FloatArray) -> FloatArray:
    first, second = np.split(heads, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
