"""The held-out report: what the exact law would accept of this head's drafts, by depth.

Acceptance at a position is one minus the total variation between the target's row and the draft
row, both as the sampler leaves them: an expectation, no draw. Rows of depth d stand behind d - 1
tokens that the target itself wrote, as if all drafts before had been accepted. Only what is drafted
in use counts: the answers' tokens behind their first, not the prompts'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leeway.heads.batches import labelled, pack, packed_rows
from leeway.heads.dataset import Answer
from leeway.heads.network import Head

_ROWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Report:
    """Expected acceptance by depth, over `num_positions` positions of held-out answers.

    `sampled` is at temperature 1, top-p 0.95, top-k 20; `full` at temperature 1 untruncated;
    `greedy` is how often both rows' likeliest tokens agree. `coverage` is the target's mass on the
    draft vocabulary (untruncated).
    """

    sampled: tuple[float, ...]
    full: tuple[float, ...]
    greedy: tuple[float, ...]
    coverage: float
    num_positions: int

    @property
    def tokens_per_step(self) -> float:
        """Tokens of a verify step that drafts to full depth: from mean acceptances, so about."""
        total, chain = 1.0, 1.0
        for acceptance in self.sampled:
            chain *= acceptance
            total += chain
        return total

    @property
    def draft_acceptance_rate(self) -> float:
        """Expected share of drafted tokens that are accepted, at full depth, with `sampled`."""
        return (self.tokens_per_step - 1) / len(self.sampled)


@torch.no_grad()
def evaluate(
    head: Head,
    answers: Sequence[Answer],
    full_output: Tensor,
    draft_token_ids: Tensor,
    *,
    depth: int,
    row_len: int = 512,
    num_rows: int = 48,
) -> Report:
    """Measure a head on answers that it was not trained on.

    Args:
        head: the head.
        answers: held out.
        full_output: [vocab_size, hidden_size], the target's output matrix.
        draft_token_ids: [draft vocabulary].
        depth: depths to measure.
        row_len: as in training.
        num_rows: most rows to measure on.
    """
    rows = packed_rows(answers, row_len, np.random.default_rng(0))[:num_rows]
    sums = torch.zeros(3, depth, dtype=torch.float64)
    counts = torch.zeros(depth, dtype=torch.float64)
    covered = 0.0
    for first in range(0, len(rows), 8):
        batch, _ = pack(answers, rows[first : first + 8], row_len)
        with torch.autocast("cpu", torch.bfloat16):
            found = head(batch, depth)
        for step, states in enumerate(found):
            chosen = labelled(batch, step)
            draft_states, target_states = states[:, :-1][chosen], batch.hidden[:, 1:][chosen]
            counts[step] += len(draft_states)
            for start in range(0, len(draft_states), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                target = _probs(target_states[part], full_output)
                draft = _probs(draft_states[part], full_output[draft_token_ids])
                sums[:, step] += _agreement(target, draft, draft_token_ids)
                if step == 0:
                    covered += float(target[:, draft_token_ids].sum())
    means = (sums / counts.clamp(min=1)).tolist()
    sampled, full, greedy = (tuple(round(value, 4) for value in row) for row in means)
    return Report(
        sampled, full, greedy, round(covered / max(1.0, float(counts[0])), 4), int(counts[0])
    )


def _probs(states: Tensor, output: Tensor) -> Tensor:
    return (states.to(output.dtype) @ output.T).float().softmax(-1)


def _agreement(target: Tensor, draft: Tensor, draft_token_ids: Tensor) -> Tensor:
    """Return sums over rows: sampled overlap, full overlap, equal likeliest tokens."""
    spread = torch.zeros_like(target)
    spread[:, draft_token_ids] = draft
    full = torch.minimum(target, spread).sum()
    sampled = torch.minimum(_truncated(target), _truncated(spread)).sum()
    greedy = (target.argmax(-1) == spread.argmax(-1)).sum()
    return torch.stack([sampled, full, greedy]).double()


def _truncated(probs: Tensor, top_k: int = 20, top_p: float = 0.95) -> Tensor:
    """Return rows cut to top-k, then to the fewest tokens that hold top-p of what is left."""
    values, places = probs.topk(top_k, -1)
    values = values / values.sum(-1, keepdim=True)
    before = values.cumsum(-1) - values
    values = values.masked_fill(before >= top_p, 0.0)
    values = values / values.sum(-1, keepdim=True)
    return torch.zeros_like(probs).scatter_(-1, places, values)
