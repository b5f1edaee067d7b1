"""Streams read by a clock that moves only when told, and whatever can go wrong in them."""

import http.client
import json

import pytest
from tests.support.bench_arms import FakeClock
from tests.support.openai_server import DONE, answer, chat_chunk, chunk, event, fake_server, usage

from leeway.bench.http_stream import ask, check_url, get_json, read_stream
from leeway.core.errors import ConfigError


def read(*pieces):
    """Read a stream whose numbers are seconds that pass; an exception is raised in its place."""
    clock = FakeClock()
    clock.now = 100.0

    def lines():
        for piece in pieces:
            if isinstance(piece, float):
                clock.now += piece
            elif isinstance(piece, Exception):
                raise piece
            else:
                yield from piece.splitlines(keepends=True)

    return read_stream(lines(), 100.0, clock)


def test_every_time_is_that_of_the_chunk():
    timings = {"draft_n": 8, "draft_n_accepted": 5}
    got = read(
        2.0,
        chunk(""),  # a chunk without text is no first token
        1.0,
        chunk("a"),
        0.5,
        b": still alive\n\n",
        0.5,
        chunk("bc"),
        0.25,
        chunk("d"),
        0.25,
        chunk("", "length"),
        4.0,
        usage(7, 5, timings=timings),
        DONE,
    )
    assert got.error is None and got.text == "abcd" and got.finish_reason == "length"
    assert got.chunk_s == (3.0, 4.0, 4.25) and got.gaps_s == (1.0, 0.25)
    assert (got.ttft_s, got.end_s, got.decode_s) == (3.0, 4.5, 1.5)
    assert (got.count("prompt_tokens"), got.count("completion_tokens")) == (7, 5)
    assert got.own == {"timings": timings}


def test_a_conversations_text_is_read_too():
    got = read(chat_chunk(""), 1.0, chat_chunk("a"), chat_chunk("", "stop"), DONE)
    assert (got.text, got.ttft_s, got.finish_reason) == ("a", 1.0, "stop")
    assert got.usage is None and got.count("completion_tokens") is None


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ((), "ended without a finish reason or [DONE]"),
        ((DONE,), "ended without a finish reason"),
        ((event({"error": {"message": "out of memory"}}),), "mid-stream: out of memory"),
        ((ConnectionResetError("gone"),), "mid-stream: ConnectionResetError: gone"),
        ((http.client.IncompleteRead(b""),), "mid-stream: IncompleteRead"),
        ((TimeoutError(),), "mid-stream: the server was silent for too long"),
        ((b"data: {broken\n",), "mid-stream: not an event of a completion"),
        ((b"data: [1]\n",), "mid-stream: not an event of a completion"),
        ((event({"choices": "none"}),), "mid-stream: not an event of a completion"),
    ],
)
def test_what_goes_wrong_keeps_what_had_arrived(pieces, says):
    got = read(1.0, chunk("a"), 2.0, *pieces)
    assert says in got.error
    assert got.text == "a" and got.chunk_s == (1.0,)


@pytest.mark.parametrize("count", [-1, "5", 2.5, None])
def test_a_usage_that_is_no_count_is_none(count):
    assert read(chunk("a", "stop"), usage(1, count)).count("completion_tokens") is None


def post(server, **more):
    body = json.dumps({"stream": True, "prompt": [1]}).encode()
    return ask(server.url + "/completions", body, **more)


def test_chunks_are_read_as_they_arrive():
    delays = [0.02, chunk("a"), 0.03, chunk("b"), chunk("", "stop"), usage(1, 2), DONE]
    with fake_server(lambda _: (200, delays)) as server:
        got = post(server)
        assert get_json(server.url + "/models", 5) == {"data": [{"id": "tiny"}]}
    assert got.error is None and got.text == "ab" and got.status == 200
    assert got.ttft_s >= 0.02 and got.gaps_s[0] > 0 and got.end_s >= 0.05
    assert server.bodies == [("/v1/completions", {"stream": True, "prompt": [1]})]


@pytest.mark.parametrize(
    ("status", "script", "says"),
    [
        (503, [b'{"error": {"message": "loading"}}'], "HTTP 503: loading"),
        (500, [b"<html>"], "HTTP 500: <html>"),
        (400, [b""], "HTTP 400: no reason given"),
        (200, [chunk("a"), None], "ended without a finish reason or [DONE]"),
        (200, [chunk("a")], "ended without a finish reason"),
    ],
)
def test_a_servers_failure_is_an_answer(status, script, says):
    script = [piece for piece in script if piece != b""]
    with fake_server(lambda _: (status, script)) as server:
        got = post(server)
    assert says in got.error and got.status == status


def test_a_silent_server_is_given_up_on():
    with fake_server(lambda _: (200, [chunk("a"), 0.3, *answer("b")])) as server:
        got = post(server, timeout_s=0.05)
    assert got.error == "mid-stream: the server was silent for too long" and got.text == "a"


def test_no_server_is_an_answer_too():
    with fake_server(lambda _: (200, [])) as server:
        url = server.url
    assert "ConnectionRefusedError" in ask(url + "/completions", b"{}").error
    with pytest.raises(OSError, match="refused"):
        get_json(url + "/models", 5)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1"),
        ("http://[::1]:80", "http://[::1]:80/v1"),
        ("https://host/api", "https://host/api"),
    ],
)
def test_base_urls(url, base):
    assert check_url(url, "it") == base


@pytest.mark.parametrize(
    "url",
    ["", "host:80", "ftp://host", "http://", "http://h:x/v1", "http://a:b@h/v1", "http://h/?a"],
)
def test_what_is_no_base_url_is_refused(url):
    with pytest.raises(ConfigError, match="it has the URL"):
        check_url(url, "it")
