"""`bench load`: a server by URL, one that is started, and what is refused."""

import json
import signal
import threading
from contextlib import contextmanager

import pytest
from tests.support.openai_server import answer, fake_server

from leeway.cli import bench_load_run

QUICK = ("--num-requests", "3", "-n", "2", "--prompts")


@pytest.fixture
def prompts(leeway):
    path = leeway.folder / "prompts.jsonl"
    path.write_text('{"prompt": "one two one two"}\n{"prompt": "three four"}\n')
    return str(path)


def test_a_server_by_its_url(leeway, prompts):
    out = leeway.folder / "load"
    with fake_server(lambda _: (200, answer("a", "b"))) as server:
        words = ("bench", "load", "--url", f"{server.url},body.x=1", *QUICK, prompts)
        outcome = leeway(*words, "--concurrency", "1,2", "--request-rate", "100", "--out", str(out))
        assert outcome.code == 0, outcome.err
        assert len(server.bodies) == 1 + 3 * 3
        outcome = leeway(*words, "--concurrency", "1,2", "--out", str(out), "--json")
    report = json.loads(outcome.out)
    assert [one["load"] for one in report["levels"]] == ["1 client", "2 clients"]
    for one in report["levels"]:
        assert one["num_whole"] == 3 and one["requests_per_s"] > 0
    made = leeway("bench", "report", str(out))
    assert made.code == 0, made.err
    page = (out / "report" / "report.md").read_text()
    assert "| 2 clients | 3 | 0 |" in page and "| 100 requests/s | 3 | 0 |" in page
    assert "bench load --url" in page and "## Arms" not in page
    listed = json.loads((out / "report" / "manifest.json").read_text())["charts"]
    names = {one["file"] for one in listed if one["file"].endswith(".svg")}
    assert names == {"throughput-by-clients.svg", "latency-by-clients.svg"}
    assert {content["x"] for _, content in server.bodies} == {1}
    assert {content["model"] for _, content in server.bodies} == {"tiny"}


def test_tables_and_errors_for_people(leeway, prompts):
    def respond(content):
        return (500, [b'{"error": "busy"}']) if content["seed"] == 2 else (200, answer("a", "b"))

    with fake_server(respond) as server:
        outcome = leeway("bench", "load", "--url", server.url, *QUICK, prompts)
    assert outcome.code == 0, outcome.err
    for expected in ("1 client ", "8 clients", "tokens/s", "! 2 clients: 1 failed: HTTP 500: busy"):
        assert expected in outcome.out


def test_a_server_of_our_own_is_started_and_stopped(on_tiny, prompts):
    words = ("bench", "load", *QUICK, prompts, "--concurrency", "2", "--drafter", "ngram")
    outcome = on_tiny(*words, "--ignore-eos", "--json")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    [one] = report["levels"]
    assert (one["num_whole"], one["errors"]) == (3, {}) and one["tokens_per_s"] > 0
    settings = report["identity"]["server"]["settings"]
    assert (settings["drafter"], settings["prefix_cache"]) == ("ngram", "off")


@pytest.mark.parametrize(("typed", "name"), [((), "off"), (("--prefix-cache", "on"), "on")])
def test_a_server_that_is_started_keeps_no_prompt_unless_told_to(
    leeway, monkeypatch, prompts, typed, name
):
    commands, identities = [], []

    @contextmanager
    def running(_, command, url):
        commands.append(command)
        yield

    def measure(spec, plan, levels, identity, **_):
        identities.append(identity)
        return 0

    monkeypatch.setattr(bench_load_run, "running", running)
    monkeypatch.setattr(bench_load_run, "measure", measure)
    assert leeway("bench", "load", *QUICK, prompts, *typed).code == 0
    assert [one for one in commands[0] if "prefix-cache" in one] == [f"--prefix-cache={name}"]
    assert identities[0]["server"]["settings"]["prefix_cache"] == name


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--url", "host"], "has the URL 'host'"),
        (["--url", "http://127.0.0.1:9/v1"], "does not answer"),
        (["--url", "http://127.0.0.1:9", "--drafter", "ngram"], "--drafter says how to serve"),
        (["--concurrency", "1,x"], "--concurrency holds 'x'"),
        (["--concurrency", "0"], "--concurrency holds '0'"),
        (["--request-rate", "0"], "--request-rate holds '0'"),
        (["--request-rate", "inf"], "--request-rate holds 'inf'"),
        (["--num-requests", "0"], "--num-requests 0 is out of range"),
        (["--law", "typcal"], "unknown law 'typcal'"),
    ],
)
def test_what_cannot_be_done_is_refused(leeway, more, says):
    outcome = leeway("bench", "load", *more)
    assert outcome.code == 2 and says in outcome.err, outcome.err


def test_ctrl_c_shows_the_levels_that_are_whole(leeway, prompts):
    release = threading.Event()
    asked = threading.Semaphore(0)

    def respond(_):
        asked.release()
        if len(server.bodies) > 4:  # behind the first request and the first level
            release.wait(30)
        return 200, answer("a", "b")

    with fake_server(respond) as server:
        words = ("bench", "load", "--url", server.url, *QUICK, prompts, "--concurrency", "1,2")
        with leeway.start(*words, "--json") as process:
            for _ in range(5):
                assert asked.acquire(timeout=60)
            process.send_signal(signal.SIGINT)
            release.set()
            text, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted: levels that are not whole are left out" in err
    assert json.loads(text)["levels"][0]["num_whole"] == 3
