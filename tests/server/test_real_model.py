"""The real small model behind the real server, by the official client."""

from __future__ import annotations

import json

import openai
import pytest

from leeway.core.config import EngineConfig
from leeway.engine.load import load_engine
from leeway.engine.service import EngineService
from tests.server.conftest import live_server, wait_until_ready

pytestmark = pytest.mark.model

QUESTION = [{"role": "user", "content": "Repeat: the cat sat on the mat, the cat sat on the mat."}]


@pytest.fixture(scope="module")
def client(smollm2_path):
    config = EngineConfig(model=str(smollm2_path), kv_memory_bytes=2**28)
    service = EngineService(lambda: load_engine(config))
    service.start()
    wait_until_ready(service)
    with live_server(service, allow_laws=("all",)) as url:
        with openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0) as client:
            yield client
        service.stop()


def ask(client, **fields):
    model = client.models.list().data[0].id
    return client.chat.completions.create(
        model=model, messages=QUESTION, **{"max_tokens": 40, "temperature": 0, **fields}
    )


def test_t01_t14_t18_t23_whole_streamed_and_plain_greedy_answers_are_one_text(client):
    whole = ask(client)
    text = whole.choices[0].message.content
    assert "the cat sat on the mat" in text.lower()
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    usage = chunks[-1].usage
    assert usage.total_tokens == whole.usage.total_tokens
    cached = usage.prompt_tokens_details.cached_tokens
    assert 0 < cached == (usage.prompt_tokens - 1) // 32 * 32
    off = ask(client, extra_body={"speculative": {"num_speculative_tokens": 0}})
    assert off.choices[0].message.content == text
    drafted = whole.model_extra["metrics"]["speculative_decoding"]
    plain = off.model_extra["metrics"]["speculative_decoding"]
    assert drafted["accepted"] > 0 and plain["drafted"] == 0
    assert drafted["verify_steps"] < plain["verify_steps"] == plain["output_tokens"]


def test_t03_a_seed_gives_one_text_and_a_lossy_law_says_what_it_cost(client):
    fields = {"temperature": 0.3, "seed": 5, "extra_body": {"speculative": {"law": "medusa"}}}
    first, second = ask(client, **fields), ask(client, **fields)
    assert first.choices[0].message.content == second.choices[0].message.content
    receipt = first.model_extra["metrics"]["speculative_decoding"]
    assert (receipt["law"], receipt["guarantee"], receipt["seed"]) == ("typical", "none", 5)
    assert receipt["positions_decided"] == receipt["accepted"] + receipt["resampled"] > 0
    assert 0 <= receipt["loss"]["total_variation_mean"] <= receipt["loss"]["total_variation_max"]


def test_t12_a_schema_holds_real_text_to_its_form_under_exact_and_lossy_laws(client):
    schema = {
        "type": "object",
        "properties": {"animal": {"type": "string", "maxLength": 20}, "legs": {"type": "integer"}},
        "required": ["animal", "legs"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "animal", "schema": schema}}
    plain = {"speculative": {"num_speculative_tokens": 0}}
    texts = []
    for extra in ({}, plain, {"speculative": {"law": "medusa"}}):
        answer = ask(client, response_format=form, max_tokens=80, extra_body=extra)
        assert answer.choices[0].finish_reason == "stop"
        found = json.loads(answer.choices[0].message.content)
        assert set(found) == {"animal", "legs"} and isinstance(found["legs"], int)
        texts.append(answer.choices[0].message.content)
    assert texts[0] == texts[1]


def test_t20_a_model_without_a_place_for_tools_refuses_them(client):
    tool = {"type": "function", "function": {"name": "f"}}
    with pytest.raises(openai.BadRequestError, match="tools are not supported by the chat"):
        ask(client, tools=[tool])
