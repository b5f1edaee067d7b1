"""Calls that are required of the real 0.5B: valid, and the same whole, streamed and plain."""

from __future__ import annotations

import json

import openai
import pytest

from leeway.core.config import EngineConfig
from leeway.engine.load import load_engine
from leeway.engine.service import EngineService
from tests.server.conftest import live_server, wait_until_ready

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]

ASKED = [{"role": "user", "content": "Will it rain in Paris tomorrow? Answer in celsius."}]
UNITS = ["celsius", "fahrenheit"]
TOOLS = {
    "get_weather": {
        "city": {"type": "string", "maxLength": 40},
        "unit": {"type": "string", "enum": UNITS},
    },
    "set_timer": {"minutes": {"type": "integer"}, "label": {"type": "string", "maxLength": 40}},
}
IS_VALID = {
    "city": lambda value: isinstance(value, str) and 0 <= len(value) <= 40,
    "unit": lambda value: value in UNITS,
    "minutes": lambda value: type(value) is int,
    "label": lambda value: isinstance(value, str) and len(value) <= 40,
}
CHOICES = {
    "required": "required",
    "named": {"type": "function", "function": {"name": "set_timer"}},
}


def tool(name, properties):
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.fixture(scope="module")
def client(qwen_coder_path):
    config = EngineConfig(model=str(qwen_coder_path), kv_memory_bytes=2**28)
    service = EngineService(lambda: load_engine(config))
    service.start()
    wait_until_ready(service)
    with live_server(service) as url:
        with openai.OpenAI(
            base_url=url + "/v1", api_key="any", max_retries=0, timeout=800
        ) as client:
            yield client
        service.stop()


def ask(client, choice, **fields):
    return client.chat.completions.create(
        model=client.models.list().data[0].id,
        messages=ASKED,
        tools=[tool(*one) for one in TOOLS.items()],
        tool_choice=choice,
        parallel_tool_calls=False,
        temperature=0,
        max_tokens=150,
        **fields,
    )


def called(answer):
    """Return name and arguments of the one call of a whole answer."""
    (choice,) = answer.choices
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    return call.function.name, call.function.arguments


@pytest.mark.parametrize("name", CHOICES)
def test_t01_t12_t14_t23_a_required_call_is_valid_and_one_whole_streamed_and_plain(client, name):
    whole = ask(client, CHOICES[name])
    function, arguments = called(whole)
    given = json.loads(arguments)
    assert name != "named" or function == "set_timer"
    assert list(given) == list(TOOLS[function])
    assert all(IS_VALID[key](value) for key, value in given.items()), given

    streamed = {"name": "", "arguments": "", "content": ""}
    num_pieces, reasons = 0, []
    for chunk in ask(client, CHOICES[name], stream=True):
        (choice,) = chunk.choices
        streamed["content"] += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            assert call.index == 0
            streamed["name"] += call.function.name or ""
            streamed["arguments"] += call.function.arguments or ""
            num_pieces += bool(call.function.arguments)
        reasons.append(choice.finish_reason)
    assert streamed == {"name": function, "arguments": arguments, "content": ""}
    assert num_pieces > 1 and reasons[-1] == "tool_calls" and set(reasons[:-1]) == {None}

    plain = ask(client, CHOICES[name], extra_body={"speculative": {"num_speculative_tokens": 0}})
    assert called(plain) == (function, arguments)
    spent, base = (one.model_extra["metrics"]["speculative_decoding"] for one in (whole, plain))
    assert spent["accepted"] > 0 and spent["verify_steps"] < base["verify_steps"]
    assert base["drafted"] == 0 and base["output_tokens"] == spent["output_tokens"]
