"""What is made of windows: every figure by hand."""

from dataclasses import replace

import pytest
from tests.support.bench_arms import DRAFT_S, LAW_S, SAMPLING_S, TARGET_S, make_arms, make_plan
from tests.support.bench_windows import IDENTITY, window

from leeway.bench.interleaved import measure
from leeway.bench.intervals import Estimate, estimate
from leeway.bench.samples import Samples
from leeway.bench.summary import DEFINITIONS, busy_cores, summarise, total, warnings_of
from leeway.bench.tables import interval_text, sample_text, tables
from leeway.bench.totals import MEASURES, compare, totals_by_cluster


def test_speeds_are_ratios_of_totals():
    windows = [window(seed=1), window(seed=2, tokens=31, decode_s=5.0)]
    [one] = summarise(windows, ["plain"])
    values = {name: found.value for name, found in one.estimates.items() if found is not None}
    assert values["decode_tokens_per_s"] == 40 / 10  # not the mean of 2 and 6 by another weight
    assert values["end_to_end_tokens_per_s"] == 42 / 11
    assert values["prefill_tokens_per_s"] == 40 / 1
    assert values["tokens_per_verify_step"] == 1.0
    assert one.estimates["draft_acceptance_rate"] is None
    assert one.ratios["decode"].value == one.ratios["decode"].low == 1.0
    assert (one.num_windows, one.num_prompts, one.num_seeds, one.ttft_s) == (2, 1, 2, 0.5)
    assert one.chunk_gap_p50_s == pytest.approx(5 / 30) and one.chunk_gap_p95_s == 0.5
    assert one.finish_reasons == {"length": 2} and one.mean_output_tokens == 21


def test_a_ratio_is_paired_and_by_totals():
    plain = [window(prompt=0, decode_s=10.0), window(prompt=1, tokens=101, decode_s=20.0)]
    fast = [
        window("fast", prompt=0, decode_s=4.0),
        window("fast", prompt=1, tokens=101, decode_s=11.0),
    ]
    [base, other] = summarise([*plain, *fast], ["plain", "fast"])
    assert base.name == "plain" and other.name == "fast"
    found = other.ratios["decode"]
    assert found.value == (110 / 15) / (110 / 30) == 2.0
    expected = estimate(
        [(4.0, 10.0), (11.0, 20.0)],
        lambda some: sum(b for _, b in some) / sum(a for a, _ in some),
        is_ratio=True,
    )
    assert (found.low, found.high, found.num_clusters) == pytest.approx(
        (expected.low, expected.high, 2)
    )
    assert other.ratios["end_to_end"].value == pytest.approx(31 / 16)
    assert other.decode_ratio_by_seed == {"1": 2.0}


def test_each_seed_has_its_ratio():
    windows = [
        *(window(seed=seed, decode_s=10.0) for seed in (1, 2)),
        window("fast", seed=1, decode_s=5.0),
        window("fast", seed=2, decode_s=4.0),
    ]
    assert summarise(windows, ["plain", "fast"])[1].decode_ratio_by_seed == {"1": 2.0, "2": 2.5}


def test_the_median_of_pairs_is_request_by_request():
    speeds = {1: 4.0, 2: 5.0, 3: 500.0}
    windows = [
        one
        for seed, decode_s in speeds.items()
        for one in (window(seed=seed, decode_s=10.0), window("fast", seed=seed, decode_s=decode_s))
    ]
    plain, fast = summarise(windows, ["plain", "fast"])
    assert (plain.decode_ratio_median, fast.decode_ratio_median) == (1.0, 2.0)
    assert fast.ratios["decode"].value == pytest.approx(30 / 509)


def test_rounds_are_no_evidence_of_their_own():
    once = [window(prompt=p, seed=s, decode_s=4 + p + s) for p in (0, 1) for s in (1, 2)]
    thrice = [replace(one, round=round_index) for one in once for round_index in (1, 2, 3)]
    one, three = (summarise(some, ["plain"])[0] for some in (once, thrice))
    speed, again = (found.estimates["decode_tokens_per_s"] for found in (one, three))
    assert speed.num_clusters == again.num_clusters == 4
    assert (again.low, again.high) == pytest.approx((speed.low, speed.high))


