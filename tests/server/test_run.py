"""The process: what it prints, how it ends, and what it refuses before loading anything."""

import asyncio
import json
import signal

import httpx2
import pytest

from leeway.core.config import EngineConfig, ServerConfig
from leeway.core.errors import BackendError, ConfigError, LawError
from leeway.core.types import Acceptance
from leeway.server import run as room
from leeway.server.listen import listen
from leeway.server.run import curl_line
from tests.server.conftest import served_table
from tests.server.fake_service import FakeService


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_exits_with_zero(number):
    with served_table() as (started, url):
        body = {"prompt": "ab", "max_tokens": 8000, "seed": 1, "stream": True}
        with httpx2.stream("POST", url + "/v1/completions", json=body, timeout=30) as response:
            lines = response.iter_lines()
            begun = [next(lines) for _ in range(3)]
            started.send_signal(number)
            while httpx2.get(url + "/health", timeout=30).status_code != 503:
                pass
            health = httpx2.get(url + "/health", timeout=30).json()
            refused = httpx2.post(url + "/v1/completions", json=body, timeout=30)
            rest = list(lines)
        assert started.wait(20) == 0
        log = started.stderr.read()
        assert started.stdout.read() == ""
    data = [line.removeprefix("data: ") for line in (*begun, *rest) if line]
    assert data[-1] == "[DONE]"
    last = json.loads(data[-2])["choices"][0]
    text = "".join(json.loads(line)["choices"][0]["text"] for line in data[:-1])
    assert health["status"] == "draining" and refused.status_code == 503
    assert len(text) == 8000 and last["finish_reason"] == "length"
    assert "law rejection (from default), guarantee exact_distribution" in log
    assert '"POST /v1/completions HTTP/1.1" 200' in log
    assert f"curl {url}/v1/chat/completions" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_does_not_wait_for_running_answers(monkeypatch, second):
    """The scripted service has an answer that never ends."""
    service, servers = FakeService(state="loading"), []
    service.engine.num_running = 1
    config = ServerConfig(port=0)

    class Kept(room._Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(room, "_Server", Kept)

    async def scenario():
        with listen("127.0.0.1", 0) as listener:
            serving = asyncio.create_task(
                room.serve(room.create_app(service, config), service, listener, config)
            )
            while not (servers and servers[0].started):
                await asyncio.sleep(0.001)
            servers[0].handle_exit(signal.SIGTERM, None)
            while service.state != "draining":
                await asyncio.sleep(0.001)
            assert not servers[0].should_exit
            servers[0].handle_exit(second, None)
            await asyncio.wait_for(serving, 10)

    asyncio.run(scenario())
    assert service.state == "stopped"


def test_a_model_that_cannot_be_loaded_ends_the_process_with_its_error():
    with served_table("broken") as (started, url):
        assert started.wait(20) == 1
        assert url == ""
        assert started.stderr.read().strip().endswith("2: the file is truncated at byte 7")


def test_an_engine_that_fails_while_serving_ends_the_process_with_its_error():
    service = FakeService(state="loading")
    config = ServerConfig(port=0)

    async def scenario():
        with listen("127.0.0.1", 0) as listener:
            serving = asyncio.create_task(
                room.serve(room.create_app(service, config), service, listener, config)
            )
            while service.state != "ready":
                await asyncio.sleep(0.001)
            service.error, service.state = BackendError("logits are not finite"), "failed"
            await asyncio.wait_for(serving, 10)

    with pytest.raises(BackendError, match="not finite"):
        asyncio.run(scenario())
    assert service.state == "stopped"


def test_nothing_is_loaded_when_the_port_is_taken(monkeypatch):
    monkeypatch.setattr(room, "load_engine", lambda *args: pytest.fail("the model was loaded"))
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is taken.*--port"):
            room.run(ServerConfig(port=port))


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (ServerConfig(port=0, allow_laws=("typcal",)), ConfigError),
        (ServerConfig(EngineConfig(acceptance=Acceptance("typcal")), port=0), LawError),
        (
            ServerConfig(EngineConfig(acceptance=Acceptance("tokenv3", {"alpha": 2})), port=0),
            LawError,
        ),
    ],
)
def test_nothing_is_loaded_when_a_law_is_wrong(monkeypatch, config, kind):
    monkeypatch.setattr(room, "load_engine", lambda *args: pytest.fail("the model was loaded"))
    with pytest.raises(kind):
        room.run(config)


def test_the_curl_line_is_one_command_that_the_server_understands():
    line = curl_line("http://127.0.0.1:8000", "m", has_key=False)
    assert "\n" not in line and line.startswith("curl http://127.0.0.1:8000/v1/chat/completions ")
    body = json.loads(line.partition("-d '")[2].removesuffix("'"))
    assert body["model"] == "m" and body["messages"][0]["role"] == "user"
    assert "Bearer $LEEWAY_API_KEY" in curl_line("http://x", "m", has_key=True)


@pytest.mark.parametrize("settings", [["drain_timeout_s=0.05"], ["drain_timeout_s=0"]])
def test_an_answer_that_is_not_finished_in_time_ends_with_an_error_frame(settings):
    with served_table(*settings) as (started, url):
        body = {"prompt": "ab", "max_tokens": 8900, "seed": 1, "stream": True}
        with httpx2.stream("POST", url + "/v1/completions", json=body, timeout=30) as response:
            lines = response.iter_lines()
            begun = [next(lines) for _ in range(3)]
            started.send_signal(signal.SIGTERM)
            rest = [line.removeprefix("data: ") for line in (*begun, *lines) if line]
        assert started.wait(20) == 0
        log = started.stderr.read()
    assert json.loads(rest[-1])["error"]["code"] == "unavailable"
    assert "cancelled 1 requests at shutdown" in log and "Traceback" not in log
    assert "200 in " in log and "the client left" not in log


def test_one_of_the_keys_of_a_file_is_asked_for(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# the editor\nfirst-key\nsecond-key\n")
    with served_table(f"api_key_file={keys}", "api_key=third-key") as (started, url):

        def status(key):
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            return httpx2.get(url + "/v1/models", headers=headers, timeout=30).status_code

        tried = ("first-key", "second-key", "third-key", "first-ke", "first-key2", "#", None)
        assert [status(key) for key in tried] == [200, 200, 200, 401, 401, 401, 401]
        small = {"Authorization": "bearer second-key", "X-Api-Key": "wrong"}
        assert httpx2.get(url + "/v1/models", headers=small, timeout=30).status_code == 200
        started.send_signal(signal.SIGTERM)
        log = started.stderr.read()
        assert started.wait(20) == 0
    assert "Bearer $LEEWAY_API_KEY" in log and "-key" not in log
