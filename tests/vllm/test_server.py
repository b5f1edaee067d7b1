"""The HTTP server: laws by request, the ceiling, receipts in /metrics, refusals at start."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from tests.vllm.conftest import MAX_MODEL_LEN, environment

NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "prompt_lookup_max": 3,
    "prompt_lookup_min": 1,
}
START_S = 200


def command(models, port, law, speculative=NGRAM):
    flags = [
        "--model", str(models.target), "--served-model-name", "tiny", "--port", str(port),
        "--max-model-len", str(MAX_MODEL_LEN), "--dtype", "float32", "--enforce-eager",
        "--additional-config", json.dumps({"leeway": law}),
    ]  # fmt: skip
    if speculative is not None:
        flags += ["--speculative-config", json.dumps(speculative)]
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *flags]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def server(models, tmp_path_factory):
    """A server with typical acceptance and a ceiling; gives (address, its log)."""
    port = free_port()
    allowed = ["rejection", "typical", "opt"]
    law = {"law": "typical", "delta": 0.3, "allow_laws": allowed, "meter_every": 1}
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command(models, port, law),
            env=environment(VLLM_LOG_STATS_INTERVAL="1"),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        address = f"http://127.0.0.1:{port}"
        try:
            wait_for(process, address, log)
            yield address, log
        finally:
            process.terminate()
            process.wait(30)


def wait_for(process, address, log):
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-6000:]
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(log.read_text()[-6000:])


def complete(address, seed=3, num_tokens=24, **xargs):
    body = {
        "model": "tiny",
        "prompt": [10, 45, 45, 12, 45, 45, 12, 45],
        "max_tokens": num_tokens,
        "temperature": 0.9,
        "top_k": 5,  # so that something comes again, and n-grams find it
        "seed": seed,
        "ignore_eos": True,
        "vllm_xargs": xargs,
    }
    request = urllib.request.Request(
        f"{address}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def metric(address, name, law):
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith(f"{name}{{") and f'law="{law}"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def test_receipts_by_law_in_metrics_and_log(server):
    address, log = server
    for seed in range(4):
        assert complete(address, seed, 96)[0] == 200
        assert complete(address, seed, 96, leeway_law="rejection")[0] == 200
    time.sleep(3)
    for law in ("typical", "rejection"):
        decided = metric(address, "leeway_positions_decided_total", law)
        accepted = metric(address, "leeway_accepted_total", law)
        assert accepted + metric(address, "leeway_resampled_total", law) == decided > 0
        assert metric(address, "leeway_engaged", law) == 1
        assert f"[leeway] law={law} " in log.read_text()
    assert metric(address, "leeway_loss_total_variation_total", "typical") > 0
    assert metric(address, "leeway_loss_total_variation_total", "rejection") == 0


@pytest.mark.parametrize(
    ("xargs", "message"),
    [
        ({"leeway_law": "typcal"}, "did you mean 'typical'"),
        ({"leeway_law": "lenient", "leeway_leniency": 0.5}, "may not be chosen"),
        ({"leeway_delta": -1}, "'delta' is -1"),
        ({"leeway_dleta": 0.1}, "did you mean 'leeway_delta'"),
        ({"leeway_law": "opt", "leeway_alpha": 0.1}, "keeps none"),
    ],
    ids=["law", "ceiling", "range", "knob", "draft rows"],
)
def test_a_bad_law_is_a_bad_request(server, xargs, message):
    status, body = complete(server[0], **xargs)
    assert status == 400
    assert message in json.dumps(body)
    assert complete(server[0])[0] == 200


@pytest.mark.parametrize(
    ("law", "speculative", "message"),
    [
        ({"law": "typcal"}, NGRAM, "unknown law 'typcal'"),
        ({"law": "opt", "alpha": 0.1}, NGRAM, "keeps none"),
        ({"law": "typical", "delta": 0.2}, None, "drafts nothing"),
    ],
    ids=["unknown", "draft rows", "no drafts"],
)
def test_what_cannot_work_is_refused_at_start(models, law, speculative, message):
    done = subprocess.run(
        command(models, free_port(), law, speculative),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
