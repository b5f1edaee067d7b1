"""Streams: the exact frames, keep-alive, failure in the middle, several at once."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest

from leeway.core.config import ServerConfig
from leeway.core.errors import BackendError
from leeway.server.app import create_app
from tests.server.conftest import CHAT, client_of, frames
from tests.server.fake_service import REPLY

GOLDEN = Path(__file__).parent / "golden"
CHAT_TRANSCRIPT = (GOLDEN / "chat_stream.txt").read_text(encoding="utf-8")
COMPLETION_TRANSCRIPT = (GOLDEN / "completion_stream.txt").read_text(encoding="utf-8")
HEAD = re.compile(
    r'"id":"(chatcmpl|cmpl)-[0-9a-f]{32}","object":"(chat\.completion\.chunk|text_completion)",'
    r'"created":\d+,"model":"scripted-model","system_fingerprint":"fp_[0-9a-f]{12}"'
)


def stream(client, **fields):
    return client.post("/v1/chat/completions", json={**CHAT, "stream": True, **fields})


def test_golden_transcript_of_a_chat(client):
    response = stream(client)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert HEAD.sub("HEAD", response.text) == CHAT_TRANSCRIPT
    assert len(set(re.findall("chatcmpl-[0-9a-f]+", response.text))) == 1


def test_golden_transcript_of_a_completion(client):
    body = {"prompt": "ab", "stream": True, "max_tokens": 5}
    response = client.post("/v1/completions", json=body)
    assert HEAD.sub("HEAD", response.text) == COMPLETION_TRANSCRIPT


def test_usage_and_metrics_ride_the_last_chunk(client):
    text = stream(client, stream_options={"include_usage": True}, seed=7).text
    *data, usage, done = frames(text)
    assert done == "[DONE]"
    for frame in data:
        chunk = msgspec.json.decode(frame)
        assert chunk["usage"] is None and len(chunk["choices"]) == 1 and "metrics" not in chunk
    last = msgspec.json.decode(usage)
    assert last["choices"] == []
    whole = client.post("/v1/chat/completions", json={**CHAT, "seed": 7}).json()
    assert last["usage"] == whole["usage"]
    assert last["metrics"] == whole["metrics"]


def test_detailed_metrics_say_where_each_token_came_from(client):
    chunks = [msgspec.json.decode(one) for one in frames(stream(client).text)[:-1]]
    assert not any("provenance" in chunk["choices"][0] for chunk in chunks)
    text = stream(client, speculative={"metrics": "detailed"}).text
    choices = [msgspec.json.decode(one)["choices"][0] for one in frames(text)[:-1]]
    told = [choice for choice in choices if "provenance" in choice]
    assert [choice for choice in choices if choice["delta"].get("content")] == told
    for choice in told:
        assert "".join(one["text"] for one in choice["provenance"]) == choice["delta"]["content"]
    pieces = [(one["text"], one["from"]) for choice in told for one in choice["provenance"]]
    # Blocks of 1, 4, 4, 4 bytes; ö has two, of which the second completes it.
    marks = ["recovered", *(["accepted"] * 3 + ["recovered"]) * 3]
    shown = [(char, mark) for char, mark in zip("Hello, w\0örld", marks, strict=True)]
    assert pieces == [one for one in shown if one[0] != "\0"]


@pytest.mark.parametrize("options", [{"include_usage": False}, {"include_obfuscation": True}, {}])
def test_no_usage_unless_asked_for(client, options):
    text = stream(client, stream_options=options).text
    assert HEAD.sub("HEAD", text) == CHAT_TRANSCRIPT


def test_stream_options_need_a_stream(client):
    response = client.post("/v1/chat/completions", json={**CHAT, "stream_options": {}})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "stream_options"


def test_t14_joined_deltas_equal_the_whole_answer(client):
    contents = [
        msgspec.json.decode(frame)["choices"][0]["delta"].get("content", "")
        for frame in frames(stream(client).text)[:-1]
    ]
    assert "".join(contents) == REPLY


def test_refused_before_the_first_token_is_a_status_not_a_stream(client):
    response = stream(client, temperature=-1)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["param"] == "temperature"


def test_failure_before_the_first_token_is_a_status(client, service):
    service.fail_after = 0
    response = stream(client)
    assert response.status_code == 500
    assert response.json()["error"] == {
        "message": "logits are not finite",
        "type": "server_error",
        "param": None,
        "code": "backend_error",
    }


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (BackendError("logits are not finite"), "backend_error", "logits are not finite"),
        (ZeroDivisionError("SECRET"), "internal_error", "internal error; the server's log"),
    ],
)
def test_failure_in_the_middle_is_one_frame_without_done(service, failure, code, message, caplog):
    service.fail_after, service.failure = 2, failure
    text = stream(client_of(service)).text
    *before, last = frames(text)
    assert len(before) == 3
    error = msgspec.json.decode(last)["error"]
    assert (error["code"], error["type"]) == (code, "server_error")
    assert error["message"].startswith(message)
    assert "[DONE]" not in text
    assert ("SECRET" in caplog.text) == (code == "internal_error")


def test_silence_is_bridged_by_comments(service):
    real = service.stream

    async def slow(request):
        async for delta in real(request):
            await asyncio.sleep(0.05)
            yield delta

    service.stream = slow
    text = stream(client_of(service, keep_alive_s=0.01)).text
    assert text.startswith("data: {")  # the role comes first, also when the engine is silent
    assert ": keep-alive\n\n" in text
    assert HEAD.sub("HEAD", text.replace(": keep-alive\n\n", "")) == CHAT_TRANSCRIPT


class Exchange:
    """One ASGI call, driven by hand: frames as they are sent, and the moment the client leaves."""

    def __init__(self, app, body, path="/v1/chat/completions"):
        self.sent = asyncio.Queue()
        self.left = asyncio.Event()
        self._incoming = [msgspec.json.encode(body)]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self):
        if self._incoming:
            return {"type": "http.request", "body": self._incoming.pop(), "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.sent.put_nowait(message)

    async def chunk(self):
        """Return the next content that is streamed."""
        while True:
            message = await asyncio.wait_for(self.sent.get(), 5)
            if message["type"] != "http.response.body" or not message["body"].startswith(
                b"data: {"
            ):
                continue
            choice = msgspec.json.decode(message["body"].split(b"\n\n")[0][6:])["choices"][0]
            if choice["delta"].get("content"):
                return choice["delta"]["content"]


def app_of(service, **options):
    return create_app(service, ServerConfig(engine=service.engine.config), **options)


def body(content, **fields):
    return {"messages": [{"role": "user", "content": content}], "stream": True, **fields}


def test_t17_two_streams_interleave_and_do_not_mix(service):
    service.reply = lambda prompt: "abcdefghi" if "first" in prompt else "ABCDEFGHI"
    gates = {"first": asyncio.Semaphore(0), "second": asyncio.Semaphore(0)}
    service.gate = lambda prompt: gates["first" if "first" in prompt else "second"]

    async def scenario():
        app = app_of(service)
        first, second = Exchange(app, body("first")), Exchange(app, body("second"))
        for begin, end in ((0, 1), (1, 5), (5, 9)):
            gates["first"].release()
            assert await first.chunk() == "abcdefghi"[begin:end]
            gates["second"].release()
            assert await second.chunk() == "ABCDEFGHI"[begin:end]
        await asyncio.wait_for(asyncio.gather(first.task, second.task), 5)

    asyncio.run(scenario())
    assert service.engine.num_running == 0 and len(service.receipts) == 2


def test_t15_leaving_a_stream_cancels_its_request_and_no_other(service):
    gate = asyncio.Semaphore(0)
    service.gate = lambda prompt: gate

    async def scenario():
        app = app_of(service)
        leaver = Exchange(app, body("one"))
        gate.release()
        assert await leaver.chunk() == "H"
        stayer = Exchange(app, body("two"))
        leaver.left.set()
        await asyncio.wait_for(leaver.task, 5)
        assert len(service.closed) == 1
        for _ in range(4):
            gate.release()
        await asyncio.wait_for(stayer.task, 5)

    asyncio.run(scenario())
    assert service.closed == [service.requests[0].request_id]
    assert service.engine.num_running == 0 and len(service.receipts) == 1


@pytest.mark.parametrize("is_streamed", [True, False])
def test_t15_leaving_before_the_first_token_cancels_too(service, is_streamed):
    gate = asyncio.Semaphore(0)
    service.gate = lambda prompt: gate

    async def scenario():
        exchange = Exchange(app_of(service), body("x", stream=is_streamed))
        while not service.engine.num_running:
            await asyncio.sleep(0.001)
        exchange.left.set()
        await asyncio.wait_for(exchange.task, 5)
        assert exchange.sent.empty()

    asyncio.run(scenario())
    assert len(service.closed) == 1 and service.engine.num_running == 0


def test_t15_leaving_cancels_every_prompt_of_a_request(service):
    gate = asyncio.Semaphore(0)
    service.gate = lambda prompt: gate

    async def scenario():
        asked = {"prompt": ["a", "b", "c"], "stream": True}
        exchange = Exchange(app_of(service), asked, "/v1/completions")
        while service.engine.num_running < 3:
            await asyncio.sleep(0.001)
        exchange.left.set()
        await asyncio.wait_for(exchange.task, 5)

    asyncio.run(scenario())
    assert len(service.closed) == 3 and service.engine.num_running == 0
