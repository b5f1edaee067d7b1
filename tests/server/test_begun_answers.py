"""Answers that the client has begun: the prompt ends within the assistant's turn."""

import anthropic
import msgspec
import openai
import pytest

from leeway.text.chat_template import ChatTemplate
from tests.server.conftest import client_of, frames, live_server
from tests.server.fake_service import REPLY, FakeService
from tests.support.tabular_engine import letter_tokenizer

QUESTION = {"role": "user", "content": "Hi"}
BEGUN = {"role": "assistant", "content": "Well, I"}
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def prompt_of(service, index=-1):
    return bytes(service.requests[index].prompt_token_ids).decode()


def with_template(source):
    service = FakeService()
    service.engine.parts.chat_template = ChatTemplate(source, letter_tokenizer(4))
    return service, client_of(service)


def ask(client, path, *messages, **fields):
    extra = {"continue_final_message": True} if path == CHAT else {"max_tokens": 50}
    return client.post(path, json={"messages": list(messages), **extra, **fields})


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_the_prompt_ends_with_what_is_begun_and_the_answer_does_not_repeat_it(path):
    service, client = with_template(CHATML)
    response = ask(client, path, QUESTION, BEGUN)
    assert response.status_code == 200, response.text
    assert prompt_of(service) == "<|user|>Hi<|end|><|assistant|>Well, I"
    body = response.json()
    text = body["choices"][0]["message"]["content"] if path == CHAT else body["content"][0]["text"]
    assert text == REPLY
    plain = client.post(path, json={"messages": [QUESTION], "max_tokens": 50})
    assert plain.status_code == 200 and prompt_of(service).endswith("<|end|><|assistant|>")


def test_blocks_and_a_system_prompt_and_earlier_turns_come_before_it():
    service, client = with_template(CHATML)
    blocks = [{"type": "text", "text": "Well,"}, {"type": "text", "text": "I"}]
    earlier = [QUESTION, {"role": "assistant", "content": "Yes?"}, QUESTION]
    response = ask(
        client, MESSAGES, *earlier, {"role": "assistant", "content": blocks}, system="Be kind"
    )
    assert response.status_code == 200, response.text
    assert prompt_of(service) == (
        "<|system|>Be kind<|end|><|user|>Hi<|end|><|assistant|>Yes?<|end|><|user|>Hi<|end|>"
        "<|assistant|>Well,\nI"
    )
    count = client.post(MESSAGES + "/count_tokens", json={"messages": [QUESTION, BEGUN]})
    assert count.json()["input_tokens"] == len("<|user|>Hi<|end|><|assistant|>Well, I")


@pytest.mark.parametrize(
    ("template", "content"),
    [
        (CHATML.replace("m.content", "m.content | trim"), "Well, "),
        (CHATML.replace("<|assistant|>{% endif", "<|assistant|><think>{% endif"), "Well"),
        (CHATML.replace("m.content", "m.content.split('</think>')[-1]"), "<think>so</think>Well"),
    ],
    ids=["trimmed", "thinking-first", "rewritten"],
)
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_t20_what_the_template_writes_otherwise_is_refused_by_name(path, template, content):
    _, client = with_template(template)
    response = ask(client, path, QUESTION, {"role": "assistant", "content": content})
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert message.startswith("messages[1].content cannot be continued: the model's template")


@pytest.mark.parametrize(
    ("messages", "fields", "param"),
    [
        ((QUESTION,), {}, "messages[0]"),
        ((QUESTION, BEGUN), {"add_generation_prompt": True}, "add_generation_prompt"),
        (
            (QUESTION, BEGUN),
            {"continue_final_message": False, "add_generation_prompt": False},
            "add_generation_prompt",
        ),
        ((QUESTION, {**BEGUN, "content": 3}), {}, "messages[1].content"),
    ],
    ids=["user", "both", "neither", "malformed"],
)
def test_t20_what_cannot_be_continued_is_refused_by_name(client, messages, fields, param):
    response = ask(client, CHAT, *messages, **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_add_generation_prompt_false_beside_it_is_what_vllm_asks_for(service, client):
    assert ask(client, CHAT, QUESTION, BEGUN, add_generation_prompt=False).status_code == 200
    assert prompt_of(service) == "user: Hi\nassistant: Well, I"
    fields = {"add_generation_prompt": True, "continue_final_message": False}
    assert ask(client, CHAT, QUESTION, **fields).status_code == 200


def test_t14_a_stream_of_it_is_what_the_whole_is(client):
    text = ask(client, CHAT, QUESTION, BEGUN, stream=True).text
    deltas = [msgspec.json.decode(one)["choices"][0]["delta"] for one in frames(text)[:-1]]
    assert "".join(one.get("content", "") for one in deltas) == REPLY


def test_the_official_clients_begin_answers():
    with live_server(FakeService()) as url:
        with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
            answer = client.messages.create(
                model="scripted-model", messages=[QUESTION, BEGUN], max_tokens=50
            )
        assert answer.content[0].text == REPLY
        with openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0) as other:
            begun = {"continue_final_message": True, "add_generation_prompt": False}
            chat = other.chat.completions.create(
                model="scripted-model", messages=[QUESTION, BEGUN], extra_body=begun
            )
        assert chat.choices[0].message.content == REPLY
