"""One verify step: layout, greedy ids, mixed laws, masks."""

import numpy as np
import pytest
import torch
from tests.support.vllm_steps import judged, law, plan_of, settings, step_of

from leeway.vllm.judge import Step
from leeway.vllm.tally import Label, Tally

EXACT = law("rejection")
KEEP_ALL = law("typical", delta=1e-9)
FLAT, SHARP = [0.4, 0.3, 0.2, 0.1], [0.05, 0.05, 0.85, 0.05]


def tokens_of(step, *asked, tally=None):
    return judged(step, plan_of(*asked), tally)


def test_greedy_keeps_drafts_up_to_the_first_that_is_not_the_most_likely():
    step = step_of([[FLAT, SHARP, FLAT]] * 3, [[0, 2, 0], [0, 1, 0], [3, 2, 0]], [9, 9, 9])
    asked = [(EXACT, True, 1)] * 3
    assert tokens_of(step, *asked) == [[0, 2, 0, 9], [0, 2, -1, -1], [0, -1, -1, -1]]


def test_drafts_of_different_lengths_are_filled_up():
    step = step_of([[SHARP], [SHARP, SHARP, SHARP]], [[2], [2, 2, 0]], [7, 8])
    assert tokens_of(step, (EXACT, True, 1), (EXACT, True, 2)) == [[2, 7, -1, -1], [2, 2, 2, -1]]


def test_without_a_draft_the_bonus_token_stands():
    step = step_of([[], [SHARP], []], [[], [0], []], [5, 6, 7])
    asked = [(EXACT, True, 1), (EXACT, True, 2), (KEEP_ALL, False, 3)]
    assert tokens_of(step, *asked) == [[5, -1], [2, -1], [7, -1]]


def test_each_request_is_judged_by_its_own_law():
    step = step_of([[FLAT, FLAT]] * 4, [[3, 3]] * 4, [9] * 4)
    asked = [(EXACT, True, 1), (KEEP_ALL, False, 2), (KEEP_ALL, True, 3), (KEEP_ALL, False, 4)]
    found = tokens_of(step, *asked)
    assert found == [[0, -1, -1], [3, 3, 9], [0, -1, -1], [3, 3, 9]]


def random_step(num_requests, seed, with_rows):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 4, size=num_requests)
    lengths[0] = 3
    rows = [generator.dirichlet(np.ones(6), size=length).tolist() for length in lengths]
    drafts = [generator.integers(0, 6, size=length).tolist() for length in lengths]
    probs = None
    if with_rows:
        probs = [generator.dirichlet(np.ones(6), size=length).tolist() for length in lengths]
    return step_of(rows, drafts, list(range(10, 10 + num_requests)), probs), lengths


def only(step, request, lengths):
    """Return the step of one request of another step."""
    start = int(lengths[:request].sum())
    stop = start + int(lengths[request])
    probs = step.draft_probs
    return Step(
        draft_token_ids=step.draft_token_ids[start:stop],
        num_draft_tokens=lengths[request : request + 1].astype(np.int64),
        max_draft_len=step.max_draft_len,
        target_logits=step.target_logits[start:stop],
        draft_probs=None if probs is None else probs[start:stop],
        raw_logits=None,
        bonus_token_ids=step.bonus_token_ids[request : request + 1],
    )


@pytest.mark.parametrize("with_rows", [True, False], ids=["rows", "point mass"])
@pytest.mark.parametrize("seed", range(6))
def test_a_mixed_batch_is_its_requests_one_by_one(seed, with_rows):
    laws = [EXACT, law("typical", delta=0.4), law("lenient", leniency=0.5), law("block")]
    step, lengths = random_step(9, seed, with_rows)
    asked = [(laws[index % 4], index % 3 == 2, 100 + index) for index in range(9)]
    found = tokens_of(step, *asked)
    alone = [tokens_of(only(step, index, lengths), asked[index])[0] for index in range(9)]
    assert found == alone


def test_the_order_of_requests_changes_nothing():
    step = step_of([[FLAT, FLAT]] * 2, [[3, 3], [1, 1]], [8, 9])
    turned = step_of([[FLAT, FLAT]] * 2, [[1, 1], [3, 3]], [9, 8])
    one, other = (EXACT, False, 41), (law("lenient", leniency=0.3), False, 42)
    assert tokens_of(step, one, other) == tokens_of(turned, other, one)[::-1]


@pytest.mark.parametrize("hard_support", [True, False], ids=["masked", "open"])
def test_a_masked_token_is_emitted_by_no_law_under_hard_support(hard_support):
    masked = [0.6, 0.4, 0.0, 0.0]
    draft = [0.1, 0.1, 0.4, 0.4]
    found = settings({"law": "ensemble", "weight": 0.1, "hard_support": hard_support})
    step = step_of([[masked]] * 64, [[2]] * 64, [0] * 64, [[draft]] * 64)
    first = [row[0] for row in tokens_of(step, *[(found.law, False, key) for key in range(64)])]
    assert (2 in first) is not hard_support


def test_a_law_that_reads_draft_rows_is_exact_where_there_are_none():
    greedy_for_all = law("opt", alpha=100.0)
    tally = Tally(meter_every=1)
    step = step_of([[SHARP]] * 200, [[0]] * 200, [9] * 200)
    tokens_of(step, *[(greedy_for_all, False, key) for key in range(200)], tally=tally)
    (label,) = tally.snapshot()
    assert label == Label("rejection", "exact_distribution", "point_mass")
    assert tally.snapshot()[label]["accepted"] < 30  # 200 at 0.05; 100 more than its spread


def test_raw_rows_let_a_law_act_at_temperature_0():
    typical = law("typical", delta=0.1, rows="raw")
    step = step_of([[FLAT]], [[3]], [9])
    raw = torch.tensor([[0.3, 0.3, 0.2, 0.2]]).log()
    step = Step(
        step.draft_token_ids, step.num_draft_tokens, 1, step.target_logits, None, raw,
        step.bonus_token_ids,
    )  # fmt: skip
    assert tokens_of(step, (typical, True, 1)) == [[3, 9]]
    assert tokens_of(step, (law("typical", delta=0.1), True, 1)) == [[0, -1]]
