"""Answer format: the JSON of an answer, whole or in chunks, for chat and for completions."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from leeway.core.receipt import Receipt
from leeway.core.types import FinishReason

METRICS_VERSION = 1


@dataclass(slots=True)
class ChoiceOutput:
    """What one prompt's answer has come to so far."""

    prompt_len: int
    texts: list[str] = field(default_factory=list)
    output_len: int = 0
    finish_reason: FinishReason | None = None
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFormat(ABC):
    """Builds the bodies of one answer.

    Attributes:
        model: name to answer with.
        fingerprint: identifies model, precision and law of this server.
        has_usage: whether a stream ends with a chunk of usage.
        is_detailed: whether metrics list every step.
    """

    model: str
    fingerprint: str
    has_usage: bool = False
    is_detailed: bool = False
    answer_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    whole_object: str = field(init=False)
    chunk_object: str = field(init=False)
    id_prefix: str = field(init=False)

    @abstractmethod
    def opening_choice(self, index: int) -> dict[str, Any] | None:
        """Return the choice of a stream's first chunk, if it has one."""

    @abstractmethod
    def text_choice(self, index: int, text: str) -> dict[str, Any]:
        """Return the choice of a chunk with text."""

    @abstractmethod
    def finish_choice(self, index: int, reason: FinishReason) -> dict[str, Any]:
        """Return the choice of the chunk that ends an answer."""

    @abstractmethod
    def whole_choice(self, index: int, text: str, reason: FinishReason) -> dict[str, Any]:
        """Return the choice of a whole answer."""

    def whole(self, outputs: Sequence[ChoiceOutput]) -> bytes:
        """Return the body of a whole answer."""
        choices = []
        for index, output in enumerate(outputs):
            assert output.finish_reason is not None
            choices.append(self.whole_choice(index, "".join(output.texts), output.finish_reason))
        body = self._head(self.whole_object, choices)
        return msgspec.json.encode(body | self._tail(outputs))

    def chunk(self, choice: dict[str, Any]) -> bytes:
        """Return one chunk of a stream."""
        body = self._head(self.chunk_object, [choice])
        if self.has_usage:
            body["usage"] = None
        return msgspec.json.encode(body)

    def usage_chunk(self, outputs: Sequence[ChoiceOutput]) -> bytes:
        """Return the chunk of usage and metrics that ends a stream."""
        return msgspec.json.encode(self._head(self.chunk_object, []) | self._tail(outputs))

    def _head(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id_prefix + self.answer_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }

    def _tail(self, outputs: Sequence[ChoiceOutput]) -> dict[str, Any]:
        prompt_len = sum(output.prompt_len for output in outputs)
        output_len = sum(output.output_len for output in outputs)
        usage = {
            "prompt_tokens": prompt_len,
            "completion_tokens": output_len,
            "total_tokens": prompt_len + output_len,
        }
        return {"usage": usage, "metrics": self._metrics(outputs)}

    def _metrics(self, outputs: Sequence[ChoiceOutput]) -> dict[str, Any]:
        """Return the metrics; null under the contract's name when they are not of one answer."""
        each = [
            None
            if output.receipt is None
            else output.receipt.speculative_metrics(detailed=self.is_detailed)
            for output in outputs
        ]
        metrics: dict[str, Any] = {"version": METRICS_VERSION}
        if len(each) == 1:
            return metrics | {"speculative_decoding": each[0]}
        return metrics | {"speculative_decoding": None, "speculative_decoding_by_choice": each}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormat(AnswerFormat):
    """Bodies of /v1/chat/completions."""

    whole_object: str = field(init=False, default="chat.completion")
    chunk_object: str = field(init=False, default="chat.completion.chunk")
    id_prefix: str = field(init=False, default="chatcmpl-")

    def opening_choice(self, index: int) -> dict[str, Any] | None:
        """Return the chunk that names the role."""
        return self._delta(index, {"role": "assistant", "content": ""})

    def text_choice(self, index: int, text: str) -> dict[str, Any]:
        """Return a chunk of content."""
        return self._delta(index, {"content": text})

    def finish_choice(self, index: int, reason: FinishReason) -> dict[str, Any]:
        """Return the last chunk, with an empty delta."""
        return self._delta(index, {}, reason)

    def whole_choice(self, index: int, text: str, reason: FinishReason) -> dict[str, Any]:
        """Return the assistant's message."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": None, "finish_reason": reason}

    def _delta(
        self, index: int, delta: dict[str, str], reason: FinishReason | None = None
    ) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionFormat(AnswerFormat):
    """Bodies of /v1/completions."""

    whole_object: str = field(init=False, default="text_completion")
    chunk_object: str = field(init=False, default="text_completion")
    id_prefix: str = field(init=False, default="cmpl-")

    def opening_choice(self, index: int) -> dict[str, Any] | None:
        """Return nothing: a completion's stream begins with text."""
        return None

    def text_choice(self, index: int, text: str) -> dict[str, Any]:
        """Return a chunk of text."""
        return self._choice(index, text)

    def finish_choice(self, index: int, reason: FinishReason) -> dict[str, Any]:
        """Return the last chunk, without text."""
        return self._choice(index, "", reason)

    def whole_choice(self, index: int, text: str, reason: FinishReason) -> dict[str, Any]:
        """Return the text."""
        return self._choice(index, text, reason)

    def _choice(self, index: int, text: str, reason: FinishReason | None = None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
