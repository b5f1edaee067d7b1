"""`leeway quality` from words to figures, on a tiny model and three sums."""

import json
import signal
import time

import pytest
from tests.support.openai_server import chat_chunk, fake_server, usage

DONE = b"data: [DONE]\n\n"
SUMS = [
    {"question": f"What is {one} and {one}?", "answer": f"It is twice.\n#### {2 * one}"}
    for one in (1, 2, 3)
]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    lines = "\n".join(json.dumps(one) for one in SUMS)
    (folder / "gsm8k_test.jsonl").write_text(lines + "\n", encoding="utf-8")
    return str(folder)


@pytest.fixture
def on_deep(leeway, deep, monkeypatch):
    """The command line with a tiny model of a long context."""
    monkeypatch.setenv("LEEWAY_MODEL", deep)
    monkeypatch.setenv("LEEWAY_KV_MEMORY", "8MiB")
    return leeway


def words(data, out, *more):
    arms = ("-a", "exact=rejection@ngram:2", "-a", "soft=typical:delta=0.2@ngram:2")
    flags = ("-n", "8", "--max-num-seqs", "2", "--data-dir", data, "--out", str(out))
    return ("quality", "run", "--suite", "gsm8k", *arms, *flags, *more)


def test_a_run_its_report_its_comparison_and_its_rescoring(on_deep, data):
    out = on_deep.folder / "run"
    outcome = on_deep(*words(data, out, "--samples", "2", "--save-completions", "--json"))
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert [one["name"] for one in report["arms"]] == ["exact", "soft"]
    assert {one["num_answers"] for one in report["arms"]} == {6}
    assert (report["subset"], report["num_samples"]) == ("all 3 tasks", 2)
    assert report["identity"]["batch"] == 2 and report["identity"]["sampling"]["max_tokens"] == 8
    assert "is not the file that published figures rest on" in report["warnings"][0]
    assert report["comparisons"][0]["num_pairs"] == 6
    assert report["speeds"].keys() == {"exact", "soft"}
    kept = json.loads((out / "scores.json").read_text())
    assert kept == {key: value for key, value in report.items() if key != "speeds"}
    assert "sample 1, arm exact: 0 of 12 answers" in outcome.err
    for name in ("run.json", "results.jsonl", "completions.jsonl"):
        assert (out / name).is_file()
    assert len((out / "results.jsonl").read_text().splitlines()) == 12

    made = on_deep("quality", "report", str(out), "--json")
    assert made.code == 0, made.err
    page = out / "report" / "report.html"
    assert json.loads(made.out) == {"page": str(page)}
    assert "quality run --suite gsm8k" in page.read_text()

    outcome = on_deep("quality", "compare", str(out), "--arm-b", "soft", "--margin", "0.1")
    assert outcome.code == 0 and "against exact" in outcome.out, outcome.err
    assert "soft: no difference from exact shown" in outcome.out
    outcome = on_deep("quality", "compare", str(out), str(out), "--json")
    found = json.loads(outcome.out)
    assert found["differences"] == [] and len(found["comparisons"]) == 2

    again = on_deep(
        "quality", "rescore", str(out), "--suite", "gsm8k", "--data-dir", data, "--json"
    )
    assert again.code == 0, again.err
    rescored = json.loads(again.out)
    assert len(rescored["results"]) == 12
    assert {arm: rate["value"] for arm, rate in rescored["strict"].items()} == {
        one["name"]: one["strict"]["value"] for one in report["arms"]
    }


def test_people_read_tables(on_deep, data):
    outcome = on_deep(*words(data, on_deep.folder / "run", "--tasks", "2"))
    assert outcome.code == 0, outcome.err
    for expected in (
        "gsm8k: 2 of 3 tasks, those whose ids have the least SHA-256", "against exact",
        "strict", "truncated", "detectable", "arm, 2 at once", "repetition", "p99", "KL",
        "McNemar p: exact and two-sided",
    ):  # fmt: skip
        assert expected in outcome.out


def test_the_same_command_twice_scores_nothing_anew_and_says_the_same(on_deep, data):
    out = on_deep.folder / "run"
    assert on_deep(*words(data, out)).code == 0
    first = (out / "scores.json").read_bytes()
    lines = (out / "results.jsonl").read_bytes()
    assert on_deep(*words(data, out)).code == 0
    assert (out / "results.jsonl").read_bytes() == lines
    assert (out / "scores.json").read_bytes() == first
    other = on_deep.folder / "other"
    assert on_deep(*words(data, other, "--save-completions")).code == 0
    assert (other / "scores.json").read_bytes() == first


def test_ctrl_c_keeps_what_was_answered_and_the_same_command_goes_on(on_deep, data):
    out = on_deep.folder / "run"
    many = words(data, out, "--samples", "200", "--json")
    with on_deep.start(*many) as process:
        path = out / "results.jsonl"
        while process.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") > 3):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "answers are kept; the same command goes on from there" in err
    num = path.read_bytes().count(b"\n")
    assert 3 < num < 1200
    outcome = on_deep(*words(data, out, "--samples", "1", "--json"))
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["arms"][0]["num_answers"] == 3


