"""Tool calls as Hermes and Qwen2.5 write them: JSON objects between tags.

    <tool_call>
    {"name": "add", "arguments": {"a": 1}}
    </tool_call>

In: an answer's text, in pieces. Out: its content and its calls, the arguments as they are written.
The result depends on the joined text alone. Where the name comes first, as templates show it, a
call is delivered while it is being written; any other order waits for the end of the call. What is
no call after all is content, tags and all. White space behind a call is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from leeway.text.tool_calls.pieces import CallPiece, Pieces, open_len

BEGIN, END = "<tool_call>", "</tool_call>"
BETWEEN = "\n"
_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\{)')


def frames(functions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each function the texts around its arguments, and their JSON schema."""
    return [
        {
            "begin": f'{BEGIN}\n{{"name": {json.dumps(one["name"])}, "arguments": ',
            "schema": one["parameters"],
            "end": "}\n" + END,
        }
        for one in functions
    ]


class HermesCalls:
    """The reading state of one answer."""

    def __init__(self) -> None:
        self.num_calls = 0
        self._held = ""
        self._state: Literal["content", "head", "arguments", "tail"] = "content"
        self._value = _JSONValue()

    def add(self, text: str) -> Pieces:
        """Return what new text comes to; mutates the state."""
        self._held += text
        pieces = Pieces()
        while self._go_on(pieces):
            pass
        return pieces

    def finish(self) -> Pieces:
        """Return what was held back, since no more comes."""
        pieces = Pieces()
        held, self._held = self._held, ""
        if self._state == "content":
            pieces.content = held
        elif self._state == "head" and not self._take_whole(held, pieces):
            pieces.content = BEGIN + held
        self._state = "content"
        return pieces

    def in_order(self, text: str, *, is_last: bool) -> Iterator[str | CallPiece]:
        """Yield content and pieces of calls in the order in which they are written.

        With `is_last` what was held back comes too.
        """
        for letter in text:
            pieces = self.add(letter)
            if pieces.content:
                yield pieces.content
            yield from pieces.calls
        if is_last:
            pieces = self.finish()
            if pieces.content:
                yield pieces.content
            yield from pieces.calls

    def _go_on(self, pieces: Pieces) -> bool:
        """Read on from one state; return whether the next may go on too."""
        if self._state == "content":
            return self._read_content(pieces)
        if self._state == "head":
            return self._read_head(pieces)
        if self._state == "arguments":
            return self._read_arguments(pieces)
        return self._read_tail()

    def _read_content(self, pieces: Pieces) -> bool:
        if self.num_calls:
            self._held = self._held.lstrip()
        before, tag, behind = self._held.partition(BEGIN)
        if tag:
            pieces.content += before
            self._held, self._state = behind, "head"
            return True
        safe_len = len(before) - open_len(before, BEGIN)
        pieces.content += before[:safe_len]
        self._held = before[safe_len:]
        return False

    def _read_head(self, pieces: Pieces) -> bool:
        head = _HEAD.match(self._held)
        if head is not None:
            pieces.calls.append(CallPiece(self.num_calls, _read_name(head[1])))
            self._held, self._state = self._held[head.end() :], "arguments"
            self._value = _JSONValue()
            return True
        body, tag, behind = self._held.partition(END)
        if not tag:
            return False
        if not self._take_whole(body, pieces):
            pieces.content += BEGIN + body + END
        self._held, self._state = behind, "content"
        return True

    def _take_whole(self, body: str, pieces: Pieces) -> bool:
        """Add a call that is written in another order; return whether it is one."""
        try:
            call = json.loads(body)
        except (ValueError, RecursionError):
            return False
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return False
        given = call.get("arguments", {})
        arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        pieces.calls.append(CallPiece(self.num_calls, call["name"], arguments))
        self.num_calls += 1
        return True

    def _read_arguments(self, pieces: Pieces) -> bool:
        length = self._value.read(self._held)
        if length:
            pieces.calls.append(CallPiece(self.num_calls, None, self._held[:length]))
        self._held = self._held[length:]
        if not self._value.is_over:
            return False
        self.num_calls += 1
        self._state = "tail"
        return True

    def _read_tail(self) -> bool:
        _, tag, behind = self._held.partition(END)
        if tag:
            self._held, self._state = behind, "content"
            return True
        self._held = self._held[len(self._held) - open_len(self._held, END) :]
        return False


class _JSONValue:
    """Finds where a JSON object ends that comes in pieces."""

    def __init__(self) -> None:
        self.is_over = False
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def read(self, text: str) -> int:
        """Return how much of the text belongs to the object; mutates the state.

        An opening angle bracket outside a string belongs to no JSON: there the object is over, too.
        """
        for index, letter in enumerate(text):
            if self._in_string:
                self._read_in_string(letter)
            elif letter == "<":
                self.is_over = True
                return index
            elif letter == '"':
                self._in_string = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.is_over = True
                    return index + 1
        return len(text)

    def _read_in_string(self, letter: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif letter == "\\":
            self._is_escaped = True
        elif letter == '"':
            self._in_string = False


def _read_name(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:  # an escape that JSON does not know
        return quoted[1:-1]
