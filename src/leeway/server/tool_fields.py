"""Tools of a chat: what the template is shown, and what the answer may or must call."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from leeway.core.errors import RequestError
from leeway.core.types import Grammar
from leeway.server.fields import convert
from leeway.server.order import Order
from leeway.server.schema import ChatFields, ChosenFunction, Tool, ToolChoice, ToolFunction
from leeway.server.service_protocol import ServedParts
from leeway.text.tool_calls.dialect import Dialect

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """What the tools of one request come to.

    Attributes:
        shown: the tools as they came, for the template.
        dialect: how the model writes calls.
        grammar: what holds the answer to calls; None where it is free.
        stop: strings that end it besides the request's own.
    """

    shown: list[dict[str, Any]]
    dialect: Dialect
    grammar: Grammar | None
    stop: tuple[str, ...] = ()


def read_tools(parts: ServedParts, fields: ChatFields) -> ToolUse | None:
    """Return what to do with the tools of a chat; None where there are none, or none may be called.

    Raises:
        RequestError: a tool or the choice is malformed, or the model knows no tools.
    """
    shown = fields.tools or []
    functions = [_read_function(raw, f"tools[{index}]") for index, raw in enumerate(shown)]
    chosen = _read_choice(fields.tool_choice, [one.name for one in functions])
    return use_tools(parts, functions, shown, chosen, is_one=not fields.parallel_tool_calls)


def use_tools(
    parts: ServedParts,
    functions: list[ToolFunction],
    shown: list[dict[str, Any]],
    chosen: str | ChosenFunction,
    *,
    is_one: bool,
) -> ToolUse | None:
    """Return what to do with checked tools; None where there are none, or none may be called.

    Args:
        parts: have the template.
        functions: the tools.
        shown: the same as OpenAI's clients write them, for the template.
        chosen: 'none', 'auto', 'required' or the function that must be called.
        is_one: whether there may be one call at most.

    Raises:
        RequestError: the model knows no tools.
    """
    if not functions or chosen == "none":
        return None
    dialect = parts.chat_template.tool_dialect
    if dialect is None:
        raise RequestError(
            f"tools are not supported by the chat template of {parts.model_name!r}; leave them "
            "out, send tool_choice 'none', or serve a model whose template shows tools and writes "
            "calls as <tool_call>{...}</tool_call>, such as qwen2.5-coder-0.5b-instruct",
            param="tools",
        )
    if chosen == "auto":
        is_strict = any(one.strict for one in functions)
        grammar = _calls(dialect, functions, trigger=dialect.begin) if is_strict else None
        stop = (dialect.end,) if is_one else ()
        return ToolUse(shown=shown, dialect=dialect, grammar=grammar, stop=stop)
    if isinstance(chosen, ChosenFunction):
        functions = [one for one in functions if one.name == chosen.name]
        is_one = True
    grammar = _calls(dialect, functions, between=None if is_one else dialect.between)
    return ToolUse(shown=shown, dialect=dialect, grammar=grammar)


def _read_function(raw: dict[str, Any], path: str) -> ToolFunction:
    tool = convert(raw, Tool, path)
    if tool.type != "function":
        raise RequestError(
            f"{path}.type is {tool.type!r}; allowed: 'function'", param=f"{path}.type"
        )
    check_name(tool.function.name, f"{path}.function.name")
    return tool.function


def check_name(name: str, path: str) -> None:
    """Raise RequestError unless a function can have this name."""
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"{path} is {name!r}; allowed: 1 to 64 letters, digits, underscores, dots and dashes",
            param=path,
        )


def _read_choice(raw: str | dict[str, Any] | None, names: list[str]) -> str | ChosenFunction:
    """Return 'none', 'auto', 'required' or the function that must be called."""
    if raw is None:
        return "auto"
    if isinstance(raw, dict):
        choice = convert(raw, ToolChoice, "tool_choice")
        if choice.type == "function" and choice.function is not None:
            return known_function(choice.function.name, names)
    elif raw in ("none", "auto") or (raw == "required" and names):
        return raw
    raise RequestError(
        f"tool_choice is {raw!r}; allowed: 'none', 'auto', and with "
        "tools 'required' or {'type': 'function', 'function': {'name': NAME}}",
        param="tool_choice",
    )


def known_function(name: str, names: list[str]) -> ChosenFunction:
    """Return the function that must be called. Raises RequestError where it is no tool."""
    if name not in names:
        raise RequestError(
            f"tool_choice names the function {name!r}; allowed: one of tools "
            f"({', '.join(names) or 'there are none'})",
            param="tool_choice",
        )
    return ChosenFunction(name)


def shown_tools(functions: list[ToolFunction]) -> list[dict[str, Any]]:
    """Return the tools as OpenAI's chat clients write them, which is what templates expect."""
    shown = []
    for one in functions:
        described = {} if one.description is None else {"description": one.description}
        function = {"name": one.name, **described, "parameters": one.parameters or {}}
        shown.append({"type": "function", "function": function})
    return shown


def with_stop(order: Order, tools: ToolUse | None) -> Order:
    """Return the order with the stop strings of its tools added to its own."""
    if tools is None or not tools.stop:
        return order
    sampling = order.sampling
    return replace(order, sampling=replace(sampling, stop=(*sampling.stop, *tools.stop)))


def _calls(
    dialect: Dialect,
    functions: list[ToolFunction],
    *,
    trigger: str | None = None,
    between: str | None = None,
) -> Grammar:
    named = [
        {
            "name": one.name,
            "parameters": _NO_PARAMETERS if one.parameters is None else one.parameters,
        }
        for one in functions
    ]
    calls = {"frames": dialect.frames(named), "trigger": trigger, "between": between}
    return Grammar("calls", json.dumps(calls), "tools")


def only_form(form: Grammar | None, tools: ToolUse | None) -> Grammar | None:
    """Return what an answer is held to. Raises RequestError where a form stands beside tools."""
    if tools is None:
        return form
    if form is not None:
        raise RequestError(
            f"tools stand beside {form.param}, under which nothing can be called; leave one of "
            "them out, or send tool_choice 'none'",
            param="tools",
        )
    return tools.grammar
