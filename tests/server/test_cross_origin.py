"""Web pages of other origins: none is told anything unless its origin was allowed at start."""

import pytest

from tests.server.conftest import CHAT, client_of, live_server
from tests.server.fake_service import FakeService
from tests.support.browser import chromium

PATH = "/v1/chat/completions"
APP, OTHER = "https://app.example.org", "https://elsewhere.example"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
}


def told(response):
    """Return what a browser is told of origins."""
    return {name: value for name, value in response.headers.items() if "control-a" in name}


def preflight(client, origin, **headers):
    return client.options(PATH, headers={"Origin": origin, **PREFLIGHT, **headers})


@pytest.mark.parametrize("origin", [APP, "null"])
def test_by_default_no_origin_is_told_anything(client, origin):
    answer = client.post(PATH, json=CHAT, headers={"Origin": origin})
    assert answer.status_code == 200 and told(answer) == {}
    assert preflight(client, origin).status_code == 405
    assert told(preflight(client, origin)) == {}


def test_an_allowed_origin_is_named_in_answers_and_errors(service):
    client = client_of(service, allow_origin=(APP, "http://localhost:3000"), api_key="k")
    right = {"Origin": APP, "Authorization": "Bearer k"}
    for body, headers, status in (
        (CHAT, right, 200),
        ({**CHAT, "stream": True}, right, 200),
        ({**CHAT, "max_tokens": -3}, right, 400),
        (CHAT, {"Origin": APP}, 401),
    ):
        response = client.post(PATH, json=body, headers=headers)
        assert response.status_code == status
        assert told(response) == {"access-control-allow-origin": APP}
        assert "Origin" in response.headers["vary"]
    assert told(client.get("/health", headers={"Origin": "http://localhost:3000"})) == {
        "access-control-allow-origin": "http://localhost:3000"
    }


def test_a_preflight_needs_no_key_and_allows_what_clients_send(service):
    client = client_of(service, allow_origin=(APP,), api_key="k")
    response = preflight(client, APP)
    assert response.status_code == 200
    assert told(response) == {
        "access-control-allow-origin": APP,
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": PREFLIGHT["Access-Control-Request-Headers"],
    }
    private = preflight(client, APP, **{"Access-Control-Request-Private-Network": "true"})
    assert told(private)["access-control-allow-private-network"] == "true"
    assert not service.requests


@pytest.mark.parametrize("origin", [OTHER, "null", APP + ".evil.example", APP + ":8443"])
def test_another_origin_is_not_allowed(service, origin):
    client = client_of(service, allow_origin=(APP,))
    assert preflight(client, origin).status_code == 400
    answer = client.post(PATH, json=CHAT, headers={"Origin": origin})
    assert "access-control-allow-origin" not in told(preflight(client, origin)) | told(answer)


def test_every_origin_never_comes_with_credentials(service):
    client = client_of(service, allow_origin=("*",))
    for response in (
        preflight(client, OTHER),
        client.post(PATH, json=CHAT, headers={"Origin": OTHER}),
    ):
        assert response.status_code == 200
        assert told(response)["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in told(response)
    cookie = client.post(PATH, json=CHAT, headers={"Origin": OTHER, "Cookie": "a=b"})
    assert told(cookie)["access-control-allow-origin"] == "*"


def test_pages_may_read_the_headers_that_say_what_ran(service):
    client = client_of(service, allow_origin=(APP,))
    headers = client.post(PATH, json=CHAT, headers={"Origin": APP}).headers
    shown = {name.strip().lower() for name in headers["access-control-expose-headers"].split(",")}
    own = {name for name in headers if name.startswith("x-") or name == "request-id"}
    assert len(own) > 5 and own | {"retry-after"} == shown


ASK = """
async ([url, key]) => {
  const body = JSON.stringify({messages: [{role: "user", content: "Hi"}]});
  const headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key};
  try {
    const answer = await fetch(url, {method: "POST", headers, body});
    return [answer.status, answer.headers.get("x-leeway-law"), await answer.text()];
  } catch (error) {
    return [0, null, error.name];
  }
}
"""


def test_a_browser_lets_the_allowed_page_in_and_no_other():
    with (
        chromium() as browser,
        live_server(FakeService()) as app,
        live_server(FakeService()) as other,
        live_server(FakeService(), allow_origin=(app,), api_key="k") as url,
    ):
        page = browser.new_page()
        page.goto(app + "/health")
        status, law, text = page.evaluate(ASK, [url + PATH, "k"])
        assert (status, law) == (200, "rejection") and "Hello" in text
        assert page.evaluate(ASK, [url + PATH, "wrong"])[0] == 401
        page.goto(other + "/health")
        assert page.evaluate(ASK, [url + PATH, "k"]) == [0, None, "TypeError"]
