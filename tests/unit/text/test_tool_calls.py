"""Tool calls between tags: the same calls and content however the text is cut."""

import json

import pytest

from leeway.text.tool_calls.dialect import HERMES, find_dialect
from leeway.text.tool_calls.hermes import HermesCalls, frames
from leeway.text.tool_calls.pieces import CallPiece, joined_calls, open_len

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "}<\\"x"}}\n</tool_call>'
ARGUMENTS = '{"a": 1, "b": "}<\\"x"}'
CASES = {
    "plain": ("no call at all <tool", "no call at all <tool", []),
    "one": (CALL, "", [("add", ARGUMENTS)]),
    "with-content": ("Let me see.\n" + CALL, "Let me see.\n", [("add", ARGUMENTS)]),
    "two": (CALL + "\n" + CALL, "", [("add", ARGUMENTS)] * 2),
    "behind": (CALL + "\nDone.", "Done.", [("add", ARGUMENTS)]),
    "other-order": (
        '<tool_call>{"arguments": {"a": [1]}, "name": "f"}</tool_call>',
        "",
        [("f", '{"a": [1]}')],
    ),
    "no-arguments": ('<tool_call>{"name": "f"}</tool_call>', "", [("f", "{}")]),
    "quoted-arguments": (
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>',
        "",
        [("f", '{"a": 1}')],
    ),
    "no-json": ("<tool_call>nonsense</tool_call>!", "<tool_call>nonsense</tool_call>!", []),
    "no-name": ('<tool_call>{"a": 1}</tool_call>', '<tool_call>{"a": 1}</tool_call>', []),
    "cut-in-head": ('x<tool_call>{"na', 'x<tool_call>{"na', []),
    "cut-in-arguments": ('<tool_call>{"name": "f", "arguments": {"a": "b', "", [("f", '{"a": "b')]),
    "brace-missing": (
        '<tool_call>{"name": "f", "arguments": {"a": 1</tool_call>z',
        "z",
        [("f", '{"a": 1')],
    ),
    "end-tag-missing": (CALL.removesuffix("</tool_call>"), "", [("add", ARGUMENTS)]),
    "odd-name": (
        '<tool_call>{"name": "f\\u00e9", "arguments": {}}</tool_call>',
        "",
        [("fé", "{}")],
    ),
}


def read(*texts):
    reader = HermesCalls()
    found = [reader.add(text) for text in texts] + [reader.finish()]
    content = "".join(pieces.content for pieces in found)
    calls = joined_calls([call for pieces in found for call in pieces.calls])
    return content, [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("name", CASES)
def test_t14_content_and_calls_are_the_same_however_the_text_is_cut(name):
    text, content, calls = CASES[name]
    assert read(text) == (content, calls)
    assert read(*text) == (content, calls)
    for at in range(1, len(text)):
        assert read(text[:at], text[at:]) == (content, calls)


def test_arguments_are_delivered_while_they_are_written():
    reader = HermesCalls()
    assert reader.add('<tool_call>\n{"name": "f", "arguments": {').calls == [
        CallPiece(0, "f"),
        CallPiece(0, None, "{"),
    ]
    assert reader.add('"a": 1').calls == [CallPiece(0, None, '"a": 1')]
    assert reader.add("}}\n</tool_call>").calls == [CallPiece(0, None, "}")]
    assert reader.num_calls == 1


def test_text_that_is_no_tag_is_not_held_back():
    reader = HermesCalls()
    assert [reader.add(text).content for text in ("a\n\n", "b <", "i> <tool_", "x")] == [
        "a\n\n",
        "b ",
        "<i> ",
        "<tool_x",
    ]


@pytest.mark.parametrize(("text", "length"), [("a<", 1), ("<tool", 5), ("<toll", 0), ("<b>", 0)])
def test_the_beginning_of_a_tag_at_the_end(text, length):
    assert open_len(text, "<tool_call>") == length


def test_frames_write_what_is_read_again():
    (frame,) = frames([{"name": "add", "parameters": {"type": "object"}}])
    text = frame["begin"] + json.dumps({"a": 1}) + frame["end"]
    assert read(text) == ("", [("add", '{"a": 1}')])


TEMPLATE = '{{ tools }} <tool_call>{"name": N, "arguments": A}</tool_call>'


@pytest.mark.parametrize(
    ("template", "dialect"),
    [
        (TEMPLATE, HERMES),
        (TEMPLATE.replace('"', '\\"'), HERMES),
        (TEMPLATE.replace("tools", ""), None),
        ("{{ tools }} {'function': N, 'arguments': A}", None),
        (None, None),
    ],
)
def test_the_dialect_is_read_off_the_template(template, dialect):
    assert find_dialect(template) is dialect
