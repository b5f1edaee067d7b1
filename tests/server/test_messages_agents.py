"""What Anthropic's agents send beside and among their messages."""

import json

import pytest

from tests.server.test_messages import COUNT, LEAST, MESSAGES, PATH, ask

THINKING = {"type": "adaptive", "display": "omitted"}
CLEARING = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORM = {"type": "json_schema", "schema": SCHEMA}


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "disabled"}},
        {"thinking": THINKING, "output_config": {"effort": "max"}, "context_management": CLEARING},
        {"output_config": {"effort": None, "format": None}, "context_management": {"edits": []}},
    ],
    ids=["off", "adaptive", "empty"],
)
def test_what_cannot_matter_here_changes_nothing(client, service, fields):
    assert ask(client, seed=7, **fields)["content"] == ask(client, seed=7)["content"]
    changed, plain = service.requests
    assert changed.prompt_token_ids == plain.prompt_token_ids
    assert changed.sampling == plain.sampling and changed.grammar is None
    count = client.post(COUNT, json={"messages": MESSAGES, **fields})
    assert count.json() == {"input_tokens": len(plain.prompt_token_ids)}


def test_a_format_is_the_form_of_the_answer(client, service):
    ask(client, output_config={"format": FORM, "effort": "low"})
    (request,) = service.requests
    assert request.grammar.kind == "json_schema" and json.loads(request.grammar.text) == SCHEMA
    assert service.engine.compiled == request.grammar


def test_a_system_message_stands_where_it_was_sent(client, service):
    blocks = [{"type": "text", "text": "two"}, {"type": "text", "text": "more"}]
    given = [*MESSAGES, {"role": "system", "content": blocks}]
    ask(client, system="one", messages=given)
    prompt = bytes(service.requests[0].prompt_token_ids).decode()
    assert prompt == "system: one\nuser: Hi\nsystem: two\nmore\nassistant: "


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking is not supported by"),
        ({"thinking": {"type": "always"}}, "thinking.type is 'always'; allowed: 'disabled'"),
        ({"thinking": {"type": "adaptive", "depth": 1}}, "thinking: object contains unknown field"),
        ({"thinking": {}}, "thinking: object missing required field type"),
        ({"output_config": {"effort": "some"}}, "output_config.effort is 'some'; allowed: 'low'"),
        ({"output_config": {"task_budget": {}}}, "output_config: object contains unknown field"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type is 'xml'"),
        (
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
            "context_management.edits[0].type is 'clear_tool_uses_20250919'; allowed: 'clear_",
        ),
        ({"context_management": {"keep": 1}}, "context_management: object contains unknown field"),
    ],
)
@pytest.mark.parametrize("path", [PATH, COUNT])
def test_what_would_matter_is_refused_by_name(client, path, fields, message):
    least = LEAST if path == PATH else {"messages": MESSAGES}
    response = client.post(path, json={**least, **fields})
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
