"""What clients see of a full queue, of time limits, of the prefix cache and of draining."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import openai
import pytest

from leeway.backends.tabular import random_table
from leeway.core.config import ServerConfig
from leeway.engine.service import EngineService
from leeway.server.app import create_app
from tests.server.conftest import frames, live_server, local_client, wait_until_ready
from tests.server.test_operations import samples, total_of
from tests.support.tabular_engine import make_engine

TABLE = random_table(5, 1, seed=1)
BODY = {"prompt": "a", "max_tokens": 30, "seed": 1}


class Held:
    """A service whose engine takes a permit for every step, and whose clock stands still."""

    def __init__(self, **options):
        self.permits = threading.Semaphore(0)
        self.now = 100.0
        self.service = EngineService(self.load, now=lambda: self.now, **options)

    def load(self):
        engine = make_engine(
            TABLE, drafter="ngram", context_len=400, capacity_tokens=4000, max_num_seqs=1
        )
        step = engine.step

        def with_permit():
            self.permits.acquire()
            return step()

        engine.step = with_permit
        return engine


@contextmanager
def serving(held):
    held.service.start()
    app = create_app(held.service, ServerConfig(allow_laws=("all",)))
    with local_client(app, raise_server_exceptions=False) as client, ThreadPoolExecutor(4) as pool:
        wait_until_ready(held.service)
        yield client, pool
        held.permits.release(10_000)
        held.service.stop()
    held.service.engine.parts.backend.check_integrity()


def wait_until(condition):
    for _ in range(5000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("the condition never held")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", BODY),
        ("/v1/completions", {**BODY, "stream": True}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 5}),
    ],
    ids=["whole", "stream", "messages"],
)
def test_a_full_queue_is_429_with_retry_after(path, body):
    held = Held(max_num_waiting=1)
    with serving(held) as (client, pool):
        running = [pool.submit(client.post, "/v1/completions", json=BODY) for _ in range(2)]
        wait_until(lambda: held.service.num_open == 2)
        response = client.post(path, json=body)
        assert response.status_code == 429
        assert response.headers["retry-after"] == "1"
        error = response.json()["error"]
        assert error["type"] == "rate_limit_error"
        assert "2 requests run and wait already" in error["message"]
        held.permits.release(10_000)
        assert [one.result().status_code for one in running] == [200, 200]
        assert client.post("/v1/completions", json=BODY).status_code == 200


def test_an_answer_that_takes_too_long_is_504_or_one_frame():
    held = Held(request_timeout_s=5.0)
    with serving(held) as (client, pool):
        streamed = pool.submit(
            client.post, "/v1/completions", json={**BODY, "max_tokens": 300, "stream": True}
        )
        wait_until(lambda: held.service.num_open == 1)
        whole = pool.submit(client.post, "/v1/completions", json=BODY)
        wait_until(lambda: held.service.num_open == 2)
        held.permits.release(3)
        wait_until(lambda: held.service.engine.status()["kv_reserved_tokens"] > 0)
        held.now += 5.0
        held.permits.release(10_000)
        response = whole.result()
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "request_timeout"
        assert "--request-timeout-s" in response.json()["error"]["message"]
        last = json.loads(frames(streamed.result().text)[-1])
        assert last["error"]["code"] == "request_timeout"
        assert client.post("/v1/completions", json=BODY).status_code == 200


def test_while_it_drains_new_requests_and_readiness_are_503_and_old_ones_finish():
    held = Held()
    with serving(held) as (client, pool):
        running = pool.submit(client.post, "/v1/completions", json=BODY)
        wait_until(lambda: held.service.num_open == 1)
        held.service.drain()
        health = client.get("/health")
        assert health.status_code == 503 and health.json()["status"] == "draining"
        assert health.json()["load"]["num_requests_running"] >= 0
        refused = client.post("/v1/completions", json=BODY)
        assert refused.status_code == 503 and refused.json()["error"]["code"] == "unavailable"
        assert total_of(samples(client), "num_requests_running") >= 0
        held.permits.release(10_000)
        assert running.result().json()["usage"]["completion_tokens"] == 30


def test_t18_usage_reports_cached_tokens_by_every_api():
    service = EngineService(
        lambda: make_engine(TABLE, drafter="ngram", context_len=400, capacity_tokens=4000)
    )
    service.start()
    wait_until_ready(service)
    prompt = "abcdeedcba"
    with (
        live_server(service) as url,
        openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0) as client,
        local_client(create_app(service, ServerConfig())) as http,
    ):

        def cached(**fields):
            usage = client.completions.create(
                model="table", prompt=prompt, max_tokens=3, seed=1, **fields
            ).usage
            return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens

        assert cached() == (10, 0)
        assert cached() == (10, 8)
        assert cached(n=3) == (10, 8)
        chat = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 3}
        usage = http.post("/v1/messages", json=chat).json()["usage"]
        assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (2, 8)
        response = http.post("/v1/responses", json={"input": prompt, "max_output_tokens": 3})
        usage = response.json()["usage"]
        assert usage["input_tokens_details"] == {"cached_tokens": 8}
        metrics = samples(http)
        assert total_of(metrics, "prompt_tokens_cached_total") == 6 * 8
        assert total_of(metrics, "num_preemptions_total") == 0
        service.stop()


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
def test_t22_health_says_whether_prompts_are_shared(prefix_cache):
    service = EngineService(lambda: make_engine(TABLE, prefix_cache=prefix_cache))
    service.start()
    wait_until_ready(service)
    with local_client(create_app(service, ServerConfig())) as client:
        assert client.get("/health").json()["load"]["prefix_cache"] == prefix_cache
        answers = [client.post("/v1/completions", json={**BODY, "prompt": "aaaaa"}) for _ in "ab"]
        details = [answer.json()["usage"]["prompt_tokens_details"] for answer in answers]
        assert details[1] == {"cached_tokens": 4 if prefix_cache == "on" else 0}
        service.stop()
