"""Prompts: messages and completion prompts to ids, or an error that names the place."""

import pytest
from tests.server.fake_service import FakeParts

from leeway.core.errors import RequestError
from leeway.server.prompts import MAX_PROMPTS, chat_prompt, completion_prompts

PARTS = FakeParts()


def chat_text(*messages):
    return bytes(chat_prompt(PARTS, list(messages))).decode()


def test_a_conversation_goes_through_the_template():
    text = chat_text(
        {"role": "developer", "content": "Be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "refusal": None, "tool_calls": [], "annotations": []},
    )
    assert text == "system: Be brief\nuser: a\nb\nassistant: c\nassistant: "


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "tool", "content": "x"}, "messages[0].role"),
        ({"role": "user", "content": "x", "nmae": "y"}, "messages[0]"),
        ({"role": "user"}, "messages[0]"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        ({"role": 3, "content": "x"}, "messages[0].role"),
        ({"role": "assistant", "content": "", "tool_calls": [{}]}, "messages[0].tool_calls"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0]"),
    ],
)
def test_a_malformed_message_is_named(message, param):
    with pytest.raises(RequestError) as caught:
        chat_prompt(PARTS, [message])
    assert caught.value.param == param


def test_no_messages_are_refused():
    with pytest.raises(RequestError, match="messages is empty"):
        chat_prompt(PARTS, [])


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("ab", [[97, 98]]),
        (["a", "b"], [[97], [98]]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        (["a", [1]], [[97], [1]]),
    ],
)
def test_every_form_of_prompt(prompt, ids):
    assert completion_prompts(PARTS, prompt) == ids


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "prompt is an empty list"),
        ("", "prompt has no tokens"),
        ([[]], r"prompt\[0\] has no tokens"),
        ([256], "prompt has the token id 256; allowed: 0 to 255"),
        ([[1], [-1]], r"prompt\[1\] has the token id -1"),
        (["a", 1], r"prompt\[1\] is a token id among texts"),
        (["a"] * (MAX_PROMPTS + 1), f"allowed: up to {MAX_PROMPTS}"),
    ],
)
def test_a_prompt_that_cannot_be_continued_is_named(prompt, message):
    with pytest.raises(RequestError, match=message):
        completion_prompts(PARTS, prompt)
