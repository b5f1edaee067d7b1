"""HTTPS over real sockets, with a certificate made for the test."""

import json
import signal
import ssl

import httpx2
import openai
import pytest

from leeway.core.config import ServerConfig
from leeway.core.errors import ConfigError
from leeway.server import run as room
from tests.server.conftest import served_table
from tests.support.certificates import make_certificate

BODY = {"prompt": "ab", "max_tokens": 40, "seed": 1}


@pytest.fixture(scope="module", name="served")
def _served(tmp_path_factory):
    made = make_certificate(tmp_path_factory.mktemp("tls"))
    with served_table(f"tls_cert={made.cert}", f"tls_key={made.key}") as (started, url):
        yield started, url, made
        started.send_signal(signal.SIGTERM)
        log = started.stderr.read()
        assert started.wait(20) == 0
        assert f"curl {url}/v1/chat/completions" in log and "Traceback" not in log


@pytest.fixture(name="http")
def _http(served):
    _, url, made = served
    with httpx2.Client(base_url=url, verify=made.trust(), timeout=30) as client:
        yield client


def test_a_client_that_trusts_the_authority_is_answered_whole_and_streamed(served, http):
    assert served[1].startswith("https://127.0.0.1:")
    whole = http.post("/v1/completions", json=BODY).json()["choices"][0]["text"]
    assert len(whole) == 40
    with http.stream("POST", "/v1/completions", json={**BODY, "stream": True}) as response:
        data = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert data[-1] == "[DONE]"
    assert "".join(json.loads(one)["choices"][0]["text"] for one in data[:-1]) == whole


def test_the_official_client_speaks_it(served):
    _, url, made = served
    with openai.OpenAI(
        base_url=url + "/v1",
        api_key="any",
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=made.trust()),
    ) as client:
        answer = client.completions.create(model=client.models.list().data[0].id, **BODY)
    assert answer.usage.completion_tokens == 40


def test_one_that_does_not_trust_it_leaves_and_the_server_goes_on(served, http):
    _, url, _ = served
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx2.get(url + "/health", verify=ssl.create_default_context(), timeout=30)
    with pytest.raises(httpx2.TransportError):
        httpx2.get(url.replace("https://", "http://") + "/health", timeout=30)
    assert http.get("/health").json()["status"] == "ready"


@pytest.mark.parametrize("name", ["tls_cert", "api_key_file"])
def test_nothing_is_loaded_when_a_file_is_missing(monkeypatch, tmp_path, name):
    monkeypatch.setattr(room, "load_engine", lambda *args: pytest.fail("the model was loaded"))
    missing = tmp_path / "missing"
    files = {name: missing, "tls_key": missing} if name == "tls_cert" else {name: missing}
    with pytest.raises(ConfigError, match=f"{name} '{missing}'.* cannot be read"):
        room.run(ServerConfig(port=0, **files))
