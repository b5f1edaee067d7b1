"""The OpenAPI document: all that docs/http.md lists is in it; it allows what the server takes."""

import json
import re

import jsonschema_rs
import pytest
from tests.server.conftest import CHAT, client_of
from tests.server.fake_service import FakeService
from tests.unit.server.test_docs import OWN, names_in
from tests.unit.server.test_docs_tables import OPENAI, PAGE, SHARED, table, ticked

from leeway.server.app import _routes
from leeway.server.openapi import BODIES
from leeway.server.schema import SamplingFields

LEAST = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": CHAT["messages"], "max_tokens": 5},
    "/v1/messages/count_tokens": {"messages": CHAT["messages"]},
    "/tokenize": {"prompt": "Hi"},
    "/detokenize": {"tokens": [72]},
}
CHAT_PATH, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ANSWERING = (CHAT_PATH, COMPLETIONS, "/v1/responses", "/v1/messages")


def document_of(**settings):
    return client_of(FakeService(), **settings).get("/openapi.json").json()


DOCUMENT = document_of(allow_laws=("all",))


def fields_of(path):
    return DOCUMENT["components"]["schemas"][BODIES[path][0].__name__]["properties"]


def is_valid(path, body, document=DOCUMENT):
    ref = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    root = {**ref, "components": document["components"]}
    return jsonschema_rs.validator_for(root).is_valid(body)


def test_it_has_every_route_and_no_other():
    served = {
        (route.path.replace("{model_id:path}", "{id}"), method.lower())
        for route in _routes()
        for method in route.methods - {"HEAD"}
    }
    assert served == {(path, name) for path, one in DOCUMENT["paths"].items() for name in one}
    assert {path for path, method in served if method == "post"} == set(BODIES) == set(LEAST)


def test_every_field_of_the_pages_tables_is_in_the_bodies_of_its_routes():
    for names, _, note in table(OPENAI):
        paths = {"chat.": [CHAT_PATH], "completions.": [COMPLETIONS]}.get(
            note.partition(" ")[0], [CHAT_PATH, COMPLETIONS]
        )
        for path in paths:
            assert set(ticked(names)) <= set(fields_of(path)), (path, names)
    shared = {name for names, *_ in table(SHARED) for name in ticked(names)}
    assert shared == set(SamplingFields.__struct_fields__)
    for path in ANSWERING:
        assert shared <= set(fields_of(path))


@pytest.mark.parametrize(
    ("head", "paths"),
    [
        ("**Refused by name there**", (CHAT_PATH, COMPLETIONS)),
        ("**Responses** take", ("/v1/responses",)),
        ("**Messages** take", ("/v1/messages",)),
        ("**`/tokenize`** takes", ("/tokenize",)),
    ],
    ids=["openai", "responses", "messages", "tokenize"],
)
def test_every_name_that_the_page_refuses_or_ignores_is_in_it(head, paths):
    section = PAGE.split(head, 1)[1].split("\n## ")[0]
    refused = re.split(r"asks for nothing[^:]*(?:: \[\]`\))?: ", section, maxsplit=1)[1]
    listed = names_in(refused) | (OWN if len(paths) == 2 else set())
    ignored = re.split(r"(?:Ignored: |cannot matter here: )", section, maxsplit=1)
    if len(ignored) == 2:
        listed |= names_in(ignored[1])
    assert len(listed) > 4
    for path in paths:
        assert listed <= set(fields_of(path))


def test_it_has_the_statuses_of_the_pages_table():
    listed = {status for status, *_ in table("## Errors")}
    for path in BODIES:
        assert set(DOCUMENT["paths"][path]["post"]["responses"]) == listed | {"200"}


EDGES = [
    ("temperature", [0, 100], [-0.1, 100.1, "1", True]),
    ("top_p", [1, 0.1], [1.1, -0.1]),
    ("min_p", [0, 1], [1.1]),
    ("top_k", [-1, 0, 9], [-2, 0.5]),
    ("seed", [0, 2**64 - 1, None], [-1, 2**64]),
    ("presence_penalty", [-2, 2], [-2.1, 2.1]),
    ("repetition_penalty", [0.01, 100], [0, 101]),
    ("logit_bias", [{"1": 100}, {"2": -100}], [{"1": 101}, {"a": 1}, [1]]),
    ("stop_token_ids", [[0, 255], []], [[-1], ["a"]]),
    ("stream", [False, None], [1, "true"]),
    ("ignore_eos", [True], [0]),
    ("min_tokens", [0, None], [-1]),
    ("speculative", [{"law": "typical", "delta": 0.3}, {"metrics": "detailed"},
                     {"num_speculative_tokens": 3}, {"options": {}}, {"phase": "all"},
                     {"tv_budget": 0.5, "exact_prefix": 2, "hard_support": True}],
     [{"law": "x"}, {"lawn": "x"}, {"metrics": "x"}, {"num_speculative_tokens": 4},
      {"num_speculative_tokens": -1}, {"phase": "x"}, {"tv_budget": -1}, {"exact_prefix": 0.5}, 3]),
    ("made_up", [], [1]),
]  # fmt: skip
OF_ONE_ROUTE = [
    (CHAT_PATH, "n", [1, 64], [0, 65]),
    (CHAT_PATH, "max_tokens", [1], [-1]),
    (CHAT_PATH, "stop", ["a", ["a"] * 16], ["", ["a"] * 17, [""]]),
    (CHAT_PATH, "messages", [], [None, "a", [{"role": "x", "content": ""}], [{"role": "user"}]]),
    (CHAT_PATH, "tool_choice", ["none", "auto"], ["x", {"type": "x"}]),
    (CHAT_PATH, "echo", [False], [True]),
    (CHAT_PATH, "response_format", [{"type": "text"}], [{"type": "x"}, {}]),
    (COMPLETIONS, "logprobs", [0, 20, False], [-1, 21]),
    (COMPLETIONS, "prompt", [["a", "b"], [1, 2], [[1], [2]]], [None, {}, [{}], [-1]]),
    ("/v1/responses", "text", [{"format": {"type": "text"}}], [{"format": 3}, {"x": 1}]),
    ("/v1/responses", "truncation", ["disabled"], ["auto"]),
    ("/v1/messages", "system", ["a", [{"type": "text", "text": "a"}]], [[{"type": "image"}], 3]),
    ("/v1/messages", "thinking", [{"type": "adaptive"}], [{"type": "enabled"}, {}]),
    ("/tokenize", "return_token_strs", [True], [1]),
    ("/detokenize", "tokens", [[0, 255], []], [[-1], ["a"], None]),
]
CASES = [(path, *edge) for path in ANSWERING for edge in EDGES] + OF_ONE_ROUTE


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]} of {case[0]}")
def test_the_document_and_the_server_draw_one_line(case):
    path, name, good, bad = case
    client = client_of(FakeService(), allow_laws=("all",))
    for value, is_good in [*((one, True) for one in good), *((one, False) for one in bad)]:
        body = {**LEAST[path], name: value}
        answer = client.post(path, json=body)
        assert is_valid(path, body) is is_good, body
        assert answer.status_code in ((200,) if is_good else (400, 403)), answer.text


