"""`bench`: a run into a folder, its end in the middle, going on, and its report."""

import json
import signal
import time
from xml.etree import ElementTree

import pytest

from leeway.bench import interleaved

ARMS = ("-a", "plain", "-a", "rejection@ngram:2", "-a", "soft=typical:delta=0.3@ngram:2")

CHARTS = ("decode.svg", "speed-against-loss.svg", "step-parts.svg")


@pytest.fixture
def prompts(leeway):
    path = leeway.folder / "prompts.jsonl"
    lines = [{"id": "a", "prompt": "one two one two one"}, {"id": "b", "prompt": "three four"}]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return str(path)


def words(prompts, out, *more):
    flags = ("-n", "6", "--ignore-eos", "--top-k", "20", "--seeds", "2", "--out", str(out))
    return ("bench", "run", *ARMS, "--prompts", prompts, *flags, *more)


def num_windows(folder):
    return len(list(folder.glob("*.window.json")))


def test_a_run_its_files_and_its_report(on_tiny, prompts):
    out = on_tiny.folder / "run"
    outcome = on_tiny(*words(prompts, out, "--json"))
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert report == json.loads((out / "summary.json").read_text())
    assert [arm["name"] for arm in report["arms"]] == ["plain", "rejection@ngram:2", "soft"]
    assert num_windows(out) == 3 * 2 * 2 and not report["is_interrupted"]
    plain, exact, soft = report["arms"]
    assert (plain["row_shape"], exact["row_shape"]) == ("fast", "stable")
    assert (plain["drafter"], soft["drafter"], soft["law"]) == ("none", "ngram", "typical")
    assert {arm["void"] for arm in report["arms"]} == {None}
    assert {"tokens/s", "interval", "part law"} <= report["definitions"].keys()
    window = json.loads(next(out.glob("*.window.json")).read_text())
    assert window["command"].startswith("leeway bench run -a plain -a rejection@ngram:2 -a soft=")
    assert 0 < window["kv_bytes"] < window["kv_cache_bytes"] <= 8 << 20
    assert plain["peak_memory_bytes"] > 0
    identity = report["identity"]
    assert len(identity["model"]["sha256"]) == len(identity["source_sha256"]) == 64
    assert identity["sampling"]["top_k"] == 20 and identity["first_arm"] == "plain"

    again = on_tiny(*words(prompts, out, "--json"))
    assert again.code == 0 and json.loads(again.out)["sessions"] == report["sessions"]

    made = on_tiny("bench", "report", str(out))
    assert made.code == 0 and made.out == f"{out / 'report' / 'report.html'}\n"
    page = (out / "report" / "report.md").read_text()
    whole = (out / "report" / "report.html").read_text()
    assert "bench run -a plain" in whole
    manifest = json.loads((out / "report" / "manifest.json").read_text())
    listed = {one["file"] for one in manifest["charts"]}
    assert {name for name in listed if name.endswith(".svg")} == {*CHARTS}
    for name in listed - {*CHARTS}:
        assert (out / "report" / name).read_bytes().startswith(b"\x89PNG")
    for arm in report["arms"]:
        assert f"| {arm['name']} |" in page and f"`{arm['definition']}`" in page
    for name in CHARTS:
        assert f"]({name})" in page and (out / "report" / name).read_text() in whole
        ElementTree.fromstring((out / "report" / name).read_text())


def test_tables_for_people(on_tiny, prompts, tiny):
    more = ("-a", "own=rejection@draft_model:2", "--draft-model", tiny)
    outcome = on_tiny(*words(prompts, on_tiny.folder / "run", *more))
    assert outcome.code == 0, outcome.err
    for expected in ("x plain", "tokens/step", "at depth", "ms of a verify step", "soft", "own"):
        assert expected in outcome.out
    assert "2 prompts, 2 seeds, 4 requests an arm; 95 % intervals over 4 pairs" in outcome.out
    assert "block 1 of 4" in outcome.err


