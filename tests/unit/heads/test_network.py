"""The head as trained against the head as used: one call of all depths, and step by step."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.support.array_heads import ArrayHead
from tests.support.numpy_reference import reference_head
from tests.support.training_data import random_answer

from leeway.heads import network
from leeway.heads.batches import labelled, pack
from leeway.heads.export import canonical_tensors
from leeway.heads.network import Head

DEPTH = 3
ROW_LEN = 16
ROWS = [[(0, 0, 7), (1, 2, 5)], [(2, 0, 11), (3, 1, 1), (4, 0, 4)]]
"""Answer, first position, length; the first row ends in padding."""

CASES = [
    pytest.param(family, num_layers, optional, id=f"{family}-{num_layers}{'-'.join(optional)}")
    for family in ("llama", "qwen2", "qwen3")
    for num_layers in (1, 2)
    for optional in ((), ("rope_factors",))
    if not optional or (family, num_layers) == ("llama", 1)
]


class Target:
    """Lends its embedding, which is its output too."""

    def __init__(self, spec, seed=3):
        self.spec = replace(spec, tied_output=True)
        shape = (spec.vocab_size, spec.hidden_size)
        self._embed = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)

    def tensor(self, name):
        assert name == "embed"
        return self._embed


def build(family="llama", num_layers=1, optional=()):
    """Return the same head twice, as arrays and as a module, with the target they share."""
    arrays = ArrayHead(family, num_layers=num_layers, optional=optional)
    target = Target(arrays.spec.decoder)
    embed = torch.from_numpy(target.tensor("embed"))
    factors = torch.from_numpy(arrays.tensor("rope_factors")) if optional else None
    head = Head(arrays.spec.decoder, embed, embed.clone(), factors)
    named = canonical_tensors(head)
    assert set(named) == set(arrays.tensors) - set(optional)
    with torch.no_grad():
        for name, parameter in zip(named, head.parameters(), strict=True):
            parameter.copy_(torch.from_numpy(arrays.tensor(name)))
    return arrays, target, head


def packed(spec, rows=ROWS):
    """Return a batch of random answers, in full precision."""
    generator = np.random.default_rng(1)
    answers = [
        random_answer(generator, length, spec.hidden_size, spec.vocab_size)
        for length in (7, 9, 11, 5, 4)
    ]
    batch, num_labelled = pack(answers, rows, ROW_LEN)
    assert num_labelled == sum(length - 1 for row in rows for _, _, length in row)
    return replace(batch, hidden=batch.hidden.float())


def recursion(arrays, target, hidden, token_ids, last):
    """Return the states of each depth that ends at `last`, one pair at a time, as in use.

    Depth d begins with true pairs up to `last` - d + 1 and goes on from the head's own states.
    """
    found = []
    for step in range(min(DEPTH, last + 1)):
        states = hidden[: last - step + 1]
        for more in range(step + 1):
            tokens = token_ids[1 : len(states) + 1].tolist()
            _, own = reference_head(arrays, target, states, tokens)
            if more < step:
                states = np.concatenate([states, own[-1:]])
        found.append(own[-1])
    return found


def largest_difference(arrays, target, head, batch):
    """Return by how much the two heads differ anywhere outside padding; and of how many states."""
    with torch.no_grad():
        found = head(batch, DEPTH)
    worst, num_compared = 0.0, 0
    for row, pieces in enumerate(ROWS):
        first = 0
        for _, _, length in pieces:
            hidden = batch.hidden[row, first : first + length].numpy()
            token_ids = batch.token_ids[row, first : first + length + 1].numpy()
            for last in range(length):
                expected = recursion(arrays, target, hidden, token_ids, last)
                for step, state in enumerate(expected):
                    own = found[step][row, first + last].numpy()
                    worst = max(worst, float(np.abs(own - state).max()))
                    num_compared += 1
            first += length
    return worst, num_compared


@pytest.mark.parametrize(("family", "num_layers", "optional"), CASES)
def test_all_depths_at_once_are_the_recursion_in_use(family, num_layers, optional):
    arrays, target, head = build(family, num_layers, optional)
    worst, num_compared = largest_difference(arrays, target, head, packed(arrays.spec.decoder))
    lengths = [length for row in ROWS for _, _, length in row]
    assert num_compared == sum(max(one - step, 0) for one in lengths for step in range(DEPTH))
    assert worst < 1e-4


def _mask_off_by_one(segments, step, original=network._mask):
    return original(segments, max(step - 1, 0))


def _mask_across_answers(segments, step, original=network._mask):
    return original(torch.zeros_like(segments), step)


def _rotary_without_places(spec, positions, factors, original=network._rotary):
    return original(spec, torch.zeros_like(positions), factors)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param("_mask", _mask_off_by_one, id="mask off by one"),
        pytest.param("_mask", _mask_across_answers, id="answers see one another"),
        pytest.param("_rotary", _rotary_without_places, id="no places"),
        pytest.param("_behind", lambda rows, back, axis=1: rows, id="states not moved"),
    ],
)
def test_a_planted_fault_is_seen(monkeypatch, name, fault):
    arrays, target, head = build()
    monkeypatch.setattr(network, name, fault)
    assert largest_difference(arrays, target, head, packed(arrays.spec.decoder))[0] > 1e-2


def test_what_is_trained_on_depends_on_its_own_answer_only():
    arrays, _, head = build("qwen2")
    batch = packed(arrays.spec.decoder)
    is_own = (batch.segments == 1) & (torch.arange(len(ROWS)) == 0)[:, None]
    assert int(is_own.sum()) == 5
    spoilt = batch.hidden.masked_fill(~is_own[..., None], 9.0)
    tokens = batch.token_ids.clone()
    tokens[:, :-1][~is_own] = 5  # the pair of position p has the token at p + 1
    tokens[:, 0] = 6
    changed = replace(batch, hidden=spoilt, token_ids=tokens)
    with torch.no_grad():
        for step, (one, other) in enumerate(
            zip(head(batch, DEPTH), head(changed, DEPTH), strict=True)
        ):
            chosen = labelled(batch, step) & is_own[:, :-1]
            assert int(chosen.sum()) == 4 - step
            torch.testing.assert_close(one[:, :-1][chosen], other[:, :-1][chosen])


def test_gradients_reach_every_parameter_and_nothing_of_the_target():
    _, _, head = build("qwen3", 2)
    batch = packed(head.spec)
    torch.stack(head(batch, DEPTH)).square().mean().backward()
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in head.parameters())
    assert {name for name, _ in head.named_buffers()} == {"embed", "output"}
    assert not head.embed.requires_grad and "embed" not in head.state_dict()


def test_training_precision_stays_near_full_precision():
    """Under autocast (8 bits of mantissa) states of all depths stay within 5 % of their size."""
    _, _, head = build()
    batch = packed(head.spec)
    half = replace(batch, hidden=batch.hidden.half())
    with torch.no_grad():
        full = head(batch, DEPTH)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = head(half, DEPTH)
    for one, other in zip(full, rounded, strict=True):
        assert (one - other.float()).norm() < 0.05 * one.norm()
