"""Fields: honoured, refused by name, ignored; nothing else gets through."""

import inspect

import anthropic
import openai
import pytest
from openai.resources.responses import Responses

from leeway.core.errors import RequestError
from leeway.server.fields import IGNORED, OPENAI, UNSUPPORTED, FieldRules, read_fields
from leeway.server.messages import MESSAGES_RULES
from leeway.server.responses import RESPONSES_RULES
from leeway.server.schema import (
    ChatFields,
    CompletionFields,
    DetokenizeFields,
    MessagesFields,
    MessagesPrompt,
    ResponseFields,
    TokenizeFields,
)
from leeway.server.tokenize import TOKENIZE_RULES

MESSAGES = [{"role": "user", "content": "Hi"}]


def chat(**fields):
    return read_fields({"messages": MESSAGES, **fields}, ChatFields)


ROUTES = [
    (ChatFields, OPENAI, {"messages": MESSAGES}),
    (CompletionFields, OPENAI, {"prompt": "x"}),
    (ResponseFields, RESPONSES_RULES, {"input": "x"}),
    (MessagesFields, MESSAGES_RULES, {"messages": MESSAGES, "max_tokens": 1}),
    (MessagesPrompt, MESSAGES_RULES, {"messages": MESSAGES}),
    (TokenizeFields, TOKENIZE_RULES, {"prompt": "x"}),
    (DetokenizeFields, TOKENIZE_RULES, {"tokens": []}),
]
REFUSED = [
    (kind, rules, least, name)
    for kind, rules, least in ROUTES
    for name in sorted(set(rules.unsupported) - set(kind.__struct_fields__))
]


def refused_label(value):
    return value.__name__ if isinstance(value, type) else value if isinstance(value, str) else ""


def test_no_field_is_in_two_tables():
    # each is one route's own, and refused on the other
    shared = {
        "add_generation_prompt",
        "continue_final_message",
        "echo",
        "top_logprobs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
    }
    for kind, rules, _ in ROUTES:
        honoured = set(kind.__struct_fields__)
        assert honoured & set(rules.unsupported) <= shared
        assert not honoured & rules.ignored
        assert not rules.ignored & set(rules.unsupported)


@pytest.mark.parametrize(("kind", "rules", "least", "name"), REFUSED, ids=refused_label)
def test_t20_an_unsupported_field_is_refused_by_name_on_every_route(kind, rules, least, name):
    with pytest.raises(RequestError, match=f"^{name} is not supported on this route; leave it out"):
        read_fields({**least, name: {"some": "thing"}}, kind, rules)
    plain = read_fields(least, kind, rules)
    for neutral in (None, *rules.unsupported[name]):
        assert read_fields({**least, name: neutral}, kind, rules) == plain


@pytest.mark.parametrize(("kind", "rules", "least"), ROUTES, ids=refused_label)
def test_t20_an_unknown_field_is_a_400_on_every_route(kind, rules, least):
    with pytest.raises(RequestError, match="unknown field 'made_up'; known are ") as caught:
        read_fields({**least, "made_up": None}, kind, rules)
    assert caught.value.param == "made_up"


@pytest.mark.parametrize(
    "name",
    [
        "xtc_probability",
        "xtc_threshold",
        "thinking_token_budget",
        "dry_multiplier",
        "typical_p",
        "mirostat",
        "top_a",
    ],
)
def test_t11_samplers_that_are_not_there_are_a_400(name):
    for kind, rules, least in ROUTES:
        with pytest.raises(RequestError, match=f"unknown field '{name}'"):
            read_fields({**least, name: 1}, kind, rules)


@pytest.mark.parametrize(
    ("create", "kind", "rules"),
    [
        (openai.resources.chat.Completions.create, ChatFields, OPENAI),
        (openai.resources.Completions.create, CompletionFields, OPENAI),
        (Responses.create, ResponseFields, RESPONSES_RULES),
        (anthropic.resources.Messages.create, MessagesFields, MESSAGES_RULES),
        (anthropic.resources.Messages.count_tokens, MessagesPrompt, MESSAGES_RULES),
    ],
    ids=["chat", "completions", "responses", "messages", "count_tokens"],
)
def test_t20_every_field_of_the_official_clients_has_a_place(create, kind, rules):
    own = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
    named = set(inspect.signature(create).parameters) - own
    assert named - set(kind.__struct_fields__) - set(rules.unsupported) - rules.ignored == set()


def test_did_you_mean_reads_the_routes_own_names():
    rules = FieldRules({"tools": ()}, frozenset({"metadata"}))
    with pytest.raises(RequestError, match="did you mean 'metadata'"):
        read_fields({"prompt": "x", "metdata": 1}, TokenizeFields, rules)


def test_defaults_are_those_of_openai():
    fields = chat()
    assert (fields.temperature, fields.top_p, fields.stream) == (1.0, 1.0, False)
    assert (fields.max_tokens, fields.seed, fields.stop) == (None, None, [])


def test_null_is_the_same_as_absent():
    everything = dict.fromkeys([*ChatFields.__struct_fields__, *UNSUPPORTED, *IGNORED])
    assert chat(**{**everything, "messages": MESSAGES}) == chat()


@pytest.mark.parametrize(
    ("name", "value"),
    [("verbosity", "high"), ("length_penalty", True), ("use_beam_search", 0), ("suffix", "x")],
)
def test_neutral_means_the_same_value_and_type(name, value):
    with pytest.raises(RequestError, match=name):
        chat(**{name: value})


@pytest.mark.parametrize("name", sorted(IGNORED))
def test_the_documented_few_are_ignored(name):
    assert chat(**{name: "anything"}) == chat()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("temprature", "temperature"),
        ("max_token", "max_tokens"),
        ("respose_format", "response_format"),
    ],
)
def test_an_unknown_field_is_named_with_the_one_that_was_meant(name, meant):
    with pytest.raises(
        RequestError, match=f"unknown field '{name}'; did you mean '{meant}'"
    ) as caught:
        chat(**{name: None})
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tokens": "ten"}, "max_tokens: expected int, got str"),
        ({"max_tokens": 1.5}, "max_tokens: expected int, got float"),
        ({"temperature": "hot"}, "temperature: expected float, got str"),
        ({"stop": [1]}, r"stop\[0\]: expected str, got int"),
        ({"stream": "yes"}, "stream: expected bool, got str"),
        ({"messages": "Hi"}, "messages: expected array, got str"),
        (
            {"stream_options": {"usage": True}},
            "stream_options: object contains unknown field usage",
        ),
        ({"speculative": "typical"}, "speculative: expected object, got str"),
    ],
)
def test_a_wrong_type_names_its_place(fields, message):
    with pytest.raises(RequestError, match=message) as caught:
        chat(**fields)
    assert caught.value.param == message.partition(":")[0].replace("\\", "")


def test_a_missing_field_is_named():
    with pytest.raises(RequestError, match="object missing required field prompt"):
        read_fields({}, CompletionFields)
