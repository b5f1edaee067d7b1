"""Forms of an answer: every way to ask for one, and what is refused by name."""

import json

import pytest

from leeway.core.errors import RequestError
from leeway.core.types import Grammar
from leeway.server.fields import read_fields
from leeway.server.schema import ChatFields
from leeway.server.structured_fields import read_grammar, read_text_format

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ANY = {"type": "object"}


def read(**fields):
    return read_grammar(read_fields({"messages": [], **fields}, ChatFields))


def schema_of(grammar):
    assert grammar.kind == "json_schema"
    return json.loads(grammar.text)


@pytest.mark.parametrize(
    ("fields", "param", "schema"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format", ANY),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": SCHEMA, "strict": True},
                }
            },
            "response_format.json_schema.schema",
            SCHEMA,
        ),
        ({"guided_json": SCHEMA}, "guided_json", SCHEMA),
        ({"guided_json": json.dumps(SCHEMA)}, "guided_json", SCHEMA),
        ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json", SCHEMA),
        ({"structured_outputs": {"json_object": True}}, "structured_outputs.json_object", ANY),
    ],
)
def test_schemas_are_read_wherever_they_stand(fields, param, schema):
    grammar = read(**fields)
    assert grammar.param == param
    assert schema_of(grammar) == schema


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({"guided_regex": "a+"}, Grammar("regex", "a+", "guided_regex")),
        ({"guided_grammar": 'root ::= "a"'}, Grammar("grammar", 'root ::= "a"', "guided_grammar")),
        ({"guided_choice": ["a", "b"]}, Grammar("choice", '["a", "b"]', "guided_choice")),
        (
            {"structured_outputs": {"regex": "a"}},
            Grammar("regex", "a", "structured_outputs.regex"),
        ),
        (
            {"structured_outputs": {"choice": ["é"]}},
            Grammar("choice", '["é"]', "structured_outputs.choice"),
        ),
    ],
)
def test_other_forms_keep_their_text(fields, grammar):
    assert read(**fields) == grammar


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "text"}}])
def test_any_text_will_do_where_nothing_is_asked_for(fields):
    assert read(**fields) is None


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"response_format": {"type": "yaml"}}, "response_format.type", "is 'yaml'; allowed"),
        ({"response_format": {}}, "response_format.type", "is None; allowed"),
        (
            {"response_format": {"type": "json_schema"}},
            "response_format.json_schema",
            "has no json_schema",
        ),
        (
            {"response_format": {"type": "text", "json_schema": {}}},
            "response_format.json_schema",
            "only under 'json_schema'",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 1}}},
            "response_format.json_schema.schema",
            "expected object",
        ),
        ({"structured_outputs": {}}, "structured_outputs", "asks for nothing"),
        ({"structured_outputs": {"jsn": {}}}, "structured_outputs", "unknown field jsn"),
        (
            {"structured_outputs": {"json_object": False}},
            "structured_outputs.json_object",
            "is false",
        ),
        ({"guided_regex": "a", "guided_json": SCHEMA}, "guided_regex", "beside guided_json"),
        (
            {"structured_outputs": {"regex": "a", "choice": ["a"]}},
            "structured_outputs.choice",
            "beside structured_outputs.regex",
        ),
    ],
)
def test_t20_what_is_malformed_or_asked_twice_is_refused_by_name(fields, param, message):
    with pytest.raises(RequestError, match=message) as caught:
        read(**fields)
    assert caught.value.param == param


def test_responses_have_their_own_place_for_it():
    asked = {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}
    grammar = read_text_format(asked)
    assert (schema_of(grammar), grammar.param) == (SCHEMA, "text.format.schema")
    assert read_text_format(None) is read_text_format({"format": {"type": "text"}}) is None
    assert schema_of(read_text_format({"format": {"type": "json_object"}})) == ANY
    with pytest.raises(RequestError, match=r"text\.verbosity"):
        read_text_format({"verbosity": "high"})
    with pytest.raises(RequestError, match="unknown key 'shape'"):
        read_text_format({"shape": "round"})
