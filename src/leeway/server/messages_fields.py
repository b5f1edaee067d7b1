"""What Anthropic's agents ask for beside their messages: thinking, effort, a form, less context.

A model here thinks as its template has it, without levels, and nothing that was thought is kept.
What asks for no more than that is served by doing nothing; anything else is refused by name.
"""

from __future__ import annotations

from typing import Any

from leeway.core.errors import RequestError
from leeway.core.types import Grammar
from leeway.server.fields import convert
from leeway.server.schema import (
    MessagesContext,
    MessagesFields,
    MessagesOutput,
    MessagesPrompt,
    MessagesThinking,
)
from leeway.server.structured_fields import read_format

THINKING = ("disabled", "adaptive")
EFFORTS = ("low", "medium", "high", "xhigh", "max")


def read_output_form(fields: MessagesPrompt | MessagesFields) -> Grammar | None:
    """Return the form that the answer is asked to have; None where any will do.

    Raises:
        RequestError: something else is asked for that cannot be served.
    """
    _check_thinking(fields.thinking)
    _check_context(fields.context_management)
    if fields.output_config is None:
        return None
    asked = convert(fields.output_config, MessagesOutput, "output_config")
    if asked.effort is not None and asked.effort not in EFFORTS:
        raise _refusal("output_config.effort", asked.effort, EFFORTS)
    return None if asked.format is None else read_format(asked.format, "output_config.format")


def _check_thinking(raw: dict[str, Any] | None) -> None:
    if raw is None:
        return
    if raw.get("type") == "enabled":
        raise RequestError(
            "thinking is not supported by budget; leave it out, or send the type 'adaptive', under "
            "which the model thinks as its template has it",
            param="thinking",
        )
    asked = convert(raw, MessagesThinking, "thinking")
    if asked.type not in THINKING:
        raise _refusal("thinking.type", asked.type, THINKING)


def _check_context(raw: dict[str, Any] | None) -> None:
    """Let what clears thinking pass: nothing that was thought is in a prompt."""
    if raw is None:
        return
    asked = convert(raw, MessagesContext, "context_management")
    for index, edit in enumerate(asked.edits):
        kind = str(edit.get("type"))
        if not kind.startswith("clear_thinking_"):
            place = f"context_management.edits[{index}].type"
            raise _refusal(place, kind, ("clear_thinking_20251015",))


def _refusal(place: str, value: str, allowed: tuple[str, ...]) -> RequestError:
    names = ", ".join(repr(one) for one in allowed)
    return RequestError(f"{place} is {value!r}; allowed: {names}", param=place)
