"""POST /v1/completions: texts, ids, several prompts."""

import msgspec

from tests.server.conftest import frames
from tests.server.fake_service import REPLY


def ask(client, prompt, **fields):
    response = client.post("/v1/completions", json={"prompt": prompt, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_whole_answer(client, service):
    answer = ask(client, "ab", max_tokens=50)
    assert answer["id"].startswith("cmpl-") and answer["object"] == "text_completion"
    assert answer["choices"] == [
        {"index": 0, "text": REPLY, "logprobs": None, "finish_reason": "stop"}
    ]
    assert answer["usage"] == {
        "prompt_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": 13,
        "total_tokens": 15,
    }
    assert answer["metrics"]["speculative_decoding"]["law"] == "rejection"
    assert service.requests[0].prompt_token_ids == (97, 98)


def test_sixteen_tokens_unless_asked_otherwise(client, service):
    ask(client, "ab")
    assert service.requests[0].sampling.max_tokens == 16


def test_token_ids_are_taken_as_they_are(client, service):
    ask(client, [1, 2, 3])
    assert service.requests[0].prompt_token_ids == (1, 2, 3)


def test_every_prompt_has_its_choice(client, service):
    service.reply = lambda prompt: f"<{prompt * 3}>"
    answer = ask(client, ["a", "bb", "c"], max_tokens=6, seed=1)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [choice["text"] for choice in answer["choices"]] == ["<aaa>", "<bbbbb", "<ccc>"]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "length", "stop"]
    assert answer["usage"] == {
        "prompt_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": 16,
        "total_tokens": 20,
    }
    assert answer["metrics"]["speculative_decoding"] is None
    each = answer["metrics"]["speculative_decoding_by_choice"]
    assert [one["output_tokens"] for one in each] == [5, 6, 5]
    assert len({request.request_id for request in service.requests}) == 3


def test_a_stream_of_several_prompts_joins_to_the_whole_answer(client, service):
    service.reply = lambda prompt: f"<{prompt * 3}>"
    body = {"prompt": ["a", "bb"], "stream": True, "stream_options": {"include_usage": True}}
    response = client.post("/v1/completions", json=body)
    *data, usage, done = frames(response.text)
    chunks = [msgspec.json.decode(frame) for frame in data]
    texts, reasons = {}, {}
    for chunk in chunks:
        (choice,) = chunk["choices"]
        texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
        reasons[choice["index"]] = choice["finish_reason"]
    assert texts == {0: "<aaa>", 1: "<bbbbbb>"}
    assert reasons == {0: "stop", 1: "stop"}
    assert done == "[DONE]"
    last = msgspec.json.decode(usage)
    assert last["usage"]["completion_tokens"] == 13
    assert last["metrics"]["speculative_decoding"] is None
    assert len(last["metrics"]["speculative_decoding_by_choice"]) == 2


def test_one_bad_prompt_refuses_all_and_leaves_nothing_running(client, service):
    response = client.post("/v1/completions", json={"prompt": ["a", "x" * 300]})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert service.engine.num_running == 0
    assert not service.receipts or len(service.receipts) == 1
