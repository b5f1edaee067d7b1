"""What every route takes, from every route: fields to the engine, and what the answer says."""

import json

import pytest

from leeway.backends.tabular import random_table
from tests.server.conftest import client_of, table_client
from tests.support.tabular_engine import make_engine

TEXT = "abcdeedcba"
MESSAGES = [{"role": "user", "content": TEXT}]
LEAST = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": TEXT},
    "/v1/responses": {"input": TEXT},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 50},
}
LIMIT = {"/v1/responses": "max_output_tokens"}
STOP = {"/v1/messages": "stop_sequences"}
CACHED = {
    "/v1/chat/completions": ("prompt_tokens_details", "cached_tokens"),
    "/v1/completions": ("prompt_tokens_details", "cached_tokens"),
    "/v1/responses": ("input_tokens_details", "cached_tokens"),
    "/v1/messages": ("cache_read_input_tokens",),
}
SAMPLING = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 3,
    "min_p": 0.1,
    "seed": 11,
    "min_tokens": 2,
    "stop_token_ids": [7, 9],
    "ignore_eos": True,
    "logit_bias": {"65": 1.5},
    "presence_penalty": 0.5,
    "frequency_penalty": 0.25,
    "repetition_penalty": 1.5,
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
NAMED = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
FORMS = {
    "/v1/chat/completions": {"response_format": NAMED},
    "/v1/completions": {"response_format": NAMED},
    "/v1/responses": {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
    "/v1/messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}


@pytest.fixture(params=LEAST)
def path(request):
    return request.param


def ask(client, path, **fields):
    response = client.post(path, json={**LEAST[path], **fields})
    assert response.status_code == 200, response.text
    return response


def test_sampling_fields_reach_the_engine(client, service, path):
    ask(client, path, **SAMPLING)
    sampling = service.requests[0].sampling
    reached = {name: getattr(sampling, name) for name in SAMPLING}
    assert reached == {**SAMPLING, "stop_token_ids": (7, 9), "logit_bias": {65: 1.5}}


def test_limit_and_stop_strings_reach_the_engine(client, service, path):
    fields = {LIMIT.get(path, "max_tokens"): 4, STOP.get(path, "stop"): ["x", "y"]}
    ask(client, path, **fields)
    sampling = service.requests[0].sampling
    assert (sampling.max_tokens, sampling.stop) == (4, ("x", "y"))


@pytest.mark.parametrize("num_drafted", [0, 2])
def test_a_request_chooses_law_draft_length_and_limits(service, path, num_drafted):
    asked = {"law": "typical", "delta": 0.3, "tv_budget": 0.25}
    client = client_of(service, allow_laws=("all",))
    response = ask(
        client, path, speculative={**asked, "num_speculative_tokens": num_drafted}, seed=5
    )
    (request,) = service.requests
    assert request.num_speculative_tokens == num_drafted
    assert request.limits.tv_budget == 0.25
    receipt = response.json()["metrics"]["speculative_decoding"]
    assert (receipt["law"], receipt["options"]["delta"]) == ("typical", 0.3)
    assert response.headers["x-leeway-law"] == "typical"
    assert response.headers["x-leeway-guarantee"] == receipt["guarantee"] == "none"
    assert response.headers["x-leeway-drafter"] == ("ngram" if num_drafted else "none")
    assert response.headers["x-leeway-seed"] == str(receipt["seed"]) == "5"


def test_t18_usage_says_what_the_cache_had(path):
    def load():
        return make_engine(random_table(5, 1, seed=1), context_len=400, capacity_tokens=4000)

    def cached(usage):
        for name in CACHED[path]:
            usage = usage[name]
        return usage

    limit = {LIMIT.get(path, "max_tokens"): 3}
    with table_client(load) as client:
        usages = [ask(client, path, **limit).json()["usage"] for _ in range(2)]
    assert [cached(usage) for usage in usages] == [0, 8]  # of ten tokens, in blocks of four


def test_t12_a_schema_reaches_the_engine(client, service, path):
    ask(client, path, **FORMS[path])
    (request,) = service.requests
    assert request.grammar.kind == "json_schema" and json.loads(request.grammar.text) == SCHEMA
    assert service.engine.compiled == request.grammar
