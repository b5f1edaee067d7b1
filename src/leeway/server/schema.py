"""The request bodies: every field that is honoured, with OpenAI's defaults."""

from __future__ import annotations

from typing import Any

import msgspec


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """How a stream ends; `include_obfuscation` is accepted and adds nothing."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class SharedFields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What both completions take. `top_k` 0 and -1 are off; `model` may be left out."""

    model: str | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: str | list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    logit_bias: dict[str, float] = {}
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stream: bool = False
    stream_options: StreamOptions | None = None
    speculative: dict[str, Any] | None = None


class ChatFields(SharedFields, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None


class CompletionFields(SharedFields, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/completions."""

    prompt: str | list[str | int | list[int]]


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """One message of a conversation."""

    role: str
    content: str | list[dict[str, Any]]
    name: str | None = None


class TextPart(msgspec.Struct, forbid_unknown_fields=True):
    """One part of a message's content."""

    type: str
    text: str
