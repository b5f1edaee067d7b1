"""The served loop over tables: real engine, real laws, real drafters; no network, no kernels."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from leeway.backends.tabular import random_table
from leeway.core.config import ServerConfig
from leeway.core.types import Acceptance, Request, SamplingParams
from leeway.engine.service import EngineService
from leeway.server.app import create_app
from tests.server.conftest import frames, local_client, wait_until_ready
from tests.server.test_operations import samples, total_of
from tests.support.tabular_engine import make_engine, run_all, text

TARGET, DRAFT = random_table(5, 1, seed=1), random_table(5, 1, seed=2)
LAWS = (
    ("rejection", {}),
    ("block", {}),
    ("typical", {"delta": 0.4}),
    ("opt", {"alpha": 0.3}),
    ("tokenv3", {"alpha": 0.6}),
    ("tv_budget", {"budget": 0.1}),
)


def fresh_engine(drafter="draft_model", **options):
    settings = {"context_len": 400, "capacity_tokens": 4000, **options}
    return make_engine(TARGET, drafter=drafter, draft_table=DRAFT, **settings)


@pytest.fixture(params=["draft_model", "ngram", "none"])
def drafter(request):
    return request.param


@pytest.fixture
def client(drafter):
    yield from serve(drafter)


@pytest.fixture
def drafted_client():
    yield from serve("draft_model")


def serve(drafter, **options):
    service = EngineService(lambda: fresh_engine(drafter, **options))
    service.start()
    with local_client(create_app(service, ServerConfig(allow_laws=("all",)))) as client:
        wait_until_ready(service)
        yield client
        service.stop()


def ask(client, prompt="a", **fields):
    body = {"prompt": prompt, "max_tokens": 40, **fields}
    response = client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def offline(drafter, prompt, law, options, num_speculative_tokens=None, **sampling):
    ids = tuple(ord(letter) - ord("a") for letter in prompt)
    params = SamplingParams(**{"max_tokens": 40, **sampling})
    request = Request("r", ids, params, Acceptance(law, options), num_speculative_tokens)
    return text(run_all(fresh_engine(drafter), request)["r"])


def usable(law, drafter):
    return law != "opt" or drafter != "ngram"


@pytest.mark.parametrize(("law", "options"), LAWS)
def test_a_seeded_answer_is_the_offline_one_whole_and_streamed(client, drafter, law, options):
    fields = {"seed": 3, "speculative": {"law": law, **options}}
    if not usable(law, drafter):
        response = client.post("/v1/completions", json={"prompt": "a", **fields})
        assert response.status_code == 400 and response.json()["error"]["code"] == "invalid_law"
        return
    expected = offline(drafter, "ab", law, options, seed=3)
    assert ask(client, "ab", **fields)["choices"][0]["text"] == expected
    body = {"prompt": "ab", "max_tokens": 40, "stream": True, **fields}
    chunks = frames(client.post("/v1/completions", json=body).text)[:-1]
    streamed = [msgspec.json.decode(chunk)["choices"][0]["text"] for chunk in chunks]
    assert "".join(streamed) == expected


def test_greedy_answers_are_those_of_plain_decoding(client):
    plain = offline("none", "abc", "greedy_match", {}, temperature=0)
    for speculative in ({}, {"num_speculative_tokens": 0}, {"law": "typical", "delta": 0.4}):
        answer = ask(client, "abc", temperature=0, speculative=speculative)
        assert answer["choices"][0]["text"] == plain


def test_many_at_once_equal_each_alone(drafted_client):
    def one(seed):
        answer = ask(drafted_client, "abcd"[: 1 + seed % 4], seed=seed)
        return answer["choices"][0]["text"]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(one, range(12)))
    expected = [
        offline("draft_model", "abcd"[: 1 + seed % 4], "rejection", {}, seed=seed)
        for seed in range(12)
    ]
    assert together == expected


def test_metrics_equal_the_sums_of_the_receipts(drafted_client):
    receipts = []
    for seed in range(3):
        for law, options in LAWS:
            answer = ask(drafted_client, "ab", seed=seed, speculative={"law": law, **options})
            receipts.append(answer["metrics"]["speculative_decoding"])
    found = samples(drafted_client)
    names = {
        "verify_steps": "verify_steps_total",
        "output_tokens": "generation_tokens_total",
        "drafted": "spec_decode_num_draft_tokens_total",
        "num_spec_steps": "spec_decode_num_drafts_total",
        "positions_decided": "positions_decided_total",
        "accepted": "spec_decode_num_accepted_tokens_total",
        "deferred": "deferred_total",
        "resampled": "resampled_total",
        "bonus": "bonus_total",
        "discarded": "discarded_total",
    }
    for law, _ in LAWS:
        own = [receipt for receipt in receipts if receipt["law"] == law]
        assert len(own) == 3
        for key, name in names.items():
            assert total_of(found, name, law=law) == sum(one[key] for one in own), (law, key)
        loss = sum(one["loss"]["total_variation_mean"] * one["positions_decided"] for one in own)
        assert total_of(found, "loss_total_variation_total", law=law) == pytest.approx(loss)
        assert (loss == pytest.approx(0, abs=1e-12)) == (law in ("rejection", "block"))


def test_a_receipt_of_the_real_loop_satisfies_its_identities(client, drafter):
    answer = ask(client, "ab", seed=1, speculative={"metrics": "detailed"})
    one = answer["metrics"]["speculative_decoding"]
    assert one["accepted"] + one["resampled"] == one["positions_decided"]
    assert one["resampled"] <= one["deferred"] <= one["positions_decided"]
    assert one["output_tokens"] == one["verify_steps"] + one["accepted"] - one["discarded"]
    assert one["output_tokens"] == answer["usage"]["completion_tokens"] == 40
    assert sum(one["acceptance_histogram"]) == one["num_spec_steps"] == len(one["per_step_drafted"])
    assert sum(one["per_step_accepted"]) == one["num_accepted_draft_tokens"]
    assert (one["num_draft_tokens"] > 0) == (drafter != "none")


def test_leaving_frees_the_cache(drafted_client):
    app = drafted_client.app
    service = app.state.server.service
    backend = service.engine.parts.backend

    async def scenario():
        for _ in range(20):
            left = asyncio.Event()
            sent = asyncio.Event()
            incoming = [b'{"prompt": "a", "max_tokens": 390, "stream": true}']

            async def receive(left=left, incoming=incoming):
                if incoming:
                    return {"type": "http.request", "body": incoming.pop(), "more_body": False}
                await left.wait()
                return {"type": "http.disconnect"}

            async def send(message, sent=sent):
                sent.set()

            scope = {
                "type": "http",
                "http_version": "1.1",
                "method": "POST",
                "path": "/v1/completions",
                "raw_path": b"/v1/completions",
                "query_string": b"",
                "headers": [(b"content-type", b"application/json")],
            }
            task = asyncio.create_task(app(scope, receive, send))
            await sent.wait()
            left.set()
            await task
        while service.engine.has_work:
            await asyncio.sleep(0.001)

    asyncio.run(scenario())
    assert backend.num_open() == 0
    assert service.status()["num_requests_running"] == 0
    expected = offline("draft_model", "ab", "rejection", {}, seed=9)
    assert ask(drafted_client, "ab", seed=9)["choices"][0]["text"] == expected


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": "a" * 400}, "context_length_exceeded", "prompt"),
        ({"prompt": "a" * 401}, "context_length_exceeded", "prompt"),
        ({"temperature": -0.1}, "invalid_request_error", "temperature"),
        ({"stop_token_ids": [5]}, "invalid_request_error", "stop_token_ids"),
        ({"speculative": {"law": "typical", "delta": -1}}, "invalid_law", "speculative.delta"),
    ],
)
def test_refusals_of_the_real_engine(drafted_client, fields, code, param):
    response = drafted_client.post("/v1/completions", json={"prompt": "a", **fields})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, code, param)


def test_a_request_that_can_never_fit_the_cache_is_refused_with_the_numbers():
    for client in serve("ngram", capacity_tokens=40):
        response = client.post("/v1/completions", json={"prompt": "a", "max_tokens": 60})
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (400, "kv_capacity_exceeded")
        assert "61" in error["message"] or "64" in error["message"]
        assert "40" in error["message"]
        chat = {"messages": [{"role": "user", "content": "ab"}], "seed": 1}
        answer = client.post("/v1/chat/completions", json=chat).json()
        assert answer["usage"]["completion_tokens"] == 38


def test_only_lossy_requests_write_a_line_and_never_text(drafted_client, caplog):
    prompt = "abcabcabc"  # so long that a request's random id, in hexadecimal, never holds it
    with caplog.at_level("INFO", logger="leeway"):
        ask(drafted_client, prompt)
        assert not [one for one in caplog.records if one.module != "access_log"]
        answers = [
            ask(drafted_client, prompt, speculative=speculative)["choices"][0]["text"]
            for speculative in (
                {"law": "typical", "delta": 0.3},
                {"law": "tokenv3", "alpha": 0.5},
                {"law": "tv_budget", "budget": 0.1},
            )
        ]
    lines = [one.getMessage() for one in caplog.records if one.module != "access_log"]
    assert [line.partition("; ")[0] for line in lines] == [
        "[typical-accept] NOT distribution-exact",
        "[cascade-accept] NOT distribution-exact",
        "[law tv_budget] NOT distribution-exact",
    ]
    written = [one.getMessage() for one in caplog.records]
    assert not any(text in line for text in (*answers, prompt) for line in written)


def test_a_cancelled_lossy_request_writes_its_line_too(caplog):
    engine = fresh_engine()
    law = Acceptance("typical", {"delta": 0.3})
    engine.add(Request("gone", (0,), SamplingParams(max_tokens=40, seed=1), law))
    with caplog.at_level("INFO", logger="leeway"):
        for _ in range(4):
            engine.step()
        engine.cancel("gone")
    assert caplog.text.count("[typical-accept] NOT distribution-exact;") == 1
    assert "request=gone" in caplog.text
