"""Where training begins: the linear guess, and how strongly the layer speaks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.support.tiny_models import random_tensors, tiny_spec

from leeway.heads import start
from leeway.heads.dataset import Answer
from leeway.heads.network import Head
from leeway.heads.start import SCALES, initialise

SPEC = tiny_spec(
    "qwen2", hidden_size=16, num_heads=2, num_kv_heads=1, head_size=8, ffn_size=24, vocab_size=40
)


class Target:
    spec = SPEC

    def __init__(self):
        self.tensors = random_tensors(SPEC)

    def tensor(self, name):
        return self.tensors[name]


def normed(rows, eps=SPEC.norm_eps):
    return rows / np.sqrt(np.mean(np.square(rows), -1, keepdims=True) + eps)


def linear_answers(target, weights, noise=0.0):
    """Return answers whose next state is the final norm's gain times a linear map."""
    generator = np.random.default_rng(6)
    gain, embed = target.tensor("final_norm"), target.tensor("embed")
    made = []
    for _ in range(30):
        tokens = generator.integers(0, SPEC.vocab_size, 21)
        rows = [generator.standard_normal(SPEC.hidden_size)]
        for token in tokens[1:-1]:
            joined = np.concatenate([normed(embed[token]), normed(rows[-1])])
            straight = weights @ joined + noise * generator.standard_normal(SPEC.hidden_size)
            rows.append(gain * straight)
        made.append(Answer(tokens.astype(np.int32), np.array(rows, np.float32), 1))
    return made


def new_head(target, num_layers=1):
    embed = torch.from_numpy(target.tensor("embed"))
    return Head(replace(SPEC, num_layers=num_layers), embed, embed.clone())


@pytest.fixture(name="weights")
def _weights():
    return np.random.default_rng(7).standard_normal((16, 32)).astype(np.float32) * 0.3


def test_a_linear_relation_is_found_exactly(monkeypatch, weights):
    monkeypatch.setattr(start, "_RIDGE", 0.0)
    target = Target()
    head = new_head(target)
    initialise(head, target, linear_answers(target, weights), lambda _: 0.0)
    np.testing.assert_allclose(head.project.weight.detach().numpy(), weights, atol=2e-3)


def test_the_ridge_is_the_closed_form_s(weights):
    target = Target()
    answers = linear_answers(target, weights, noise=0.2)
    head = new_head(target)
    initialise(head, target, answers, lambda _: 0.0)
    rows = [
        np.concatenate(
            [normed(target.tensor("embed")[a.token_ids[1:-1]]), normed(a.hidden[:-1])], 1
        )
        for a in answers
    ]
    inputs = np.concatenate(rows).astype(np.float64)
    outputs = np.concatenate([a.hidden[1:] / target.tensor("final_norm") for a in answers])
    square = inputs.T @ inputs + 0.01 * len(inputs) * np.eye(32)
    wanted = np.linalg.solve(square, inputs.T @ outputs.astype(np.float64)).T
    np.testing.assert_allclose(head.project.weight.detach().numpy(), wanted, atol=1e-4)


@pytest.mark.parametrize("best", range(len(SCALES)))
def test_the_scale_with_the_least_loss_is_chosen(weights, best):
    target = Target()
    head = new_head(target, num_layers=2)
    tried = []

    def loss_of(one):
        tried.append(float(one.layers[0].o.weight.norm()))
        return abs(len(tried) - 1 - best)

    chosen = initialise(head, target, linear_answers(target, weights), loss_of)
    assert chosen == SCALES[best] and len(tried) == len(SCALES)
    whole = float(np.linalg.norm(target.tensor("layers.1.o")))
    assert tried == pytest.approx([scale * whole for scale in SCALES], rel=1e-5)
    for layer in head.layers:
        for name, parameter in layer.named_parameters():
            canonical = name.removesuffix(".weight").replace(".bias", "_bias")
            share = chosen if canonical in {"o", "down"} else 1.0
            np.testing.assert_allclose(
                parameter.detach().numpy(),
                share * target.tensor(f"layers.1.{canonical}"),
                rtol=1e-6,
            )
    np.testing.assert_array_equal(
        head.final_norm.weight.detach().numpy(), target.tensor("final_norm")
    )
    assert bool((head.embed_norm.weight == 1).all()) and bool((head.hidden_norm.weight == 1).all())


def test_a_dimension_that_the_last_norm_mutes_does_no_harm(weights):
    target = Target()
    answers = linear_answers(target, weights)
    target.tensors["final_norm"][3] = 0.0
    for answer in answers:
        answer.hidden[:, 3] = 0.0
    head = new_head(target)
    initialise(head, target, answers, lambda _: 0.0)
    assert bool(torch.isfinite(head.project.weight).all())
    assert bool((head.project.weight[3] == 0).all())
