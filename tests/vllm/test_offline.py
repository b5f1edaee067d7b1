"""Frequencies, greedy ids and receipts from whole engines, against plain vLLM and closed forms.

False alarms: a chi-square limit is exceeded by chance less than once in a billion, all of them
together less than once in 20 million; seeds are fixed.
"""

import numpy as np
import pytest
from tests.vllm.calls import (
    EXACT,
    against_plain,
    assert_follows,
    greedy_call,
    sampled_call,
)

NUM_DRAWS = 20_000
LOSSY = [
    {"law": "typical", "delta": 0.4},
    {"law": "typical", "delta": 0.4, "off_set": "coin"},
    {"law": "tokenv3", "alpha": 0.6},
    {"law": "lenient", "leniency": 0.5},
    {"law": "clip", "c1": 1.5},
    {"law": "tv_budget", "budget": 0.1},
    {"law": "opt", "alpha": 0.5},
]


@pytest.fixture(
    scope="module",
    params=["ngram", "draft_model greedy", "draft_model probabilistic", "eagle probabilistic"],
)
def drafter(request):
    return request.param


def draft_rows(drafter):
    return "rows" if drafter.endswith("probabilistic") else "point_mass"


def test_greedy_ids_are_those_of_plain_vllm(run, drafter):
    exact, typical = run([greedy_call(), greedy_call(law="typical", delta=0.2)], drafter=drafter,
                         law=EXACT)  # fmt: skip
    (plain,) = run([greedy_call()])
    assert exact["token_ids"] == plain["token_ids"]
    assert typical["token_ids"] == plain["token_ids"]
    for answer in (exact, typical):
        (counts,) = answer["counters"].values()
        assert counts["accepted"] > 0


@pytest.mark.parametrize("law", ["rejection", "block"])
def test_under_exact_laws_every_token_follows_the_target_of_plain_vllm(run, drafter, law):
    (answer,) = run([sampled_call(law=law)], drafter=drafter, law=EXACT)
    ((label, counts),) = answer["counters"].items()
    assert label == f"{law}/exact_distribution/{draft_rows(drafter)}"
    assert counts["accepted"] > NUM_DRAWS / 50
    found, expected = against_plain(run, answer["token_ids"])
    assert found.sum() >= NUM_DRAWS
    assert_follows(found, expected)


def test_a_lossy_law_is_seen_to_leave_the_target(run):
    call = sampled_call(law="tokenv3", alpha=0.6)  # lower ranks are drafted as well, and not kept
    (answer,) = run([call], drafter="draft_model greedy", law=EXACT)
    found, expected = against_plain(run, answer["token_ids"])
    with pytest.raises(AssertionError, match="chi-square"):
        assert_follows(found, expected)


def test_judged_positions_emit_their_law_s_closed_form(run, drafter):
    has_rows = draft_rows(drafter) == "rows"
    laws = [law for law in LOSSY if has_rows or law["law"] != "opt"]
    laws += [{"law": "rejection"}, {"law": "block"}]
    # n-grams find a draft for a quarter of the positions, models for all.
    size = {"num_requests": 1280, "num_tokens": 72} if drafter == "ngram" else {}
    calls = [sampled_call(**size, **law) for law in laws]
    answers = run(calls, drafter=drafter, law=EXACT, watch=True)
    for law, answer in zip(laws, answers, strict=True):
        found, expected = (np.array(answer["emitted"][name]) for name in ("found", "expected"))
        assert answer["emitted"]["impossible"] == 0, law
        assert found.sum() >= NUM_DRAWS, law
        assert_follows(found, expected, law)
        (counts,) = answer["counters"].values()
        is_exact = law["law"] in {"rejection", "block"}
        assert (counts["loss_total_variation"] > 0) is not is_exact, law


@pytest.mark.parametrize("law", [{"law": "rejection"}, {"law": "typical", "delta": 0.2}], ids=str)
def test_two_ranks_decide_as_one(run, law):
    call = sampled_call(num_requests=8, **law)
    (one,) = run([call], drafter="ngram", law=EXACT)
    (two,) = run([call], drafter="ngram", law=EXACT, kind="ranks", tensor_parallel_size=2)
    assert two["token_ids"] == one["token_ids"]
    ((label, counts),) = one["counters"].items()
    assert two["counters"][label]["accepted"] == counts["accepted"]
