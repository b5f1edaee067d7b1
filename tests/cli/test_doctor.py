"""`doctor` and `demo` on a tiny model: every figure is there, whatever its size."""

import json


def test_doctor_prints_the_machine(leeway):
    outcome = leeway("doctor")
    assert outcome.code == 0
    rows = {line.split()[0] for line in outcome.out.splitlines() if line.strip()}
    assert {"processor", "threads", "load", "system", "versions", "cached"} <= rows
    report = json.loads(leeway("doctor", "--json").out)
    assert "bench" not in report and report["machine"]["versions"]["leeway-llm"]
    assert not any(model["is_cached"] for model in report["models"])


CELLS = [[1, 512], [2, 512], [4, 512], [1, 4096], [4, 4096]]


def check_steps(report):
    assert len(report["steps"]) == 6
    for cell in report["steps"]:
        assert 0 < cell["overhead_rate"]["median"] < 1
        assert cell["forward_s"]["median"] < cell["step_s"]["median"]
    assert 0 < report["load_s"] < report["load_to_first_token_s"]
    assert set(report["definitions"]) >= {"forward", "prefill", "overhead", "load"}


def test_bench_measures_every_cell(on_tiny, deep):
    words = ["doctor", deep, "--bench", "--rounds", "3"]
    report = json.loads(on_tiny(*words, "--json").out)["bench"]
    assert [[cell["num_rows"], cell["context_len"]] for cell in report["forwards"]] == CELLS
    for cell in report["forwards"]:
        assert (cell["steady"]["n"], cell["first"]["n"]) == (3, 1)
        assert 0 < cell["steady"]["least"] <= cell["steady"]["median"]
    assert report["cells_left_out"] == [] and report["prefill_len"] == 512
    check_steps(report)
    text = on_tiny(*words)
    assert text.code == 0
    for part in ("load to first token", "prefill of 512", "verify steps", "overhead:", "4096"):
        assert part in text.out, part


def test_bench_says_what_does_not_fit(on_tiny):
    words = ["doctor", "--bench", "--rounds", "3"]
    report = json.loads(on_tiny(*words, "--json").out)["bench"]
    assert report["cells_left_out"] == CELLS and report["forwards"] == []
    check_steps(report)
    assert "left out: 4 rows at 4096" in on_tiny(*words).out


def test_too_few_rounds(leeway):
    outcome = leeway("doctor", "--bench", "--rounds", "1")
    assert outcome.code == 2 and "rounds 1" in outcome.err


def test_demo_shows_four_arms_with_speed_and_loss(on_tiny):
    words = ["demo", "-n", "16", "-p", "hello hello hello world"]
    report = json.loads(on_tiny(*words, "--json").out)
    names = [arm["name"] for arm in report["arms"]]
    assert names == ["plain", "rejection", "typical", "tokenv3"]
    guarantees = [arm["guarantee"] for arm in report["arms"]]
    assert guarantees == ["exact_distribution", "exact_distribution", "none", "none"]
    assert all(arm["tokens_per_s"]["n"] >= 2 for arm in report["arms"])
    assert report["arms"][1]["loss"]["total_variation_mean"] in (0, None)
    outcome = on_tiny(*words, "--law", "clip", "--law-option", "c1=2")
    assert outcome.code == 0 and "yours" in outcome.out and "x plain" in outcome.out
    assert "watch the texts above for repetition" in " ".join(outcome.out.split())
