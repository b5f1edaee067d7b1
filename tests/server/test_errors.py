"""Every error: status, message, type, param and code, as OpenAI's clients read them."""

import pytest

from leeway.core.config import EngineConfig, ServerConfig
from leeway.core.errors import LawError, ModelError
from leeway.core.types import Acceptance
from leeway.server.app import create_app
from tests.server.conftest import CHAT, client_of
from tests.server.fake_service import FakeService

PATH = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}


def error_of(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    (key,) = response.json()
    error = response.json()[key]
    assert key == "error" and set(error) == {"message", "type", "param", "code"}
    assert error["type"] == ("invalid_request_error" if status < 500 else "server_error")
    return error


@pytest.mark.parametrize(
    ("fields", "param", "code", "message"),
    [
        ({"max_tokens": -3}, "max_tokens", "invalid_request_error", "is -3; allowed: 0 (only read"),
        ({"temperature": -1}, "temperature", "invalid_request_error", "is -1.0; allowed: 0"),
        ({"top_p": 0}, "top_p", "invalid_request_error", "is 0.0; allowed: above 0 to 1"),
        ({"top_k": -5}, "top_k", "invalid_request_error", "is -5; allowed: 0 (off) or more"),
        ({"seed": 2**64}, "seed", "invalid_request_error", "18446744073709551616; allowed: 0 to"),
        ({"stop": ""}, "stop", "invalid_request_error", "non-empty strings"),
        ({"logit_bias": {"999": 1}}, "logit_bias", "invalid_request_error", "is 999; allowed"),
        ({"presence_penalty": 3}, "presence_penalty", "invalid_request_error", "is 3.0; allowed"),
        ({"foo": 1}, "foo", "invalid_request_error", "unknown field 'foo'"),
        ({"n": 0}, "n", "invalid_request_error", "n is 0 for 1 prompt(s); allowed: 1 or more"),
        ({"n": 65}, "n", "invalid_request_error", "up to 64 choices"),
        ({"min_tokens": -1}, "min_tokens", "invalid_request_error", "is -1; allowed: 0 (off) to"),
        ({"logprobs": 2}, "logprobs", "invalid_request_error", "expected bool, got int"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_request_error", "only with logprobs: true"),
        (
            {"logprobs": True, "top_logprobs": 21},
            "top_logprobs",
            "invalid_request_error",
            "is 21; allowed: 0 to 20",
        ),
        ({"echo": True}, "echo", "invalid_request_error", "echo is not supported on this route"),
        (
            {"tools": [{"type": "function", "function": {"name": "f"}}]},
            "tools",
            "invalid_request_error",
            "tools are not supported by the chat template",
        ),
        ({"messages": []}, "messages", "invalid_request_error", "messages is empty"),
        (
            {"messages": [{"role": "user", "content": "REFUSE"}]},
            "messages",
            "invalid_request_error",
            "chat template refuses",
        ),
        (
            {"messages": [{"role": "user", "content": "x" * 300}]},
            "prompt",
            "context_length_exceeded",
            "context is 200",
        ),
        ({"speculative": {"law": "typcal"}}, "speculative.law", "invalid_law", "unknown law"),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_wrong_field_is_400(client, service, fields, param, code, message, is_streamed):
    response = client.post(PATH, json={**CHAT, "stream": is_streamed, **fields})
    error = error_of(response, 400)
    assert (error["param"], error["code"]) == (param, code)
    assert message in error["message"]
    assert service.engine.num_running == 0


def test_a_law_above_the_ceiling_is_403(client):
    response = client.post(PATH, json={**CHAT, "speculative": {"law": "typical", "delta": 0.3}})
    error = error_of(response, 403)
    assert (error["param"], error["code"]) == ("speculative.law", "law_not_allowed")
    assert "allowed: block, greedy_match, rejection, sample_match" in error["message"]


@pytest.mark.parametrize("path", [PATH, "/v1/completions"])
def test_a_model_that_is_not_served_is_404(client, path):
    own = {"prompt": "x"} if path == "/v1/completions" else {"messages": CHAT["messages"]}
    error = error_of(client.post(path, json={"model": "gpt-4", **own}), 404)
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert "'gpt-4'" in error["message"] and "'scripted-model'" in error["message"]


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"", "after byte 0"),
        (b'{"messages": ', "after byte 13"),
        (b'{"messages": }', "byte 13"),
        (b"\xff", "byte 0"),
        (b'{"a": "\xff"}', "after byte 10"),
        (b'{"a": 1e999}', "Number out of range"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1]", "JSON list"),
        (b"null", "JSON NoneType"),
    ],
)
def test_a_body_that_is_not_a_json_object_names_the_place(client, raw, place):
    error = error_of(client.post(PATH, content=raw, headers=JSON), 400)
    assert error["code"] == "invalid_request_error" and place in error["message"]


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_another_media_type_is_415(client, media_type):
    headers = {} if media_type is None else {"Content-Type": media_type}
    error = error_of(client.post(PATH, content=b"{}", headers=headers), 415)
    assert error["code"] == "unsupported_media_type"
    assert "Content-Type: application/json" in error["message"]


def test_a_body_beyond_the_limit_is_413_declared_or_not(service):
    client = client_of(service, max_body_bytes=100)
    long = b'{"messages": "' + b"x" * 200 + b'"}'
    for content in (long, iter([long[:90], long[90:]])):
        error = error_of(client.post(PATH, content=content, headers=JSON), 413)
        assert error["code"] == "body_too_large" and "100 bytes" in error["message"]
        assert "--max-body-bytes" in error["message"]


def test_no_such_route_is_404_and_names_those_there_are(client):
    error = error_of(client.post("/v1/embeddings", json={}), 404)
    assert error["code"] == "not_found"
    assert "POST /v1/embeddings" in error["message"] and PATH in error["message"]


def test_another_method_is_405(client):
    response = client.get(PATH)
    error = error_of(response, 405)
    assert error["code"] == "method_not_allowed" and response.headers["allow"] == "POST"


def test_a_defect_of_ours_is_500_without_its_cause(client, service):
    def broken(prompt):
        raise ZeroDivisionError("SECRET")

    service.reply = broken
    error = error_of(client.post(PATH, json=CHAT), 500)
    assert error["code"] == "internal_error" and "SECRET" not in error["message"]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("loading", "the model is loading"),
        ("failed", "could not be loaded: no such file"),
        ("stopped", "stopping"),
    ],
)
def test_an_engine_that_is_not_ready_is_503(state, message):
    service = FakeService(state=state)
    service.error = ModelError("no such file") if state == "failed" else None
    client = client_of(service)
    for response in (
        client.post(PATH, json=CHAT),
        client.post("/v1/completions", json={"prompt": "x"}),
        client.get("/v1/models"),
    ):
        error = error_of(response, 503)
        assert error["code"] == "unavailable" and message in error["message"]
        assert response.headers.get("retry-after") == ("1" if state == "loading" else None)


