"""The answers of OpenAI's chat and completions: choices, whole or in chunks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from leeway.core.types import FinishReason, OutputDelta, TokenLogprob
from leeway.server.answer_format import AnswerFormat, ChoiceOutput
from leeway.server.chat_reader import ChatReader
from leeway.server.errors import error_body
from leeway.server.logprobs_format import Columns, CompletionLogprobs, chat_logprobs
from leeway.server.service_protocol import ServedTokenizer
from leeway.server.sse import DONE, frame
from leeway.text.provenance import ProvenanceText


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceFormat(AnswerFormat):
    """What both have in common.

    Attributes:
        fingerprint: identifies model, precision and law of this server.
        tokenizer: names tokens.
        has_usage: whether a stream ends with a chunk of usage.
        has_logprobs: whether log probabilities were asked for.
    """

    fingerprint: str
    tokenizer: ServedTokenizer
    has_usage: bool = False
    has_logprobs: bool = False

    whole_object: str = field(init=False)
    chunk_object: str = field(init=False)
    id_prefix: str = field(init=False)

    @abstractmethod
    def opening_choice(self, index: int) -> dict[str, Any] | None:
        """Return the choice of a stream's first chunk, if it has one."""

    @abstractmethod
    def delta_choice(self, index: int, delta: OutputDelta) -> dict[str, Any] | None:
        """Return the choice of a chunk with text or logprobs, if the delta has some."""

    @abstractmethod
    def finish_choice(self, index: int, reason: FinishReason) -> dict[str, Any]:
        """Return the choice of the chunk that ends an answer."""

    @abstractmethod
    def whole_choice(self, index: int, output: ChoiceOutput) -> dict[str, Any]:
        """Return the choice of a whole answer."""

    def whole(self) -> bytes:
        """Return the body with every choice, usage and metrics."""
        choices = [self.whole_choice(*one) for one in enumerate(self.outputs)]
        return msgspec.json.encode(self._head(self.whole_object, choices) | self._tail())

    def opening(self) -> bytes:
        """Return the first chunk of every choice."""
        openings = [self.opening_choice(index) for index in range(len(self.outputs))]
        return b"".join(self._chunk(choice) for choice in openings if choice is not None)

    def delta(self, index: int, delta: OutputDelta) -> bytes:
        """Return a chunk with what is new, and one with the end, if it is there."""
        frames = b""
        choice = self.delta_choice(index, delta)
        if choice is not None:
            frames += self._chunk(choice)
        if delta.finish_reason is not None:
            frames += self._chunk(self.finish_choice(index, delta.finish_reason))
        return frames

    def closing(self) -> bytes:
        """Return the chunk of usage and metrics, if asked for, and the end."""
        if not self.has_usage:
            return DONE
        return frame(msgspec.json.encode(self._head(self.chunk_object, []) | self._tail())) + DONE

    def error(self, error: Exception) -> bytes:
        """Return a frame with an error object."""
        return frame(msgspec.json.encode(error_body(error)[1]))

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        body = self._head(self.chunk_object, [choice])
        if self.has_usage:
            body["usage"] = None
        return frame(msgspec.json.encode(body))

    def _head(self, kind: str, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id_prefix + self.answer_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }

    def _tail(self) -> dict[str, Any]:
        prompt_len, output_len = self.num_tokens()
        usage = {
            "prompt_tokens": prompt_len,
            "prompt_tokens_details": {"cached_tokens": self.num_cached_tokens()},
            "completion_tokens": output_len,
            "total_tokens": prompt_len + output_len,
        }
        return {"usage": usage, "metrics": self.metrics()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormat(ChoiceFormat):
    """Bodies of /v1/chat/completions.

    With detailed metrics each chunk of a stream says where its tokens came from.

    Attributes:
        readers: one for each choice, or none where answers are content alone.
    """

    readers: Sequence[ChatReader] = ()

    whole_object: str = field(init=False, default="chat.completion")
    chunk_object: str = field(init=False, default="chat.completion.chunk")
    id_prefix: str = field(init=False, default="chatcmpl-")
    _origins: dict[int, ProvenanceText] = field(init=False, default_factory=dict)

    def opening_choice(self, index: int) -> dict[str, Any] | None:
        """Return the chunk that names the role."""
        return self._choice(index, {"role": "assistant", "content": ""})

    def delta_choice(self, index: int, delta: OutputDelta) -> dict[str, Any] | None:
        """Return a chunk of content, or of what the choice's reader finds in the text."""
        provenance = self._provenance(index, delta) if self.is_detailed else None
        news: dict[str, Any] = {"content": delta.text} if delta.text else {}
        if self.readers:
            is_last = delta.finish_reason is not None
            news = self.readers[index].delta(delta.text, is_last=is_last)
        if not news and not delta.logprobs:
            return None
        choice = self._choice(index, news or {"content": ""}, entries=delta.logprobs)
        return choice if provenance is None else choice | {"provenance": provenance}

    def finish_choice(self, index: int, reason: FinishReason) -> dict[str, Any]:
        """Return the last chunk, with an empty delta."""
        return self._choice(index, {}, self._reason(index, reason))

    def whole_choice(self, index: int, output: ChoiceOutput) -> dict[str, Any]:
        """Return the assistant's message."""
        if self.readers:
            message = self.readers[index].message(output.text)
        else:
            message = {"role": "assistant", "content": output.text, "refusal": None}
        logprobs = None
        if self.has_logprobs:
            logprobs = chat_logprobs(self.tokenizer, output.logprobs)
        return {
            "index": index,
            "message": message,
            "logprobs": logprobs,
            "finish_reason": self._reason(index, output.finish_reason),
        }

    def _tail(self) -> dict[str, Any]:
        tail = ChoiceFormat._tail(self)
        pairs = zip(self.readers, self.outputs, strict=False)
        counts = [reader.num_reasoning(self.tokenizer, one.token_ids) for reader, one in pairs]
        known = [count for count in counts if count is not None]
        if known:
            tail["usage"]["completion_tokens_details"] = {"reasoning_tokens": sum(known)}
        return tail

    def _reason(self, index: int, reason: FinishReason | None) -> str | None:
        return self.readers[index].finish_reason(reason) if self.readers else reason

    def _provenance(self, index: int, delta: OutputDelta) -> list[dict[str, str]]:
        """Return the delta's text token by token; `plain` where no draft stood before a token."""
        origins = self._origins.setdefault(index, ProvenanceText(self.tokenizer))
        return [
            {"text": piece.text, "from": "plain" if piece.is_plain else piece.provenance.value}
            for piece in origins.pieces(delta)
        ]

    def _choice(
        self,
        index: int,
        delta: dict[str, Any],
        reason: str | None = None,
        entries: Sequence[TokenLogprob] = (),
    ) -> dict[str, Any]:
        logprobs = chat_logprobs(self.tokenizer, entries) if entries else None
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionFormat(ChoiceFormat):
    """Bodies of /v1/completions.

    Attributes:
        prompts: token ids of every choice's prompt.
    """

    prompts: Sequence[Sequence[int]]
    whole_object: str = field(init=False, default="text_completion")
    chunk_object: str = field(init=False, default="text_completion")
    id_prefix: str = field(init=False, default="cmpl-")
    _logprobs: dict[int, CompletionLogprobs] = field(init=False, default_factory=dict)

    def opening_choice(self, index: int) -> dict[str, Any] | None:
        """Return nothing: a completion's stream begins with text."""
        return None

    def delta_choice(self, index: int, delta: OutputDelta) -> dict[str, Any] | None:
        """Return a chunk of text; the first one begins with the prompt, where it is echoed."""
        output = self.outputs[index]
        prompt_text = output.prompt_text if output.num_deltas == 1 else None
        text = (prompt_text or "") + delta.text
        if not text and not delta.logprobs and not delta.prompt_logprobs:
            return None
        columns = self._columns(index, delta.prompt_logprobs, delta.logprobs)
        return self._choice(index, text, logprobs=columns)

    def finish_choice(self, index: int, reason: FinishReason) -> dict[str, Any]:
        """Return the last chunk, without text."""
        return self._choice(index, "", reason)

    def whole_choice(self, index: int, output: ChoiceOutput) -> dict[str, Any]:
        """Return the text."""
        text = (output.prompt_text or "") + output.text
        columns = self._columns(index, output.prompt_logprobs, output.logprobs)
        return self._choice(index, text, output.finish_reason, columns)

    def _columns(
        self,
        index: int,
        prompt_entries: Sequence[TokenLogprob | None],
        entries: Sequence[TokenLogprob],
    ) -> Columns | None:
        """Return the entries' columns; None where they were not asked for."""
        if not self.has_logprobs:
            return None
        builder = self._logprobs.setdefault(index, CompletionLogprobs(self.tokenizer))
        columns = Columns()
        if prompt_entries:
            text = self.outputs[index].prompt_text or ""
            columns.extend(builder.add_prompt(self.prompts[index], prompt_entries, text))
        columns.extend(builder.add(entries))
        return columns

    def _choice(
        self,
        index: int,
        text: str,
        reason: FinishReason | None = None,
        logprobs: Columns | None = None,
    ) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
