"""The answer of OpenAI's responses where tools may be called: items of text and of calls."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec

from leeway.core.types import FinishReason, OutputDelta
from leeway.server.responses_format import ResponsesFormat
from leeway.text.tool_calls.hermes import HermesCalls
from leeway.text.tool_calls.pieces import CallPiece


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResponsesFormat(ResponsesFormat):
    """Bodies of /v1/responses with tools.

    Attributes:
        reader: reads the answer, once.
    """

    reader: HermesCalls
    _items: list[dict[str, Any]] = field(init=False, default_factory=list)

    def whole(self) -> bytes:
        """Return the response."""
        for piece in self.reader.in_order(self.outputs[0].text, is_last=True):
            self._take(piece)
        if self._items:
            self._end_item()
        return msgspec.json.encode(self._response())

    def opening(self) -> bytes:
        """Return the start of the response; items start as they come."""
        response = self._response()
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def delta(self, index: int, delta: OutputDelta) -> bytes:
        """Return what is new of the items."""
        frames = b""
        for piece in self.reader.in_order(delta.text, is_last=delta.finish_reason is not None):
            if self._begins(piece):
                frames += self._stop()
                self._take(piece)
                frames += self._start()
            else:
                self._take(piece)
            frames += self._news(piece)
        return frames

    def closing(self) -> bytes:
        """Return the ends of the last item and of the response, each whole again."""
        frames = self._stop()
        response = self._response()
        return frames + self._event(f"response.{response['status']}", response=response)

    def _output(self) -> list[dict[str, Any]]:
        return self._items

    def _begins(self, piece: str | CallPiece) -> bool:
        """Return whether a piece begins an item."""
        if isinstance(piece, str):
            return not self._items or self._items[-1]["type"] != "message"
        return piece.name is not None

    def _take(self, piece: str | CallPiece) -> None:
        """Add a piece to the last item, or to a new one behind it."""
        if self._begins(piece):
            if self._items:
                self._items[-1]["status"] = "completed"
            self._items.append(self._new_item(piece))
        last = self._items[-1]
        if isinstance(piece, str):
            last["content"][0]["text"] += piece
        else:
            last["arguments"] += piece.arguments

    def _new_item(self, piece: str | CallPiece) -> dict[str, Any]:
        number = f"{self.answer_id}_{len(self._items)}"
        if isinstance(piece, str):
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            item = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
            return {**item, "status": "in_progress", "content": [part]}
        item = {"id": f"fc_{number}", "type": "function_call", "name": piece.name or ""}
        call_id = "call_" + uuid.uuid4().hex[:24]
        return {**item, "call_id": call_id, "status": "in_progress", "arguments": ""}

    def _end_item(self) -> None:
        is_cut = self.outputs[0].finish_reason is FinishReason.LENGTH
        self._items[-1]["status"] = "incomplete" if is_cut else "completed"

    def _at(self) -> dict[str, Any]:
        return {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1}

    def _start(self) -> bytes:
        """Return the start of the last item, still empty."""
        item, at = self._items[-1], len(self._items) - 1
        if item["type"] == "function_call":
            empty = {**item, "arguments": ""}
            return self._event("response.output_item.added", output_index=at, item=empty)
        part = {**item["content"][0], "text": ""}
        return self._event(
            "response.output_item.added", output_index=at, item={**item, "content": []}
        ) + self._event("response.content_part.added", **self._at(), content_index=0, part=part)

    def _news(self, piece: str | CallPiece) -> bytes:
        if isinstance(piece, str):
            place = {**self._at(), "content_index": 0}
            return self._event("response.output_text.delta", **place, delta=piece, logprobs=[])
        if not piece.arguments:
            return b""
        name = "response.function_call_arguments.delta"
        return self._event(name, **self._at(), delta=piece.arguments)

    def _stop(self) -> bytes:
        """Return the end of the last item, if there is one; mutates its status."""
        if not self._items:
            return b""
        self._end_item()
        item, at = self._items[-1], len(self._items) - 1
        if item["type"] == "function_call":
            name, given = "response.function_call_arguments.done", item["arguments"]
            frames = self._event(name, **self._at(), arguments=given)
        else:
            part, place = item["content"][0], {**self._at(), "content_index": 0}
            text = part["text"]
            frames = self._event("response.output_text.done", **place, text=text, logprobs=[])
            frames += self._event("response.content_part.done", **place, part=part)
        return frames + self._event("response.output_item.done", output_index=at, item=item)