def test_an_api_key_is_asked_wherever_text_is_read(service):
    client = client_of(service, api_key="sësame")
    right = {"Authorization": "Bearer sësame".encode()}
    for headers in (
        {},
        {"Authorization": "Bearer sesame"},
        {"Authorization": "sësame".encode()},
        {"Authorization": "Basic sësame".encode()},
        {"X-Api-Key": "sesame"},
    ):
        response = client.post(PATH, json=CHAT, headers=headers)
        error = error_of(response, 401)
        assert error["code"] == "invalid_api_key" and "sësame" not in error["message"]
        assert response.headers["www-authenticate"] == "Bearer"
    assert client.post(PATH, json=CHAT, headers=right).status_code == 200
    other = {"X-Api-Key": "sësame".encode()}
    assert client.post(PATH, json=CHAT, headers=other).status_code == 200
    assert client.post("/tokenize", json={"prompt": "a"}).status_code == 401
    assert client.post("/tokenize", json={"prompt": "a"}, headers=right).status_code == 200
    for path in ("/health", "/health/live", "/metrics", "/version"):
        assert client.get(path).status_code == 200


def test_a_configured_law_that_does_not_exist_is_refused_at_start():
    config = ServerConfig(engine=EngineConfig(acceptance=Acceptance("typcal")))
    with pytest.raises(LawError, match="typcal"):
        create_app(FakeService(), config)
