"""Levels of load: bodies, files, going on, and what must not be mixed."""

import json

import pytest
from tests.support.openai_server import answer, chat_chunk, chunk, fake_server, usage

from leeway.bench.load_run import Level, LoadPlan, body, measure_levels, read_levels, wake
from leeway.bench.url_spec import UrlSpec
from leeway.bench.workload import Source
from leeway.core.errors import ConfigError
from leeway.core.types import SamplingParams

SOURCES = (
    Source("a", "once upon"),
    Source("b", ({"role": "user", "content": "hi"},)),
)
PLAN = LoadPlan(SOURCES, SamplingParams(max_tokens=4, temperature=0.5), num_requests=4, seed=10)
IDENTITY = {"server": {"definition": "it"}} | PLAN.facts()
LEVELS = [Level(num_clients=1), Level(num_clients=2), Level(rate=200.0)]


def respond(content):
    if "messages" in content:
        return 200, [chat_chunk("a"), chat_chunk("", "stop"), usage(2, 1)]
    return 200, answer("a", "b")


def run(server, folder=None, levels=LEVELS, identity=IDENTITY):
    spec = UrlSpec("it", server.url, "tiny")
    return list(measure_levels(spec, PLAN, levels, identity, folder=folder))


def test_request_i_is_source_i_with_its_own_seed():
    spec = UrlSpec("it", "http://h/v1", "m", extra={"cache_prompt": False})
    path, third = body(spec, PLAN, 2)
    assert (path, third["prompt"], third["seed"]) == ("/completions", "once upon", 12)
    path, fourth = body(spec, PLAN, 3)
    assert path == "/chat/completions" and fourth["messages"] == [{"role": "user", "content": "hi"}]
    assert (fourth["model"], fourth["cache_prompt"], fourth["stream"]) == ("m", False, True)
    assert PLAN.facts()["sampling"] == {
        "max_tokens": 4,
        "temperature": 0.5,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
    }


def test_every_level_is_kept_and_not_measured_again(tmp_path):
    with fake_server(respond) as server:
        first = run(server, tmp_path, LEVELS[:2])
        assert len(server.bodies) == 8
        again = run(server, tmp_path)
        assert len(server.bodies) == 12
    assert again[:2] == first
    assert [one.load for one in again] == ["1 client", "2 clients", "200 requests/s"]
    for one in again:
        assert (one.num_whole, one.errors) == (4, {}) and one.tokens_per_s > 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["1-client.level.json", "2-clients.level.json", "200-requests-per-s.level.json"]
    kept = json.loads((tmp_path / "200-requests-per-s.level.json").read_text())
    assert [one["index"] for one in kept["requests"]] == [0, 1, 2, 3]
    assert kept["requests"][0]["due_s"] == 0.0 and kept["level"]["rate"] == 200.0
    seeds = sorted(content["seed"] for _, content in server.bodies[8:])
    assert seeds == [10, 11, 12, 13]


def test_failures_are_kept_with_their_words(tmp_path):
    def broken(content):
        if content["seed"] == 11:
            return 500, [b'{"error": "busy"}']
        return 200, [chunk("a"), None] if content["seed"] == 12 else answer("a", "b")

    with fake_server(broken) as server:
        [one] = run(server, tmp_path, LEVELS[1:2])
    assert (one.num_requests, one.num_whole) == (4, 2)
    assert one.errors == {
        "HTTP 500: busy": 1,
        "the stream ended without a finish reason or [DONE]": 1,
    }
    kept = json.loads((tmp_path / "2-clients.level.json").read_text())
    assert [one["status"] for one in kept["requests"]] == [200, 500, 200, 200]
    with fake_server(lambda _: (500, [b'{"error": "busy"}'])) as server:
        spec = UrlSpec("it", server.url)
        with pytest.raises(ConfigError, match="first request failed: HTTP 500: busy"):
            wake(spec, PLAN)


def test_another_run_is_not_mixed_in(tmp_path):
    with fake_server(respond) as server:
        run(server, tmp_path, LEVELS[:1])
        with pytest.raises(ConfigError, match=r"seed was 10 and is 11; measure into another"):
            run(server, tmp_path, identity=IDENTITY | {"seed": 11})
    (tmp_path / "x.level.json").write_text("{}")
    with pytest.raises(ConfigError, match="is not a level of bench load"):
        read_levels(tmp_path, IDENTITY)
