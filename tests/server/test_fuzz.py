"""Anything may be sent: the answer is 200 or names a mistake of the client's, never a 5xx.

The engine is the real one over a table. Examples are the same in every run.
"""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leeway.backends.tabular import random_table
from leeway.server.fields import OPENAI
from leeway.server.limit_fields import LIMIT_FIELDS
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
from leeway.text.chat_template import ChatTemplate
from tests.server.conftest import fuzzed_table, table_client
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
            "law": st.sampled_from(
                ["rejection", "block", "typical", "opt", "tv_budget", "greedy_match", "x"]
            ),
            "num_speculative_tokens": st.integers(-1, 5),
            "delta": NUMBERS,
            "options": VALUES,
            "metrics": st.sampled_from(["summary", "detailed", "x"]),
            "tv_budget": NUMBERS | st.floats(0, 2),
            "exact_prefix": NUMBERS,
            "hard_support": st.booleans() | NUMBERS,
            "phase": st.sampled_from(["all", "reasoning", "x"]) | VALUES,
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
    "continue_final_message": st.booleans(),
    "add_generation_prompt": st.booleans(),
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
    with fuzzed_table(context_len=60) as client:
        yield client


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


LAWS = st.sampled_from(
    [
        {"law": "ensemble", "weight": 0.1},
        {"law": "ensemble", "weight": 0.5, "verifier": "block"},
        {"law": "tokenv3", "alpha": 0.5},
        {"law": "opt", "alpha": 0.2},
        {"law": "rejection"},
        {"law": "greedy_match"},
    ]
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "tv_budget": st.sampled_from([0, 0.1, 1, 5, 1e9, 1e10, -0.0, -1, True, "0.1", None]),
        "exact_prefix": st.sampled_from([0, 1, 7, 10**9, 10**10, -1, 0.5, True, "1", None]),
        "hard_support": st.sampled_from([True, False, 1, "true", None]),
        "phase": st.sampled_from(["all", "reasoning", "Reasoning", "", 0, ["all"], None]),
        "num_speculative_tokens": st.integers(0, 3),
    },
)


def test_t20_t22_no_limit_is_a_failure_of_the_server(table):
    """And what a request names holds, in an answer that is given."""
    statuses, spent = set(), []

    @settings(
        max_examples=150,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(LAWS, LIMITS, st.sampled_from([0, 0.7, 1]), st.booleans())
    def check(law, limits, temperature, is_truncated):
        speculative = {**law, **limits}
        body = {"prompt": "ab", "max_tokens": 12, "temperature": temperature, "seed": 1}
        body |= {"ignore_eos": True, "top_k": 2 if is_truncated else 0}
        body["speculative"] = speculative
        response = table.post("/v1/completions", content=msgspec.json.encode(body), headers=JSON)
        statuses.add(response.status_code)
        assert response.status_code in (200, 400, 403), (body, response.text)
        if response.status_code != 200:
            param = response.json()["error"]["param"]
            assert param == "law" or param.startswith("speculative"), response.text
            return
        said = response.json()["metrics"]["speculative_decoding"]["limits"]
        named = {name: speculative.get(name) for name in LIMIT_FIELDS}
        for name, value in named.items():
            if value is not None:
                assert said is None or said[name] == value, (body, said)
        if said is not None and said["tv_budget"] is not None and said["tv_spent"]:
            assert said["tv_spent"] <= said["tv_budget"]
            spent.append(said["tv_spent"])

    check()
    assert {200, 400} <= statuses and spent


TEMPLATES = {
    "plain": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
    "picky": "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}"
    "{{ messages[0].content }}",
    "trimming": "{% for m in messages %}{{ m.role + ':' + m.content | trim }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}",
    "indexing": "{{ messages[-1]['content'].split('b')[1] }}{{ messages[3].role }}",
    "counting": "{{ 'a' * (messages | length) }}{{ 1 / (messages | length - 1) }}",
    "reaching": "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "changing": "{{ messages.append(messages[0]) }}",
    "calling": "{{ messages[0].content(1) }}",
    "undefined": "{{ nothing.at.all }}",
    "broken": "{% for m in messages %}",
    "filters": "{{ messages | tojson }}{{ messages[0].content | int + 1 }}",
    "reasoning": "{{ messages[-1].content.split('</think>')[-1].lstrip('a') }}<think>",
}
TEMPLATED = {
    "/v1/chat/completions": {"max_tokens": 4},
    "/v1/messages": {"max_tokens": 4},
    "/v1/messages/count_tokens": {},
    "/tokenize": {},
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_t20_no_template_is_a_failure_of_the_server(name):
    """Whatever a model file's template does with what people write: an answer or a refusal."""

    def load():
        engine = make_engine(random_table(5, 1, seed=1), drafter="ngram", context_len=60)
        tokenizer = engine.parts.tokenizer
        engine.parts = replace(engine.parts, chat_template=ChatTemplate(TEMPLATES[name], tokenizer))
        return engine

    with table_client(load) as client:

        @settings(
            max_examples=40,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(CONVERSATIONS, st.sampled_from(sorted(TEMPLATED)), st.booleans())
        def check(messages, path, continues):
            body = {"messages": messages, **TEMPLATED[path]}
            if path == "/v1/chat/completions":
                body["continue_final_message"] = continues
            response = client.post(path, content=msgspec.json.encode(body), headers=JSON)
            assert response.status_code in (200, 400), (body, response.text)

        check()
