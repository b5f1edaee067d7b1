"""What a chat's answer is made of: reasoning, content and tool calls, read from its text.

A reader belongs to one choice, and reads it whole or in the pieces of a stream: joined, both are
the same. Only answers that may hold more than content have one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from leeway.core.types import FinishReason, Grammar
from leeway.server.service_protocol import ServedParts, ServedTokenizer
from leeway.server.tool_fields import ToolUse
from leeway.text.detokenizer import Detokenizer
from leeway.text.reasoning import CLOSE, OPEN, ReasoningSplit, begins_inside, count_tokens
from leeway.text.tool_calls.hermes import HermesCalls
from leeway.text.tool_calls.pieces import CallPiece, Pieces, joined_calls


class ChatReader:
    """The reading state of one choice; either part may be missing."""

    def __init__(self, reasoning: ReasoningSplit | None, calls: HermesCalls | None) -> None:
        self._reasoning = reasoning
        self._is_inside = reasoning is not None and reasoning.is_reasoning
        self._calls = calls

    def delta(self, text: str, *, is_last: bool) -> dict[str, Any]:
        """Return a chunk's delta: what new text comes to, and at the end what was held back."""
        reasoning, pieces = self._read(text, is_last=is_last)
        delta: dict[str, Any] = {}
        if reasoning:
            delta["reasoning_content"] = reasoning
        if pieces.content:
            delta["content"] = pieces.content
        if pieces.calls:
            delta["tool_calls"] = [_call_delta(call) for call in joined_calls(pieces.calls)]
        return delta

    def message(self, text: str) -> dict[str, Any]:
        """Return a whole answer's message; content is null where there are calls alone."""
        reasoning, pieces = self._read(text, is_last=True)
        calls = _whole_calls(pieces.calls)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": pieces.content or (None if calls else ""),
            "refusal": None,
        }
        if self._reasoning is not None:
            message["reasoning_content"] = reasoning or None
        if calls:
            message["tool_calls"] = calls
        return message

    def finish_reason(self, reason: FinishReason | None) -> str | None:
        """Return why the answer ended: it may have ended to call tools."""
        has_calls = self._calls is not None and self._calls.num_calls > 0
        return "tool_calls" if has_calls and reason is FinishReason.STOP else reason

    def num_reasoning(self, tokenizer: ServedTokenizer, token_ids: Sequence[int]) -> int | None:
        """Return how many of an answer's tokens are reasoning; None where the model does not."""
        if self._reasoning is None:
            return None
        detokenizer = Detokenizer(tokenizer)
        texts = (detokenizer.add([token_id]) for token_id in token_ids)
        return count_tokens(texts, is_inside=self._is_inside)

    def _read(self, text: str, *, is_last: bool) -> tuple[str, Pieces]:
        reasoning, content = "", text
        if self._reasoning is not None:
            reasoning, content = self._reasoning.add(text)
            if is_last:
                held = self._reasoning.finish()
                reasoning, content = reasoning + held[0], content + held[1]
        if self._calls is None:
            return reasoning, Pieces(content)
        pieces = self._calls.add(content)
        if is_last:
            held_pieces = self._calls.finish()
            pieces.content += held_pieces.content
            pieces.calls += held_pieces.calls
        return reasoning, pieces


def _call_delta(call: CallPiece) -> dict[str, Any]:
    if call.name is None:
        return {"index": call.index, "function": {"arguments": call.arguments}}
    return {
        "index": call.index,
        "id": _call_id(),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _whole_calls(pieces: Sequence[CallPiece]) -> list[dict[str, Any]]:
    return [
        {
            "id": _call_id(),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in joined_calls(pieces)
    ]


def _call_id() -> str:
    return "call_" + uuid.uuid4().hex[:24]


def make_readers(
    parts: ServedParts, prompt: Sequence[int], tools: ToolUse | None, num_choices: int
) -> list[ChatReader]:
    """Return a reader for each choice; none where an answer is content alone."""
    reasons = parts.chat_template.reasons
    if not reasons and tools is None:
        return []
    is_inside = reasons and _is_inside(parts, prompt)
    return [
        ChatReader(
            ReasoningSplit(is_inside=is_inside) if reasons else None,
            None if tools is None else tools.dialect.make_reader(),
        )
        for _ in range(num_choices)
    ]


def behind_reasoning(
    parts: ServedParts, prompt: Sequence[int], form: Grammar | None
) -> Grammar | None:
    """Return the form as one that begins behind the reasoning, where the model may reason.

    The tags must be tokens of their own; else the form begins at once.
    """
    if form is None or not parts.chat_template.reasons:
        return form
    opening = parts.tokenizer.encode(OPEN, add_special=False)
    closing = parts.tokenizer.encode(CLOSE, add_special=False)
    if len(opening) != 1 or len(closing) != 1:
        return form
    thought_open = None if _is_inside(parts, prompt) else opening[0]
    return replace(form, thought_close=closing[0], thought_open=thought_open)


def _is_inside(parts: ServedParts, prompt: Sequence[int]) -> bool:
    """Return whether the prompt ends within reasoning: its last tokens say so."""
    return begins_inside(parts.tokenizer.decode(prompt[-8:], with_special=True))
