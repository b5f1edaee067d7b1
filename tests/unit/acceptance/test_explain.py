import json
import math

import numpy as np
import pytest
from tests.support.law_cases import ALL, build, label

from leeway.acceptance.explain import explain
from leeway.core.errors import LawError

TARGET, DRAFT = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)


@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_numbers_are_the_laws_own_and_ready_for_json(acceptance):
    law = build(acceptance.law, **acceptance.options)
    answer = explain(law, TARGET, DRAFT)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    emitted, accept = np.array(answer["emitted_probs"]), np.array(answer["accept_probs"])
    recovered, q = np.array(answer["recovered_probs"]), np.array(DRAFT)
    rate = float(np.sum(q * accept))
    assert answer["acceptance_rate"] == pytest.approx(rate, abs=1e-12)
    assert np.abs(q * accept + (1 - rate) * recovered - emitted).max() < 1e-12
    distance = 0.5 * np.abs(emitted - TARGET).sum()
    assert answer["total_variation"] == pytest.approx(distance, abs=1e-12)
    assert answer["draft_tv"] == pytest.approx(0.3)
    assert all(accept[column] == 1 for column, kept in enumerate(answer["is_kept"]) if kept)


def test_rejection_on_the_example_pair():
    answer = explain(build("rejection"))
    assert answer["accept_probs"] == pytest.approx([1, 1, 0.4])
    assert answer["recovered_probs"] == pytest.approx([1, 0, 0])
    assert answer["emitted_probs"] == pytest.approx([0.5, 0.3, 0.2])
    assert answer["acceptance_rate"] == pytest.approx(0.7)
    assert answer["total_variation"] == 0
    assert answer["law"] == "rejection"
    assert answer["guarantee"] == "exact_distribution"


def test_infinite_divergence_is_null():
    assert explain(build("ensemble", weight=0.5), [1, 0], [0, 1])["kl_divergence"] is None


@pytest.mark.parametrize(
    ("target", "draft", "param", "words"),
    [
        (None, DRAFT, "target_probs", "give both"),
        (TARGET, None, "draft_probs", "give both"),
        (TARGET, (0.5, 0.5), "draft_probs", "2 entries and target_probs 3"),
        ((1.2, -0.2), (0.5, 0.5), "target_probs", ">= 0"),
        ((math.nan, 1.0), (0.5, 0.5), "target_probs", "a number"),
        ((0.5, 0.4), (0.5, 0.5), "target_probs", "sums to 0.9"),
        ((0.5, 0.5), (0.5, 0.50001), "draft_probs", "sums to 1.00001"),
        ((), (), "target_probs", "at least one"),
    ],
)
def test_rows_that_are_no_rows(target, draft, param, words):
    with pytest.raises(LawError, match=words) as caught:
        explain(build("rejection"), target, draft)
    assert caught.value.param == param


def test_rows_within_the_tolerance_are_taken():
    assert explain(build("rejection"), [0.5, 0.4999999], [1, 0])["acceptance_rate"] == 0.5
