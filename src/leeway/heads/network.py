"""The draft head as a PyTorch module, trained as it will be used.

In: hidden states and tokens of packed answers. Out: logits over the draft vocabulary for every
depth. At depth d the head reads its own state of depth d - 1 and attends, as in use, to true
positions up to d - 1 back and to its own keys of lower depths behind them (the "training-time test"
of EAGLE-3, arXiv 2503.01840). Parameter names are the canonical ones of `models.head_base`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from leeway.models.base import ArchitectureSpec


@dataclass(frozen=True, slots=True)
class Packed:
    """Answers packed in rows of one length.

    Attributes:
        token_ids: [rows, length + 1].
        hidden: [rows, length, hidden_size], the target's states.
        segments: [rows, length], which answer of its row a position belongs to; -1 is padding.
        positions: [rows, length], place within the answer's row, prompt included.
        places: [rows, length], place within the answer's text: 0 its first token, negative in the
            prompt.
    """

    token_ids: Tensor
    hidden: Tensor
    segments: Tensor
    positions: Tensor
    places: Tensor


class Head(nn.Module):
    """A head of one or more decoder layers; embedding and output rows are the target's, frozen."""

    embed: Tensor
    output: Tensor

    def __init__(
        self,
        spec: ArchitectureSpec,
        embed: Tensor,
        output: Tensor,
        rope_factors: Tensor | None = None,
    ) -> None:
        """Take what is the target's.

        Args:
            spec: of the head's own layers.
            embed: [vocab_size, hidden_size].
            output: [draft vocabulary, hidden_size], rows of the output matrix.
            rope_factors: [head_size / 2], divide the rotary frequencies; all ones if None.
        """
        super().__init__()
        size = spec.hidden_size
        self.spec = spec
        self.register_buffer("embed", embed, persistent=False)
        self.register_buffer("output", output, persistent=False)
        self.rope_factors = rope_factors
        self.embed_norm = _Norm(size, spec.norm_eps)
        self.hidden_norm = _Norm(size, spec.norm_eps)
        self.project = nn.Linear(2 * size, size, bias=False)
        self.layers = nn.ModuleList([_Layer(spec) for _ in range(spec.num_layers)])
        self.final_norm = _Norm(size, spec.norm_eps)

    def forward(self, batch: Packed, depth: int) -> list[Tensor]:
        """Return each depth's states behind the last norm, [rows, length, hidden_size].

        Row p of depth d stands for the pair (state at p, token p + 1) and predicts token p + 2,
        from true states up to p - d + 1 only.
        """
        cos, sin = _rotary(self.spec, batch.positions, self.rope_factors)
        embedded = self.embed_norm(functional.embedding(batch.token_ids[:, 1:], self.embed).float())
        states = batch.hidden.float()
        caches: list[list[tuple[Tensor, Tensor]]] = [[] for _ in self.layers]
        found = []
        for step in range(depth):
            if step > 0:
                states = _behind(states, 1)
            rows = self.project(torch.cat([embedded, self.hidden_norm(states)], -1))
            mask = _mask(batch.segments, step)
            for layer, cache in zip(self.layers, caches, strict=True):
                rows = layer(rows, cos, sin, mask, cache)
            states = self.final_norm(rows)
            found.append(states)
        return found