def test_ctrl_c_shows_what_was_measured_and_the_same_command_goes_on(on_tiny, prompts):
    out = on_tiny.folder / "run"
    with on_tiny.start(*words(prompts, out, "--rounds", "200", "--json")) as process:
        while num_windows(out) < 4 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        text, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    report = json.loads(text)
    num_blocks = report["arms"][0]["num_windows"]
    assert report["is_interrupted"] and 0 < num_blocks < 800
    assert {arm["num_windows"] for arm in report["arms"]} == {num_blocks}
    assert f"interrupted: {num_blocks} of 800 blocks are whole" in err
    assert "the same command goes on from there" in err
    measured = num_windows(out)
    outcome = on_tiny(*words(prompts, out, "--rounds", str(num_blocks // 4 + 1), "--json"))
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert report["arms"][0]["num_windows"] == 4 * (num_blocks // 4 + 1) >= measured // 3
    assert len(report["sessions"]) == 2


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["-a", "soft=block"], "two arms are called 'soft'"),
        (["-a", "typcal"], "arm 'typcal': unknown law 'typcal'; did you mean 'typical'?"),
        (["-a", "x=opt:alpha=0.5@ngram"], "arm 'x=opt:alpha=0.5@ngram': law 'opt' reads"),
        (["-a", "x=block@draft_model"], "give --draft-model NAME as well"),
        (["-a", "x=block@mtp"], "drafter 'mtp' (from --arm) needs a draft head"),
        (["--head", "h", "-a", "x=block@ngram"], "head 'h' (from --head) is used by no arm"),
        (["--draft-model", "m"], "draft_model 'm' (from --draft-model) is used by no arm"),
        (["--rounds", "0"], "--rounds 0 is out of range"),
        (["--prompt-len", "0"], "--prompt-len 0 is out of range"),
        (["--limit", "0"], "--limit 0 is out of range"),
        (["--per-category", "0"], "--per-category 0 is out of range"),
        (["--workload", "text"], "--workload and --prompts both say what to ask"),
        (["--prefix-cache", "on"], "--prefix-cache on: a run reads every prompt in full"),
        (["--top-p", "1.5"], "top_p is 1.5"),
        (["--law", "block"], "--law"),
        (["--prompt-len", "100000"], "the prompt has 100000 tokens"),
    ],
)
def test_what_cannot_be_measured_is_refused(on_tiny, prompts, more, says):
    outcome = on_tiny(*words(prompts, on_tiny.folder / "run", *more))
    assert outcome.code == 2 and says in outcome.err, outcome.err
    assert not (on_tiny.folder / "run").exists() or num_windows(on_tiny.folder / "run") == 0


def test_another_run_is_not_mixed_in(on_tiny, prompts):
    out = on_tiny.folder / "run"
    assert on_tiny(*words(prompts, out, "--limit", "1")).code == 0
    outcome = on_tiny(*words(prompts, out, "--limit", "1", "--temperature", "0.5"))
    assert outcome.code == 2
    assert "sampling.temperature was 1.0 and is 0.5; measure into another folder" in outcome.err


def dial_words(prompts, out, *more):
    law = ("--law", "typical:off_set=coin", "--knob", "delta", "--values", "0.3,0.1")
    flags = ("-n", "6", "--ignore-eos", "--top-k", "20", "--seeds", "1", "--out", str(out))
    return ("bench", "dial", *law, "--drafter", "ngram", "--prompts", prompts, *flags, *more)


def test_text_of_any_length_and_its_categories(on_tiny):
    out = on_tiny.folder / "run"
    words = ("bench", "run", "-a", "plain", "-a", "rejection@ngram:2", "--seeds", "1", "-n", "4")
    refused = on_tiny(*words, "--workload", "text")
    assert refused.code == 2 and "say which with --prompt-len N" in refused.err
    more = ("--workload", "text", "--prompt-len", "24", "--per-category", "1", "--out", str(out))
    outcome = on_tiny(*words, *more)
    assert outcome.code == 0, outcome.err
    assert "prompts of 24 tokens" in outcome.out and "category" in outcome.out
    report = json.loads((out / "summary.json").read_text())
    assert list(report["categories"]) == ["text", "code"]
    for path in out.glob("*.window.json"):
        window = json.loads(path.read_text())
        assert window["prompt_tokens"] == window["prefill_tokens"] == 24
        assert window["category"] in ("text", "code")


def test_a_dial_is_a_run(on_tiny, prompts):
    out = on_tiny.folder / "run"
    outcome = on_tiny(*dial_words(prompts, out))
    assert outcome.code == 0, outcome.err
    assert "typical by delta" in outcome.out and num_windows(out) == 4 * 2
    report = json.loads(on_tiny(*dial_words(prompts, out, "--json")).out)
    assert [arm["name"] for arm in report["arms"]] == [
        "plain",
        "rejection",
        "typical:off_set=coin,delta=0.3",
        "typical:off_set=coin,delta=0.1",
    ]
    assert len(report["sessions"]) == 1 and num_windows(out) == 4 * 2  # all was measured before
    outcome = on_tiny(*dial_words(prompts, on_tiny.folder / "none", "--limit", "0"))
    assert outcome.code == 2 and "--limit 0 is out of range" in outcome.err


def ladder_words(out, *more):
    arms = ("-a", "plain", "-a", "rejection@ngram:2")
    return ("bench", "ladder", *arms, "-n", "4", "--seeds", "2", "--out", str(out), *more)


def test_a_ladder_its_going_on_and_its_report(on_tiny):
    out = on_tiny.folder / "ladder"
    outcome = on_tiny(*ladder_words(out, "--contexts", "32,16", "--json"))
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert report == json.loads((out / "summary.json").read_text())
    assert [rung["context_len"] for rung in report["rungs"]] == [16, 32]
    for rung in report["rungs"]:
        assert [arm["num_windows"] for arm in rung["arms"]] == [2, 2]
        assert rung["wall_s"].keys() == {"plain", "rejection@ngram:2"}
        assert {arm["mean_output_tokens"] for arm in rung["arms"]} == {4}
    short, long = (rung["arms"][0] for rung in report["rungs"])
    assert 0 < short["kv_bytes"] <= long["kv_bytes"] <= long["kv_cache_bytes"]

    more = ("--contexts", "16,32", "--kv-caches", "16bit,u8", "--rounds", "2", "--quiet")
    outcome = on_tiny(*ladder_words(out, *more))
    assert outcome.code == 0 and "x 16bit" in outcome.out, outcome.err
    report = json.loads((out / "summary.json").read_text())
    assert [(one["kv_cache"], one["context_len"]) for one in report["rungs"]] == [
        ("16bit", 16),
        ("16bit", 32),
        ("u8", 16),
        ("u8", 32),
    ]
    assert set(report["rungs"][0]["decode_x_16bit"].values()) == {None}
    assert report["rungs"][3]["decode_x_16bit"]["plain"]["value"] > 0
    folders = sorted(path.name for path in out.iterdir() if path.is_dir())
    assert folders == ["16bit-000016", "16bit-000032", "u8-000016", "u8-000032"]
    assert {num_windows(out / name) for name in folders} == {2 * 2 * 2}
    made = on_tiny("bench", "report", str(out))
    assert made.code == 0, made.err
    page = (out / "report" / "report.html").read_text()
    assert (out / "report" / "decode-by-context.svg").read_text() in page
    outcome = on_tiny("bench", "compare", str(out / folders[0]), str(out / folders[2]))
    assert outcome.code == 0 and "backend.kv_cache: 16bit -> u8" in outcome.out

    outcome = on_tiny("bench", "compare", str(out), str(out))
    assert outcome.code == 2 and "holds a ladder; name one of the folders" in outcome.err

    outcome = on_tiny(*ladder_words(out, "--contexts", "16", "--temperature", "0.5"))
    assert outcome.code == 2 and "sampling.temperature was 1.0 and is 0.5" in outcome.err


def test_ctrl_c_on_a_ladder_keeps_whole_blocks_and_goes_on(on_tiny, monkeypatch):
    out, real = on_tiny.folder / "ladder", interleaved.measure

    def interrupted(*args, **kwargs):
        for index, window in enumerate(real(*args, **kwargs)):
            yield window
            if index == 2 and window.prompt_tokens == 28:
                raise KeyboardInterrupt

    monkeypatch.setattr("leeway.cli.bench_ladder_run.measure", interrupted)
    words_of_it = ladder_words(out, "--contexts", "16,32", "--json")
    outcome = on_tiny(*words_of_it)
    assert outcome.code == 130 and "interrupted; the same command goes on" in outcome.err
    report = json.loads(outcome.out)
    assert report["is_interrupted"]
    counts = [[arm["num_windows"] for arm in rung["arms"]] for rung in report["rungs"]]
    assert counts == [[2, 2], [1, 1]] and num_windows(out / "16bit-000032") == 3
    monkeypatch.setattr("leeway.cli.bench_ladder_run.measure", real)
    before = {path: path.read_bytes() for path in (out / "16bit-000016").glob("*.window.json")}
    report = json.loads(on_tiny(*words_of_it).out)
    counts = [[arm["num_windows"] for arm in rung["arms"]] for rung in report["rungs"]]
    assert counts == [[2, 2], [2, 2]] and not report["is_interrupted"]
    assert all(path.read_bytes() == raw for path, raw in before.items())


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--contexts", "4"], "context 4 leaves no room for a prompt before 4 output tokens"),
        (["--contexts", "16,1M"], "--contexts has '1M'"),
        (["--contexts", "16,100000"], "context 100000 is too long: the model has room for"),
        (["--kv-caches", "u9"], "--kv-caches has 'u9'"),
        (["--kv-caches", "u8,u8"], "gives 'u8' twice"),
        (["--limit", "0"], "--limit 0 is out of range"),
    ],
)
def test_what_is_no_ladder_is_refused(on_tiny, more, says):
    outcome = on_tiny(*ladder_words(on_tiny.folder / "ladder", *more))
    assert outcome.code == 2 and says in outcome.err, outcome.err
    assert not list(on_tiny.folder.glob("ladder/*/*.window.json"))


