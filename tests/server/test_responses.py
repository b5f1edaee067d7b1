"""POST /v1/responses, by hand and by the official client."""

import openai
import pytest

from leeway.core.errors import BackendError
from tests.server.conftest import client_of, events, live_server
from tests.server.fake_service import REPLY, FakeService

PATH = "/v1/responses"
MODEL = "scripted-model"
EVENTS = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    *["response.output_text.delta"] * 4,
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


def ask(client, **fields):
    response = client.post(PATH, json={"input": "Hi", **fields})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_whole_response(client):
    answer = ask(client, seed=7, metadata={"a": "b"})
    assert answer["id"].startswith("resp_") and answer["object"] == "response"
    assert (answer["status"], answer["error"], answer["store"]) == ("completed", None, False)
    (item,) = answer["output"]
    assert item["id"].startswith("msg_") and item["role"] == "assistant"
    assert item["content"] == [
        {"type": "output_text", "text": REPLY, "annotations": [], "logprobs": []}
    ]
    prompt_len = len("user: Hi\nassistant: ")
    assert answer["usage"]["input_tokens"] == prompt_len
    assert answer["usage"]["output_tokens"] == 13
    assert answer["usage"]["total_tokens"] == prompt_len + 13
    assert answer["metadata"] == {"a": "b"}
    assert answer["metrics"]["speculative_decoding"]["seed"] == 7


def test_instructions_and_messages_become_the_prompt(client, service):
    given = [
        {"role": "user", "content": "one"},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "two", "annotations": [], "logprobs": []}],
        },
        {"role": "developer", "content": [{"type": "input_text", "text": "three"}]},
    ]
    ask(client, input=given, instructions="be brief")
    prompt = bytes(service.requests[0].prompt_token_ids).decode()
    assert prompt == "system: be brief\nuser: one\nassistant: two\nsystem: three\nassistant: "


def test_an_answer_that_is_cut_is_incomplete(client):
    answer = ask(client, max_output_tokens=5)
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["output"][0]["content"][0]["text"] == "Hello"


def test_events_of_a_stream(client):
    response = client.post(PATH, json={"input": "Hi", "stream": True, "seed": 7})
    found = events(response.text)
    assert [name for name, _ in found] == EVENTS
    assert [data["sequence_number"] for _, data in found] == list(range(len(EVENTS)))
    assert all(data["type"] == name for name, data in found)
    assert "".join(data["delta"] for name, data in found if name.endswith("text.delta")) == REPLY
    last = found[-1][1]["response"]
    whole = ask(client, seed=7)
    same = set(whole) - {"id", "created_at", "output"}
    assert {name: last[name] for name in same} == {name: whole[name] for name in same}
    assert last["output"][0]["content"] == whole["output"][0]["content"]
    assert response.headers["x-leeway-seed"] == "7"


def test_logprobs_where_included(client):
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    part = ask(client, **fields)["output"][0]["content"][0]
    assert len(part["logprobs"]) == 13 and len(part["logprobs"][0]["top_logprobs"]) == 1
    found = events(client.post(PATH, json={"input": "Hi", "stream": True, **fields}).text)
    streamed = [
        entry
        for name, data in found
        if name == "response.output_text.delta"
        for entry in data["logprobs"]
    ]
    assert streamed == part["logprobs"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "name": "f"}]}, "tools"),
        ({"reasoning": {"effort": "high"}}, "reasoning"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options.include_usage"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].type",
        ),
        ({"made_up": 1}, "made_up"),
    ],
)
def test_t20_refused_by_name(client, fields, param):
    response = client.post(PATH, json={"input": "Hi", **fields})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_a_failure_in_the_middle_ends_with_an_error_event(service):
    service.fail_after, service.failure = 2, BackendError("logits are not finite")
    text = client_of(service).post(PATH, json={"input": "Hi", "stream": True}).text
    name, data = events(text)[-1]
    assert name == "error" and data["code"] == "backend_error"
    assert data["message"] == "logits are not finite" and "completed" not in text


@pytest.fixture(scope="module")
def live():
    service = FakeService()
    with live_server(service, allow_laws=("all",)) as url:
        yield url, service


@pytest.fixture
def official(live):
    live[1].fail_after = None
    with openai.OpenAI(base_url=live[0] + "/v1", api_key="any", max_retries=0) as client:
        yield client


def test_official_client(official):
    answer = official.responses.create(model=MODEL, input="Hi", instructions="brief")
    assert answer.output_text == REPLY and answer.usage.output_tokens == 13
    assert answer.model_extra["metrics"]["speculative_decoding"]["law"] == "rejection"


def test_official_client_streams(official):
    stream = official.responses.create(model=MODEL, input="Hi", stream=True)
    found = list(stream)
    assert [event.type for event in found] == EVENTS
    assert found[-1].response.output_text == REPLY
    with official.responses.stream(model=MODEL, input="Hi") as helper:
        assert helper.get_final_response().output_text == REPLY


def test_official_client_raises_errors(official, live):
    with pytest.raises(openai.BadRequestError) as caught:
        official.responses.create(model=MODEL, input="Hi", previous_response_id="resp_1")
    assert caught.value.param == "previous_response_id"
    live[1].fail_after = 2
    with pytest.raises(openai.APIError, match="not finite"):
        list(official.responses.create(model=MODEL, input="Hi", stream=True))
