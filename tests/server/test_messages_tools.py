"""Tools of Anthropic's messages: blocks of text and of calls, whole and streamed alike."""

import json

import anthropic
import pytest

from tests.server.conftest import client_of, events, live_server
from tests.server.fake_service import FakeService
from tests.server.test_tools import ToolTemplate

ADD = {
    "name": "add",
    "description": "Adds.",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
HALT = {"name": "halt", "input_schema": {"type": "object"}}
ASK = [{"role": "user", "content": "Add."}]
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "ü"}}\n</tool_call>'
INPUT = {"a": 1, "b": "ü"}


@pytest.fixture
def service():
    service = FakeService()
    service.engine.parts.chat_template = ToolTemplate()
    return service


@pytest.fixture
def client(service):
    return client_of(service)


def post(client, **fields):
    body = {"messages": ASK, "max_tokens": 300, "tools": [ADD, HALT], **fields}
    return client.post("/v1/messages", json=body)


def blocks_of(client, **fields):
    """Return the blocks of a whole answer without their ids, and why it stopped."""
    message = post(client, **fields).json()
    content = message["content"]
    return [{k: v for k, v in one.items() if k != "id"} for one in content], message["stop_reason"]


def streamed(client, **fields):
    """Return the same, joined from a stream, whose blocks must open and close in order."""
    blocks, is_open, reason = [], False, None
    for name, data in events(post(client, stream=True, **fields).text):
        if name == "content_block_start":
            assert not is_open and data["index"] == len(blocks)
            blocks.append({**data["content_block"], "json": ""})
            is_open = True
        elif name == "content_block_delta":
            assert is_open and data["index"] == len(blocks) - 1
            if data["delta"]["type"] == "text_delta":
                blocks[-1]["text"] += data["delta"]["text"]
            else:
                blocks[-1]["json"] += data["delta"]["partial_json"]
        elif name == "content_block_stop":
            assert is_open and data["index"] == len(blocks) - 1
            is_open = False
        elif name == "message_delta":
            assert not is_open
            reason = data["delta"]["stop_reason"]
    for block in blocks:
        raw = block.pop("json")
        block.pop("id", None)
        if block["type"] == "tool_use":
            assert block["input"] == {}
            block["input"] = json.loads(raw)
    return blocks, reason


USE = {"type": "tool_use", "name": "add", "input": INPUT}
REPLIES = {
    "call": (CALL, [USE], "tool_use"),
    "two": (f"{CALL}\n{CALL}", [USE, USE], "tool_use"),
    "around": (
        f"Let me.\n{CALL}\nDone.",
        [{"type": "text", "text": "Let me.\n"}, USE, {"type": "text", "text": "Done."}],
        "tool_use",
    ),
    "plain": ("No <tool", [{"type": "text", "text": "No <tool"}], "end_turn"),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("num_drafted", [0, 3])
def test_t14_blocks_are_the_same_whole_and_streamed(service, client, name, num_drafted):
    reply, blocks, reason = REPLIES[name]
    service.reply = lambda prompt: reply
    fields = {"speculative": {"num_speculative_tokens": num_drafted}}
    assert blocks_of(client, **fields) == (blocks, reason)
    assert streamed(client, **fields) == (blocks, reason)


def test_a_call_that_the_limit_cuts_has_an_empty_input(service, client):
    service.reply = lambda prompt: CALL
    assert blocks_of(client, max_tokens=50) == ([{**USE, "input": {}}], "max_tokens")


def test_the_official_client_reads_calls_and_sends_them_back(service):
    service.reply = lambda prompt: CALL
    with live_server(service) as url:
        official = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
        with official.messages.stream(
            model="scripted-model", messages=ASK, max_tokens=300, tools=[ADD]
        ) as stream:
            message = stream.get_final_message()
        (block,) = message.content
        assert (block.type, block.name, block.input) == ("tool_use", "add", INPUT)
        assert message.stop_reason == "tool_use"
        shown = service.engine.parts.chat_template.shown
        described = {"name": "add", "description": "Adds.", "parameters": ADD["input_schema"]}
        assert shown["tools"] == [{"type": "function", "function": described}]
        result = {"type": "tool_result", "tool_use_id": block.id, "content": "3"}
        history = [
            *ASK,
            {"role": "assistant", "content": [block.model_dump(exclude_none=True)]},
            {"role": "user", "content": [result, {"type": "text", "text": "And?"}]},
        ]
        count = official.messages.count_tokens(
            model="scripted-model", messages=history, tools=[ADD]
        )
        assert count.input_tokens == len("prompt")
    assert service.engine.parts.chat_template.shown["messages"] == [
        *ASK,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": INPUT}}],
        },
        {"role": "tool", "content": "3"},
        {"role": "user", "content": "And?"},
    ]


@pytest.mark.parametrize(
    ("choice", "names", "between"),
    [
        ({"type": "any"}, ["add", "halt"], "\n"),
        ({"type": "any", "disable_parallel_tool_use": True}, ["add", "halt"], None),
        ({"type": "tool", "name": "halt"}, ["halt"], None),
    ],
    ids=["any", "one", "named"],
)
def test_choices_that_hold_the_answer_to_calls(service, client, choice, names, between):
    assert post(client, tool_choice=choice).status_code == 200
    calls = json.loads(service.requests[-1].grammar.text)
    assert [json.loads(one["begin"][12:] + "{}}")["name"] for one in calls["frames"]] == names
    assert calls["between"] == between


def test_none_leaves_the_tools_out_and_one_call_at_a_time_ends_behind_it(service, client):
    service.reply = lambda prompt: CALL
    blocks, reason = blocks_of(client, tool_choice={"type": "none"})
    assert (blocks, reason) == ([{"type": "text", "text": CALL}], "end_turn")
    assert service.engine.parts.chat_template.shown["tools"] is None
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    post(client, tool_choice=choice, stop_sequences=["END"])
    assert service.requests[-1].sampling.stop == ("END", "</tool_call>")
    assert service.requests[-1].grammar is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tools": [{"type": "bash_1", "name": "bash"}]}, "tools[0].type is 'bash_1'; allowed"),
        ({"tools": [{**ADD, "name": "a b"}]}, "tools[0].name is 'a b'; allowed"),
        ({"tool_choice": {"type": "some"}}, "tool_choice is 'some'; allowed"),
        ({"tool_choice": {"type": "tool", "name": "f"}}, "tool_choice names the function 'f'"),
        ({"tools": [], "tool_choice": {"type": "any"}}, "tool_choice is 'any'; allowed"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]},
            "messages[0].content[0].type is 'tool_use'",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{}]}]}]},
            "messages[0].content[0].content[0].type is None",
        ),
    ],
)
def test_t20_malformed_tools_are_a_400_that_names_the_place(client, fields, message):
    answer = post(client, **fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
