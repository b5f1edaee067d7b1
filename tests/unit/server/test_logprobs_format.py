"""Names and offsets of tokens that are special, partial, or written with a space of their own."""

import math

import pytest

from leeway.core.types import TokenLogprob
from leeway.server.logprobs_format import CompletionLogprobs, chat_logprobs, token_name

NAMES = {0: "<s>", 1: " Hi", 2: " you", 3: "é", 4: "<end>"}
BYTES = {1: b" Hi", 2: b" you", 3: "é".encode(), 5: b"\xf0\x9f", 6: b"\x99\x82"}


class Spaced:
    """Ids 0 and 4 are special; 5 and 6 are the halves of one character."""

    def token_bytes(self, token_id):
        return BYTES.get(token_id, b"")

    def token_text(self, token_id):
        return NAMES.get(token_id)


def entries(*ids):
    return [TokenLogprob(one, -1.0) for one in ids]


def offsets(ids, text):
    builder = CompletionLogprobs(Spaced())
    columns = builder.add_prompt(ids, [None, *entries(*ids[1:])], text)
    assert builder.offset == len(text)
    return columns.text_offset


@pytest.mark.parametrize(
    ("ids", "text", "expected"),
    [
        ((1, 2), "Hi you", [0, 2]),  # the first word's space is the tokenizer's own
        ((1, 2), " Hi you", [0, 3]),
        ((0, 1, 2), "Hi you", [0, 0, 2]),  # a begin token that the text does not have
        ((0, 1, 4, 2), "<s> Hi<end> you", [0, 3, 6, 11]),
        ((3, 5, 6, 3), "é🙂é", [0, 1, 1, 2]),
    ],
)
def test_offsets_of_an_echoed_prompt(ids, text, expected):
    assert offsets(ids, text) == expected


def test_output_goes_on_behind_the_prompt_and_special_tokens_take_no_room():
    builder = CompletionLogprobs(Spaced())
    builder.add_prompt((1,), [None], "Hi")
    assert builder.add(entries(2, 5)).text_offset == [2, 6]
    assert builder.add(entries(6, 4, 1)).text_offset == [6, 7, 7]


def test_names():
    names = [token_name(Spaced(), one) for one in (0, 1, 3, 5, 9)]
    assert names == ["<s>", " Hi", "é", "bytes:\\xf0\\x9f", ""]


def test_chat_gives_bytes_but_none_for_special_tokens():
    given = TokenLogprob(4, -math.inf, ((3, -0.5), (5, -2.0)))
    (entry,) = chat_logprobs(Spaced(), [given])["content"]
    assert (entry["token"], entry["logprob"], entry["bytes"]) == ("<end>", -9999.0, None)
    assert entry["top_logprobs"] == [
        {"token": "é", "logprob": -0.5, "bytes": [195, 169]},
        {"token": "\ufffd", "logprob": -2.0, "bytes": [240, 159]},
    ]
