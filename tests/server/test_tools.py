"""Tools over HTTP: what models write between tags becomes calls, whole and streamed alike."""

import json

import openai
import pytest

from leeway.text.tool_calls.dialect import HERMES
from tests.server.conftest import client_of, frames, table_client
from tests.server.fake_service import FakeService, PlainTemplate
from tests.support.json_tokens import blank_table, write_json
from tests.support.serving_cases import SERVED, case_label, serve
from tests.support.tabular_engine import make_engine

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}
STOP = {"type": "function", "function": {"name": "halt", "description": "Ends it all."}}
ASK = [{"role": "user", "content": "Add."}]
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "ü"}}\n</tool_call>'
ARGUMENTS = '{"a": 1, "b": "ü"}'


class ToolTemplate(PlainTemplate):
    tool_dialect = HERMES

    def render(self, messages, *, add_generation_prompt=True, tools=None):
        self.shown = json.loads(json.dumps({"messages": messages, "tools": tools}))
        return "prompt"


@pytest.fixture
def service():
    service = FakeService()
    service.engine.parts.chat_template = ToolTemplate()
    return service


@pytest.fixture
def client(service):
    return client_of(service)


def post(client, **fields):
    return client.post(
        "/v1/chat/completions", json={"messages": ASK, "tools": [ADD, STOP], **fields}
    )


def choice_of(client, **fields):
    answer = post(client, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def streamed(client, **fields):
    """Return content, calls as (name, arguments), and finish reason, joined from a stream."""
    content, calls, reasons = "", {}, []
    for frame in frames(post(client, stream=True, **fields).text)[:-1]:
        choice = json.loads(frame)["choices"][0]
        delta = choice["delta"]
        content += delta.get("content") or ""
        for call in delta.get("tool_calls", []):
            known = calls.setdefault(call["index"], {"name": None, "arguments": "", "id": None})
            known["arguments"] += call["function"]["arguments"]
            if "id" in call:
                assert known["id"] is None
                known.update(id=call["id"], name=call["function"]["name"])
        reasons.append(choice["finish_reason"])
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    return content, [(one["name"], one["arguments"]) for one in calls.values()], reasons[-1]


REPLIES = {
    "call": (CALL, "", [("add", ARGUMENTS)], "tool_calls"),
    "two": (f"{CALL}\n{CALL}", "", [("add", ARGUMENTS)] * 2, "tool_calls"),
    "content": (f"Let me.\n{CALL}", "Let me.\n", [("add", ARGUMENTS)], "tool_calls"),
    "plain": ("No <tool is needed", "No <tool is needed", [], "stop"),
    "broken": ("<tool_call>?</tool_call>", "<tool_call>?</tool_call>", [], "stop"),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("num_drafted", [0, 1, 3])
def test_t14_calls_and_content_are_the_same_whole_and_streamed(service, client, name, num_drafted):
    reply, content, calls, reason = REPLIES[name]
    service.reply = lambda prompt: reply
    fields = {"speculative": {"num_speculative_tokens": num_drafted}}
    choice = choice_of(client, **fields)
    message = choice["message"]
    found = [
        (call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", [])
    ]
    assert (message["content"] or "", found, choice["finish_reason"]) == (content, calls, reason)
    assert (message["content"] is None) == (content == "" and calls != [])
    assert streamed(client, **fields) == (content, calls, reason)


def test_t14_tools_do_not_change_how_plain_answers_are_cut(client):
    def texts(**fields):
        return [
            json.loads(frame)["choices"][0]["delta"].get("content")
            for frame in frames(post(client, stream=True, **fields).text)[:-1]
        ]

    assert texts() == texts(tools=None)


def test_a_call_that_the_limit_cuts_ends_by_length(service, client):
    service.reply = lambda prompt: CALL
    choice = choice_of(client, max_tokens=50)
    assert choice["finish_reason"] == "length"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == ARGUMENTS[:9]
    assert streamed(client, max_tokens=50) == ("", [("add", ARGUMENTS[:9])], "length")


def test_the_official_client_reads_calls_and_sends_them_back(service, client):
    service.reply = lambda prompt: CALL
    official = openai.OpenAI(base_url="http://localhost/v1", api_key="x", http_client=client)
    message = (
        official.chat.completions.create(model="scripted-model", messages=ASK, tools=[ADD, STOP])
        .choices[0]
        .message
    )
    call = message.tool_calls[0]
    assert (call.type, call.function.name) == ("function", "add")
    assert service.engine.parts.chat_template.shown["tools"] == [ADD, STOP]
    result = {"role": "tool", "tool_call_id": call.id, "content": "3"}
    history = [*ASK, message.model_dump(exclude_none=True), result]
    service.reply = lambda prompt: "It is 3."
    official.chat.completions.create(model="scripted-model", messages=history, tools=[ADD])
    assert service.engine.parts.chat_template.shown["messages"] == [
        *ASK,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "type": "function",
                    "function": {"name": "add", "arguments": {"a": 1, "b": "ü"}},
                }
            ],
        },
        {"role": "tool", "content": "3"},
    ]


def test_tool_choice_none_leaves_the_tools_out(service, client):
    service.reply = lambda prompt: CALL
    choice = choice_of(client, tool_choice="none")
    assert choice["message"]["content"] == CALL
    assert choice["finish_reason"] == "stop"
    assert service.engine.parts.chat_template.shown["tools"] is None


