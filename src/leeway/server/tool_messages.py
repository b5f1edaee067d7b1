"""Turns of a conversation that call tools or answer calls, as chat templates want them."""

from __future__ import annotations

import json
from typing import Any

from leeway.core.errors import RequestError
from leeway.server.fields import convert
from leeway.server.schema import MessageCall


def read_calls(raw: list[dict[str, Any]], path: str) -> list[dict[str, Any]]:
    """Return the calls of an assistant's message, their arguments as objects.

    Raises:
        RequestError: a call is malformed, or its arguments are no JSON object.
    """
    return [_read_call(one, f"{path}.tool_calls[{index}]") for index, one in enumerate(raw)]


def _read_call(raw: dict[str, Any], path: str) -> dict[str, Any]:
    call = convert(
        {name: value for name, value in raw.items() if name != "index"}, MessageCall, path
    )
    if call.type != "function":
        raise RequestError(
            f"{path}.type is {call.type!r}; allowed: 'function'", param=f"{path}.type"
        )
    function = call.function
    arguments = read_arguments(function.arguments, f"{path}.function.arguments")
    return {"type": "function", "function": {"name": function.name, "arguments": arguments}}


def read_arguments(text: str, path: str) -> dict[str, Any]:
    """Return a call's arguments. Raises RequestError where they are no JSON object."""
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"{path} is not JSON ({error}); send the arguments as they came", param=path
        ) from None
    if not isinstance(arguments, dict):
        raise RequestError(
            f"{path} is a JSON {type(arguments).__name__}; allowed: an object", param=path
        )
    return arguments
