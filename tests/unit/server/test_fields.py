"""Fields: honoured, refused by name, ignored; nothing else gets through."""

import pytest

from leeway.core.errors import RequestError
from leeway.server.fields import IGNORED, UNSUPPORTED, read_fields
from leeway.server.schema import ChatFields, CompletionFields

MESSAGES = [{"role": "user", "content": "Hi"}]


def chat(**fields):
    return read_fields({"messages": MESSAGES, **fields}, ChatFields)


def test_no_field_is_in_two_tables():
    for kind in (ChatFields, CompletionFields):
        honoured = set(kind.__struct_fields__)
        assert not honoured & set(UNSUPPORTED)
        assert not honoured & IGNORED
    assert not IGNORED & set(UNSUPPORTED)


def test_defaults_are_those_of_openai():
    fields = chat()
    assert (fields.temperature, fields.top_p, fields.stream) == (1.0, 1.0, False)
    assert (fields.max_tokens, fields.seed, fields.stop) == (None, None, [])


def test_null_is_the_same_as_absent():
    everything = dict.fromkeys([*ChatFields.__struct_fields__, *UNSUPPORTED, *IGNORED])
    assert chat(**{**everything, "messages": MESSAGES}) == chat()


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in UNSUPPORTED.items() for v in vs])
def test_a_value_that_asks_for_nothing_is_accepted(name, value):
    assert chat(**{name: value}) == chat()


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_an_unsupported_field_is_refused_by_name(name):
    with pytest.raises(RequestError, match=f"^{name} is not supported by this server") as caught:
        chat(**{name: {"some": "thing"}})
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("name", "value"),
    [("n", 2), ("n", True), ("n", 1.0), ("logprobs", True), ("logprobs", 0), ("top_logprobs", 3)],
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
