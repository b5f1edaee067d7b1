"""The answer of Anthropic's messages: one message, whole or as events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from leeway.core.types import FinishReason, OutputDelta
from leeway.server.answer_format import AnswerFormat
from leeway.server.errors import anthropic_error_body
from leeway.server.sse import event


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesFormat(AnswerFormat):
    """Bodies of /v1/messages."""

    def whole(self) -> bytes:
        """Return the message."""
        content = [{"type": "text", "text": self.outputs[0].text}]
        return msgspec.json.encode(self._message(content) | {"metrics": self.metrics()})

    def opening(self) -> bytes:
        """Return the start of the message and of its one content block."""
        block = {"type": "text", "text": ""}
        return named_event("message_start", message=self._message([])) + named_event(
            "content_block_start", index=0, content_block=block
        )

    def delta(self, index: int, delta: OutputDelta) -> bytes:
        """Return what is new of the text."""
        if not delta.text:
            return b""
        text = {"type": "text_delta", "text": delta.text}
        return named_event("content_block_delta", index=0, delta=text)

    def closing(self) -> bytes:
        """Return the end of the block, the reason with usage and metrics, and the end."""
        return named_event("content_block_stop", index=0) + self._closing_message()

    def _closing_message(self) -> bytes:
        delta, usage = self._end(), self._usage()
        return named_event(
            "message_delta", delta=delta, usage=usage, metrics=self.metrics()
        ) + named_event("message_stop")

    def error(self, error: Exception) -> bytes:
        """Return an error event."""
        return event("error", anthropic_error_body(error, self.answer_id)[1])

    def _message(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": "msg_" + self.answer_id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            **self._end(),
            "usage": self._usage(),
        }

    def _end(self) -> dict[str, str | None]:
        """Return why the message ended; nulls while it has not."""
        output = self.outputs[0]
        if output.finish_reason is None:
            return {"stop_reason": None, "stop_sequence": None}
        if output.finish_reason is FinishReason.LENGTH:
            return {"stop_reason": "max_tokens", "stop_sequence": None}
        if isinstance(output.stop_match, str):
            return {"stop_reason": "stop_sequence", "stop_sequence": output.stop_match}
        return {"stop_reason": "end_turn", "stop_sequence": None}

    def _usage(self) -> dict[str, int]:
        prompt_len, output_len = self.num_tokens()
        num_cached = self.num_cached_tokens()
        return {
            "input_tokens": prompt_len - num_cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": num_cached,
            "output_tokens": output_len,
        }


def named_event(name: str, **content: object) -> bytes:
    """Return an event whose content repeats its name."""
    return event(name, {"type": name, **content})
