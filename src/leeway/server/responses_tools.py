"""Tools of OpenAI's responses: what may or must be called, and items that call or answer."""

from __future__ import annotations

from typing import Any

from leeway.core.errors import RequestError
from leeway.server.fields import convert
from leeway.server.schema import (
    ChosenFunction,
    FunctionCallItem,
    FunctionCallOutput,
    ResponseFields,
    ResponseTool,
    ResponseToolChoice,
    ToolFunction,
)
from leeway.server.service_protocol import ServedParts
from leeway.server.tool_fields import (
    ToolUse,
    check_name,
    known_function,
    shown_tools,
    use_tools,
)
from leeway.server.tool_messages import read_arguments

LOGPROBS = "message.output_text.logprobs"


def read_response_tools(parts: ServedParts, fields: ResponseFields) -> ToolUse | None:
    """Return what to do with the tools; None where there are none, or none may be called.

    Raises:
        RequestError: a tool or the choice is malformed, the model knows no tools, or log
            probabilities are wanted, which have no place beside calls.
    """
    functions = [_read_tool(raw, f"tools[{index}]") for index, raw in enumerate(fields.tools)]
    shown = shown_tools(functions)
    chosen = _read_choice(fields.tool_choice, [one.name for one in functions])
    is_one = not fields.parallel_tool_calls
    tools = use_tools(parts, functions, shown, chosen, is_one=is_one)
    if tools is not None and LOGPROBS in fields.include:
        raise RequestError(
            f"include has {LOGPROBS!r} beside tools; leave it out, or send tool_choice 'none'",
            param="include",
        )
    return tools


def call_turn(raw: dict[str, Any], path: str) -> dict[str, Any]:
    """Return an assistant's turn of one call. Raises RequestError naming its place."""
    call = convert(_given(raw), FunctionCallItem, path)
    arguments = read_arguments(call.arguments, f"{path}.arguments")
    function = {"name": call.name, "arguments": arguments}
    tool_calls = [{"type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": tool_calls}


def read_output(raw: dict[str, Any], path: str) -> FunctionCallOutput:
    """Return the item that answers a call. Raises RequestError naming its place."""
    return convert(_given(raw), FunctionCallOutput, path)


def joined_turns(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns with each assistant's calls in the turn that they belong to."""
    joined: list[dict[str, Any]] = []
    for turn in turns:
        last = joined[-1] if joined else None
        if "tool_calls" in turn and last is not None and last["role"] == "assistant":
            calls = [*last.get("tool_calls", []), *turn["tool_calls"]]
            joined[-1] = {**last, "tool_calls": calls}
        else:
            joined.append(turn)
    return joined


def _read_tool(raw: dict[str, Any], path: str) -> ToolFunction:
    if raw.get("type") != "function":
        raise RequestError(
            f"{path}.type is {raw.get('type')!r}; allowed: 'function', for this server runs no "
            "tools",
            param=f"{path}.type",
        )
    tool = convert(_given(raw), ResponseTool, path)
    check_name(tool.name, f"{path}.name")
    return ToolFunction(tool.name, tool.description, tool.parameters, tool.strict)


def _read_choice(raw: str | dict[str, Any] | None, names: list[str]) -> str | ChosenFunction:
    if raw is None:
        return "auto"
    if isinstance(raw, dict):
        choice = convert(raw, ResponseToolChoice, "tool_choice")
        if choice.type == "function":
            return known_function(choice.name, names)
    elif raw in ("none", "auto") or (raw == "required" and names):
        return raw
    raise RequestError(
        f"tool_choice is {raw!r}; allowed: 'none', 'auto', and with tools 'required' or "
        "{'type': 'function', 'name': NAME}",
        param="tool_choice",
    )


def _given(raw: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if value is not None}
