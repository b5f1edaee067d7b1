"""Tools of Anthropic's messages: what may or must be called."""

from __future__ import annotations

from typing import Any

from leeway.core.errors import RequestError
from leeway.server.fields import convert
from leeway.server.schema import (
    ChosenFunction,
    MessagesFields,
    MessagesPrompt,
    MessagesTool,
    MessagesToolChoice,
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

CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_messages_tools(
    parts: ServedParts, fields: MessagesPrompt | MessagesFields
) -> ToolUse | None:
    """Return what to do with the tools; None where there are none, or none may be called.

    Raises:
        RequestError: a tool or the choice is malformed, or the model knows no tools.
    """
    functions = [_read_tool(raw, f"tools[{index}]") for index, raw in enumerate(fields.tools)]
    shown = shown_tools(functions)
    names = [one.name for one in functions]
    if fields.tool_choice is None:
        return use_tools(parts, functions, shown, "auto", is_one=False)
    choice = convert(fields.tool_choice, MessagesToolChoice, "tool_choice")
    chosen: str | ChosenFunction | None = CHOICES.get(choice.type)
    if choice.type == "tool" and choice.name is not None:
        chosen = known_function(choice.name, names)
    if chosen is None or (chosen == "required" and not names):
        raise RequestError(
            f"tool_choice is {choice.type!r}; allowed: 'auto', 'none', and with tools 'any' or "
            "'tool' with a name",
            param="tool_choice",
        )
    return use_tools(parts, functions, shown, chosen, is_one=choice.disable_parallel_tool_use)


def _read_tool(raw: dict[str, Any], path: str) -> ToolFunction:
    if raw.get("type") not in (None, "custom"):
        raise RequestError(
            f"{path}.type is {raw['type']!r}; allowed: 'custom', for this server runs no tools",
            param=f"{path}.type",
        )
    given = {name: value for name, value in raw.items() if value is not None}
    tool = convert(given, MessagesTool, path)
    check_name(tool.name, f"{path}.name")
    return ToolFunction(tool.name, tool.description, tool.input_schema, tool.strict)
