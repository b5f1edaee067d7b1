"""The loss against the formula that its module states, by automatic differentiation."""

import pytest
import torch

from leeway.heads import loss
from leeway.heads.loss import row_loss, target_rows


def stated(states, target_states, output, tv_weight):
    """Cross-entropy plus `tv_weight` times total variation, summed, in the inputs' precision."""
    target = (target_states @ output.T).softmax(-1)
    logits = states @ output.T
    cross_entropy = -(target * logits.log_softmax(-1)).sum(-1)
    variation = 0.5 * (logits.softmax(-1) - target).abs().sum(-1)
    return (cross_entropy + tv_weight * variation).sum()


def inputs(positions=11, size=6, vocab=9, dtype=torch.float32):
    generator = torch.Generator().manual_seed(4)
    drawn = [torch.randn(n, size, generator=generator) for n in (positions, positions, vocab)]
    states, target_states, output = (one.to(dtype) for one in drawn)
    return states.requires_grad_(), target_states, output


@pytest.mark.parametrize("tv_weight", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("rows_at_once", [3, 512])
def test_value_and_gradient_are_the_formula_s(monkeypatch, tv_weight, dtype, rows_at_once):
    monkeypatch.setattr(loss, "_ROWS_AT_ONCE", rows_at_once)
    states, target_states, output = inputs(dtype=dtype)
    value = row_loss(states, target_rows(target_states, output), output, tv_weight)
    (found,) = torch.autograd.grad(2.5 * value, states)
    exact = [one.detach().double() for one in (states, target_states, output)]
    exact[0].requires_grad_()
    wanted = stated(*exact, tv_weight)
    (wanted_grad,) = torch.autograd.grad(2.5 * wanted, exact[0])
    torch.testing.assert_close(value.double(), wanted, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(found.double(), wanted_grad, rtol=1e-4, atol=1e-6)
    if tv_weight:
        (other,) = torch.autograd.grad(2.5 * stated(*exact, 0.9 * tv_weight), exact[0])
        assert (found - other).abs().max() > 1e-2


def test_equal_rows_cost_their_entropy_and_pull_nowhere():
    states, _, output = inputs()
    value = row_loss(
        states, target_rows(states.detach(), output), output, 0.0
    )  # total variation has a kink there
    (grad,) = torch.autograd.grad(value, states)
    target = (states.detach() @ output.T).softmax(-1)
    torch.testing.assert_close(value, -(target * target.log()).sum())
    torch.testing.assert_close(grad, torch.zeros_like(grad), atol=1e-6, rtol=0)


def test_half_precision_states_get_a_gradient_of_their_own_precision():
    states, target_states, output = inputs()
    wanted = torch.autograd.grad(
        row_loss(states, target_rows(target_states, output), output, 1.0), states
    )[0]
    half = states.detach().bfloat16().requires_grad_()
    output = output.bfloat16()
    row_loss(half, target_rows(target_states.half(), output), output, 1.0).backward()
    assert half.grad.dtype == torch.bfloat16
    assert (half.grad.float() - wanted).norm() < 0.03 * wanted.norm()


def test_no_positions_cost_nothing():
    states, target_states, output = inputs(positions=0)
    value = row_loss(states, target_rows(target_states, output), output, 1.0)
    value.backward()
    assert value == 0 and states.grad.shape == (0, 6)
