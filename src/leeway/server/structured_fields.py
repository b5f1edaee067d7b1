"""The form of an answer, as OpenAI's and vLLM's clients ask for it, as a grammar."""

from __future__ import annotations

import json
from typing import Any, Literal

from leeway.core.errors import RequestError
from leeway.core.types import Grammar
from leeway.server.fields import convert, refuse_unless_neutral
from leeway.server.schema import (
    JSONSchemaFormat,
    ResponseFormat,
    SharedFields,
    StructuredOutputs,
    TextFormat,
)

_ANY_OBJECT = '{"type": "object"}'


def read_grammar(fields: SharedFields) -> Grammar | None:
    """Return the form that a completion is asked to have; None where any will do.

    Raises:
        RequestError: it is malformed, or asked for in two ways.
    """
    asked = [
        _response_format(fields.response_format),
        _structured_outputs(fields.structured_outputs),
        _json("guided_json", fields.guided_json),
        _text("regex", "guided_regex", fields.guided_regex),
        _text("grammar", "guided_grammar", fields.guided_grammar),
        _choice("guided_choice", fields.guided_choice),
    ]
    return _only(asked)


def read_text_format(raw: dict[str, Any] | None) -> Grammar | None:
    """Return the form that `text` of /v1/responses asks for. Raises RequestError."""
    for name, value in (raw or {}).items():
        if name not in ("format", "verbosity"):
            raise RequestError(
                f"text has the unknown key {name!r}; allowed: format", param=f"text.{name}"
            )
        if name == "verbosity":
            refuse_unless_neutral("text.verbosity", value, ("medium",))
    given = (raw or {}).get("format")
    return None if given is None else read_format(given, "text.format")


def read_format(given: object, path: str) -> Grammar | None:
    """Return the form that a format, with its schema in it, asks for. Raises RequestError."""
    kind = _kind(given, path)
    if kind != "json_schema":
        return _plain(convert(given, ResponseFormat, path), path)
    return _schema(convert(given, TextFormat, path).schema, f"{path}.schema")


def _response_format(raw: dict[str, Any] | None) -> Grammar | None:
    if raw is None:
        return None
    path = "response_format"
    kind = _kind(raw, path)
    asked = convert(raw, ResponseFormat, path)
    if kind != "json_schema":
        return _plain(asked, path)
    if asked.json_schema is None:
        raise RequestError(
            f"{path} has no json_schema; send {{'name': NAME, 'schema': SCHEMA}} under it",
            param=f"{path}.json_schema",
        )
    place = f"{path}.json_schema"
    return _schema(convert(asked.json_schema, JSONSchemaFormat, place).schema, f"{place}.schema")


def _kind(raw: object, path: str) -> str:
    kind = raw.get("type") if isinstance(raw, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        raise RequestError(
            f"{path}.type is {kind!r}; allowed: 'text', 'json_object', 'json_schema'",
            param=f"{path}.type",
        )
    assert isinstance(kind, str)
    return kind


def _plain(asked: ResponseFormat, path: str) -> Grammar | None:
    if asked.json_schema is not None:
        raise RequestError(
            f"{path} has a json_schema under the type {asked.type!r}; allowed: only under "
            "'json_schema'",
            param=f"{path}.json_schema",
        )
    return None if asked.type == "text" else Grammar("json_schema", _ANY_OBJECT, path)


def _schema(schema: dict[str, Any] | None, path: str) -> Grammar:
    if schema is None:
        return Grammar("json_schema", _ANY_OBJECT, path)
    return Grammar("json_schema", json.dumps(schema), path)


def _structured_outputs(raw: dict[str, Any] | None) -> Grammar | None:
    if raw is None:
        return None
    path = "structured_outputs"
    asked = convert(raw, StructuredOutputs, path)
    if asked.json_object is False:
        raise RequestError(
            f"{path}.json_object is false; allowed: true, or leave it out",
            param=f"{path}.json_object",
        )
    found = _only(
        [
            _json(f"{path}.json", asked.json),
            _text("regex", f"{path}.regex", asked.regex),
            _text("grammar", f"{path}.grammar", asked.grammar),
            _choice(f"{path}.choice", asked.choice),
            asked.json_object and Grammar("json_schema", _ANY_OBJECT, f"{path}.json_object"),
        ]
    )
    if found is None:
        raise RequestError(
            f"{path} asks for nothing; allowed: one of json, regex, grammar, choice, json_object",
            param=path,
        )
    return found


def _json(path: str, schema: str | dict[str, Any] | None) -> Grammar | None:
    if schema is None or isinstance(schema, dict):
        return None if schema is None else _schema(schema, path)
    return Grammar("json_schema", schema, path)


def _text(kind: Literal["regex", "grammar"], path: str, text: str | None) -> Grammar | None:
    return None if text is None else Grammar(kind, text, path)


def _choice(path: str, choices: list[str] | None) -> Grammar | None:
    if choices is None:
        return None
    return Grammar("choice", json.dumps(choices, ensure_ascii=False), path)


def _only(asked: list[Grammar | None]) -> Grammar | None:
    """Return the one form that is asked for. Raises RequestError where there are two."""
    given = [one for one in asked if one is not None]
    if len(given) > 1:
        raise RequestError(
            f"{given[1].param} stands beside {given[0].param}; allowed: one form for an answer",
            param=given[1].param,
        )
    return given[0] if given else None
