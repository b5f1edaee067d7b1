"""POST /tokenize, /detokenize, and what /v1/models says of lengths."""

import pytest

from leeway.backends.tabular import random_table
from tests.server.conftest import table_client
from tests.support.tabular_engine import make_engine


@pytest.fixture(scope="module")
def table():
    def load():
        return make_engine(random_table(5, 1, seed=1), eos_token_id=4, context_len=50)

    with table_client(load) as client:
        yield client


def test_there_and_back_with_special_tokens(table):
    answer = table.post("/tokenize", json={"prompt": "abd<eos>c", "return_token_strs": True}).json()
    assert answer == {
        "count": 5,
        "max_model_len": 50,
        "tokens": [0, 1, 3, 4, 2],
        "token_strs": ["a", "b", "d", "<eos>", "c"],
    }
    back = table.post("/detokenize", json={"tokens": answer["tokens"]}).json()
    assert back == {"prompt": "abd<eos>c"}


def test_messages_are_rendered_first(client):
    messages = [{"role": "user", "content": "Hi"}]
    answer = client.post("/tokenize", json={"messages": messages, "model": "scripted-model"}).json()
    assert bytes(answer["tokens"]).decode() == "user: Hi\nassistant: "
    assert answer["token_strs"] is None


def test_nothing_has_no_tokens(table):
    assert table.post("/tokenize", json={"prompt": ""}).json()["tokens"] == []
    assert table.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": []}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"prompt": "a", "model": "other"}, "model"),
        ("/tokenize", {"prompt": "a", "chat_template": "x"}, "chat_template"),
        ("/tokenize", {"prompt": "a", "made_up": 1}, "made_up"),
        ("/detokenize", {"tokens": [5]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": ["a"]}, "tokens[0]"),
    ],
)
def test_t20_refused_by_name(table, path, body, param):
    response = table.post(path, json=body)
    assert response.status_code == (404 if param == "model" else 400)
    assert response.json()["error"]["param"] == param


def test_models_say_how_long_an_answer_may_be(table):
    (model,) = table.get("/v1/models").json()["data"]
    assert (model["max_model_len"], model["root"], model["object"]) == (50, "table", "model")
    assert table.get("/v1/models/table").json() == model
