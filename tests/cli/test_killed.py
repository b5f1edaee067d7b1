"""SIGKILL in the middle of a verb: the same command starts again, and goes on where it can."""

import json
import re
import signal
import time

import httpx2
import pytest
from tests.support.tiny_models import write_tiny_hf_folder

from leeway.bench.server_process import free_port

BODY = {"prompt": "hello world hello", "max_tokens": 200, "seed": 1, "ignore_eos": True}


@pytest.fixture(name="on_deep")
def _on_deep(leeway, deep, monkeypatch):
    """The command line with a tiny model of a long context."""
    monkeypatch.setenv("LEEWAY_MODEL", deep)
    monkeypatch.setenv("LEEWAY_KV_MEMORY", "8MiB")
    return leeway


def kill_when(process, is_time):
    """Kill a process as soon as `is_time`; it must not have ended by itself."""
    while not is_time():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def test_a_killed_server_starts_again_on_its_port(on_deep):
    words = ("serve", "--port", str(free_port()))
    texts = []
    for is_last in (False, True):
        with on_deep.start(*words) as process:
            url = process.stdout.readline().strip()
            assert url.endswith(words[-1])
            answer = httpx2.post(url + "/v1/completions", json=BODY, timeout=60).json()
            texts.append(answer["choices"][0]["text"])
            if is_last:
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=60)
                assert process.returncode == 0, err
                break
            streamed = {**BODY, "max_tokens": 8000, "stream": True}
            with httpx2.stream(
                "POST", url + "/v1/completions", json=streamed, timeout=60
            ) as response:
                lines = response.iter_lines()
                next(lines)
                process.kill()
                with pytest.raises(httpx2.TransportError):
                    list(lines)
    assert texts[0] == texts[1]
    assert {path.name for path in on_deep.folder.iterdir()} <= {"cache", "xdg"}


def test_a_killed_bench_run_goes_on(on_tiny):
    out = on_tiny.folder / "run"
    (on_tiny.folder / "prompts.jsonl").write_text('{"id": "a", "prompt": "one two one two"}\n')
    words = ("bench", "run", "-a", "plain", "-a", "rejection@ngram:2", "--prompts", "prompts.jsonl")
    words += ("-n", "6", "--ignore-eos", "--seeds", "2", "--out", str(out), "--json")

    def windows():
        return {path: path.read_bytes() for path in out.glob("*.window.json")}

    with on_tiny.start(*words, "--rounds", "500") as process:
        kill_when(process, lambda: len(windows()) >= 5)
    kept = windows()
    (out / "a00-plain-p000-s1-r9.window.part").write_bytes(next(iter(kept.values()))[:100])
    (out / "summary.json").write_text('{"arms": [')
    outcome = on_tiny(*words, "--rounds", "2")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert [arm["num_windows"] for arm in report["arms"]] == [4, 4]
    assert report == json.loads((out / "summary.json").read_text())
    first_rounds = [path for path in kept if re.search(r"-s1-r1\.|-s2-r1\.", path.name)]
    assert len(first_rounds) == 4
    assert all(path.read_bytes() == kept[path] for path in first_rounds)


def test_a_killed_quality_run_goes_on(on_deep):
    out, data = on_deep.folder / "run", on_deep.folder / "data"
    data.mkdir()
    tasks = [{"question": f"{one} + {one}?", "answer": f"#### {2 * one}"} for one in (1, 2, 3)]
    (data / "gsm8k_test.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tasks))
    words = ("quality", "run", "--suite", "gsm8k", "-a", "exact=rejection@ngram:2", "-n", "8")
    words += ("--data-dir", str(data), "--out", str(out), "--save-completions", "--json")
    results = out / "results.jsonl"

    def lines():
        return results.read_bytes().splitlines(keepends=True) if results.exists() else []

    with on_deep.start(*words, "--samples", "500") as process:
        kill_when(process, lambda: len(lines()) > 4)
    kept = lines()
    for name in ("results.jsonl", "completions.jsonl"):
        with (out / name).open("ab") as file:
            file.write(kept[0][:50])
    (out / "run.part").write_text("{")
    num_samples = len(kept) // len(tasks) + 1
    outcome = on_deep(*words, "--samples", str(num_samples))
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["arms"][0]["num_answers"] == num_samples * len(tasks)
    whole = [line for line in kept if line.endswith(b"\n")]
    assert lines()[: len(whole)] == whole
    assert len(set(lines())) == len(lines()) == num_samples * len(tasks)


def test_a_killed_training_goes_on(leeway):
    write_tiny_hf_folder(leeway.folder / "tiny", seed=1)
    prompts = leeway.folder / "prompts.jsonl"
    prompts.write_text("".join(f'{{"prompt": "hello number {one}"}}\n' for one in range(30)))
    words = ("heads", "train", "./tiny", "--prompts", str(prompts), "--own-turns", "0")
    words += ("--stdlib", "0", "--answer-positions", "600", "--depth", "1")
    words += ("--draft-vocab", "50", "--work", "work", "--out", "head.safetensors")
    shards, head = leeway.folder / "work", leeway.folder / "head.safetensors"
    for stage in ("answers", "training"):
        with leeway.start(*words, "--positions", "50000000") as process:
            for line in process.stderr:
                if line.startswith(f"{stage}: "):
                    process.kill()
                    break
            process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL
        assert not head.exists()
    answered = {path: path.read_bytes() for path in shards.glob("shard-*/*.npy")}
    assert answered
    (shards / "checkpoint.part").write_bytes(b"half")
    (leeway.folder / f".{head.name}.1.partial").write_bytes(b"half")
    outcome = leeway.run(*words, "--positions", "300")
    assert outcome.code == 0, outcome.err
    assert "answers: " not in outcome.err and "training: " in outcome.err
    assert {path: path.read_bytes() for path in answered} == answered
    assert head.exists() and not (shards / "checkpoint.part").exists()
    words = ("generate", "-m", "./tiny", "--head", str(head), "--kv-memory", "8MiB", "-p", "hello")
    outcome = leeway(*words, "-n", "8", "-s", "1")
    assert outcome.code == 0, outcome.err
