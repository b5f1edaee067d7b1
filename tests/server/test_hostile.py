"""What no request can do: use a law above the ceiling, read a file, end the process."""

import json
import signal
import socket
import sys
from urllib.parse import quote

import httpx2
import pytest

from leeway.acceptance.base import Guarantee
from leeway.acceptance.presets import PRESETS
from leeway.acceptance.registry import law_infos
from leeway.backends.tabular import random_table
from leeway.core.config import EngineConfig, ServerConfig
from leeway.engine.service import EngineService
from leeway.server.app import create_app
from tests.server.conftest import local_client, served_table, wait_until_ready
from tests.support.tabular_engine import make_engine

LEAST = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 8},
    "/v1/completions": {"prompt": "ab", "max_tokens": 8},
    "/v1/responses": {"input": "ab", "max_output_tokens": 8},
    "/v1/messages": {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 8},
}
LOSSY = [info.name for info in law_infos() if info.guarantee is Guarantee.NONE]
LOSSY_PRESETS = [preset.name for preset in PRESETS if preset.law in LOSSY]
CANARY = "the canary sings"


@pytest.fixture(scope="module", name="exact")
def _exact():
    """A client of a server that allows exact laws, as it does by default."""
    service = EngineService(
        lambda: make_engine(
            random_table(5, 1, seed=1), drafter="ngram", context_len=200, capacity_tokens=2000
        )
    )
    service.start()
    app = create_app(service, ServerConfig(engine=EngineConfig()))
    with local_client(app, raise_server_exceptions=False) as client:
        wait_until_ready(service)
        yield client
        service.stop()


def judged(client):
    """Return the laws that have judged so far."""
    return {one["law"] for one in client.get("/health").json()["acceptance"]["engaged"]}


@pytest.mark.parametrize("path", LEAST)
@pytest.mark.parametrize("name", [*LOSSY, *LOSSY_PRESETS])
def test_a_law_above_the_ceiling_is_403_by_every_api(exact, path, name):
    response = exact.post(path, json={**LEAST[path], "speculative": {"law": name}})
    assert response.status_code == 403, response.text
    assert "--allow-laws" in response.json()["error"]["message"]
    assert judged(exact) <= {"rejection", "greedy_match"}


@pytest.mark.parametrize(
    "fields",
    [
        {"law": "typical"},
        {"typical_threshold": 0.3},
        {"cascade_threshold": 0.5},
        {"allow_laws": "all"},
        {"speculative": {"allow_laws": "all", "law": "typical"}},
        {"speculative": {"delta": 0.3}},
        {"speculative": {"options": {"delta": 0.3}}},
        {"speculative": {"law": "rejection", "delta": 0.3}},
        {"speculative": {"law": "rejection", "options": {"law": "typical"}}},
        {"speculative": {"law": ["typical"]}},
        {"speculative": {"law": "Typical"}},
        {"speculative": {"law": "typical\u0000"}},
        {"speculative": {"verifier": "typical"}},
        {"speculative": "typical"},
        {"speculative": {"num_speculative_tokens": 99}},
        {"speculative": {"drafter": "mtp"}},
    ],
    ids=lambda fields: json.dumps(fields)[:40],
)
@pytest.mark.parametrize("path", LEAST)
def test_no_other_field_opens_the_ceiling(exact, path, fields):
    response = exact.post(path, json={**LEAST[path], **fields})
    assert response.status_code in (400, 403), response.text
    assert judged(exact) <= {"rejection", "greedy_match"}


@pytest.fixture(scope="module", name="opened")
def _opened():
    """Every path that this process opens; an audit hook stays for good, so it is switched off."""
    paths, is_on = [], [True]

    def hook(event, arguments):
        if is_on[0] and event == "open":
            paths.append(str(arguments[0]))

    sys.addaudithook(hook)
    yield paths
    is_on[0] = False


@pytest.fixture(name="canary")
def _canary(tmp_path):
    path = tmp_path / "canary.txt"
    path.write_text(CANARY)
    return path


