"""Penalties at every row of a block equal those of plain decoding at that position."""

from collections import Counter

import numpy as np
import pytest

from leeway.core.types import SamplingParams
from leeway.sampling.penalties import History, after, is_active, penalise

LOGITS = np.array([[1.0, -2.0, 3.0, 0.5], [0.0, 1.0, -1.0, 2.0], [4.0, -4.0, 1.0, 1.0]])


def slow(row, params, prompt, output):
    row = list(row)
    for token_id, bias in params.logit_bias.items():
        row[token_id] += bias
    for token_id in range(len(row)):
        if params.repetition_penalty != 1 and token_id in (*prompt, *output):
            factor = params.repetition_penalty
            row[token_id] = row[token_id] / factor if row[token_id] > 0 else row[token_id] * factor
        count = output.count(token_id)
        row[token_id] -= params.frequency_penalty * count + params.presence_penalty * (count > 0)
    return row


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(presence_penalty=0.7),
        SamplingParams(frequency_penalty=-0.4),
        SamplingParams(repetition_penalty=1.3),
        SamplingParams(logit_bias={1: 5.0, 3: -100.0}),
        SamplingParams(
            logit_bias={0: 1.0}, presence_penalty=1.0, frequency_penalty=0.5, repetition_penalty=0.8
        ),
    ],
)
def test_each_row_sees_the_drafts_before_it(params):
    prompt, output, drafts = [0, 3], [2, 2], [1, 2]
    assert is_active(params)
    history = History(frozenset(prompt), Counter(output))
    changed = penalise(LOGITS, params, history, drafts)
    for index, row in enumerate(changed):
        expected = slow(LOGITS[index], params, prompt, output + drafts[:index])
        assert np.allclose(row, expected, atol=1e-12)


def test_history_and_logits_are_not_changed():
    history = History(frozenset({0}), Counter({1: 1}))
    before = LOGITS.copy()
    penalise(LOGITS, SamplingParams(presence_penalty=1), history, [2, 2])
    assert np.array_equal(LOGITS, before)
    assert history.output_counts == Counter({1: 1})
    assert after(history, [1, 2]).output_counts == Counter({1: 2, 2: 1})
    assert history.output_counts == Counter({1: 1})


def test_neutral_parameters_are_inactive():
    assert not is_active(SamplingParams(temperature=0.3, top_k=4))
