"""Figures of an arm by hand."""

import math

import pytest
from scipy import stats
from tests.support.quality_runs import failed, result

from leeway.quality.rates import wilson_interval
from leeway.quality.summary import mean_estimate, pair_arms, summarise, whole_results

RESULTS = [
    result(task="t0", sample=1, text="a b a b"),
    result(task="t0", sample=2, right=True, finish_reason="length", output_tokens=30),
    result(task="t1", sample=1, right=False, parts={"share": 0.5}),
    result(task="t1", sample=2, parts={"share": 1.0}),
    failed(task="t2"),
]


def test_an_arm_by_hand():
    [arm] = summarise(RESULTS, {"exact": "rejection@ngram:3"})
    assert (arm.num_tasks, arm.num_answers, arm.num_errors, arm.num_correct) == (2, 4, 1, 2)
    assert arm.strict.value == 2 / 4 and arm.strict.num == 4
    assert (arm.strict.low, arm.strict.high) == pytest.approx(
        wilson_interval(0.5, 4 / arm.strict.effect)
    )
    assert arm.completed.value == 2 / 3 and arm.completed.num == 3
    assert arm.truncated.value == 1 / 4
    assert arm.parts == {"share": 0.75}
    assert arm.tokens.value == 60 / 4 and arm.most_tokens == 30
    assert arm.repetition == pytest.approx(0.0) and arm.distinct["1"] == pytest.approx(3.5 / 4)
    assert arm.rates["draft_acceptance_rate"] == 5 / 8 and arm.rates["deferral_rate"] == 3 / 8
    assert arm.loss["mean"] == pytest.approx(0.1) and arm.loss["p99"] == 0.2
    assert arm.loss["high_rate"] == 0.5 and arm.loss["max"] == 0.2
    assert arm.loss["outside_rate"] == 1 / 8
    assert (arm.law, arm.guarantee, arm.void) == ("rejection", "exact_distribution", None)


def test_instructions_are_counted_over_all_answers():
    counts = [{"num_instructions": 3.0, "num_strict": 1.0, "prompt_strict": 0.0}] * 2
    counts.append({"num_instructions": 1.0, "num_strict": 1.0, "prompt_strict": 1.0})
    answers = [result(task=f"t{i}", parts=parts) for i, parts in enumerate(counts)]
    [arm] = summarise(answers, {"exact": "rejection"})
    assert arm.parts == pytest.approx({"instruction_strict": 3 / 7, "prompt_strict": 1 / 3})


def test_an_arm_without_an_answer_has_no_rates():
    [arm] = summarise([failed()], {"exact": "rejection"})
    assert arm.strict is None and arm.completed is None and arm.tokens is None
    assert (arm.num_answers, arm.num_errors, arm.law, arm.loss["p99"]) == (0, 1, "", None)


def test_a_void_arm_says_why():
    results = [result(), result(task="t1", void="law x ran", note="n")]
    [arm] = summarise(results, {"exact": "rejection"})
    assert (arm.void, arm.note) == ("law x ran", "n")


def test_only_what_every_arm_was_asked_counts():
    results = [
        result("exact", "t0"), result("exact", "t1"), result("soft", "t1"),
        failed("soft", "t2"), result("exact", "t2"), result("gone", "t0"),
    ]  # fmt: skip
    kept = whole_results(results, ["exact", "soft"])
    assert [one.key for one in kept] == [
        ("exact", "t1", 1), ("exact", "t2", 1), ("soft", "t1", 1), ("soft", "t2", 1),
    ]  # fmt: skip


def test_pairs_leave_out_errors_and_count_what_was_cut_as_wrong():
    first = [result(task="t0"), result(task="t1"), result(task="t2"), failed(task="t3")]
    second = [
        result("soft", "t0", right=False, text="other"),
        result("soft", "t1", finish_reason="length", text="longer"),
        failed("soft", "t2"),
        result("soft", "t3"),
    ]
    pair = pair_arms(first, second, margin=0.1)
    assert (pair.name, pair.first, pair.num_same) == ("soft", "exact", 0)
    found = pair.comparison
    assert (found.num_pairs, found.only_first, found.only_second) == (2, 2, 0)
    assert pair_arms(first, [failed("soft", "t0")], margin=0.1) is None
    same = pair_arms(first, [result("soft", "t0")], margin=0.1)
    assert same.num_same == 1


def test_a_mean_over_clusters_by_hand():
    found = mean_estimate([3.0, 5.0, 10.0], [1.0, 2.0, 3.0])
    rest = [0.0, -1.0, 1.0]  # top - 3 * bottom, of 6 in all
    half = stats.t.ppf(0.975, 2) * math.sqrt(3 / 2 * sum(one**2 for one in rest)) / 6
    assert found.value == 3.0
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half))
    assert mean_estimate([1.0], [2.0]).low is None and mean_estimate([], []) is None
