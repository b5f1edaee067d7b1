"""The answer of OpenAI's responses: one message item, whole or as numbered events."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from leeway.core.types import FinishReason, OutputDelta
from leeway.server.answer_format import AnswerFormat
from leeway.server.errors import error_body
from leeway.server.logprobs_format import chat_logprobs
from leeway.server.schema import ResponseFields
from leeway.server.service_protocol import ServedTokenizer
from leeway.server.sse import event


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesFormat(AnswerFormat):
    """Bodies of /v1/responses.

    Attributes:
        fields: the request, parts of which a response repeats.
        tokenizer: names tokens.
    """

    fields: ResponseFields
    tokenizer: ServedTokenizer
    _numbers: Iterator[int] = field(init=False, default_factory=itertools.count)

    def whole(self) -> bytes:
        """Return the response."""
        return msgspec.json.encode(self._response())

    def opening(self) -> bytes:
        """Return the start of the response, of its message and of that message's one part."""
        response = self._response()
        item = {**self._item(), "content": [], "status": "in_progress"}
        part = {**self._part(), "text": "", "logprobs": []}
        return (
            self._event("response.created", response=response)
            + self._event("response.in_progress", response=response)
            + self._event("response.output_item.added", output_index=0, item=item)
            + self._event("response.content_part.added", **self._place(), part=part)
        )

    def delta(self, index: int, delta: OutputDelta) -> bytes:
        """Return what is new of the text."""
        if not delta.text and not delta.logprobs:
            return b""
        entries = chat_logprobs(self.tokenizer, delta.logprobs)["content"]
        return self._event(
            "response.output_text.delta", **self._place(), delta=delta.text, logprobs=entries
        )

    def closing(self) -> bytes:
        """Return the ends of part, message and response, each whole again."""
        part = self._part()
        text, logprobs = part["text"], part["logprobs"]
        response = self._response()
        return (
            self._event("response.output_text.done", **self._place(), text=text, logprobs=logprobs)
            + self._event("response.content_part.done", **self._place(), part=part)
            + self._event("response.output_item.done", output_index=0, item=self._item())
            + self._event(f"response.{response['status']}", response=response)
        )

    def error(self, error: Exception) -> bytes:
        """Return an error event; under `error` again, where the official client looks."""
        content = error_body(error)[1]["error"]
        named = {name: content[name] for name in ("code", "message", "param")}
        return self._event("error", **named, error=content)

    def _event(self, name: str, **content: object) -> bytes:
        return event(name, {"type": name, "sequence_number": next(self._numbers), **content})

    def _place(self) -> dict[str, Any]:
        return {"item_id": "msg_" + self.answer_id, "output_index": 0, "content_index": 0}

    def _part(self) -> dict[str, Any]:
        output = self.outputs[0]
        entries = chat_logprobs(self.tokenizer, output.logprobs)["content"]
        return {"type": "output_text", "text": output.text, "annotations": [], "logprobs": entries}

    def _item(self) -> dict[str, Any]:
        return {
            "id": "msg_" + self.answer_id,
            "type": "message",
            "status": self._status(),
            "role": "assistant",
            "content": [self._part()],
        }

    def _output(self) -> list[dict[str, Any]]:
        """Return the items of an answer that has ended."""
        return [self._item()]

    def _status(self) -> str:
        reason = self.outputs[0].finish_reason
        if reason is None:
            return "in_progress"
        return "incomplete" if reason is FinishReason.LENGTH else "completed"

    def _response(self) -> dict[str, Any]:
        fields, status = self.fields, self._status()
        is_ended = status != "in_progress"
        is_cut = status == "incomplete"
        body: dict[str, Any] = {
            "id": "resp_" + self.answer_id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": fields.instructions,
            "max_output_tokens": fields.max_output_tokens,
            "metadata": fields.metadata,
            "model": self.model,
            "output": self._output() if is_ended else [],
            "parallel_tool_calls": bool(fields.tools) and fields.parallel_tool_calls,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": fields.temperature,
            "text": fields.text or {"format": {"type": "text"}},
            "tool_choice": fields.tool_choice or ("auto" if fields.tools else "none"),
            "tools": fields.tools,
            "top_logprobs": fields.top_logprobs or 0,
            "top_p": fields.top_p,
            "truncation": "disabled",
            "usage": self._usage() if is_ended else None,
        }
        return body | {"metrics": self.metrics()} if is_ended else body

    def _usage(self) -> dict[str, Any]:
        prompt_len, output_len = self.num_tokens()
        return {
            "input_tokens": prompt_len,
            "input_tokens_details": {"cached_tokens": self.num_cached_tokens()},
            "output_tokens": output_len,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt_len + output_len,
        }