@pytest.mark.parametrize(("num_prompts", "num_clusters"), [(1, 3), (4, 12), (5, 5), (7, 7)])
def test_many_prompts_are_the_clusters(num_prompts, num_clusters):
    windows = [window(prompt=p, seed=s) for p in range(num_prompts) for s in (1, 2, 3)]
    assert len(totals_by_cluster(windows)) == num_clusters
    [one] = summarise(windows, ["plain"])
    assert one.estimates["decode_tokens_per_s"].num_clusters == num_clusters
    unit = "prompts" if num_prompts >= 5 else "pairs of prompt and seed"
    assert sample_text(one).endswith(f"over {num_clusters} {unit}")


def test_seeds_are_no_evidence_at_temperature_0():
    windows = [window(prompt=p, seed=s) for p in range(2) for s in (1, 2, 3)]
    greedy = [replace(one, receipt=one.receipt | {"temperature": 0.0}) for one in windows]
    assert len(totals_by_cluster(windows)) == 6 and len(totals_by_cluster(greedy)) == 2
    [one] = summarise(greedy, ["plain"])
    assert sample_text(one).endswith("over 2 prompts")


def test_exact_arms_that_differ_at_temperature_0_are_said():
    receipt = window().receipt | {"temperature": 0.0}
    windows = [
        window(arm, seed=seed, receipt=receipt, row_shape="stable", output_digest="x")
        for seed in (1, 2)
        for arm in ("plain", "fast")
    ]
    assert warnings_of(windows, summarise(windows, ["plain", "fast"])) == []
    windows[2] = replace(windows[2], output_digest="y")
    [warning] = warnings_of(windows, summarise(windows, ["plain", "fast"]))
    assert warning.startswith("at temperature 0 plain decoded other tokens than fast in 1 of 2")
    windows[2] = replace(windows[2], row_shape="fast")
    assert warnings_of(windows, summarise(windows, ["plain", "fast"])) == []


def measured():
    arms = make_arms(["plain", "soft=typical:delta=0.3@draft_model:2"])
    windows = list(measure(arms, make_plan(num_seeds=3), IDENTITY, folder=None))
    return windows, summarise(windows, ["plain", "soft"])


def test_rates_and_depths_are_those_of_the_summed_receipts():
    windows, [_, soft] = measured()
    tally = total([one for one in windows if one.arm == "soft"])
    assert soft.rates == tally.rates() and soft.loss == tally.loss()
    for name in ("draft_acceptance_rate", "deferral_rate", "kept_draft_rate", "mean_draft_tv"):
        assert soft.estimates[name].value == pytest.approx(tally.rates()[name])
        assert 0 <= soft.estimates[name].low <= soft.estimates[name].high <= 1
    assert soft.estimates["loss_tv_mean"].value == pytest.approx(
        tally.loss()["total_variation_mean"]
    )
    first, second = soft.depths
    assert first.decided == tally.num_spec_steps and second.decided <= first.decided
    assert first.decided + second.decided == tally.num_decided
    assert first.accepted_rate == tally.accepted_by_depth[0] / first.decided
    assert first.expected_rate == 1 - tally.draft_tv_by_depth[0] / first.decided
    assert sum(tally.draft_tv_by_depth) == pytest.approx(tally.draft_tv_sum)


def test_parts_add_up_to_the_step():
    windows, [plain, soft] = measured()
    assert plain.parts["target"].median_s == plain.parts["target"].mean_s == TARGET_S
    assert plain.parts["law"].share == LAW_S / (LAW_S + TARGET_S)
    assert soft.parts["draft"].median_s == 2 * DRAFT_S
    assert soft.parts["sampling"].median_s == SAMPLING_S
    for one in (plain, soft):
        assert sum(cost.share for cost in one.parts.values()) == pytest.approx(1)
        own = [window for window in windows if window.arm == one.name]
        num_steps = sum(len(window.steps["target"]) for window in own)
        whole = sum(cost.mean_s for cost in one.parts.values()) * num_steps
        assert whole == pytest.approx(sum(window.decode_s for window in own))


