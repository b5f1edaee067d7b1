"""What vLLM's CPU build computes wrongly, computed with plain torch.

`expand_batch_to_tokens` spreads each request's temperature, top-k and top-p over its draft rows by
a Triton kernel, and the CPU build's stand-in for that kernel drops what it computes: sampled
requests with drafts then get rows from uninitialised memory (vllm-project/vllm issue 55005). The
rows are made before any law reads them, so the laws cannot do without this.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def expand_batch_to_tokens(
    x: torch.Tensor,
    cu_num_tokens: torch.Tensor,
    num_tokens: int,
    replace_from: int = 0,
    replace_to: int = 0,
) -> torch.Tensor:
    """Return each request's value once for each of its rows: [num_tokens].

    Args:
        x: [num_requests].
        cu_num_tokens: [num_requests], rows up to and including each request's.
        num_tokens: rows in all.
        replace_from: a value of `x` that stands for another.
        replace_to: which it stands for.
    """
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1)).to(torch.int64)
    values = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
    return torch.repeat_interleave(values, counts, output_size=num_tokens)


def unless_empty(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return vLLM's `apply_sampling_constraints` for steps in which nothing was drafted as well.

    With top-k it looks for the largest k among no rows at all, and fails.
    """

    @functools.wraps(original)
    def constrained(logits: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401
        return original(logits, *args, **kwargs) if logits.shape[0] else logits

    return constrained
