"""The training loss: how far draft rows are from the target's rows, and its gradient.

Per position: cross-entropy from the target's row p to the draft row q, plus `tv_weight` times their
total variation, which is one minus the acceptance of the exact law. Both rows are over the draft
vocabulary, p renormalised to it. The gradient with respect to the states is taken at once, so that
no [positions, draft vocabulary] array outlives its chunk.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

_ROWS_AT_ONCE = 512


class _RowLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, states: Tensor, target_probs: Tensor, output: Tensor, tv_weight: float
    ) -> Tensor:
        grad = torch.empty_like(states, dtype=output.dtype)
        total = 0.0
        for first in range(0, len(states), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            logits = (states[part].to(output.dtype) @ output.T).float()
            probs = target_probs[part]
            log_total = logits.logsumexp(-1, keepdim=True)
            total += float((log_total.squeeze(-1) - (probs * logits).sum(-1)).sum())
            draft = (logits - log_total).exp_()
            error = draft - probs
            total += tv_weight * 0.5 * float(error.abs().sum())
            sign = error.sign()
            pull = draft * (sign - (draft * sign).sum(-1, keepdim=True))
            row_grad = error.add_(pull, alpha=0.5 * tv_weight)
            grad[part] = row_grad.to(output.dtype) @ output
        ctx.save_for_backward(grad)
        return states.new_tensor(total, dtype=torch.float32)

    @staticmethod
    def backward(ctx: FunctionCtx, grad_total: Tensor) -> tuple[Tensor, None, None, None]:
        (grad,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad_total.to(grad.dtype) * grad, None, None, None


def row_loss(states: Tensor, target_probs: Tensor, output: Tensor, tv_weight: float) -> Tensor:
    """Return the loss summed over positions.

    Args:
        states: [positions, hidden_size], the head's.
        target_probs: [positions, draft vocabulary], the target's rows, see `target_rows`.
        output: [draft vocabulary, hidden_size], rows of the output matrix; no gradient.
        tv_weight: of total variation beside cross-entropy.
    """
    result: Tensor = _RowLoss.apply(states, target_probs, output, tv_weight)  # type: ignore[no-untyped-call]
    return result


def target_rows(target_states: Tensor, output: Tensor) -> Tensor:
    """Return the target's rows over the draft vocabulary, [positions, draft vocabulary].

    Args:
        target_states: [positions, hidden_size], the target's at the positions predicted.
        output: [draft vocabulary, hidden_size], rows of the output matrix.
    """
    return (target_states.to(output.dtype) @ output.T).float().softmax(-1)
