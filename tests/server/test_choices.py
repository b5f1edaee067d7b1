"""Several choices: their order, their seeds, and what they share."""

import hashlib
import struct

import msgspec
import pytest

from leeway.backends.tabular import random_table
from leeway.core.rng import choice_seed
from tests.server.conftest import CHAT, frames, table_client
from tests.support.tabular_engine import make_engine

CHAT_PATH, PATH = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def table():
    with table_client(
        lambda: make_engine(
            random_table(5, 1, seed=1),
            drafter="draft_model",
            draft_table=random_table(5, 1, seed=2),
            context_len=200,
            capacity_tokens=4000,
        )
    ) as client:
        yield client


def ask(client, **fields):
    response = client.post(PATH, json={"prompt": "ab", "max_tokens": 12, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def test_the_prompt_counts_once_and_every_choice_has_its_receipt(client, service):
    answer = client.post(CHAT_PATH, json={**CHAT, "n": 3, "seed": 9}).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    prompt_len = len("user: Hi\nassistant: ")
    assert answer["usage"] == {
        "prompt_tokens": prompt_len,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": 39,
        "total_tokens": prompt_len + 39,
    }
    assert answer["metrics"]["speculative_decoding"] is None
    seeds = [one["seed"] for one in answer["metrics"]["speculative_decoding_by_choice"]]
    assert seeds == [9, choice_seed(9, 1), choice_seed(9, 2)]
    assert [request.sampling.seed for request in service.requests] == seeds


def test_the_documented_seed_of_a_choice():
    digest = hashlib.blake2b(struct.pack("<QQ", 5, 2), digest_size=8).digest()
    assert choice_seed(5, 2) == int.from_bytes(digest, "little") >> 11 < 2**53
    assert choice_seed(2**64 - 1, 0) == 2**64 - 1
    assert len({choice_seed(seed, index) for seed in range(20) for index in range(1, 20)}) == 380


def test_several_prompts_and_choices_are_in_order(client, service):
    service.reply = lambda prompt: prompt * 2
    answer = ask(client, prompt=["x", "yz"], n=2, seed=1)
    assert [(one["index"], one["text"]) for one in answer["choices"]] == [
        (0, "xx"),
        (1, "xx"),
        (2, "yzyz"),
        (3, "yzyz"),
    ]
    assert answer["usage"]["prompt_tokens"] == 3


def test_t03_choices_differ_and_each_is_reproduced_by_its_own_seed(table):
    answer = ask(table, n=4, seed=3)
    texts = [choice["text"] for choice in answer["choices"]]
    assert len(set(texts)) == 4
    assert texts == [choice["text"] for choice in ask(table, n=4, seed=3)["choices"]]
    for index, text in enumerate(texts):
        assert ask(table, seed=choice_seed(3, index))["choices"][0]["text"] == text


def test_t03_the_effective_seed_is_echoed_and_reproduces_the_answer(table):
    response = table.post(PATH, json={"prompt": "ab", "max_tokens": 30})
    seed = int(response.headers["x-leeway-seed"])
    answer = response.json()
    assert answer["metrics"]["speculative_decoding"]["seed"] == seed < 2**53
    again = ask(table, max_tokens=30, seed=seed)
    assert again["choices"][0]["text"] == answer["choices"][0]["text"]
    other = table.post(PATH, json={"prompt": "ab", "max_tokens": 30})
    assert int(other.headers["x-leeway-seed"]) != seed


def test_a_stream_of_choices_joins_to_the_whole(table):
    whole = ask(table, n=3, seed=8, logprobs=1, echo=True)["choices"]
    body = {"prompt": "ab", "max_tokens": 12, "n": 3, "seed": 8, "logprobs": 1, "echo": True}
    texts, tokens = {}, {}
    for one in frames(table.post(PATH, json={**body, "stream": True}).text)[:-1]:
        (choice,) = msgspec.json.decode(one)["choices"]
        texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
        columns = choice["logprobs"] or {"tokens": []}
        tokens.setdefault(choice["index"], []).extend(columns["tokens"])
    for choice in whole:
        assert texts[choice["index"]] == choice["text"]
        assert tokens[choice["index"]] == choice["logprobs"]["tokens"]


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"temperature": 0}])
def test_headers_say_what_runs(table, fields):
    response = table.post(PATH, json={"prompt": "ab", "seed": 2, **fields})
    assert {name: response.headers[f"x-leeway-{name}"] for name in HEADERS} == {
        "law": "rejection",
        "guarantee": "exact_distribution",
        "drafter": "draft_model",
        "seed": "2",
    }


HEADERS = ("law", "guarantee", "drafter", "seed")


def test_headers_name_the_law_that_judges_not_the_one_asked_for(table):
    asked = {"law": "typical", "delta": 0.5, "num_speculative_tokens": 0}
    body = {"prompt": "ab", "temperature": 0, "speculative": asked}
    response = table.post(PATH, json=body)
    receipt = response.json()["metrics"]["speculative_decoding"]
    assert (response.headers["x-leeway-law"], response.headers["x-leeway-drafter"]) == (
        receipt["law"],
        receipt["drafter"],
    )
    assert receipt["law"] == "greedy_match" and receipt["requested_law"] == "typical"
    sampled = table.post(PATH, json={**body, "temperature": 1})
    assert sampled.headers["x-leeway-guarantee"] == "none"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 2}, "best_of"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"n": -1}, "n"),
        ({"n": 33, "prompt": ["a", "b"]}, "n"),
        ({"n": True}, "n"),
    ],
)
def test_refused_by_name(client, fields, param):
    response = client.post(PATH, json={"prompt": "a", **fields})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_best_of_n_is_honoured(client):
    assert len(ask(client, n=2, best_of=2)["choices"]) == 2
