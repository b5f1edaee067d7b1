"""Streams say what whole answers say, on every route, for laws and drafters of the real loop."""

import re
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from leeway.backends.tabular import random_table
from leeway.core.types import Acceptance, TokenizerData
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer as OurTokenizer
from tests.server.conftest import events, frames, table_client
from tests.support.byte_tokens import spell, spelling_table
from tests.support.serving_cases import DRAFTERS, SERVED, case_label, serve
from tests.support.tabular_engine import CHAT_TEMPLATE

LAWS = [
    {"law": "rejection"},
    {"law": "block"},
    {"law": "typical", "delta": 0.5},
    {"law": "tv_budget", "budget": 0.1},
    {"num_speculative_tokens": 0},
]
ENDS = [{}, {"stop": ["é🙂", "aa"]}, {"max_tokens": 7}]


@pytest.fixture(scope="module", params=DRAFTERS)
def table(request):
    with table_client(
        lambda: spell(
            serve(Acceptance(), request.param, spelling_table(1), spelling_table(2), context_len=60)
        )
    ) as client:
        yield client


def post(client, path, body):
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response


def chat(client, body):
    path = "/v1/chat/completions"
    body = {"messages": [{"role": "user", "content": "aé🙂"}], "logprobs": True, **body}
    (choice,) = post(client, path, body).json()["choices"]
    entries = choice["logprobs"]["content"]
    whole = (choice["message"]["content"], choice["finish_reason"], entries)
    text, reason, streamed = "", None, []
    for one in frames(post(client, path, {**body, "stream": True}).text)[:-1]:
        (choice,) = msgspec.json.decode(one)["choices"]
        text += choice["delta"].get("content", "")
        reason = choice["finish_reason"]
        streamed += (choice["logprobs"] or {"content": []})["content"]
    return whole, (text, reason, streamed)


def completion(client, body):
    body = {"prompt": "aé🙂", "max_tokens": 40, **body}
    (choice,) = post(client, "/v1/completions", body).json()["choices"]
    text, reason = "", None
    for one in frames(post(client, "/v1/completions", {**body, "stream": True}).text)[:-1]:
        (part,) = msgspec.json.decode(one)["choices"]
        text += part["text"]
        reason = part["finish_reason"]
    return (choice["text"], choice["finish_reason"]), (text, reason)


def responses(client, body):
    limit = body.pop("max_tokens", 40)
    body = {"input": "aé🙂", "max_output_tokens": limit, **body}
    answer = post(client, "/v1/responses", body).json()
    found = events(post(client, "/v1/responses", {**body, "stream": True}).text)
    text = "".join(data["delta"] for name, data in found if name == "response.output_text.delta")
    whole = answer["output"][0]["content"][0]["text"]
    return (whole, answer["status"]), (text, found[-1][1]["response"]["status"])


def messages(client, body):
    stop = body.pop("stop", [])
    body = {
        "messages": [{"role": "user", "content": "aé🙂"}],
        "max_tokens": 40,
        "stop_sequences": stop,
        **body,
    }
    answer = post(client, "/v1/messages", body).json()
    found = events(post(client, "/v1/messages", {**body, "stream": True}).text)
    text = "".join(data["delta"]["text"] for name, data in found if name == "content_block_delta")
    end = found[-2][1]["delta"]
    whole = (answer["content"][0]["text"], answer["stop_reason"], answer["stop_sequence"])
    return whole, (text, end["stop_reason"], end["stop_sequence"])


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("ask", [chat, completion, responses, messages])
def test_t13_t14_a_stream_joins_to_the_whole_answer(table, ask, law):
    for end in ENDS:
        whole, streamed = ask(table, {"seed": 4, "speculative": law, **end})
        assert streamed == whole
        if "budget" not in law:  # may keep what the head drafts outside the target's support
            assert "\ufffd" not in whole[0][:-1]


def test_t14_the_routes_say_the_same_text(table):
    fields = {"seed": 4, "max_tokens": 20}
    texts = {ask(table, dict(fields))[0][0] for ask in (chat, completion, responses, messages)}
    assert len(texts) == 1


BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "aé🙂aé🙂"}]},
    "/v1/completions": {"prompt": "aé🙂aé🙂"},
    "/v1/responses": {"input": "aé🙂aé🙂", "max_output_tokens": 30},
    "/v1/messages": {"messages": [{"role": "user", "content": "aé🙂aé🙂"}]},
}


@pytest.mark.parametrize("path", BODIES)
def test_t23_every_route_switches_every_drafter_off(table, path):
    limit = {} if path == "/v1/responses" else {"max_tokens": 30}

    def receipt(speculative):
        body = {**BODIES[path], **limit, "temperature": 0, "speculative": speculative}
        response = post(table, path, body)
        answer = response.json()
        said = answer.pop("metrics")["speculative_decoding"]
        assert response.headers["X-Leeway-Drafter"] == said["drafter"]
        texts = answer.get("choices") or answer.get("output") or answer["content"]
        return said, msgspec.json.encode(_without_ids(texts))

    drafter = table.app.state.server.engine().parts.drafter.name
    on, text_on = receipt({"num_speculative_tokens": 3})
    off, text_off = receipt({"num_speculative_tokens": 0})
    assert text_on == text_off
    assert (on["drafter"], on["drafted"] > 0) == (drafter, drafter != "none")
    assert (off["drafter"], off["drafted"], off["num_spec_tokens"]) == ("none", 0, 0)
    assert off["verify_steps"] == off["output_tokens"] == on["output_tokens"]


def _without_ids(value):
    if isinstance(value, dict):
        return {name: _without_ids(one) for name, one in value.items() if name != "id"}
    return [_without_ids(one) for one in value] if isinstance(value, list) else value


PIECES = ("<think>", "</think>", "a", " ")
THINKING = CHAT_TEMPLATE + "{# </think> #}"


def thinking(engine):
    """Give an engine over four tokens the pieces of reasoning as tokens; return it."""
    vocab = {piece.replace(" ", "Ġ"): token for token, piece in enumerate(PIECES)}
    raw = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = OurTokenizer(TokenizerData(raw.to_str(), THINKING, None, ()))
    template = ChatTemplate(THINKING, tokenizer)
    engine.parts = replace(engine.parts, tokenizer=tokenizer, chat_template=template)
    return engine


@pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)
def test_t14_each_byte_of_reasoning_and_answer_is_in_one_channel(law, drafter):
    opening = {(2,): np.array([0.5, 0.1, 0.3, 0.1]), (0,): np.array([0.1, 0.1, 0.7, 0.1])}
    tables = tuple(random_table(4, 1, seed=seed) | opening for seed in (7, 8))
    channels = set()
    with table_client(lambda: thinking(serve(law, drafter, *tables))) as client:
        for seed in range(8):
            body = {"seed": seed, "max_tokens": 14, "logprobs": True}
            body["messages"] = [{"role": "user", "content": "aaa"}]
            (choice,) = post(client, "/v1/chat/completions", body).json()["choices"]
            raw = "".join(one["token"] for one in choice["logprobs"]["content"])
            message = choice["message"]
            whole = (message["reasoning_content"] or "", message["content"] or "")
            joined = ["", ""]
            streamed = post(client, "/v1/chat/completions", {**body, "stream": True}).text
            for one in frames(streamed)[:-1]:
                delta = msgspec.json.decode(one)["choices"][0]["delta"]
                joined[0] += delta.get("reasoning_content") or ""
                joined[1] += delta.get("content") or ""
            assert tuple(joined) == whole
            thought = re.fullmatch(r"\s*<think>\s*(.*?)(?:</think>\s*(.*))?", raw, re.DOTALL)
            expected = ("", raw) if thought is None else (thought[1], thought[2] or "")
            assert whole == expected, raw
            channels |= {
                name for name, part in zip(("thought", "said"), whole, strict=True) if part
            }
    assert channels == {"thought", "said"}
