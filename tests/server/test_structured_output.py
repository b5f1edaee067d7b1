"""Structured output over HTTP, with the official client, from an engine over a table."""

import json

import openai
import pytest

from tests.server.conftest import frames, table_client
from tests.support.json_tokens import blank_table, write_json
from tests.support.tabular_engine import make_engine

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "pair", "schema": SCHEMA}}
ASK = [{"role": "user", "content": "ab"}]


@pytest.fixture(scope="module")
def server():
    def load():
        return write_json(
            make_engine(
                blank_table(1),
                drafter="draft_model",
                draft_table=blank_table(2),
                context_len=400,
                capacity_tokens=4000,
            )
        )

    with table_client(load) as client:
        yield client


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url="http://localhost/v1", api_key="x", http_client=server)


def post(server, path="/v1/chat/completions", **fields):
    subject = {"messages": ASK} if "chat" in path else {"prompt": "ab"}
    return server.post(path, json={**subject, "seed": 3, **fields})


def test_t12_the_official_client_parses_what_it_asked_for(client):
    for seed in range(3):
        answer = client.chat.completions.create(
            model="table", messages=ASK, response_format=JSON_SCHEMA, seed=seed
        )
        pair = json.loads(answer.choices[0].message.content)
        assert set(pair) == {"a", "b"} and pair["b"] in ("x", "y")
        assert answer.choices[0].finish_reason == "stop"


def test_t12_responses_take_the_form_from_text(client):
    form = {"format": {"type": "json_schema", "name": "pair", "schema": SCHEMA}}
    answer = client.responses.create(model="table", input="ab", text=form)
    assert set(json.loads(answer.output_text)) == {"a", "b"}
    assert answer.text.format.schema_ == SCHEMA


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize(
    "form",
    [
        {"guided_choice": ["ab", "x1"]},
        {"structured_outputs": {"regex": "(ab|x1){1}"}},
        {"guided_grammar": 'root ::= "ab" | "x1"'},
    ],
    ids=["choice", "regex", "grammar"],
)
def test_t12_t14_a_stream_has_the_same_answer_in_the_same_form(server, path, form):
    whole = post(server, path, **form, max_tokens=50).json()["choices"][0]
    text = whole["message"]["content"] if "message" in whole else whole["text"]
    assert text in ("ab", "x1")
    choices = [
        json.loads(frame)["choices"][0]
        for frame in frames(post(server, path, **form, max_tokens=50, stream=True).text)[:-1]
    ]
    pieces = [one["delta"].get("content", "") if "delta" in one else one["text"] for one in choices]
    assert "".join(pieces) == text
    assert choices[-1]["finish_reason"] == whole["finish_reason"] == "stop"


def test_t12_each_choice_walks_the_grammar_for_itself(server):
    answer = post(server, guided_choice=["ab", "x1", "y", "zz"], n=8).json()
    texts = {choice["message"]["content"] for choice in answer["choices"]}
    assert texts <= {"ab", "x1", "y", "zz"} and len(texts) > 1


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        (
            {"response_format": {**JSON_SCHEMA, "json_schema": {"schema": {"enum": []}}}},
            "response_format.json_schema.schema",
            "Unsatisfiable schema",
        ),
        ({"guided_regex": "("}, "guided_regex", "regex"),
        ({"guided_choice": ["Q"]}, "guided_choice", "no token of this model"),
        ({"guided_regex": "a", "min_tokens": 2}, "min_tokens", "beside guided_regex"),
        ({"guided_regex": "a", "ignore_eos": True}, "ignore_eos", "beside guided_regex"),
    ],
    ids=["impossible", "broken", "unspellable", "min-tokens", "ignore-eos"],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_t12_t20_a_form_that_cannot_be_had_is_a_400_that_names_it(
    server, fields, param, message, is_stream
):
    answer = post(server, **fields, stream=is_stream)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert message in answer.json()["error"]["message"]