def test_two_runs_are_compared(on_tiny, prompts):
    first, second = on_tiny.folder / "first", on_tiny.folder / "second"
    assert on_tiny(*words(prompts, first)).code == 0
    assert on_tiny(*words(prompts, second, "--kv-cache", "u8", "--limit", "1")).code == 0
    outcome = on_tiny("bench", "compare", str(first / "summary.json"), str(second))
    assert outcome.code == 0, outcome.err
    assert "2 requests, 2 windows of each; 2 without a partner" in outcome.out
    assert "backend.kv_cache: 16bit -> u8" in outcome.out
    report = json.loads(on_tiny("bench", "compare", str(first), str(first), "--json").out)
    assert report["differences"] == [] and len(report["arms"]) == 3
    for arm in report["arms"]:
        assert arm["ratios"]["decode_tokens_per_s"]["value"] == 1
        assert arm["num_same_answers"] == arm["num_requests"] == 4

    other = on_tiny.folder / "other"
    assert on_tiny(*words(prompts, other, "--temperature", "0.5")).code == 0
    outcome = on_tiny("bench", "compare", str(first), str(other))
    assert outcome.code == 2 and "differs in temperature (1.0, 0.5)" in outcome.err
    (on_tiny.folder / "alone.json").write_text("{}")
    outcome = on_tiny("bench", "compare", str(first), str(on_tiny.folder / "alone.json"))
    assert outcome.code == 2 and "a summary alone does not hold the requests" in outcome.err


def test_a_folder_that_is_none_or_holds_nothing(on_tiny, prompts):
    file = on_tiny.folder / "file"
    file.touch()
    outcome = on_tiny(*words(prompts, file))
    assert outcome.code == 2 and "is a file; name a folder" in outcome.err
    outcome = on_tiny("bench", "report", str(on_tiny.folder))
    assert outcome.code == 2 and "holds no windows" in outcome.err