def hostile(path):
    """Return bodies that name a file wherever a careless server might open one."""
    url, template = f"file://{path}", f"{{% include '{path}' %}}"
    reach = f"{{{{ cycler.__init__.__globals__.os.popen('cat {path}').read() }}}}"
    user = {"role": "user"}
    grammars = [f'start: %import "{path}"', f'%include "{path}"\nstart: "a"', f"start: @{path}"]
    return [
        {"model": str(path)},
        {"model": url},
        {"draft_model": str(path)},
        {"head": str(path)},
        {"speculative": {"head": str(path)}},
        {"speculative": {"draft_model": str(path)}},
        {"speculative": {"law": str(path)}},
        {"chat_template": template},
        {"chat_template_kwargs": {"x": template}},
        {"user": reach, "metadata": {"x": template}},
        *({"messages": [{**user, "content": text}]} for text in (template, reach, url)),
        *({"messages": [{"role": text, "content": "a"}]} for text in (template, reach)),
        {"messages": [{**user, "content": [{"type": "image_url", "image_url": {"url": url}}]}]},
        {"messages": [{**user, "content": [{"type": "input_file", "file_id": str(path)}]}]},
        {"messages": [{**user, "content": [{"type": "document", "source": {"url": url}}]}]},
        {"prompt": template},
        {"prompt": f"@{path}"},
        {"input": [{**user, "content": [{"type": "input_file", "file_url": url}]}]},
        {"guided_json": {"$ref": url}},
        {"guided_json": {"$ref": str(path), "type": "string"}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": url}}}},
        *({"guided_grammar": grammar} for grammar in grammars),
        {"stop": url, "seed": 1},
        {"tools": [{"type": "function", "function": {"name": "f", "description": template}}]},
    ]


@pytest.mark.parametrize("path", [*LEAST, "/v1/messages/count_tokens", "/tokenize", "/detokenize"])
def test_no_body_makes_the_server_read_a_file(exact, opened, canary, path):
    assert (canary.read_text(), str(canary) in opened) == (CANARY, True)  # the watch works
    del opened[:]
    for body in hostile(canary):
        response = exact.post(path, json={**LEAST.get(path, {}), **body})
        assert response.status_code < 500, (body, response.text)
        assert CANARY not in response.text, body
    assert [one for one in opened if "canary" in one] == []


@pytest.mark.parametrize("before", ["/page/", "/v1/models/", "/", "/page/..%2f", "/page/x/"])
def test_no_path_makes_the_server_read_a_file(exact, opened, canary, before):
    del opened[:]
    inside = str(canary)
    climbs = [
        inside,
        "../" * 12 + inside,
        quote(inside, safe=""),
        quote("../" * 12 + inside, safe=""),
    ]
    for climb in [*climbs, "..\\..\\canary.txt", "%00" + inside, "%252e%252e%252f" + inside]:
        response = exact.get(before + climb)
        assert response.status_code in (404, 405), (climb, response.status_code)
        assert CANARY not in response.text
    assert [one for one in opened if "canary" in one] == []


POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GARBAGE = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "zeros": b"\x00" * 1000,
    "no-version": b"GET /health\r\n\r\n",
    "version": b"GET /health HTTP/9.9\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "upgrade": b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\n\r\n",
    "connect": b"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "star": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "no-host": b"GET /health HTTP/1.1\r\n\r\n",
    "path": b"GET /%00%ff%fe/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "header": b"GET /health HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
    "long-header": b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 200_000,
    "length-below": POST + b"Content-Length: -1\r\n\r\n{}",
    "length-word": POST + b"Content-Length: many\r\n\r\n{}",
    "length-digits": POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
    "length-twice": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "length-and-chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    "chunk-size": POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
    "chunk-endless": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 1000,
    "half-a-body": POST + b'Content-Length: 100\r\n\r\n{"prompt": "a',
    "nothing": b"",
}


def raw(url, data):
    """Send bytes, close that side, and return all that comes until the server closes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        answer = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while got := connection.recv(65536):
                answer += got
        except TimeoutError:
            raise
        except OSError:  # it had heard enough
            pass
    return answer


@pytest.mark.parametrize("words", [(), ("api_key=secret",)])
def test_no_bytes_end_the_process_or_leave_a_trace_in_later_answers(words):
    asked = {
        "json": {"prompt": "ab", "max_tokens": 30, "seed": 5},
        "headers": {"Authorization": "Bearer secret"},
        "timeout": 30,
    }
    with served_table(*words) as (started, url):
        before = httpx2.post(url + "/v1/completions", **asked).json()["choices"]
        foreign = [(f"{name} of another host", data.replace(b"localhost", b"x"))
                   for name, data in GARBAGE.items()]  # fmt: skip
        plain = [(f"{name} as text", data.replace(b"application/json", b"text/plain"))
                 for name, data in GARBAGE.items()]  # fmt: skip
        lost = [(f"{name} to no route", data.replace(b"/v1/completions", b"/v1/nothing"))
                for name, data in GARBAGE.items()]  # fmt: skip
        for name, data in [*GARBAGE.items(), *foreign, *plain, *lost]:
            answer = raw(url, data)
            assert not answer or answer.startswith(b"HTTP/1.1 "), (name, answer)
            assert b"HTTP/1.1 5" not in answer, (name, answer)
            assert started.poll() is None, name
        after = httpx2.post(url + "/v1/completions", **asked).json()["choices"]
        load = httpx2.get(url + "/health", timeout=30).json()["load"]
        started.send_signal(signal.SIGTERM)
        log = started.stderr.read()
        assert started.wait(20) == 0
    assert after == before
    assert load["num_requests_running"] == load["num_requests_waiting"] == 0
    assert load["kv_cache_usage"] == 0
    assert "Traceback" not in log
