"""OpenAI's responses: a request's body to a prompt and an order. Nothing is stored."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from starlette.requests import Request as HTTPRequest
from starlette.types import ASGIApp

from leeway.core.errors import RequestError
from leeway.server.body import read_json_object
from leeway.server.completions import check_top_logprobs
from leeway.server.fields import FieldRules, convert, read_fields, refuse_unless_neutral
from leeway.server.order import make_outputs, read_order, send_answer, with_grammar
from leeway.server.prompts import ROLES, chat_ids
from leeway.server.responses_format import ResponsesFormat
from leeway.server.responses_tools import (
    LOGPROBS,
    call_turn,
    joined_turns,
    read_output,
    read_response_tools,
)
from leeway.server.responses_tools_format import ToolResponsesFormat
from leeway.server.sampling_fields import check_max_tokens, read_stop
from leeway.server.schema import InputMessage, InputText, ResponseFields
from leeway.server.service_protocol import ServedParts
from leeway.server.state import ServerState
from leeway.server.structured_fields import read_text_format
from leeway.server.tool_fields import ToolUse, only_form, with_stop

RESPONSES_RULES = FieldRules(
    {
        "access_programs": (),
        "background": (False,),
        "background_options": (),
        "context_management": (),
        "conversation": (),
        "image": (),
        "max_tool_calls": (),
        "moderation": (),
        "previous_response_id": (),
        "prompt": (),
        "reasoning": ({}, {"effort": "none"}, {"summary": "auto"}),
        "store": (False,),
        "truncation": ("disabled",),
    },
    frozenset(
        {
            "client_metadata",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "user",
        }
    ),
)
PARTS = ("input_text", "output_text", "text")


async def responses(http_request: HTTPRequest) -> ASGIApp:
    """POST /v1/responses."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, ResponseFields, RESPONSES_RULES)
    _check_stream_options(fields)
    if fields.max_output_tokens is not None:
        check_max_tokens("max_output_tokens", fields.max_output_tokens)
    order = read_order(
        state, fields, max_tokens=fields.max_output_tokens, stop=read_stop(fields.stop)
    )
    order = replace(order, logprobs=_read_logprobs(fields))
    tools = read_response_tools(parts, fields)
    form = only_form(read_text_format(fields.text), tools)
    order = await with_grammar(state, with_stop(order, tools), form)
    prompt = await asyncio.to_thread(_prompt, parts, fields, tools)
    common: dict[str, Any] = {
        "model": order.model,
        "outputs": make_outputs(order, [prompt]),
        "is_detailed": order.speculative.is_detailed,
        "fields": fields,
        "tokenizer": parts.tokenizer,
    }
    if tools is None:
        return send_answer(state, order, [prompt], ResponsesFormat(**common))
    shape = ToolResponsesFormat(**common, reader=tools.dialect.make_reader())
    return send_answer(state, order, [prompt], shape)


def _check_stream_options(fields: ResponseFields) -> None:
    for name in fields.stream_options or {}:
        if name != "include_obfuscation":
            raise RequestError(
                f"stream_options has the unknown key {name!r}; allowed: include_obfuscation, "
                "which adds nothing",
                param=f"stream_options.{name}",
            )


def _read_logprobs(fields: ResponseFields) -> int | None:
    """Return how many of the likeliest tokens are wanted; None where no logprobs are."""
    for name in fields.include:
        if name not in (LOGPROBS, "reasoning.encrypted_content"):
            raise RequestError(f"include has {name!r}; allowed: {LOGPROBS!r}", param="include")
    if fields.top_logprobs is not None:
        check_top_logprobs(fields.top_logprobs)
    if LOGPROBS in fields.include:
        return fields.top_logprobs or 0
    if fields.top_logprobs:
        raise RequestError(
            f"top_logprobs is {fields.top_logprobs}; allowed: only with include [{LOGPROBS!r}], "
            "or 0",
            param="top_logprobs",
        )
    return None


def _prompt(parts: ServedParts, fields: ResponseFields, tools: ToolUse | None) -> list[int]:
    """Return the ids of a conversation, ready for the assistant's turn.

    Raises:
        RequestError: an item is malformed or not supported, or the template refuses.
    """
    given = fields.input
    if isinstance(given, str):
        plain = [{"role": "user", "content": given}]
    else:
        calls_tools = parts.chat_template.tool_dialect is not None
        plain = joined_turns(
            [
                _read_item(raw, f"input[{index}]", calls_tools=calls_tools)
                for index, raw in enumerate(given)
            ]
        )
    if not plain:
        raise RequestError("input is empty; send a text or at least one message", param="input")
    if fields.instructions:
        plain.insert(0, {"role": "system", "content": fields.instructions})
    shown: dict[str, Any] = {} if tools is None else {"tools": tools.shown}
    return chat_ids(parts, parts.chat_template.render(plain, **shown))


def _read_item(raw: dict[str, Any], path: str, *, calls_tools: bool) -> dict[str, Any]:
    kind = raw.get("type", "message")
    if calls_tools and kind == "function_call":
        return call_turn(raw, path)
    if calls_tools and kind == "function_call_output":
        output = read_output(raw, path).output
        return {"role": "tool", "content": _read_content(output, path, "output")}
    if kind != "message":
        also = ", 'function_call', 'function_call_output'" if calls_tools else ""
        raise RequestError(
            f"{path}.type is {kind!r}; allowed: 'message'{also} (other tools, reasoning and "
            "stored items are not supported)",
            param=f"{path}.type",
        )
    message = convert(
        {name: value for name, value in raw.items() if value is not None}, InputMessage, path
    )
    if message.role not in ROLES:
        raise RequestError(
            f"{path}.role is {message.role!r}; allowed: {', '.join(sorted(ROLES))}",
            param=f"{path}.role",
        )
    return {"role": ROLES[message.role], "content": _read_content(message.content, path)}


def _read_content(content: str | list[dict[str, Any]], path: str, name: str = "content") -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for index, raw in enumerate(content):
        place = f"{path}.{name}[{index}]"
        if raw.get("type") not in PARTS:
            raise RequestError(
                f"{place}.type is {raw.get('type')!r}; allowed: {', '.join(map(repr, PARTS))}",
                param=f"{place}.type",
            )
        part = convert(raw, InputText, place)
        refuse_unless_neutral(f"{place}.annotations", part.annotations, ([],))
        texts.append(part.text)
    return "\n".join(texts)
