"""Where training begins: the target's last layer behind the best linear guess of its next state.

`project` is fitted by ridge regression: from the embedding of token t + 1 and the state at t to the
target's state at t + 1. The layer is the target's last one; how strongly it speaks at first (the
scale of its two output matrices) is the one of `SCALES` with the least loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from leeway.heads.dataset import Answer
from leeway.heads.network import Head
from leeway.models.base import ModelFiles

SCALES = (0.0, 0.03, 0.1, 0.3, 1.0)
_POSITIONS = 40_000
_RIDGE = 1e-2


@torch.no_grad()
def initialise(
    head: Head, target: ModelFiles, answers: Sequence[Answer], loss_of: Callable[[Head], float]
) -> float:
    """Fill the head's parameters; return the scale chosen.

    Args:
        head: its decoder has the target's layer shape.
        target: gives the last layer and the final norm.
        answers: training answers.
        loss_of: measures a head on some held-out batch.
    """
    final_norm = torch.from_numpy(target.tensor("final_norm"))
    head.final_norm.weight.copy_(final_norm)
    head.embed_norm.weight.fill_(1.0)
    head.hidden_norm.weight.fill_(1.0)
    head.project.weight.copy_(_fitted(head, final_norm, answers))
    last = target.spec.num_layers - 1
    outputs: list[tuple[Tensor, Tensor]] = []
    for layer in head.layers:
        for name, parameter in layer.named_parameters():
            stem, _, kind = name.rpartition(".")
            canonical = f"layers.{last}.{stem}_bias" if kind == "bias" else f"layers.{last}.{stem}"
            parameter.copy_(torch.from_numpy(target.tensor(canonical)))
            if stem in {"o", "down"}:
                outputs.append((parameter, parameter.clone()))
    losses = []
    for scale in SCALES:
        _scale(outputs, scale)
        losses.append(loss_of(head))
    best = SCALES[int(np.argmin(losses))]
    _scale(outputs, best)
    return best


def _scale(outputs: Sequence[tuple[Tensor, Tensor]], scale: float) -> None:
    for parameter, original in outputs:
        parameter.copy_(original * scale)


def _fitted(head: Head, final_norm: Tensor, answers: Sequence[Answer]) -> Tensor:
    """Return [hidden_size, 2 * hidden_size]: ridge regression to the state in front of the norm."""
    size = head.spec.hidden_size
    square = torch.zeros(2 * size, 2 * size)
    product = torch.zeros(2 * size, size)
    gain = torch.where(final_norm == 0, 1.0, final_norm)
    seen = 0
    for answer in answers:
        hidden = torch.from_numpy(np.asarray(answer.hidden, np.float32))
        tokens = torch.from_numpy(np.asarray(answer.token_ids[1:-1], np.int64))
        inputs = torch.cat(
            [head.embed_norm(head.embed[tokens].float()), head.hidden_norm(hidden[:-1])], -1
        )
        square += inputs.T @ inputs
        product += inputs.T @ (hidden[1:] / gain)
        seen += len(tokens)
        if seen >= _POSITIONS:
            break
    square += _RIDGE * seen * torch.eye(2 * size)
    fitted: Tensor = torch.linalg.solve(square, product).T
    return fitted