def test_another_model_or_sampler_is_not_mixed_in(on_deep, data):
    out = on_deep.folder / "run"
    assert on_deep(*words(data, out, "--tasks", "1")).code == 0
    outcome = on_deep(*words(data, out, "--tasks", "1", "--temperature", "0.5"))
    assert outcome.code == 2
    assert "sampling.temperature was 1.0 and is 0.5; run into another folder" in outcome.err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["-a", "x=typcal"], "arm 'x=typcal': unknown law 'typcal'; did you mean 'typical'?"),
        (["-a", "soft=block"], "two arms are called 'soft'"),
        (["--margin", "3"], "--margin 3 is out of range; give a loss as a share"),
        (["--tasks", "0"], "--tasks 0 is out of range"),
        (["--samples", "0"], "--samples 0 is out of range"),
        (["--temperature", "0", "--samples", "2"], "--samples 2 at temperature 0 would ask"),
        (["--top-p", "1.5"], "top_p is 1.5"),
    ],
)
def test_what_cannot_be_run_is_refused(on_deep, data, more, says):
    outcome = on_deep(*words(data, on_deep.folder / "run", *more))
    assert outcome.code == 2 and says in outcome.err, outcome.err
    assert not (on_deep.folder / "run").exists()


def test_an_unknown_suite_or_a_missing_folder_is_refused(leeway, data):
    outcome = leeway("quality", "run", "--suite", "humanevel")
    assert outcome.code == 2
    assert "unknown suite 'humanevel'; did you mean 'humaneval'" in outcome.err
    outcome = leeway("quality", "run", "--suite", "gsm8k", "--data-dir", "/nowhere/at/all")
    assert outcome.code == 2 and "/nowhere/at/all" in outcome.err


def test_completions_need_a_folder(on_deep, data):
    arms = ("quality", "run", "--suite", "gsm8k", "--data-dir", data)
    outcome = on_deep(*arms, "--save-completions")
    assert outcome.code == 2 and "give --out DIR" in outcome.err


def test_a_server_alone_is_asked_and_no_model_is_loaded(leeway, data):
    script = [chat_chunk("#### 2"), chat_chunk("", "stop"), usage(9, 3), DONE]
    with fake_server(lambda body: (200, script)) as server:
        outcome = leeway(
            "quality", "run", "--suite", "gsm8k", "--data-dir", data, "-a", f"it=url:{server.url}",
            "--json",
        )  # fmt: skip
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    [arm] = report["arms"]
    assert (arm["num_answers"], arm["num_correct"]) == (3, 1)  # one and one
    assert report["identity"]["model"] == {"name": "tiny", "sha256": None}
    assert {path for path, _ in server.bodies} == {"/v1/chat/completions"}
    assert report["comparisons"] == []


def test_a_server_beside_this_process(on_deep, data):
    script = [chat_chunk("#### 2"), chat_chunk("", "stop"), usage(9, 3), DONE]
    out = on_deep.folder / "run"
    with fake_server(lambda body: (200, script)) as server:
        outcome = on_deep(*words(data, out, "-a", f"it=url:{server.url}", "--json"))
    assert outcome.code == 0, outcome.err
    it = json.loads(outcome.out)["arms"][2]
    assert (it["law"], it["num_answers"], it["loss"]["p99"]) == ("not told", 3, None)


def test_the_planner(leeway):
    outcome = leeway("quality", "plan", "--margin", "0.03", "--accuracy", "0.61", "--json")
    assert outcome.code == 0
    plan = json.loads(outcome.out)
    assert plan["sizes"][0] == {"discordance": 0.1, "to_detect": 870, "to_rule_out": 687}
    assert plan["suites"][0]["name"] == "humaneval"
    outcome = leeway("quality", "plan")
    assert "margin 3.0 points, accuracy 60.0 %" in outcome.out and "870" in outcome.out
    outcome = leeway("quality", "plan", "--margin", "1.5")
    assert outcome.code == 2 and "--margin 1.5 is out of range" in outcome.err


def test_suites_are_listed(leeway):
    found = json.loads(leeway("quality", "suites", "--json").out)["suites"]
    assert {"humaneval", "mbpp_plus", "gsm8k"} <= {one["name"] for one in found}
    assert all(one["licence"] and one["source"].startswith("https://") for one in found)
    outcome = leeway("quality", "suites")
    assert "humaneval" in outcome.out and "runs programs" in outcome.out


def test_likelihoods_by_arm(leeway):
    def echo(body):
        logs = {"text_offset": [0, 2], "token_logprobs": [None, -0.5 * len(body["prompt"])]}
        return 200, [json.dumps({"choices": [{"logprobs": logs}]}).encode()]

    path = leeway.folder / "texts.jsonl"
    lines = [{"arm": arm, "prompt": "ab", "completion": "cd"} for arm in ("exact", "soft", "soft")]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    with fake_server(echo) as server:
        outcome = leeway("quality", "likelihood", str(path), "--url", server.url, "--json")
        shown = leeway("quality", "likelihood", str(path), "--url", server.url, "--limit", "1")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)["arms"]
    assert [(one["arm"], one["num_texts"], one["mean"]["value"]) for one in found] == [
        ("exact", 1, -2.0), ("soft", 2, -2.0),
    ]  # fmt: skip
    assert "perplexity" in shown.out and "7.389" in shown.out
    refused = leeway("quality", "likelihood", str(path), "--url", "nowhere")
    assert refused.code == 2 and "--url has the URL 'nowhere'" in refused.err
