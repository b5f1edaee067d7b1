"""The content of Anthropic's messages: texts, calls of tools and their results, as turns."""

from __future__ import annotations

from typing import Any

from leeway.core.errors import RequestError
from leeway.server.fields import convert, refuse_unless_neutral
from leeway.server.schema import (
    MessagesMessage,
    MessagesTextBlock,
    MessagesToolResult,
    MessagesToolUse,
)

ROLES = ("user", "assistant", "system")


def read_turns(raw: dict[str, Any], path: str, *, calls_tools: bool) -> list[dict[str, Any]]:
    """Return the turns of one message: the results of tools are turns of their own.

    Args:
        raw: the message.
        path: its place in the request.
        calls_tools: whether the model's template has a place for calls and results.

    Raises:
        RequestError: names the block at fault.
    """
    message = convert(raw, MessagesMessage, path)
    if message.role not in ROLES:
        raise RequestError(
            f"{path}.role is {message.role!r}; allowed: 'user', 'assistant' or 'system'",
            param=f"{path}.role",
        )
    path = f"{path}.content"
    if isinstance(message.content, str) or not calls_tools or message.role == "system":
        return [{"role": message.role, "content": read_text(message.content, path)}]
    if message.role == "assistant":
        return [_assistant_turn(message.content, path)]
    return _user_turns(message.content, path)


def read_text(content: str | list[dict[str, Any]], path: str) -> str:
    """Return a text, or text blocks joined by line breaks; where to cache is up to the server."""
    if isinstance(content, str):
        return content
    return "\n".join(_read_block(raw, f"{path}[{index}]") for index, raw in enumerate(content))


def _read_block(raw: dict[str, Any], place: str) -> str:
    if raw.get("type") != "text":
        raise RequestError(
            f"{place}.type is {raw.get('type')!r}; allowed: 'text'", param=f"{place}.type"
        )
    block = convert(raw, MessagesTextBlock, place)
    refuse_unless_neutral(f"{place}.citations", block.citations, ([],))
    return block.text


def _assistant_turn(blocks: list[dict[str, Any]], path: str) -> dict[str, Any]:
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for index, raw in enumerate(blocks):
        place = f"{path}[{index}]"
        if raw.get("type") == "tool_use":
            call = convert(raw, MessagesToolUse, place)
            function = {"name": call.name, "arguments": call.input}
            calls.append({"type": "function", "function": function})
        else:
            texts.append(_read_block(raw, place))
    turn: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts)}
    return turn | {"tool_calls": calls} if calls else turn


def _user_turns(blocks: list[dict[str, Any]], path: str) -> list[dict[str, Any]]:
    texts: list[str] = []
    turns: list[dict[str, Any]] = []
    for index, raw in enumerate(blocks):
        place = f"{path}[{index}]"
        if raw.get("type") == "tool_result":
            result = convert(raw, MessagesToolResult, place)
            text = read_text(result.content, f"{place}.content")
            turns.append({"role": "tool", "content": text})
        else:
            texts.append(_read_block(raw, place))
    if texts or not turns:
        turns.append({"role": "user", "content": "\n".join(texts)})
    return turns
