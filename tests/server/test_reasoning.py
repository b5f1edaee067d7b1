"""Reasoning over HTTP: a channel of its own where the model's template knows it."""

import json

import pytest

from leeway.text.tool_calls.dialect import HERMES
from tests.server.conftest import client_of, frames
from tests.server.fake_service import ByteTokenizer, FakeService, PlainTemplate

ASK = {"messages": [{"role": "user", "content": "Why?"}]}
TOOL = {"type": "function", "function": {"name": "f"}}
CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


class ThinkingTemplate(PlainTemplate):
    tool_dialect = HERMES
    reasons = True
    prompt = "assistant: "

    def render(self, messages, *, add_generation_prompt=True, tools=None):
        self.shown = list(messages)
        return self.prompt


@pytest.fixture
def service():
    service = FakeService()
    service.engine.parts.chat_template = ThinkingTemplate()
    return service


@pytest.fixture
def client(service):
    return client_of(service)


def whole(client, **fields):
    return client.post("/v1/chat/completions", json={**ASK, **fields}).json()["choices"][0]


def channels(client, **fields):
    """Return reasoning, content and arguments as a stream gives them, joined."""
    found = {"reasoning_content": "", "content": "", "arguments": ""}
    text = client.post("/v1/chat/completions", json={**ASK, **fields, "stream": True}).text
    for frame in frames(text)[:-1]:
        delta = json.loads(frame)["choices"][0]["delta"]
        for name in ("reasoning_content", "content"):
            found[name] += delta.get(name) or ""
        for call in delta.get("tool_calls", []):
            found["arguments"] += call["function"]["arguments"]
    return tuple(found.values())


@pytest.mark.parametrize(
    ("prompt", "reply", "reasoning", "content"),
    [
        ("assistant: ", "<think>\nSo, sö.\n</think>\n\nYes", "So, sö.\n", "Yes"),
        ("assistant: <think>\n", "So.</think>Yes", "So.", "Yes"),
        ("assistant: ", "Yes <think>", "", "Yes <think>"),
        ("assistant: ", "<think>So", "So", ""),
    ],
    ids=["tagged", "open-in-prompt", "none", "cut"],
)
def test_t14_each_part_is_in_its_channel_whole_and_streamed(
    service, client, prompt, reply, reasoning, content
):
    service.engine.parts.chat_template.prompt = prompt
    service.reply = lambda prompt: reply
    message = whole(client)["message"]
    assert (message["reasoning_content"], message["content"]) == (reasoning or None, content)
    assert channels(client) == (reasoning, content, "")


@pytest.mark.parametrize(
    ("reply", "num_reasoning"),
    [("<think>ö</think> Yes", 17), ("Yes", 0), ("<think>So", 9), ("<think></think>", 15)],
)
def test_t19_tokens_of_reasoning_are_counted_among_the_others(
    service, client, reply, num_reasoning
):
    service.reply = lambda prompt: reply
    usage = client.post("/v1/chat/completions", json=ASK).json()["usage"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": num_reasoning}
    assert num_reasoning <= usage["completion_tokens"] == len(reply.encode())
    options = {"stream": True, "stream_options": {"include_usage": True}}
    text = client.post("/v1/chat/completions", json={**ASK, **options}).text
    assert json.loads(frames(text)[-2])["usage"] == usage


def test_t14_calls_that_are_only_thought_of_are_not_made(service, client):
    service.reply = lambda prompt: f"<think>{CALL}</think>{CALL}"
    choice = whole(client, tools=[TOOL])
    assert choice["message"]["reasoning_content"] == CALL
    assert len(choice["message"]["tool_calls"]) == 1
    assert choice["finish_reason"] == "tool_calls"
    assert channels(client, tools=[TOOL]) == (CALL, "", "{}")


def test_reasoning_may_be_sent_back(service, client):
    answer = {"role": "assistant", "content": "Yes", "reasoning_content": "So."}
    whole(client, messages=[*ASK["messages"], answer, *ASK["messages"]])
    assert service.engine.parts.chat_template.shown[1] == answer


def test_other_models_have_no_such_field():
    service = FakeService()
    service.reply = lambda prompt: "<think>So.</think>Yes"
    client = client_of(service)
    assert whole(client)["message"] == {
        "role": "assistant",
        "content": "<think>So.</think>Yes",
        "refusal": None,
    }
    answer = {"role": "assistant", "content": "Yes", "reasoning_content": "So."}
    refused = client.post("/v1/chat/completions", json={"messages": [answer]})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "messages[0].reasoning_content"


class TagTokenizer(ByteTokenizer):
    def encode(self, text, *, add_special=True):
        tags = {"<think>": [1], "</think>": [2]}
        return tags.get(text) or super().encode(text)


@pytest.mark.parametrize(
    ("tokenizer", "prompt", "tokens"),
    [
        (TagTokenizer(), "assistant: ", (1, 2)),
        (TagTokenizer(), "assistant: <think>\n", (None, 2)),
        (ByteTokenizer(), "assistant: ", (None, None)),
    ],
    ids=["model-opens", "prompt-opens", "no-such-tokens"],
)
def test_t12_a_form_begins_behind_the_reasoning(service, client, tokenizer, prompt, tokens):
    service.engine.parts.tokenizer = tokenizer
    service.engine.parts.chat_template.prompt = prompt
    whole(client, guided_regex="a")
    grammar = service.requests[-1].grammar
    assert (grammar.thought_open, grammar.thought_close) == tokens
    assert service.engine.compiled == grammar