WEATHER = {
    "type": "object",
    "properties": {"location": {"type": "string", "description": "e.g. San Francisco, CA"}},
    "required": ["location"],
}
EXAMPLES = [  # of the vendors' references, shortened; only the model's name is another here
    (CHAT_PATH, {"messages": [{"role": "developer", "content": "You are a helpful assistant."},
                              {"role": "user", "content": "Hello!"}]}),
    (CHAT_PATH, {"messages": [{"role": "user", "content": "Hello!"}], "logprobs": True,
                 "top_logprobs": 2, "stream": True, "stream_options": {"include_usage": True}}),
    (CHAT_PATH, {"messages": [{"role": "user", "content": "What is the weather in Boston?"}],
                 "tools": [{"type": "function", "function": {"name": "get_weather",
                                                             "parameters": WEATHER}}],
                 "tool_choice": "auto"}),
    (CHAT_PATH, {"messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is the weather?"}]},
        {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [
            {"id": "call_1", "type": "function",
             "function": {"name": "get_weather", "arguments": '{"location": "Boston"}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "15 degrees"}]}),
    (CHAT_PATH, {"messages": [{"role": "user", "content": "Hi"}],
                 "response_format": {"type": "json_schema", "json_schema": {
                     "name": "place", "strict": True, "schema": WEATHER}}}),
    (COMPLETIONS, {"prompt": "Say this is a test", "max_tokens": 7, "temperature": 0}),
    ("/v1/responses", {"input": "Tell me a three sentence bedtime story about a unicorn."}),
    ("/v1/responses", {"input": [{"role": "user", "content": [
        {"type": "input_text", "text": "what is in this text?"}]}], "store": False,
        "instructions": "You are a helpful assistant.", "stream": True}),
    ("/v1/responses", {"input": [
        {"role": "user", "content": "What is the weather?"},
        {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "15 degrees"}],
        "tools": [{"type": "function", "name": "get_weather", "parameters": WEATHER,
                   "strict": True}], "tool_choice": "auto"}),
    ("/v1/messages", {"max_tokens": 1024,
                      "messages": [{"role": "user", "content": "Hello, world"}]}),
    ("/v1/messages", {"max_tokens": 1024, "stop_sequences": ["###"], "tools": [
        {"name": "get_weather", "description": "The weather", "input_schema": WEATHER}],
        "messages": [
            {"role": "user", "content": "What is the weather?"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "15 degrees"}]}]}),
    ("/v1/messages/count_tokens", {"system": "You are a scientist",
                                   "messages": [{"role": "user", "content": "Hello, Claude"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body"), EXAMPLES)
def test_the_official_examples_are_valid(path, body):
    assert is_valid(path, body)
    assert not is_valid(path, {**body, "made_up": 1})


def test_the_pages_own_examples_are_valid():
    bodies = [json.loads(one) for one in re.findall(r"-d '(\{.*?\})'", PAGE, re.DOTALL)]
    objects = [json.loads(one) for one in re.findall(r"```json\n(\{.*?\})\n```", PAGE, re.DOTALL)]
    assert len(bodies) == 1 and len(objects) == 2
    assert is_valid(CHAT_PATH, bodies[0])
    for one in objects:
        assert is_valid(COMPLETIONS, {"prompt": "a", "speculative": one})


def test_it_says_what_this_server_allows():
    body = {**CHAT, "speculative": {"law": "typical"}}
    assert is_valid(CHAT_PATH, body) and not is_valid(CHAT_PATH, body, document_of())


@pytest.mark.parametrize("key", [None, "k"])
def test_it_says_who_asks_for_a_key(key):
    paths = document_of(api_key=key)["paths"]
    asked = [{"bearer": []}, {"x_api_key": []}]
    for path in [*BODIES, "/v1/models"]:
        (operation,) = paths[path].values()
        assert operation["security"] == (asked if key else [*asked, {}])
    for path in ("/", "/health", "/metrics", "/openapi.json"):
        assert "security" not in paths[path]["get"]
