"""From what was asked for to the text that the grammar library compiles."""

from __future__ import annotations

import json
from typing import Any

import llguidance

from leeway.core.errors import RequestError
from leeway.core.types import Grammar

MAX_REASON_LEN = 200
BLANKS = r"\n?[ ]{0,16}"
"""White space between the parts of JSON: bounded, so that no answer consists of it alone."""


def source_text(grammar: Grammar) -> str:
    """Return the grammar in the library's own form.

    Raises:
        RequestError: the schema is no JSON object, or there is nothing to choose from.
    """
    if grammar.kind == "json_schema":
        return _schema_text(grammar)
    if grammar.kind == "regex":
        return llguidance.LLMatcher.grammar_from_regex(grammar.text)
    if grammar.kind == "choice":
        return llguidance.LLMatcher.grammar_from_lark(_choice_lark(grammar))
    if grammar.kind == "calls":
        return llguidance.LLMatcher.grammar_from_lark(_calls_lark(json.loads(grammar.text)))
    try:
        return llguidance.grammar_from("grammar", grammar.text)
    except Exception as error:  # its reader of GBNF raises plain exceptions
        raise refusal(grammar, str(error)) from None


def refusal(grammar: Grammar, reason: str) -> RequestError:
    """Return the error for a grammar that cannot be used, with the first line of the reason."""
    return RequestError(
        f"{grammar.param} cannot be used: {_first_line(reason)}; allowed: a form that an "
        "answer of this model can have, in terms that the grammar library (llguidance) knows",
        param=grammar.param,
    )


def _first_line(reason: str) -> str:
    """Return the first line of the library's words, shortened."""
    first = next((line.strip() for line in reason.splitlines() if line.strip()), "unknown reason")
    return first if len(first) <= MAX_REASON_LEN else first[:MAX_REASON_LEN] + "..."


def _schema_text(grammar: Grammar) -> str:
    try:
        schema = json.loads(grammar.text)
    except (ValueError, RecursionError) as error:
        raise refusal(grammar, f"the schema is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise refusal(grammar, f"the schema is a JSON {type(schema).__name__}, not an object")
    try:
        return llguidance.LLMatcher.grammar_from_json_schema(
            grammar.text, overrides={"whitespace_pattern": BLANKS}
        )
    except ValueError as error:  # nested too deeply for its own reader
        raise refusal(grammar, str(error)) from None


def _choice_lark(grammar: Grammar) -> str:
    choices = json.loads(grammar.text)
    if not choices or not all(choices):
        raise refusal(grammar, "it has no choice, or an empty one")
    return "start: " + " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)


def _calls_lark(calls: dict[str, Any]) -> str:
    """Return a grammar of calls, each a JSON value between fixed texts; see `core.types.Grammar`.

    Where text may come first it is any text: from the trigger on it is a call.
    """
    trigger, frames = calls["trigger"], calls["frames"]
    rules = []
    for index, frame in enumerate(frames):
        schema = {**frame["schema"], "x-guidance": {"whitespace_pattern": BLANKS}}
        begin = frame["begin"].removeprefix(trigger or "")
        rules += [
            f"f{index}: {json.dumps(begin)} j{index} {json.dumps(frame['end'])}",
            f"j{index}: %json {json.dumps(schema)}",
        ]
    if trigger is not None:
        rules += [
            "start: call* TEXT",
            "call: trigger frame",
            f"trigger[lazy]: TEXT {json.dumps(trigger)}",
        ]
        rules.append(r"TEXT: /(.|\n)*/")
    elif calls["between"] is None:
        rules.append("start: frame")
    else:
        rules.append(f"start: frame ({json.dumps(calls['between'])} frame)*")
    rules.append("frame: " + " | ".join(f"f{index}" for index in range(len(frames))))
    return "\n".join(rules)
