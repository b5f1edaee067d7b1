"""Training: batches in, a better head out, with checkpoints that a later run goes on from.

AdamW with small batches and a low rate: training begins near a good solution (see `start`), which
coarse steps spoil faster than they improve it. The schedule counts positions, so an interrupted run
ends where it would have; more positions asked for later begin a new descent from the checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from leeway.heads.batches import batches, labelled
from leeway.heads.dataset import Answer
from leeway.heads.loss import row_loss, target_rows
from leeway.heads.network import Head, Packed

_WARM_UP_STEPS = 100
_CHECKPOINT_EVERY_S = 120.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train; part of the head's summary.

    Attributes:
        depth: depths trained, at most as many as there are depth weights.
        num_positions: positions of answers to train on in all, repetitions counted.
        row_len: positions of a packed row.
        rows: rows of a batch.
        learning_rate: at its peak.
        depth_weights: weight of each depth's loss.
        tv_weight: of total variation beside cross-entropy.
    """

    depth: int = 3
    num_positions: int = 5_000_000
    row_len: int = 512
    rows: int = 1
    learning_rate: float = 8e-5
    depth_weights: tuple[float, ...] = (1.0, 0.7, 0.5, 0.35, 0.25)
    tv_weight: float = 1.0


@dataclass(slots=True)
class State:
    """How far training is; `num_batches` of the epoch are done."""

    num_positions: int = 0
    num_steps: int = 0
    epoch: int = 0
    num_batches: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)


class Trainer:
    """Owns the head's optimiser and the place in the data."""

    def __init__(self, head: Head, recipe: Recipe, checkpoint: Path) -> None:
        """Take up the checkpoint if there is one."""
        assert recipe.depth <= len(recipe.depth_weights)
        self.head, self.recipe, self.checkpoint = head, recipe, checkpoint
        self.state = State()
        self._optimiser = torch.optim.AdamW(
            head.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.99), weight_decay=0.0
        )
        if checkpoint.exists():
            self._load()

    def run(
        self,
        answers: Sequence[Answer],
        on_step: Callable[[State], None] = lambda _: None,
    ) -> State:
        """Train until the recipe's positions are reached."""
        saved = time.monotonic()
        for batch, num_labelled in self._stream(answers):
            started = time.monotonic()
            loss = self._step(batch)
            state = self.state
            state.num_steps += 1
            state.num_batches += 1
            state.num_positions += num_labelled
            state.seconds += time.monotonic() - started
            state.losses.append(loss)
            on_step(state)
            if state.num_positions >= self.recipe.num_positions:
                break
            if time.monotonic() - saved > _CHECKPOINT_EVERY_S:
                self.save()
                saved = time.monotonic()
        self.save()
        return self.state

    def save(self) -> None:
        """Write the checkpoint; an interrupted write leaves the last one."""
        part = self.checkpoint.with_suffix(".part")
        saved = {
            "head": self.head.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "state": asdict(self.state),
        }
        torch.save(saved, part)
        part.replace(self.checkpoint)

    def _load(self) -> None:
        saved: dict[str, Any] = torch.load(self.checkpoint, weights_only=True)
        self.head.load_state_dict(saved["head"])
        self._optimiser.load_state_dict(saved["optimiser"])
        self.state = State(**saved["state"])

    def _stream(self, answers: Sequence[Answer]) -> Iterator[tuple[Packed, int]]:
        while self.state.num_positions < self.recipe.num_positions:
            yield from batches(
                answers,
                row_len=self.recipe.row_len,
                rows=self.recipe.rows,
                seed=1000 + self.state.epoch,
                num_done=self.state.num_batches,
            )
            self.state.epoch += 1
            self.state.num_batches = 0

    def _step(self, batch: Packed) -> float:
        """Take one step; return the loss per position, of depth 1 alone."""
        for group in self._optimiser.param_groups:
            group["lr"] = self.recipe.learning_rate * self._schedule()
        self._optimiser.zero_grad()
        first, total = batch_losses(self.head, batch, self.recipe)
        torch.autograd.backward(total)
        nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        self._optimiser.step()
        return first

    def _schedule(self) -> float:
        """Return the share of the peak learning rate: a short rise, then half a cosine."""
        rise = min(1.0, (self.state.num_steps + 1) / _WARM_UP_STEPS)
        done = min(1.0, self.state.num_positions / self.recipe.num_positions)
        return rise * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * done)))


def batch_losses(head: Head, batch: Packed, recipe: Recipe) -> tuple[float, torch.Tensor]:
    """Return depth 1's loss per position, and the weighted loss of all depths to minimise."""
    with torch.autocast("cpu", torch.bfloat16):
        found = head(batch, recipe.depth)
    # The same positions for all depths, so that the target's rows are had once.
    chosen = labelled(batch, recipe.depth - 1)
    number = max(1, int(chosen.sum()))
    probs = target_rows(batch.hidden[:, 1:][chosen], head.output)
    losses = [
        row_loss(states[:, :-1][chosen], probs, head.output, recipe.tv_weight) / number
        for states in found
    ]
    weighted = [weight * loss for weight, loss in zip(recipe.depth_weights, losses, strict=False)]
    return float(losses[0].detach()), torch.stack(weighted).sum()
