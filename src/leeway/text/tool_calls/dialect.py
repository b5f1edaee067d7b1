"""Which way of writing tool calls a model was trained for, read off its chat template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.text.tool_calls import hermes
from leeway.text.tool_calls.hermes import HermesCalls


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of writing tool calls.

    Attributes:
        name: of the dialect.
        begin, end: tags around a call.
        between: text between two calls.
        frames: of each function the texts around its arguments, and their schema.
        make_reader: makes the reading state of one answer.
    """

    name: str
    begin: str
    end: str
    between: str
    frames: Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
    make_reader: Callable[[], HermesCalls]


HERMES = Dialect("hermes", hermes.BEGIN, hermes.END, hermes.BETWEEN, hermes.frames, HermesCalls)


def find_dialect(template: str | None) -> Dialect | None:
    """Return the dialect of a template that shows its tools to the model; None where none is known.

    Templates that have no place for tools, as SmolLM2's, would leave them out without a word.
    """
    if template is None or "tools" not in template:
        return None
    return (
        HERMES if hermes.BEGIN in template and '"arguments"' in template.replace("\\", "") else None
    )
