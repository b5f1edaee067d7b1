"""POST /v1/messages and /v1/messages/count_tokens, by hand and by the official client."""

import anthropic
import pytest

from leeway.backends.tabular import random_table
from leeway.core.errors import BackendError
from tests.server.conftest import client_of, events, live_server, table_client
from tests.server.fake_service import REPLY, FakeService
from tests.support.tabular_engine import make_engine

PATH, COUNT = "/v1/messages", "/v1/messages/count_tokens"
MODEL = "scripted-model"
MESSAGES = [{"role": "user", "content": "Hi"}]
LEAST = {"messages": MESSAGES, "max_tokens": 50}


def ask(client, **fields):
    response = client.post(PATH, json={**LEAST, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_whole_message(client):
    answer = ask(client, seed=7)
    assert answer["id"].startswith("msg_")
    assert (answer["type"], answer["role"], answer["model"]) == ("message", "assistant", MODEL)
    assert answer["content"] == [{"type": "text", "text": REPLY}]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    assert answer["usage"]["input_tokens"] == len("user: Hi\nassistant: ")
    assert answer["usage"]["output_tokens"] == 13
    assert answer["metrics"]["speculative_decoding"]["seed"] == 7


def test_system_and_blocks_become_the_prompt(client, service):
    block = {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}
    ask(
        client,
        system=[{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}],
        messages=[
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": "three"},
        ],
    )
    prompt = bytes(service.requests[0].prompt_token_ids).decode()
    assert prompt == "system: be\nbrief\nuser: one\nassistant: two\nuser: three\nassistant: "


def test_the_limit_is_a_reason(client):
    answer = ask(client, max_tokens=5)
    assert answer["stop_reason"] == "max_tokens" and answer["content"][0]["text"] == "Hello"


def test_events_of_a_stream(client):
    response = client.post(PATH, json={**LEAST, "stream": True, "seed": 7})
    found = events(response.text)
    assert [name for name, _ in found] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 4,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(data["type"] == name for name, data in found)
    start, end = found[0][1]["message"], found[-2][1]
    assert start["content"] == [] and start["stop_reason"] is None
    assert start["usage"]["output_tokens"] == 0
    whole = ask(client, seed=7)
    assert end["usage"] == whole["usage"] and end["metrics"] == whole["metrics"]
    assert end["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert response.headers["x-leeway-law"] == "rejection"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_t05_the_stop_sequence_that_ended_it_is_named(is_streamed):
    def load():
        return make_engine(random_table(4, 1, seed=1), drafter="ngram", context_len=60)

    body = {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 40, "seed": 1}
    with table_client(load) as client:
        whole = client.post(PATH, json=body).json()["content"][0]["text"]
        stop = whole[7:9]
        body |= {"stop_sequences": ["zz", stop], "stream": is_streamed}
        response = client.post(PATH, json=body)
        if is_streamed:
            found = events(response.text)
            text = "".join(one["delta"]["text"] for name, one in found if "block_delta" in name)
            end = found[-2][1]["delta"]
        else:
            end = response.json()
            text = end["content"][0]["text"]
    assert text == whole[: whole.index(stop)]
    assert (end["stop_reason"], end["stop_sequence"]) == ("stop_sequence", stop)


def test_count_tokens_is_the_prompts_length(client, service):
    count = client.post(COUNT, json={"messages": MESSAGES, "system": "be brief"})
    ask(client, system="be brief")
    assert count.json() == {"input_tokens": len(service.requests[0].prompt_token_ids)}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tokens": None}, "missing required field max_tokens"),
        ({"max_tokens": -1}, "max_tokens is -1; allowed: 0"),
        ({"tools": [{"name": "x"}]}, "tools[0]: object missing required field input_schema"),
        ({"tools": [{"name": "x", "input_schema": {}}]}, "tools are not supported by the chat"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking is not supported"),
        ({"messages": []}, "messages is empty"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role is 'tool'"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "messages[0].content[0].type is 'image'",
        ),
        ({"stop_sequences": [""]}, "stop_sequences is ''"),
        ({"system": [{"type": "text"}]}, "system[0]: object missing required field text"),
        ({"made_up": 1}, "unknown field 'made_up'"),
    ],
)
def test_t20_refused_by_name_in_their_own_shape(client, fields, message):
    response = client.post(PATH, json={**LEAST, **fields})
    assert response.status_code == 400
    body = response.json()
    assert set(body) == {"type", "error", "request_id"} and body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert message in body["error"]["message"]
    assert body["request_id"] == response.headers["request-id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("fields", "status", "kind"),
    [
        ({"model": "other"}, 404, "not_found_error"),
        ({"speculative": {"law": "typical", "delta": 0.3}}, 403, "permission_error"),
    ],
)
def test_each_status_has_its_type(client, fields, status, kind):
    response = client.post(PATH, json={**LEAST, **fields})
    assert (response.status_code, response.json()["error"]["type"]) == (status, kind)


def test_other_errors_keep_the_shape_too(service):
    client = client_of(service, api_key="right")
    response = client.post(PATH, json=LEAST, headers={"x-api-key": "wrong"})
    assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")
    headers = {"x-api-key": "right"}
    assert client.post(PATH, json=LEAST, headers=headers).status_code == 200
    assert client.get(PATH, headers=headers).json()["type"] == "error"
    service.fail_after, service.failure = 0, ZeroDivisionError("SECRET")
    response = client.post(PATH, json=LEAST, headers=headers)
    assert (response.status_code, response.json()["error"]["type"]) == (500, "api_error")
    assert "SECRET" not in response.text


def test_a_failure_in_the_middle_ends_with_an_error_event(service):
    service.fail_after, service.failure = 2, BackendError("logits are not finite")
    found = events(client_of(service).post(PATH, json={**LEAST, "stream": True}).text)
    name, data = found[-1]
    assert name == "error"
    assert data["error"] == {"type": "api_error", "message": "logits are not finite"}


@pytest.fixture(scope="module")
def live():
    service = FakeService()
    with live_server(service, allow_laws=("all",)) as url:
        yield url, service


@pytest.fixture
def official(live):
    live[1].fail_after = None
    with anthropic.Anthropic(base_url=live[0], api_key="any", max_retries=0) as client:
        yield client


def test_official_client(official):
    answer = official.messages.create(
        model=MODEL, messages=MESSAGES, max_tokens=50, extra_body={"seed": 3}
    )
    assert answer.content[0].text == REPLY and answer.stop_reason == "end_turn"
    assert answer.model_extra["metrics"]["speculative_decoding"]["seed"] == 3
    assert answer._request_id


def test_official_client_streams(official):
    with official.messages.stream(model=MODEL, messages=MESSAGES, max_tokens=50) as stream:
        assert "".join(stream.text_stream) == REPLY
        final = stream.get_final_message()
    assert final.usage.output_tokens == 13 and final.stop_reason == "end_turn"


def test_official_client_counts(official):
    count = official.messages.count_tokens(model=MODEL, messages=MESSAGES, system="x")
    assert count.input_tokens == len("system: x\nuser: Hi\nassistant: ")


def test_official_client_raises_errors(official, live):
    with pytest.raises(anthropic.BadRequestError, match="missing required field input_schema"):
        official.messages.create(
            model=MODEL, messages=MESSAGES, max_tokens=5, extra_body={"tools": [{"name": "x"}]}
        )
    with pytest.raises(anthropic.NotFoundError):
        official.messages.create(model="other", messages=MESSAGES, max_tokens=5)
    live[1].fail_after = 2
    with (
        pytest.raises(anthropic.APIStatusError, match="not finite"),
        official.messages.stream(model=MODEL, messages=MESSAGES, max_tokens=50) as stream,
    ):
        list(stream)
