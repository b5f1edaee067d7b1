"""Log probabilities and echo over HTTP: shapes, streams, and the values of the table itself."""

import itertools
import math

import msgspec
import numpy as np
import pytest

from leeway.backends.tabular import random_table
from tests.server.conftest import CHAT, frames, table_client
from tests.support.tabular_engine import make_engine

TABLE, DRAFT_TABLE = random_table(5, 1, seed=1), random_table(5, 1, seed=2)
EOS = 4


def completion(client, prompt="ab", **fields):
    response = client.post("/v1/completions", json={"prompt": prompt, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def chunks(client, path, **body):
    data = frames(client.post(path, json={**body, "stream": True}).text)
    assert data[-1] == "[DONE]"
    return [msgspec.json.decode(one)["choices"][0] for one in data[:-1]]


@pytest.fixture(scope="module", params=["draft_model", "ngram"])
def table(request):
    with table_client(
        lambda: make_engine(
            TABLE,
            drafter=request.param,
            draft_table=DRAFT_TABLE,
            eos_token_id=EOS,
            context_len=200,
            capacity_tokens=2000,
        )
    ) as client:
        yield client


def named(entry):
    return {"token": entry[0], "logprob": entry[1], "bytes": list(entry[0].encode())}


def test_chat_lists_each_token_and_the_likeliest(client):
    answer = client.post(
        "/v1/chat/completions", json={**CHAT, "logprobs": True, "top_logprobs": 2, "max_tokens": 2}
    ).json()
    top = [named(("0", 0.0)), named(("1", -0.25))]
    assert answer["choices"][0]["logprobs"] == {
        "content": [
            {**named(("H", -72 / 256)), "top_logprobs": top},
            {**named(("e", -101 / 256)), "top_logprobs": top},
        ],
        "refusal": None,
    }


@pytest.mark.parametrize("fields", [{}, {"logprobs": False}, {"top_logprobs": 0}])
def test_chat_has_none_unless_asked(client, service, fields):
    answer = client.post("/v1/chat/completions", json={**CHAT, **fields}).json()
    assert answer["choices"][0]["logprobs"] is None
    assert service.requests[0].logprobs is None


def test_a_chats_stream_has_the_same_entries(client):
    body = {**CHAT, "logprobs": True, "top_logprobs": 1, "seed": 1}
    whole = client.post("/v1/chat/completions", json=body).json()["choices"][0]["logprobs"]
    streamed = [
        entry
        for choice in chunks(client, "/v1/chat/completions", **body)
        for entry in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert streamed == whole["content"] and len(streamed) == 13


def test_completions_list_columns_with_offsets(client):
    choice = completion(client, max_tokens=10, logprobs=1)["choices"][0]
    assert choice["text"] == "Hello, wö"
    columns = choice["logprobs"]
    assert columns["tokens"][:2] == ["H", "e"]
    assert columns["tokens"][8:] == ["bytes:\\xc3", "bytes:\\xb6"]
    assert columns["text_offset"] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert columns["token_logprobs"][0] == -72 / 256
    assert columns["top_logprobs"][0] == {"0": 0.0, "H": -72 / 256}


def test_without_likeliest_tokens_the_column_is_empty(client):
    columns = completion(client, max_tokens=1, logprobs=0)["choices"][0]["logprobs"]
    assert columns["top_logprobs"] == [None] and columns["tokens"] == ["H"]


@pytest.mark.parametrize("value", [True, -1, 21])
def test_a_number_that_is_none_is_refused_by_name(client, value):
    response = client.post("/v1/completions", json={"prompt": "a", "logprobs": value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == "logprobs" and "0 to 20" in error["message"]


def test_echo_begins_with_the_prompt(client):
    choice = completion(client, "prömpt ", echo=True, max_tokens=5)["choices"][0]
    assert choice["text"] == "prömpt Hello" and choice["logprobs"] is None
    assert completion(client, [104, 105], echo=True, max_tokens=1)["choices"][0]["text"] == "hiH"


def test_echo_with_logprobs_scores_the_prompt(client):
    answer = completion(client, "höh", echo=True, logprobs=1, max_tokens=1)
    columns = answer["choices"][0]["logprobs"]
    assert columns["tokens"] == ["h", "bytes:\\xc3", "bytes:\\xb6", "h", "H"]
    assert columns["token_logprobs"] == [None, -195 / 256, -182 / 256, -104 / 256, -72 / 256]
    assert columns["top_logprobs"][0] is None
    assert columns["text_offset"] == [0, 1, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 4
    assert answer["usage"]["completion_tokens"] == 1


def test_an_echoed_stream_joins_to_the_whole(client):
    body = {"prompt": ["ab", "höh"], "echo": True, "logprobs": 2, "max_tokens": 9}
    whole = [client.post("/v1/completions", json={**body, "seed": 1}).json()["choices"]][0]
    joined = {index: {"text": "", "columns": {}} for index in (0, 1)}
    for choice in chunks(client, "/v1/completions", **body):
        one = joined[choice["index"]]
        one["text"] += choice["text"]
        for name, column in (choice["logprobs"] or {}).items():
            one["columns"].setdefault(name, []).extend(column)
    for index in (0, 1):
        assert joined[index]["text"] == whole[index]["text"]
        assert joined[index]["columns"] == whole[index]["logprobs"]


def test_t09_teacher_forcing_reads_the_table(table):
    text = "abcdabdcabca"
    answer = completion(table, text, echo=True, logprobs=5, max_tokens=0, temperature=0.3)
    (choice,) = answer["choices"]
    assert choice["text"] == text and choice["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 0
    columns = choice["logprobs"]
    ids = [ord(letter) - ord("a") for letter in text]
    expected = [math.log(TABLE[(a,)][b]) for a, b in itertools.pairwise(ids)]
    assert columns["token_logprobs"][0] is None
    assert columns["token_logprobs"][1:] == pytest.approx(expected, abs=1e-12)
    assert columns["text_offset"] == list(range(len(text)))
    for row, top in zip(ids, columns["top_logprobs"][1:], strict=False):
        by_name = dict(zip([*"abcd", "<eos>"], TABLE[(row,)], strict=True))
        assert {name: math.exp(value) for name, value in top.items()} == pytest.approx(by_name)


@pytest.mark.parametrize(
    "law",
    [
        {"law": "rejection"},
        {"law": "block"},
        {"law": "typical", "delta": 0.6},
        {"law": "lenient", "leniency": 0.5},
    ],
    ids=lambda law: law["law"],
)
def test_t09_an_answer_scored_again_has_the_same_numbers(table, law):
    answer = completion(table, logprobs=0, seed=4, max_tokens=60, ignore_eos=True, speculative=law)
    columns = answer["choices"][0]["logprobs"]
    assert len(columns["tokens"]) == answer["usage"]["completion_tokens"] == 60
    names = {name: index for index, name in enumerate([*"abcd", "<eos>"])}
    ids = [0, 1, *(names[name] for name in columns["tokens"])]
    again = completion(table, ids, echo=True, logprobs=0, max_tokens=0)["choices"][0]["logprobs"]
    assert again["token_logprobs"][2:] == pytest.approx(columns["token_logprobs"], abs=1e-12)
    assert again["tokens"][2:] == columns["tokens"]


def test_t09_the_end_token_has_an_entry_and_no_text(table):
    for seed in range(5):
        choice = completion(table, logprobs=0, seed=seed, max_tokens=100)["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert choice["logprobs"]["tokens"][-1] == "<eos>"
        assert choice["logprobs"]["text_offset"][-1] == len(choice["text"])


def test_t09_a_token_without_probability_has_the_least_number():
    certain = dict.fromkeys([(), (0,), (1,)], np.array([1.0, 0.0]))
    with table_client(lambda: make_engine(certain)) as client:
        columns = completion(client, "ab", echo=True, logprobs=1, max_tokens=0)["choices"][0]
        assert columns["logprobs"]["token_logprobs"] == [None, -9999.0]
        assert columns["logprobs"]["top_logprobs"][1] == {"a": 0.0, "b": -9999.0}