def test_one_call_at_a_time_ends_the_answer_behind_it(service, client):
    service.reply = lambda prompt: CALL.removesuffix("</tool_call>")
    choice = choice_of(client, parallel_tool_calls=False, stop="END")
    assert service.requests[-1].sampling.stop == ("END", "</tool_call>")
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == ARGUMENTS
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "trigger", "between", "names"),
    [
        ({"tool_choice": "required"}, None, "\n", ["add", "halt"]),
        ({"tool_choice": "required", "parallel_tool_calls": False}, None, None, ["add", "halt"]),
        (
            {"tool_choice": {"type": "function", "function": {"name": "halt"}}},
            None,
            None,
            ["halt"],
        ),
        (
            {"tools": [{**ADD, "function": {**ADD["function"], "strict": True}}, STOP]},
            "<tool_call>",
            None,
            ["add", "halt"],
        ),
    ],
    ids=["required", "required-one", "named", "strict"],
)
def test_choices_that_hold_the_answer_to_calls(service, client, fields, trigger, between, names):
    choice_of(client, **fields)
    grammar = service.requests[-1].grammar
    assert (grammar.kind, grammar.param) == ("calls", "tools")
    calls = json.loads(grammar.text)
    assert (calls["trigger"], calls["between"]) == (trigger, between)
    assert [json.loads(one["begin"][12:] + "{}}")["name"] for one in calls["frames"]] == names


def test_auto_holds_to_nothing(service, client):
    choice_of(client, tool_choice="auto")
    assert service.requests[-1].grammar is None


CHOSEN = {"type": "function", "function": {"name": "other"}}
BAD = {
    "kind": ({"tools": [{"type": "search"}]}, "tools[0]", "missing required field function"),
    "type": ({"tools": [{**ADD, "type": "x"}]}, "tools[0].type", "allowed: 'function'"),
    "name": (
        {"tools": [{"type": "function", "function": {"name": "a b"}}]},
        "tools[0].function.name",
        "is 'a b'; allowed",
    ),
    "choice": ({"tool_choice": "any"}, "tool_choice", "is 'any'; allowed"),
    "choice-other": ({"tool_choice": CHOSEN}, "tool_choice", "'other'; allowed: one of tools"),
    "choice-kind": ({"tool_choice": {"type": "custom"}}, "tool_choice", "allowed: 'none'"),
    "no-tools": ({"tools": [], "tool_choice": "required"}, "tool_choice", "with tools"),
    "form": ({"guided_regex": "a"}, "tools", "tools stand beside guided_regex"),
    "arguments": (
        {
            "messages": [
                *ASK,
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "[1]"}}],
                },
            ]
        },
        "messages[1].tool_calls[0].function.arguments",
        "a JSON list; allowed: an object",
    ),
    "no-json": (
        {
            "messages": [
                {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}
            ]
        },
        "messages[0].tool_calls[0].function.arguments",
        "is not JSON",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_t20_malformed_tools_are_a_400_that_names_the_place(client, name):
    fields, param, message = BAD[name]
    answer = post(client, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_t20_a_model_whose_template_has_no_tools_refuses_them(is_stream):
    service = FakeService()
    answer = post(client_of(service), stream=is_stream)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools"
    assert "'scripted-model'" in answer.json()["error"]["message"]
    assert choice_of(client_of(service), tool_choice="none")["finish_reason"] == "stop"


TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
    "{% for message in messages %}{{ message.content }}{% endfor %}"
    '{# <tool_call> {"name": NAME, "arguments": ARGUMENTS} </tool_call> #}'
)


@pytest.fixture(scope="module")
def table_server():
    def load():
        return write_json(
            make_engine(
                blank_table(1),
                drafter="draft_model",
                draft_table=blank_table(2),
                context_len=900,
                capacity_tokens=9000,
            ),
            TEMPLATE,
        )

    with table_client(load) as client:
        yield client


@pytest.mark.parametrize(
    "law",
    [
        {"law": "rejection"},
        {"law": "block"},
        {"law": "relaxed_top_k", "rank": 2, "ratio": 0.4},
        {"law": "typical", "delta": 0.6},
    ],
    ids=lambda law: law["law"],
)
def test_t12_required_calls_follow_their_schemas_under_every_law(table_server, law):
    for seed in range(2):
        fields = {"seed": seed, "tool_choice": "required", "speculative": law}
        choice = choice_of(table_server, **fields, parallel_tool_calls=False)
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["content"] is None
        (call,) = choice["message"]["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "add":
            assert set(arguments) == {"a", "b"} and arguments["b"] in ("x", "y")
        else:
            assert (call["function"]["name"], arguments) == ("halt", {})


@pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)
def test_t12_t14_a_required_call_is_one_whole_and_streamed_whoever_drafts(law, drafter):
    tables = blank_table(1), blank_table(2)
    sizes = {"context_len": 900, "capacity_tokens": 9000}
    fields = {"tool_choice": "required", "parallel_tool_calls": False, "seed": 1}
    with table_client(
        lambda: write_json(serve(law, drafter, *tables, **sizes), TEMPLATE)
    ) as client:
        (call,) = choice_of(client, **fields)["message"]["tool_calls"]
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        assert set(json.loads(arguments)) == {"add": {"a", "b"}, "halt": set()}[name]
        assert streamed(client, **fields) == ("", [(name, arguments)], "tool_calls")


def test_t12_t14_a_named_function_is_called_whole_and_streamed_alike(table_server):
    fields = {"tool_choice": {"type": "function", "function": {"name": "add"}}, "seed": 4}
    (call,) = choice_of(table_server, **fields)["message"]["tool_calls"]
    expected = [("add", call["function"]["arguments"])]
    assert streamed(table_server, **fields) == ("", expected, "tool_calls")


def test_t12_parameters_that_nothing_satisfies_are_a_400(table_server):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"enum": []}}}
    answer = post(table_server, tools=[tool], tool_choice="required")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools"