def test_single_requests_have_a_median_a_range_and_n():
    seconds = {1: 5.0, 2: 2.0, 3: 10.0}
    windows = [window(seed=seed, decode_s=spent) for seed, spent in seconds.items()]
    windows.append(
        replace(window(seed=4, decode_s=1e-9), output_tokens=1)
    )  # one token has no speed
    [one] = summarise(windows, ["plain"])
    assert one.decode_by_request == Samples(2.0, 1.0, 5.0, 3)
    assert one.wall_s == 4.0  # between 0.5, 2.5, 5.5 and 10.5
    assert tables([one])[1][1] == ["plain", "3", "2.0", "1.0", "5.0"]
    [silent] = summarise([replace(windows[3], output_tokens=0)], ["plain"])
    assert silent.decode_by_request is None


def test_a_void_arm_is_said_and_compared_with_nothing():
    windows = [window(), window("fast", decode_s=1.0, void="law a() ran, b() was asked for")]
    summaries = summarise(windows, ["plain", "fast"])
    assert summaries[1].ratios == {"decode": None, "end_to_end": None}
    assert summaries[1].decode_ratio_by_seed == {}
    [warning] = warnings_of(windows, summaries)
    assert warning == "arm fast is void: law a() ran, b() was asked for"
    assert tables(summaries)[0][2] == ["fast", "void", *"-----"]
    one = [replace(windows[0], void="x"), replace(windows[1], void=None)]
    assert summarise(one, ["plain", "fast"])[1].ratios["decode"] is None


def test_a_busy_machine_is_said():
    quiet = [window(other_cores=0.05, stolen_cores=0.0), window(other_cores=None, seed=2)]
    assert warnings_of(quiet, summarise(quiet, ["plain"])) == []
    busy = [*quiet, window(seed=3, other_cores=1.0, stolen_cores=0.5)]
    assert busy_cores(busy) == pytest.approx((0.05 + 1.5) / 2)
    [warning] = warnings_of(busy, summarise(busy, ["plain"]))
    assert warning == "the machine was busy: others took 0.78 of 2 cores on average"
    assert busy_cores([window(other_cores=None)]) is None


def test_answers_of_another_length_are_said():
    windows = [window(tokens=21), window("fast", tokens=15)]
    [warning] = warnings_of(windows, summarise(windows, ["plain", "fast"]))
    assert warning == "answers of fast are 29% shorter than those of plain"


def test_other_requests_within_a_block_are_said():
    windows = [window(), window("fast", request_digest="other")]
    [warning] = warnings_of(windows, summarise(windows, ["plain", "fast"]))
    assert "did not get the same request" in warning


def test_every_table_names_every_arm_that_it_is_about():
    _, summaries = measured()
    speeds, requests, laws, depths, parts, latencies, memory = tables(summaries)
    for rows in (speeds, requests, parts, latencies, memory):
        assert [row[0] for row in rows[1:]] == ["plain", "soft"]
    for rows in (laws, depths):
        assert [row[0] for row in rows[1:]] == ["soft"]
    for rows in tables(summaries):
        assert {len(row) for row in rows} == {len(rows[0])}
    assert speeds[1][3] == "1" and speeds[0][3] == "x plain"
    wall = f"{8250 * 12:.0f}"
    assert latencies[1] == ["plain", "0", "8250", wall, "8250.0", "8250.0", "8250.0"]


def test_memory_is_the_most_of_any_request():
    windows = [
        window(peak_memory_bytes=3 << 20, kv_bytes=1 << 19, kv_cache_bytes=1 << 22, cpu_mhz=2000.0),
        window(seed=2, peak_memory_bytes=2 << 20, kv_bytes=1 << 20, kv_cache_bytes=1 << 22),
    ]
    summaries = summarise(windows, ["plain"])
    assert tables(summaries)[-1][1] == ["plain", "3.0", "1.0", "4.0", "2000"]
    nothing = summarise([window()], ["plain"])
    assert (nothing[0].kv_bytes, nothing[0].cpu_mhz) == (None, None)
    assert all("KV MiB" not in rows[0] for rows in tables(nothing))


def test_intervals_in_words():
    assert interval_text(Estimate(1.5, 1.25, 1.75, 3)) == "1.50 (1.25-1.75)"
    assert interval_text(Estimate(1.5, None, None, 1), 1) == "1.5 (?)"
    assert interval_text(None) == "-"


def test_nothing_to_compare_gives_nothing():
    assert compare([window(prompt=0)], [window(prompt=1)], "decode_tokens_per_s") is None
    assert summarise([], ["plain"]) == []
    assert set(MEASURES) >= {"decode_tokens_per_s", "loss_tv_mean"} and DEFINITIONS["busy"]
