"""Scores of existing text: the rows the engine itself drew from, and their moments by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.backends.tabular import TabularBackend, random_table
from leeway.core.types import SamplingParams
from leeway.quality.teacher_forcing import score
from leeway.sampling import penalties
from leeway.sampling.warp import warp

TABLE = random_table(4, 1, seed=2)
SAMPLINGS = [
    {},
    {"temperature": 0.7, "top_k": 2},
    {"temperature": 1.3, "top_p": 0.8},
    {"min_p": 0.3},
    {"logit_bias": {1: 2.0}},
    {"presence_penalty": 0.7, "frequency_penalty": 0.3, "repetition_penalty": 1.4},
]


def backend(**options):
    return TabularBackend(TABLE, 1, **options)


def test_moments_by_hand():
    table = {(): np.array([0.5, 0.25, 0.25]), (0,): np.array([0.5, 0.25, 0.25])}
    table |= {(1,): np.array([0.9, 0.0, 0.1]), (2,): np.array([1.0, 0.0, 0.0])}
    scores = score(TabularBackend(table, 1), (0,), (1, 2, 0), SamplingParams())
    assert np.allclose(scores.prob, [0.25, 0.1, 1.0])
    assert np.allclose(scores.cdf_below, [0.5, 0.9, 0.0])
    assert np.allclose(scores.entropy[0], 1.5 * math.log(2))
    assert np.allclose(scores.variance[0], math.log(2) ** 2 / 4)
    surprise = math.log(0.9), math.log(0.1)
    entropy = -(0.9 * surprise[0] + 0.1 * surprise[1])
    variance = 0.9 * surprise[0] ** 2 + 0.1 * surprise[1] ** 2 - entropy**2
    assert np.allclose([scores.entropy[1], scores.variance[1]], [entropy, variance])
    assert scores.entropy[2] == scores.variance[2] == 0


def test_a_token_that_the_row_cannot_give_is_outside():
    table = {(): np.array([0.5, 0.5, 0.0]), (0,): np.array([0.6, 0.4, 0.0])}
    table |= {(1,): np.array([0.6, 0.4, 0.0]), (2,): np.array([0.6, 0.4, 0.0])}
    scores = score(TabularBackend(table, 1), (0,), (2, 1), SamplingParams())
    assert scores.is_inside.tolist() == [False, True]
    truncated = score(TabularBackend(table, 1), (0,), (2, 1, 0), SamplingParams(top_k=1))
    assert truncated.is_inside.tolist() == [False, False, True]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_rows_are_those_the_engine_drew_from(sampling):
    seen = []
    engine = make_engine(TABLE)
    judge = engine.parts.judge

    def watching(sequence, draft, logits):
        judgement = judge(sequence, draft, logits)
        seen.append((next_row(sequence, logits), judgement.token_ids[0]))
        return judgement

    engine.parts = replace(engine.parts, judge=watching)
    output = token_ids(run_all(engine, ask((0, 1), max_tokens=12, seed=4, **sampling))["a"])
    scores = score(engine.parts.backend, (0, 1), output, SamplingParams(**sampling))
    assert len(seen) == len(scores.prob) == 12
    for index, (row, token_id) in enumerate(seen):
        assert scores.prob[index] == pytest.approx(row[token_id], abs=1e-12)
        assert scores.cdf_below[index] == pytest.approx(row[:token_id].sum(), abs=1e-12)
        given = row[row > 0]
        assert scores.entropy[index] == pytest.approx(-(given @ np.log(given)), abs=1e-12)


def next_row(sequence, logits):
    """The plain engine's next row over the whole vocabulary."""
    changed = logits
    if penalties.is_active(sequence.sampling):
        changed = penalties.penalise(logits, sequence.sampling, sequence.history(), ())
    rows = warp(changed, sequence.sampling)
    row = np.zeros(logits.shape[-1])
    row[slice(None) if rows.token_ids is None else rows.token_ids] = rows.probs[0]
    return row


@pytest.mark.parametrize("prompt_len", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("chunk_len", [1, 3, 64])
def test_chunks_change_nothing_and_the_cache_is_given_back(prompt_len, chunk_len):
    prompt, output = [0, 1, 2, 3, 1, 1, 0, 2, 3][:prompt_len], [3, 3, 0, 1, 2, 0, 0]
    sampling = SamplingParams(frequency_penalty=0.5)
    target = backend(prefill_chunk_len=chunk_len)
    scores = score(target, prompt, output, sampling)
    whole = score(backend(prefill_chunk_len=64), prompt, output, sampling)
    assert np.array_equal(scores.prob, whole.prob)
    assert np.array_equal(scores.variance, whole.variance)
    assert target.num_open() == 0


def test_an_empty_answer_has_no_scores():
    target = backend()
    assert len(score(target, (0,), (), SamplingParams()).prob) == 0
    assert target.num_open() == 0
