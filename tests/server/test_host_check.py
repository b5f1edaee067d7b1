"""The Host header: a server of this machine answers to local names, however a name resolves."""

import socket

import pytest

from tests.server.conftest import CHAT, client_of, live_server
from tests.server.fake_service import FakeService
from tests.support.browser import chromium

PATH = "/v1/chat/completions"
EVIL = "rebound.example"


def ask(client, host, path="/health"):
    return client.get(path, headers={"Host": host})


@pytest.mark.parametrize("host", ["localhost", "LocalHost:1", "127.0.0.1:8000", "[::1]:80", "[::1]",
                                  "localhost.:8000"])  # fmt: skip
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "127.0.0.7"])
def test_a_local_server_answers_to_local_names_at_any_port(service, host, address):
    client = client_of(service, host=address)
    assert ask(client, host).status_code == 200
    shown = f"[{address}]" if ":" in address else address
    assert ask(client, f"{shown}:8000").status_code == 200


@pytest.mark.parametrize(
    "host",
    [EVIL, f"{EVIL}:8000", "localhost.rebound.example", "127.0.0.1.rebound.example", "127.0.0.2",
     "127.0.0.10", "192.168.1.5:8000", "[::2]", "", ":8000", "localhost@rebound.example", "local"],
)  # fmt: skip
def test_another_name_is_refused_on_every_route(service, host):
    client = client_of(service, allow_origin=("*",), api_key="k")
    answers = [ask(client, host, path) for path in ("/", "/health", "/metrics", "/none")]
    answers += [client.post(PATH, json=CHAT, headers={"Host": host, "Authorization": "Bearer k"})]
    asking = {"Host": host, "Origin": f"http://{EVIL}", "Access-Control-Request-Method": "POST"}
    answers += [client.options(PATH, headers=asking)]
    for answer in answers:
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (403, "host_not_allowed")
        assert error["message"].startswith(f"the Host header is {host!r}; this server answers to "
                                           "localhost, 127.0.0.1, ::1 only")  # fmt: skip
        assert "--allowed-hosts NAME" in error["message"]
        assert "access-control-allow-origin" not in answer.headers
    assert not service.requests


def test_anthropics_clients_are_told_in_their_own_shape(client):
    body = {"messages": CHAT["messages"], "max_tokens": 3}
    answer = client.post("/v1/messages", json=body, headers={"Host": EVIL})
    assert answer.status_code == 403
    assert answer.json()["error"]["type"] == "permission_error" and EVIL in answer.text


def test_a_second_host_header_does_not_hide_behind_the_first(client):
    hosts = [("Host", "localhost"), ("Host", EVIL)]
    assert client.get("/health", headers=hosts).status_code == 403
    assert client.get("/health", headers=hosts[::-1]).status_code == 403


def test_a_long_name_is_not_repeated_whole(client):
    answer = ask(client, "x" * 5000)
    assert answer.status_code == 403 and len(answer.json()["error"]["message"]) < 600


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "llm.internal"])
def test_names_given_are_answered_to_besides_the_local_ones(service, address):
    client = client_of(service, host=address, allowed_hosts=("llm.example.org", "*.lan"))
    for host in ("llm.example.org", "LLM.example.org:443", "a.lan", "b.a.lan:1", "localhost:8000"):
        assert ask(client, host).status_code == 200, host
    for host in ("example.org", "a.llm.example.org", "lan", "evillan", EVIL):
        assert ask(client, host).status_code == 403, host
    assert "llm.example.org, *.lan only" in ask(client, EVIL).json()["error"]["message"]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["localhost", "127.0.0.1", "::1"]),
        ({"host": "127.0.0.7"}, ["localhost", "127.0.0.1", "::1", "127.0.0.7"]),
        ({"allowed_hosts": ("a.lan",)}, ["localhost", "127.0.0.1", "::1", "a.lan"]),
        ({"allowed_hosts": ("a.lan", "*")}, ["*"]),
        ({"host": "0.0.0.0"}, ["*"]),
        ({"host": "::"}, ["*"]),
        ({"host": "::", "allowed_hosts": ("a",)}, ["localhost", "127.0.0.1", "::1", "::", "a"]),
    ],
    ids=str,
)
def test_health_says_which_names_are_in_force(service, settings, names):
    client = client_of(service, **settings)
    assert ask(client, "localhost").json()["settings"]["allowed_hosts"]["value"] == names
    assert ask(client, EVIL).status_code == (200 if names == ["*"] else 403)


def test_over_a_socket_a_request_without_the_header_is_served():
    """Probes of HTTP/1.0 have none; every browser sends one."""
    with live_server(FakeService()) as url:
        port = int(url.rpartition(":")[2])
        for header, status in (("", b"200"), (f"Host: {EVIL}\r\n", b"403"), ("Host:\r\n", b"403")):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(f"GET /health/live HTTP/1.0\r\n{header}\r\n".encode())
                assert connection.recv(12).split()[1] == status, header


def test_a_page_whose_name_resolves_to_this_machine_is_told_nothing():
    rule = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    with live_server(FakeService()) as url, chromium(rule) as browser:
        page = browser.new_page()
        page.goto(url.replace("127.0.0.1", EVIL) + "/health/live")
        assert "host_not_allowed" in page.content()
        page.goto(url + "/health/live")
        assert "ready" in page.content()
