"""Anthropic's messages: a request's body to a prompt and an order."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.types import ASGIApp

from leeway.core.errors import RequestError
from leeway.server.body import read_json_object
from leeway.server.errors import json_response
from leeway.server.fields import FieldRules, convert, read_fields, refuse_unless_neutral
from leeway.server.messages_format import MessagesFormat
from leeway.server.order import make_outputs, read_order, send_answer
from leeway.server.prompts import chat_ids
from leeway.server.sampling_fields import check_max_tokens, read_stop
from leeway.server.schema import (
    MessagesFields,
    MessagesMessage,
    MessagesPrompt,
    MessagesTextBlock,
)
from leeway.server.service_protocol import ServedParts
from leeway.server.state import ServerState

MESSAGES_RULES = FieldRules(
    {
        "container": (),
        "context_management": (),
        "diagnostics": (),
        "mcp_servers": ([],),
        "output_config": ({},),
        "output_format": (),
        "speed": ("standard",),
        "thinking": ({"type": "disabled"},),
        "tool_choice": ({"type": "none"}, {"type": "auto"}),
        "tools": ([],),
        "user_profile_id": (),
        "workspace_id": (),
    },
    frozenset({"cache_control", "inference_geo", "metadata", "service_tier"}),
)
_ROLES = ("user", "assistant")


async def messages(http_request: HTTPRequest) -> ASGIApp:
    """POST /v1/messages."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, MessagesFields, MESSAGES_RULES)
    check_max_tokens("max_tokens", fields.max_tokens)
    stop = read_stop(fields.stop_sequences, "stop_sequences")
    order = read_order(state, fields, max_tokens=fields.max_tokens, stop=stop)
    prompt = await asyncio.to_thread(_prompt, parts, fields.messages, fields.system)
    shape = MessagesFormat(
        model=order.model,
        outputs=make_outputs(order, [prompt]),
        is_detailed=order.speculative.is_detailed,
    )
    return send_answer(state, order, [prompt], shape)


async def count_tokens(http_request: HTTPRequest) -> Response:
    """POST /v1/messages/count_tokens."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, MessagesPrompt, MESSAGES_RULES)
    state.check_model(fields.model)
    prompt = await asyncio.to_thread(_prompt, parts, fields.messages, fields.system)
    return json_response({"input_tokens": len(prompt)})


def _prompt(
    parts: ServedParts, given: list[dict[str, Any]], system: str | list[dict[str, Any]]
) -> list[int]:
    """Return the ids of a conversation, ready for the assistant's turn.

    Raises:
        RequestError: a message is malformed, or the model's template refuses the conversation.
    """
    if not given:
        raise RequestError("messages is empty; send at least one", param="messages")
    plain = [_read_message(raw, f"messages[{index}]") for index, raw in enumerate(given)]
    if plain[-1]["role"] == "assistant":
        last = f"messages[{len(plain) - 1}].role"
        raise RequestError(
            f"{last} is 'assistant'; allowed: 'user', for an answer begun by the client is not "
            "continued; leave the last message out",
            param=last,
        )
    text = _read_content(system, "system")
    if text:
        plain.insert(0, {"role": "system", "content": text})
    return chat_ids(parts, parts.chat_template.render(plain))


def _read_message(raw: dict[str, Any], path: str) -> dict[str, str]:
    message = convert(raw, MessagesMessage, path)
    if message.role not in _ROLES:
        raise RequestError(
            f"{path}.role is {message.role!r}; allowed: 'user' or 'assistant' (the system prompt "
            "is the field system)",
            param=f"{path}.role",
        )
    return {"role": message.role, "content": _read_content(message.content, f"{path}.content")}


def _read_content(content: str | list[dict[str, Any]], path: str) -> str:
    """Return a text, or text blocks joined by line breaks; where to cache is up to the server."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for index, raw in enumerate(content):
        place = f"{path}[{index}]"
        if raw.get("type") != "text":
            raise RequestError(
                f"{place}.type is {raw.get('type')!r}; allowed: 'text'", param=f"{place}.type"
            )
        block = convert(raw, MessagesTextBlock, place)
        refuse_unless_neutral(f"{place}.citations", block.citations, ([],))
        texts.append(block.text)
    return "\n".join(texts)