class _Norm(nn.RMSNorm):
    """Computes in single precision, whatever comes in, and gives back what came in."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows.float()).to(rows.dtype)


class _Layer(nn.Module):
    """One decoder layer of the llama, qwen2 and qwen3 families."""

    def __init__(self, spec: ArchitectureSpec) -> None:
        super().__init__()
        size, head = spec.hidden_size, spec.head_size
        self.spec = spec
        widths = {"q": spec.num_heads, "k": spec.num_kv_heads, "v": spec.num_kv_heads}
        self.attn_norm = _Norm(size, spec.norm_eps)
        for name, count in widths.items():
            setattr(self, name, nn.Linear(size, count * head, bias=spec.attention_bias))
        if spec.qk_norm:
            self.q_norm = _Norm(head, spec.norm_eps)
            self.k_norm = _Norm(head, spec.norm_eps)
        self.o = nn.Linear(spec.num_heads * head, size, bias=False)
        self.ffn_norm = _Norm(size, spec.norm_eps)
        self.gate = nn.Linear(size, spec.ffn_size, bias=False)
        self.up = nn.Linear(size, spec.ffn_size, bias=False)
        self.down = nn.Linear(spec.ffn_size, size, bias=False)

    def forward(
        self,
        rows: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor,
        cache: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        rows = rows + self._attend(self.attn_norm(rows), cos, sin, mask, cache)
        normed = self.ffn_norm(rows)
        result: Tensor = rows + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return result

    def _attend(
        self,
        normed: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor,
        cache: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Attend to depth 1's keys where `mask` lets, then to one key of each later depth.

        `cache` has keys and values of the lower depths, [rows, heads, length, head_size]; this
        depth's are appended.
        """
        query, key, value = (self._heads(name, normed) for name in ("q", "k", "v"))
        query, key = _rotated(query, cos, sin), _rotated(key, cos, sin)
        groups = self.spec.num_heads // self.spec.num_kv_heads
        key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
        cache.append((key, value))
        query = query * self.spec.head_size**-0.5
        true_key, true_value = cache[0]
        scores = query @ true_key.transpose(-1, -2) + mask
        own = [
            (_behind(keys, back, 2), _behind(values, back, 2))
            for back, (keys, values) in zip(range(len(cache) - 2, -1, -1), cache[1:], strict=True)
        ]
        if own:
            near = torch.stack([(query * keys).sum(-1) for keys, _ in own], -1)
            scores = torch.cat([scores, near], -1)
        weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
        length = mask.shape[-1]
        mixed = weights[..., :length] @ true_value
        for index, (_, values) in enumerate(own):
            mixed = mixed + weights[..., length + index, None] * values
        result: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return result

    def _heads(self, name: str, normed: Tensor) -> Tensor:
        heads: Tensor = getattr(self, name)(normed).unflatten(-1, (-1, self.spec.head_size))
        if self.spec.qk_norm and name != "v":
            heads = getattr(self, f"{name}_norm")(heads)
        return heads.transpose(1, 2)


def _behind(rows: Tensor, back: int, axis: int = 1) -> Tensor:
    """Return rows moved `back` places on along `axis`; those without a predecessor are zero."""
    if back == 0:
        return rows
    kept = rows.narrow(axis, 0, rows.shape[axis] - back)
    return torch.cat([torch.zeros_like(rows.narrow(axis, 0, back)), kept], axis)


def _mask(segments: Tensor, step: int) -> Tensor:
    """Return [rows, 1, length, length]: 0 where depth step + 1 may see a true key, else -inf."""
    length = segments.shape[1]
    place = torch.arange(length, device=segments.device)
    is_seen = (place[:, None] - step >= place[None, :])[None] & (
        segments[:, :, None] == segments[:, None, :]
    )
    blocked = torch.zeros(is_seen.shape).masked_fill(~is_seen, -1e4)
    return blocked[:, None]


def _rotary(
    spec: ArchitectureSpec, positions: Tensor, factors: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return cosine and sine, [rows, 1, length, head_size]."""
    exponents = torch.arange(0, spec.head_size, 2, dtype=torch.float64) / spec.head_size
    frequencies = (spec.rope_base**-exponents).float()
    if factors is not None:
        frequencies = frequencies / factors
    angles = positions[:, None, :, None].float() * torch.cat([frequencies, frequencies])
    return angles.cos(), angles.sin()


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    lower, upper = heads.chunk(2, -1)
    turned = torch.cat([-upper, lower], -1)
    return (heads * cos + turned * sin).to(heads.dtype)
