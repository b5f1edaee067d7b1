"""The official client against a real server on loopback: the judge of what compatible means."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from tests.server.conftest import live_server
from tests.server.fake_service import REPLY, FakeService

MESSAGES = [{"role": "user", "content": "Hi"}]
MODEL = "scripted-model"


@pytest.fixture(scope="module")
def live():
    service = FakeService()
    with live_server(service, allow_laws=("all",)) as url:
        yield url, service


@pytest.fixture
def service(live):
    service = live[1]
    service.fail_after = None
    service.reply = lambda prompt: REPLY
    return service


@pytest.fixture
def client(live):
    with openai.OpenAI(base_url=live[0] + "/v1", api_key="any", max_retries=0) as client:
        yield client


def test_chat(client):
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0.5, seed=1)
    assert answer.choices[0].message.content == REPLY
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 13
    assert answer.model_extra["metrics"]["speculative_decoding"]["law"] == "rejection"


def test_chat_streamed(client):
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == REPLY
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 13
    speculative = chunks[-1].model_extra["metrics"]["speculative_decoding"]
    assert speculative["num_accepted_draft_tokens"] == 9


def test_stream_helper(client):
    with client.chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
        contents = [event.content for event in stream if event.type == "content.done"]
    assert contents == [REPLY]


def test_completion_whole_and_streamed(client):
    whole = client.completions.create(model=MODEL, prompt="ab", max_tokens=50)
    assert whole.choices[0].text == REPLY
    stream = client.completions.create(model=MODEL, prompt="ab", max_tokens=50, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == REPLY


def test_extra_body_chooses_the_law(client):
    answer = client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        extra_body={"speculative": {"law": "typical", "delta": 0.3}, "top_k": 5},
    )
    speculative = answer.model_extra["metrics"]["speculative_decoding"]
    assert (speculative["law"], speculative["guarantee"]) == ("typical", "none")


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"model": "other"}, openai.NotFoundError, "model"),
        ({"max_tokens": -1}, openai.BadRequestError, "max_tokens"),
        ({"n": 0}, openai.BadRequestError, "n"),
        ({"extra_body": {"foo": 1}}, openai.BadRequestError, "foo"),
    ],
)
def test_errors_become_the_clients_own(client, fields, kind, param):
    with pytest.raises(kind) as caught:
        client.chat.completions.create(**{"model": MODEL, "messages": MESSAGES, **fields})
    assert caught.value.param == param and param in caught.value.body["message"]
    assert caught.value.request_id


def test_a_failure_in_the_middle_is_raised(client, service):
    service.fail_after = 2
    with pytest.raises(openai.APIError, match="logits are not finite"):
        list(client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))


def test_two_streams_at_once(client, service):
    service.reply = lambda prompt: prompt * 3

    def ask(content):
        stream = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": content}], stream=True
        )
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, ("one", "two")))
    assert answers == [f"user: {content}\nassistant: " * 3 for content in ("one", "two")]


def test_closing_a_stream_cancels_the_request(client, service):
    service.reply = lambda prompt: "x" * 100_000
    service.engine.parts.backend.context_len = 200_000
    closed_before = len(service.closed)
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, max_tokens=100_000
    )
    next(iter(stream))
    stream.close()
    deadline = time.monotonic() + 10
    while service.engine.num_running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert service.engine.num_running == 0
    assert len(service.closed) == closed_before + 1


def test_async_client(live):
    async def scenario():
        async with openai.AsyncOpenAI(base_url=live[0] + "/v1", api_key="any") as client:
            ask = client.chat.completions.create(model=MODEL, messages=MESSAGES)
            return (await ask).choices[0].message.content

    live[1].reply = lambda prompt: REPLY
    assert asyncio.run(scenario()) == REPLY
