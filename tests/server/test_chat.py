"""POST /v1/chat/completions: the shape of an answer, and what reaches the engine."""

import pytest

from leeway.core.config import EngineConfig
from leeway.core.types import Acceptance
from tests.server.conftest import CHAT, client_of
from tests.server.fake_service import REPLY, FakeService

CONTRACT = {
    "mean_acceptance_length": 4.0,
    "draft_acceptance_rate": 1.0,
    "acceptance_histogram": [0, 0, 0, 3],
    "acceptance_histogram_by_draft_length": {"3": [0, 0, 0, 3]},
    "num_spec_steps": 3,
    "num_accepted_draft_tokens": 9,
    "num_draft_tokens": 9,
    "num_spec_tokens": 3,
}


def ask(client, **fields):
    response = client.post("/v1/chat/completions", json={**CHAT, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_whole_answer(client):
    answer = ask(client)
    assert answer["id"].startswith("chatcmpl-") and len(answer["id"]) == len("chatcmpl-") + 32
    assert answer["object"] == "chat.completion" and answer["model"] == "scripted-model"
    assert answer["created"] > 1_700_000_000 and answer["system_fingerprint"].startswith("fp_")
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": REPLY, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    prompt_len = len("user: Hi\nassistant: ")
    assert answer["usage"] == {
        "prompt_tokens": prompt_len,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": 13,
        "total_tokens": prompt_len + 13,
    }


def test_metrics_keep_the_contract_and_carry_the_receipt(client, service):
    metrics = ask(client)["metrics"]
    assert metrics["version"] == 1
    speculative = metrics["speculative_decoding"]
    assert CONTRACT.items() <= speculative.items()
    own = service.receipts[0].to_dict()
    assert own.items() <= speculative.items()
    assert set(speculative) == {*CONTRACT, *own}


def test_detailed_metrics_add_the_steps_that_drafted(client):
    answer = ask(client, speculative={"metrics": "detailed"})
    speculative = answer["metrics"]["speculative_decoding"]
    assert speculative["per_step_accepted"] == [3, 3, 3]
    assert speculative["per_step_drafted"] == [3, 3, 3]
    assert CONTRACT.items() <= speculative.items()


def test_speculation_off_for_one_request(client, service):
    answer = ask(client, speculative={"num_speculative_tokens": 0})
    assert service.requests[0].num_speculative_tokens == 0
    speculative = answer["metrics"]["speculative_decoding"]
    assert (speculative["num_draft_tokens"], speculative["drafter"]) == (0, "none")
    assert (speculative["mean_acceptance_length"], speculative["draft_acceptance_rate"]) == (
        1.0,
        0.0,
    )
    assert speculative["acceptance_histogram"] == [0]
    assert answer["choices"][0]["message"]["content"] == REPLY


def test_fields_reach_the_engine(client, service):
    ask(client, temperature=0.5, seed=11, stop=["x", "y"], max_completion_tokens=4, top_k=-1)
    sampling = service.requests[0].sampling
    assert (sampling.temperature, sampling.seed, sampling.top_k) == (0.5, 11, 0)
    assert (sampling.stop, sampling.max_tokens) == (("x", "y"), 4)


def test_without_a_limit_an_answer_may_fill_the_context(client, service):
    ask(client)
    prompt_len = len("user: Hi\nassistant: ")
    assert service.requests[0].sampling.max_tokens == 200 - prompt_len


def test_the_answer_that_is_cut_says_length(client):
    answer = ask(client, max_tokens=5)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == "Hello"
    assert answer["usage"]["completion_tokens"] == 5


def test_the_model_may_be_left_out_or_named_as_configured():
    client = client_of(FakeService(EngineConfig(model="/models/own.gguf")))
    assert ask(client, model=None)["model"] == "scripted-model"
    assert ask(client, model="/models/own.gguf")["model"] == "scripted-model"


def test_a_law_for_one_request_is_in_its_receipt(caplog):
    service = FakeService(EngineConfig(acceptance=Acceptance("typical", {"delta": 0.3})))
    client = client_of(service)
    exact = ask(client, speculative={"law": "rejection"})["metrics"]["speculative_decoding"]
    assert (exact["law"], exact["guarantee"]) == ("rejection", "exact_distribution")
    assert exact["loss"]["total_variation_mean"] == 0.0
    own = ask(client, speculative={"delta": 0.6})["metrics"]["speculative_decoding"]
    assert (own["law"], own["guarantee"], own["options"]["delta"]) == ("typical", "none", 0.6)
    assert own["loss"]["total_variation_mean"] == 0.125


def test_answers_have_ids_of_their_own_and_one_fingerprint(client):
    first, second = ask(client), ask(client)
    assert first["id"] != second["id"]
    assert first["system_fingerprint"] == second["system_fingerprint"]
    for change in (
        {"acceptance": Acceptance("block")},
        {"draft_length": "adaptive"},
        {"draft_cost": 0.2},
        {"draft_temperature": 0.5},
    ):
        other = client_of(FakeService(EngineConfig(**change)))
        assert ask(other)["system_fingerprint"] != first["system_fingerprint"]


@pytest.mark.parametrize("given", ["abc-123", None])
def test_the_request_id_is_echoed_or_made(client, given):
    headers = {} if given is None else {"X-Request-Id": given}
    response = client.post("/v1/chat/completions", json=CHAT, headers=headers)
    echoed = response.headers["x-request-id"]
    assert echoed == given if given else len(echoed) == 32


def test_any_authorization_is_accepted(client):
    response = client.post(
        "/v1/chat/completions", json=CHAT, headers={"Authorization": "Bearer whatever"}
    )
    assert response.status_code == 200
