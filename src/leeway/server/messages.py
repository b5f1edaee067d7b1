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
from leeway.server.fields import FieldRules, read_fields
from leeway.server.messages_content import read_text, read_turns
from leeway.server.messages_fields import read_output_form
from leeway.server.messages_format import MessagesFormat
from leeway.server.messages_tools import read_messages_tools
from leeway.server.messages_tools_format import ToolMessagesFormat
from leeway.server.order import make_outputs, read_order, send_answer, with_grammar
from leeway.server.prompts import chat_ids, render_begun
from leeway.server.sampling_fields import check_max_tokens, read_stop
from leeway.server.schema import MessagesFields, MessagesPrompt
from leeway.server.service_protocol import ServedParts
from leeway.server.state import ServerState
from leeway.server.tool_fields import ToolUse, only_form, with_stop

MESSAGES_RULES = FieldRules(
    {
        "container": (),
        "diagnostics": (),
        "mcp_servers": ([],),
        "output_format": (),
        "speed": ("standard",),
        "user_profile_id": (),
        "workspace_id": (),
    },
    frozenset({"cache_control", "inference_geo", "metadata", "service_tier"}),
)


async def messages(http_request: HTTPRequest) -> ASGIApp:
    """POST /v1/messages."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, MessagesFields, MESSAGES_RULES)
    check_max_tokens("max_tokens", fields.max_tokens)
    stop = read_stop(fields.stop_sequences, "stop_sequences")
    order = read_order(state, fields, max_tokens=fields.max_tokens, stop=stop)
    tools = read_messages_tools(parts, fields)
    prompt = await asyncio.to_thread(_prompt, parts, fields, tools)
    form = only_form(read_output_form(fields), tools)
    order = await with_grammar(state, with_stop(order, tools), form)
    common: dict[str, Any] = {
        "model": order.model,
        "outputs": make_outputs(order, [prompt]),
        "is_detailed": order.speculative.is_detailed,
    }
    if tools is None:
        return send_answer(state, order, [prompt], MessagesFormat(**common))
    shape = ToolMessagesFormat(**common, reader=tools.dialect.make_reader())
    return send_answer(state, order, [prompt], shape)


async def count_tokens(http_request: HTTPRequest) -> Response:
    """POST /v1/messages/count_tokens."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, MessagesPrompt, MESSAGES_RULES)
    state.check_model(fields.model)
    tools = read_messages_tools(parts, fields)
    only_form(read_output_form(fields), tools)
    prompt = await asyncio.to_thread(_prompt, parts, fields, tools)
    return json_response({"input_tokens": len(prompt)})


def _prompt(
    parts: ServedParts, fields: MessagesPrompt | MessagesFields, tools: ToolUse | None
) -> list[int]:
    """Return the ids of a conversation, ready for the assistant's turn, or to go on with it.

    Raises:
        RequestError: a message is malformed, or the model's template refuses the conversation.
    """
    given = fields.messages
    if not given:
        raise RequestError("messages is empty; send at least one", param="messages")
    calls_tools = parts.chat_template.tool_dialect is not None
    plain: list[dict[str, Any]] = []
    for index, raw in enumerate(given):
        plain += read_turns(raw, f"messages[{index}]", calls_tools=calls_tools)
    text = read_text(fields.system, "system")
    if text:
        plain.insert(0, {"role": "system", "content": text})
    shown: dict[str, Any] = {} if tools is None else {"tools": tools.shown}
    if plain[-1]["role"] == "assistant":
        path = f"messages[{len(given) - 1}]"
        return chat_ids(parts, render_begun(parts.chat_template, plain, path, shown))
    return chat_ids(parts, parts.chat_template.render(plain, **shown))
