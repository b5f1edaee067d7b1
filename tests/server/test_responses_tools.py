"""Tools of OpenAI's responses: items of text and of calls, whole and streamed alike."""

import json

import openai
import pytest

from tests.server.conftest import client_of, events
from tests.server.fake_service import FakeService
from tests.server.test_tools import ToolTemplate

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD = {"type": "function", "name": "add", "description": "Adds.", "parameters": PARAMETERS}
HALT = {"type": "function", "name": "halt"}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "ü"}}\n</tool_call>'
ARGUMENTS = '{"a": 1, "b": "ü"}'


@pytest.fixture
def service():
    service = FakeService()
    service.engine.parts.chat_template = ToolTemplate()
    return service


@pytest.fixture
def client(service):
    return client_of(service)


def post(client, **fields):
    return client.post("/v1/responses", json={"input": "Add.", "tools": [ADD, HALT], **fields})


def plain(items):
    """Return items as texts and (name, arguments), with their status."""
    return [
        (item["content"][0]["text"], item["status"])
        if item["type"] == "message"
        else (item["name"], item["arguments"], item["status"])
        for item in items
    ]


def streamed(client, **fields):
    """Return the same from a stream's events, which must number, open and close in order."""
    items, is_open = [], False
    found = events(post(client, stream=True, **fields).text)
    assert [data["sequence_number"] for _, data in found] == list(range(len(found)))
    for name, data in found:
        if name == "response.output_item.added":
            assert not is_open and data["output_index"] == len(items)
            items.append({"added": data["item"], "text": ""})
            is_open = True
        elif name.endswith(".delta"):
            assert is_open and data["item_id"] == items[-1]["added"]["id"]
            items[-1]["text"] += data["delta"]
        elif name == "response.function_call_arguments.done":
            assert data["arguments"] == items[-1]["text"]
        elif name == "response.output_text.done":
            assert data["text"] == items[-1]["text"]
        elif name == "response.output_item.done":
            assert is_open and data["item"]["id"] == items[-1]["added"]["id"]
            items[-1]["done"] = data["item"]
            is_open = False
    name, last = found[-1]
    assert not is_open and last["response"]["output"] == [item["done"] for item in items]
    assert name == f"response.{last['response']['status']}"
    return plain(last["response"]["output"])


DONE = ("add", ARGUMENTS, "completed")
REPLIES = {
    "call": (CALL, [DONE]),
    "two": (f"{CALL}\n{CALL}", [DONE, DONE]),
    "around": (
        f"Let me.\n{CALL}\nDone.",
        [("Let me.\n", "completed"), DONE, ("Done.", "completed")],
    ),
    "plain": ("No <tool", [("No <tool", "completed")]),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("num_drafted", [0, 3])
def test_t14_items_are_the_same_whole_and_streamed(service, client, name, num_drafted):
    reply, items = REPLIES[name]
    service.reply = lambda prompt: reply
    fields = {"speculative": {"num_speculative_tokens": num_drafted}}
    response = post(client, **fields).json()
    assert (plain(response["output"]), response["status"]) == (items, "completed")
    assert (response["tools"], response["tool_choice"]) == ([ADD, HALT], "auto")
    assert streamed(client, **fields) == items


def test_a_call_that_the_limit_cuts_is_incomplete(service, client):
    service.reply = lambda prompt: CALL
    items = [("add", ARGUMENTS[:9], "incomplete")]
    assert plain(post(client, max_output_tokens=50).json()["output"]) == items
    assert streamed(client, max_output_tokens=50) == items


def test_the_official_client_reads_calls_and_sends_them_back(service, client):
    service.reply = lambda prompt: CALL
    official = openai.OpenAI(base_url="http://localhost/v1", api_key="x", http_client=client)
    with official.responses.stream(model="scripted-model", input="Add.", tools=[ADD]) as stream:
        response = stream.get_final_response()
    (call,) = response.output
    assert (call.type, call.name, call.arguments) == ("function_call", "add", ARGUMENTS)
    function = {"name": "add", "description": "Adds.", "parameters": PARAMETERS}
    template = service.engine.parts.chat_template
    assert template.shown["tools"] == [{"type": "function", "function": function}]
    history = [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": "Let me."},
        call.model_dump(exclude_none=True, include={"type", "name", "arguments", "call_id", "id"}),
        {"type": "function_call_output", "call_id": call.call_id, "output": "3"},
    ]
    official.responses.create(model="scripted-model", input=history, tools=[ADD])
    called = {"type": "function", "function": {"name": "add", "arguments": json.loads(ARGUMENTS)}}
    assert template.shown["messages"] == [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": "Let me.", "tool_calls": [called]},
        {"role": "tool", "content": "3"},
    ]


@pytest.mark.parametrize(
    ("fields", "names", "between"),
    [
        ({"tool_choice": "required"}, ["add", "halt"], "\n"),
        ({"tool_choice": "required", "parallel_tool_calls": False}, ["add", "halt"], None),
        ({"tool_choice": {"type": "function", "name": "halt"}}, ["halt"], None),
    ],
    ids=["required", "one", "named"],
)
def test_choices_that_hold_the_answer_to_calls(service, client, fields, names, between):
    assert post(client, **fields).status_code == 200
    calls = json.loads(service.requests[-1].grammar.text)
    assert [json.loads(one["begin"][12:] + "{}}")["name"] for one in calls["frames"]] == names
    assert calls["between"] == between


def test_none_leaves_the_tools_out(service, client):
    service.reply = lambda prompt: CALL
    assert plain(post(client, tool_choice="none").json()["output"]) == [(CALL, "completed")]
    assert service.engine.parts.chat_template.shown["tools"] is None


def test_what_agents_want_of_reasoning_that_is_not_there_changes_nothing(service, client):
    service.reply = lambda prompt: CALL
    fields = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
    answer = post(client, client_metadata={"turn": "1"}, **fields).json()
    assert plain(answer["output"]) == [("add", ARGUMENTS, "completed")]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{**ADD, "name": "a b"}]}, "tools[0].name"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"text": {"format": {"type": "json_object"}}}, "tools"),
        (
            {"input": [{"type": "function_call", "name": "f", "arguments": "{"}]},
            "input[0].arguments",
        ),
        ({"input": [{"type": "function_call_output", "output": [{}]}]}, "input[0].output[0].type"),
        ({"input": [{"type": "reasoning"}]}, "input[0].type"),
    ],
)
def test_t20_malformed_tools_are_a_400_that_names_the_place(client, fields, param):
    answer = post(client, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
