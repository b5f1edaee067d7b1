"""The answer of Anthropic's messages where tools may be called: blocks of text and of calls."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec

from leeway.core.types import FinishReason, OutputDelta
from leeway.server.messages_format import MessagesFormat, named_event
from leeway.text.tool_calls.hermes import HermesCalls
from leeway.text.tool_calls.pieces import CallPiece


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessagesFormat(MessagesFormat):
    """Bodies of /v1/messages with tools.

    Attributes:
        reader: reads the answer, once.
    """

    reader: HermesCalls
    _blocks: list[dict[str, Any]] = field(init=False, default_factory=list)

    def whole(self) -> bytes:
        """Return the message."""
        for piece in self.reader.in_order(self.outputs[0].text, is_last=True):
            self._take(piece)
        content = [_ended(block) for block in self._blocks]
        return msgspec.json.encode(self._message(content) | {"metrics": self.metrics()})

    def opening(self) -> bytes:
        """Return the start of the message; blocks start as they come."""
        return named_event("message_start", message=self._message([]))

    def delta(self, index: int, delta: OutputDelta) -> bytes:
        """Return what is new of the blocks."""
        frames = b""
        for piece in self.reader.in_order(delta.text, is_last=delta.finish_reason is not None):
            num_before = len(self._blocks)
            news = self._take(piece)
            if len(self._blocks) > num_before:
                frames += self._stop(num_before - 1) + self._start()
            if news is not None:
                at = len(self._blocks) - 1
                frames += named_event("content_block_delta", index=at, delta=news)
        return frames

    def closing(self) -> bytes:
        """Return the end of the last block, the reason with usage and metrics, and the end."""
        return self._stop(len(self._blocks) - 1) + self._closing_message()

    def _end(self) -> dict[str, str | None]:
        """Return why the message ended: it may have ended to call tools."""
        if self.reader.num_calls and self.outputs[0].finish_reason is FinishReason.STOP:
            return {"stop_reason": "tool_use", "stop_sequence": None}
        return MessagesFormat._end(self)

    def _take(self, piece: str | CallPiece) -> dict[str, Any] | None:
        """Add a piece to the last block, or to a new one; return what is new of it, if anything."""
        last: dict[str, Any] = self._blocks[-1] if self._blocks else {"type": None}
        if isinstance(piece, str):
            if last["type"] != "text":
                last = {"type": "text", "text": ""}
                self._blocks.append(last)
            last["text"] += piece
            return {"type": "text_delta", "text": piece}
        if piece.name is not None:
            call_id = "toolu_" + uuid.uuid4().hex[:24]
            last = {"type": "tool_use", "id": call_id, "name": piece.name, "input": ""}
            self._blocks.append(last)
        last["input"] += piece.arguments
        if not piece.arguments:
            return None
        return {"type": "input_json_delta", "partial_json": piece.arguments}

    def _start(self) -> bytes:
        block = self._blocks[-1]
        empty: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
        at = len(self._blocks) - 1
        return named_event("content_block_start", index=at, content_block={**block, **empty})

    def _stop(self, at: int) -> bytes:
        return b"" if at < 0 else named_event("content_block_stop", index=at)


def _ended(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block as a whole message has it; what a limit cut is an empty input."""
    if block["type"] == "text":
        return block
    try:
        given = json.loads(block["input"] or "{}")
    except (ValueError, RecursionError):
        given = {}
    return {**block, "input": given if isinstance(given, dict) else {}}
