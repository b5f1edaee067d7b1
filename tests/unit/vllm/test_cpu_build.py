"""Spreading requests' values over their rows."""

import torch

from leeway.vllm.cpu_build import expand_batch_to_tokens, unless_empty


def test_each_value_as_often_as_its_request_has_rows():
    values = torch.tensor([0.5, 0.0, 0.9])
    expanded = expand_batch_to_tokens(values, torch.tensor([2, 2, 5], dtype=torch.int32), 5)
    assert expanded.tolist() == torch.tensor([0.5, 0.5, 0.9, 0.9, 0.9]).tolist()


def test_a_value_that_stands_for_another():
    temperatures = torch.tensor([0.0, 0.7])
    expanded = expand_batch_to_tokens(
        temperatures, torch.tensor([1, 3]), 3, replace_from=0, replace_to=1
    )
    assert expanded.tolist() == torch.tensor([1.0, 0.7, 0.7]).tolist()


def test_whole_numbers_stay_whole():
    top_k = torch.tensor([5, 50], dtype=torch.int32)
    assert expand_batch_to_tokens(top_k, torch.tensor([1, 2]), 2).dtype == torch.int32


def test_a_step_without_rows_is_not_constrained():
    constrained = unless_empty(lambda logits, top_k: logits + top_k.max())
    assert constrained(torch.zeros(0, 4), torch.zeros(0)).shape == (0, 4)
    assert constrained(torch.zeros(1, 1), torch.tensor([3.0])).tolist() == [[3.0]]
