"""Anything may be sent: the answer is 200 or names a mistake of the client's, never a 5xx.

The engine is the real one over a table. Examples are the same in every run.
"""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leeway.backends.tabular import random_table
from leeway.server.fields import OPENAI
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
from tests.server.conftest import table_client
from tests.support.tabular_engine import make_engine

MESSAGES = [{"role": "user", "content": "ab"}]
ROUTES = {
    "/v1/chat/completions": (ChatFields, OPENAI, {"messages": MESSAGES}),
    "/v1/completions": (CompletionFields, OPENAI, {"prompt": "ab"}),
    "/v1/responses": (ResponseFields, RESPONSES_RULES, {"input": "ab"}),
    "/v1/messages": (MessagesFields, MESSAGES_RULES, {"messages": MESSAGES, "max_tokens": 5}),
    "/v1/messages/count_tokens": (MessagesPrompt, MESSAGES_RULES, {"messages": MESSAGES}),
    "/tokenize": (TokenizeFields, TOKENIZE_RULES, {"prompt": "ab"}),
    "/detokenize": (DetokenizeFields, TOKENIZE_RULES, {"tokens": [0, 1]}),
}
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.sampled_from(
    ["a", "ab", "{{ 7 * 7 }}", "{% for x in y %}", "<eos>", "\x00", "\u202e", "user", "typical"]
)
NUMBERS = st.integers(-3, 70) | st.sampled_from(
    [2**31, 2**53, 2**64 - 1, 2**64, -(2**63), 10**40, 1e-7, 0.5, 1.0, 1e308, -0.0]
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "law", "delta", "0", "1", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)
PARTS = st.fixed_dictionaries({"type": st.sampled_from(["text", "input_text"]), "text": TEXTS})
CONVERSATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]),
            "content": TEXTS | st.lists(PARTS | VALUES, max_size=2),
        }
    )
    | VALUES,
    max_size=3,
)
SCHEMAS = VALUES | st.dictionaries(
    st.sampled_from(["type", "enum", "const", "minimum", "pattern", "$ref", "anyOf", "x-guidance"]),
    st.sampled_from(["string", "integer", "#", "a+", ["a"], [{"type": "string"}], {}]) | VALUES,
    max_size=3,
)
REGEXES = TEXTS | st.sampled_from(["a+", "[a-c]{2}", "(a|b)*", "(?i)A", "a{9999}", "(a{999}){999}"])
PLAUSIBLE = {
    "messages": CONVERSATIONS,
    "input": CONVERSATIONS | TEXTS,
    "prompt": TEXTS | st.lists(TEXTS | st.lists(st.integers(-1, 6), max_size=3), max_size=3),
    "speculative": st.fixed_dictionaries(
        {},
        optional={
            "law": st.sampled_from(["rejection", "block", "typical", "opt", "tv_budget", "x"]),
            "num_speculative_tokens": st.integers(-1, 5),
            "delta": NUMBERS,
            "options": VALUES,
            "metrics": st.sampled_from(["summary", "detailed", "x"]),
        },
    ),
    "guided_json": SCHEMAS,
    "guided_regex": REGEXES,
    "guided_grammar": TEXTS | st.sampled_from(['start: "a"*', 'root ::= "a" | root', "start: x"]),
    "guided_choice": st.lists(TEXTS, max_size=3),
    "response_format": st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "json_object", "json_schema", "x"])},
        optional={"json_schema": st.fixed_dictionaries({"schema": SCHEMAS}) | VALUES},
    ),
    "structured_outputs": st.fixed_dictionaries(
        {}, optional={"json": SCHEMAS, "regex": REGEXES, "choice": st.lists(TEXTS, max_size=2)}
    ),
    "tools": st.lists(
        st.fixed_dictionaries(
            {
                "type": st.just("function"),
                "function": st.fixed_dictionaries({"name": TEXTS, "parameters": SCHEMAS}),
            }
        ),
        max_size=2,
    ),
    "tool_choice": st.sampled_from(["none", "auto", "required", "x"]) | VALUES,
    "n": st.integers(0, 4),
    "logit_bias": st.dictionaries(st.sampled_from(["0", "4", "5", "-1", "a"]), NUMBERS, max_size=3),
    "stop": TEXTS | st.lists(TEXTS, max_size=18),
    "logprobs": st.booleans() | st.integers(-1, 22),
    "stream": st.booleans(),
    "temperature": st.floats(-1, 3) | st.just(1e-6),
    "max_tokens": st.integers(-1, 70),
    "stop_token_ids": st.lists(st.integers(-1, 6), max_size=6),
}


def bodies(kind, rules, least):
    names = [*kind.__struct_fields__, *rules.unsupported, *sorted(rules.ignored), "made_up"]
    fields = st.lists(st.sampled_from(names), max_size=5, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries(
            {name: st.one_of(PLAUSIBLE.get(name, NUMBERS), VALUES) for name in chosen}
        )
    )
    return fields.map(lambda extra: {**least, **extra})


@pytest.fixture(scope="module")
def table():
    with table_client(
        lambda: make_engine(
            random_table(5, 1, seed=1),
            drafter="draft_model",
            draft_table=random_table(5, 1, seed=2),
            eos_token_id=4,
            context_len=60,
            capacity_tokens=1200,
        )
    ) as client:
        yield client
        engine = client.app.state.server.service.engine
        assert engine.parts.backend.num_open() == 0 and not engine.has_work


@pytest.mark.parametrize("path", ROUTES)
def test_t20_t22_no_request_is_a_failure_of_the_server(table, path):
    statuses = set()

    @settings(
        max_examples=100,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(bodies(*ROUTES[path]))
    def check(body):
        response = table.post(path, content=msgspec.json.encode(body), headers=JSON)
        statuses.add(response.status_code)
        assert response.status_code < 500, (response.status_code, body, response.text)
        if response.status_code == 200 and body.get("stream") is True and path in STREAMED:
            assert '"type":"server_error"' not in response.text, (body, response.text)
            assert '"type":"api_error"' not in response.text, (body, response.text)
        elif response.status_code != 200:
            error = response.json()["error"]
            assert error["message"] and error["type"].endswith("error"), body

    check()
    assert {200, 400} <= statuses


JSON = {"Content-Type": "application/json"}
STREAMED = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


@pytest.mark.parametrize("path", ROUTES)
def test_t20_bytes_that_are_no_request_are_refused(client, path):
    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(st.binary(max_size=40))
    def check(raw):
        assert client.post(path, content=raw, headers=JSON).status_code == 400

    check()
