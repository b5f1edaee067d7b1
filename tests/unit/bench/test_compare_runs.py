"""Two runs beside one another: known ratios, and requests that are not the same."""

from dataclasses import replace

import pytest
from tests.support.bench_windows import window

from leeway.bench.compare_runs import (
    MEASURES,
    choose_arms,
    compare_arms,
    comparison_rows,
    differing,
)
from leeway.bench.intervals import estimate
from leeway.bench.runs import read_run
from leeway.bench.window import write_window
from leeway.core.errors import ConfigError

SAMPLING = {"temperature": 1.0, "max_tokens": 12}


def run(speed=1.0, num_seeds=2, num_rounds=1, arms=("plain", "soft"), **identity):
    """Return windows of every arm; ten tokens behind the first take 10 x seed / speed seconds."""
    facts = {
        "arms": {name: name for name in arms},
        "sampling": SAMPLING,
        "model": {"name": "m", "sha256": "1"},
        "backend": {"kv_cache": "16bit"},
    } | identity
    return [
        window(
            arm,
            prompt,
            seed,
            round_index,
            11,
            decode_s=10 * seed * (1 + prompt) / speed,
            identity=facts,
            output_digest=f"{arm}-{prompt}-{seed}-{speed if seed == 2 else ''}",
        )
        for round_index in range(1, num_rounds + 1)
        for seed in range(1, num_seeds + 1)
        for prompt in (0, 1)
        for arm in arms
    ]


PLAIN = ("plain", "plain")


def test_a_ratio_is_over_the_requests_that_both_ran():
    first, second = run(), run(speed=2.0, num_seeds=3)
    pair = compare_arms(first, second, PLAIN)
    found = pair.ratios["decode_tokens_per_s"]
    assert found.value == found.low == found.high == pytest.approx(2.0)
    assert (pair.num_requests, pair.num_windows, pair.num_left_out) == (4, 4, 2)
    assert pair.num_same_answers == 2 and found.num_clusters == 4
    assert pair.first_values["decode_tokens_per_s"].value == pytest.approx(40 / 90)


def test_an_interval_is_over_pairs():
    first = run()
    factors = {(0, 1): 2.0, (1, 1): 4.0, (0, 2): 5.0, (1, 2): 1.0}
    second = [
        replace(one, decode_s=one.decode_s / factors[one.prompt_index, one.seed]) for one in first
    ]
    times = [(one.decode_s, other.decode_s) for one, other in zip(first, second, strict=True)]
    expected = estimate(
        times[::2],
        lambda some: sum(one for one, _ in some) / sum(other for _, other in some),
        is_ratio=True,
    )
    found = compare_arms(first, second, PLAIN).ratios["decode_tokens_per_s"]
    assert (found.value, found.low, found.high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )


def test_prompts_are_paired_by_digest_however_they_are_numbered():
    first = run()
    second = [replace(one, prompt_index=1 - one.prompt_index) for one in run(speed=3.0)]
    found = compare_arms(first, second, PLAIN).ratios["decode_tokens_per_s"]
    assert found.low == found.high == pytest.approx(3.0)


def test_only_rounds_of_both_are_paired():
    pair = compare_arms(run(num_rounds=3), run(num_rounds=1), PLAIN)
    assert (pair.num_requests, pair.num_windows, pair.num_left_out) == (4, 4, 8)


def test_other_requests_under_one_name_are_refused():
    hot = SAMPLING | {"temperature": 0.5}
    second = [replace(one, request_digest="x" + one.request_digest) for one in run(sampling=hot)]
    with pytest.raises(ConfigError, match=r"prompt '0' with seed 1 differs in temperature \(1.0, "):
        compare_arms(run(), second, PLAIN)
    longer = [replace(one, request_digest="x", prompt_digest="y", prompt_tokens=9) for one in run()]
    with pytest.raises(ConfigError, match=r"the prompt's tokens \(20, 9 of them\)"):
        compare_arms(run(), longer, PLAIN)


def test_runs_without_a_request_in_common_are_refused():
    second = [
        replace(one, prompt_id="other", request_digest="x" + one.request_digest) for one in run()
    ]
    with pytest.raises(ConfigError, match="no request in common"):
        compare_arms(run(), second, PLAIN)
    second = [replace(one, round=2) for one in run()]
    with pytest.raises(ConfigError, match="no round of a request in common"):
        compare_arms(run(), second, PLAIN)


def test_what_differs_is_named():
    first = run()
    assert differing(first, run(speed=2.0)) == []
    other = run(backend={"kv_cache": "u8"}, model={"name": "m", "sha256": "2"})
    assert differing(first, other) == [
        ("backend.kv_cache", "16bit", "u8"),
        ("model.sha256", "1", "2"),
    ]


def test_arms_are_those_of_both_or_those_named():
    first, second = run(), run(arms=("plain", "hard"))
    assert choose_arms(first, second) == [PLAIN]
    assert choose_arms(first, second, "soft", "hard") == [("soft", "hard")]
    assert choose_arms(first, second, "plain") == choose_arms(first, second, None, "plain")
    with pytest.raises(ConfigError, match="run B has no arm 'soft'; it has plain, hard"):
        choose_arms(first, second, "soft")
    with pytest.raises(ConfigError, match="did you mean 'soft'"):
        choose_arms(first, second, "sofd", "hard")
    with pytest.raises(ConfigError, match="no arm in common: A has plain; B has hard"):
        choose_arms(run(arms=("plain",)), run(arms=("hard",)))


def test_a_void_arm_is_compared_with_nothing():
    second = [replace(one, void="another law ran") for one in run()]
    pair = compare_arms(run(), second, PLAIN)
    assert pair.void == "in B another law ran" and set(pair.ratios.values()) == {None}
    assert comparison_rows(pair)[1][-1] == "void"


def test_the_table_has_every_measure_that_either_run_has():
    rows = comparison_rows(compare_arms(run(), run(speed=2.0), PLAIN))
    assert rows[0] == ["measure", "A: plain", "B: plain", "B / A"]
    assert [row[0] for row in rows[1:]] == list(MEASURES[:-1])  # nothing was drafted
    assert rows[1][-1] == "2.000 (2.000-2.000)"


def test_a_folder_of_two_runs_is_refused(tmp_path):
    for index, one in enumerate(run(arms=("plain",))):
        write_window(tmp_path, 0, one)
        if index == 0:
            assert read_run(tmp_path) == [one]
    assert len(read_run(tmp_path)) == 4
    write_window(tmp_path, 1, run(arms=("plain",), model={"name": "n"})[0])
    with pytest.raises(ConfigError, match="holds windows of several runs"):
        read_run(tmp_path)
