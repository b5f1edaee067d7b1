"""The held-out report on a case computed by hand, and its truncation against the sampler's."""

import numpy as np
import pytest
import torch

from leeway.core.types import SamplingParams
from leeway.heads.dataset import Answer
from leeway.heads.evaluate import Report, _truncated, evaluate
from leeway.sampling.warp import warp

VOCAB = 24
DRAFT_IDS = torch.tensor([token for token in range(VOCAB) if token not in (2, 5)])
# Target rows; the second loses its third token to top-p 0.95.
EVEN, ODD = {0: 0.5, 1: 0.3, 2: 0.2}, {3: 0.9, 4: 0.06, 5: 0.04}
# Draft rows against them: overlap 0.4 + 0.3 with another likeliest token; 0.6 + 0.06, of the
# truncated rows 0.6 + 0.0625, with the same.
DRAFT_EVEN, DRAFT_ODD = {0: 0.4, 1: 0.6}, {3: 0.6, 4: 0.4}


def state(row):
    """Return the state whose logits, by an output matrix of ones on the diagonal, give this row."""
    logits = torch.full((VOCAB,), -40.0)
    for token, probability in row.items():
        logits[token] = float(np.log(probability))
    return logits


class WrittenHead:
    """Answers with the states given by depth and position."""

    def __init__(self, by_depth):
        self._by_depth = by_depth

    def __call__(self, batch, depth):
        rows, length = batch.segments.shape
        found = []
        for states in self._by_depth[:depth]:
            full = torch.zeros(rows, length, VOCAB)
            full[0, : len(states)] = torch.stack(states)
            found.append(full)
        return found


def report(by_depth, answer):
    return evaluate(
        WrittenHead(by_depth), [answer], torch.eye(VOCAB), DRAFT_IDS, depth=len(by_depth), row_len=8
    )


def held_out(start, length=7):
    """Return an answer whose target rows are EVEN and ODD in turn."""
    states = [state(ODD if place % 2 else EVEN).numpy() for place in range(length)]
    return Answer(np.zeros(length + 1, np.int32), np.array(states, np.float16), start)


def drafts(wrong_before):
    """Return a depth's states: at p drafts against the target's row at p + 1; wrong ones first."""
    rows = [DRAFT_ODD if (place + 1) % 2 else DRAFT_EVEN for place in range(7)]
    return [state({9: 1.0} if place < wrong_before else row) for place, row in enumerate(rows)]


def test_a_case_by_hand():
    # The answer begins at 3, so that depth 1 counts at p = 2 .. 5 and depth 2 at p = 3 .. 5; in
    # front of them the head drafts nonsense, which must not count.
    found = report([drafts(2), drafts(3)], held_out(start=3))
    odd, even = 0.6625, 0.7
    assert found.num_positions == 4
    assert found.sampled == pytest.approx(
        ((2 * odd + 2 * even) / 4, (odd + 2 * even) / 3), abs=1e-3
    )
    assert found.full == pytest.approx((0.68, (0.66 + 1.4) / 3), abs=1e-3)
    assert found.greedy == pytest.approx((0.5, 1 / 3), abs=1e-4)
    assert found.coverage == pytest.approx((0.8 + 0.96) / 2, abs=1e-3)


def test_nonsense_where_the_answer_begins_is_seen():
    found = report([drafts(wrong_before=3)], held_out(start=3))
    assert found.num_positions == 4
    assert found.sampled[0] == pytest.approx((0.7 + 0.6625 + 0.7) / 4, abs=1e-3)


def test_a_perfect_head_on_the_whole_vocabulary_is_accepted_always():
    answer = held_out(start=1)
    states = [torch.from_numpy(answer.hidden[min(p + 1, 6)]).float() for p in range(7)]
    found = evaluate(
        WrittenHead([states]), [answer], torch.eye(VOCAB), torch.arange(VOCAB), depth=1, row_len=8
    )
    assert (found.sampled, found.full, found.greedy, found.coverage) == (
        (1.0,),
        (1.0,),
        (1.0,),
        1.0,
    )


def test_totals_of_a_report():
    one = Report((0.5, 0.4), (0.4, 0.3), (0.6, 0.5), 0.97, 10)
    assert one.tokens_per_step == pytest.approx(1 + 0.5 + 0.2)
    assert one.draft_acceptance_rate == pytest.approx(0.35)


def test_rows_are_truncated_as_the_sampler_does():
    logits = np.random.default_rng(0).standard_normal((50, 64)) * 2.5
    probs = torch.softmax(torch.from_numpy(logits), -1)
    wanted = warp(logits, SamplingParams(temperature=1.0, top_p=0.95, top_k=20))
    dense = np.zeros((50, 64))
    dense[:, wanted.token_ids] = wanted.probs
    np.testing.assert_allclose(_truncated(probs).numpy(), dense, atol=1e-12)
    assert 5 < (dense > 0).sum(1).mean() < 20
