"""GET /, /page/{name} and /laws: what is sent, and that none of it needs another server."""

import re

import pytest

from leeway.acceptance.registry import law_infos
from leeway.server.page_files import POLICY, page_files
from tests.server.conftest import client_of
from tests.server.fake_service import FakeService

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
NAMES = sorted(page_files())
TEXTS = {name: file.content.decode() for name, file in page_files().items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_sent_with_type_tag_and_policy(client, name):
    response = client.get(f"/page/{name}")
    assert response.status_code == 200
    assert response.content == page_files()[name].content
    assert response.headers["content-type"] == MEDIA_TYPES[name.rpartition(".")[2]]
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-cache"


def test_the_page_is_its_index(client):
    assert client.get("/").content == page_files()["index.html"].content
    assert client.head("/").status_code == 200


@pytest.mark.parametrize("known", ["{tag}", "W/{tag}", '"other", {tag}'])
def test_what_the_browser_has_is_not_sent_again(client, known):
    tag = client.get("/page/page.js").headers["etag"]
    asked = {"If-None-Match": known.format(tag=tag)}
    response = client.get("/page/page.js", headers=asked)
    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == tag
    assert client.get("/page/page.css", headers=asked).status_code == 200


def test_the_page_comes_before_the_model_and_without_the_key():
    client = client_of(FakeService(state="loading"), api_key="secret")
    assert client.get("/").status_code == client.get("/page/page.js").status_code == 200
    assert client.get("/v1/models").status_code == 401


@pytest.mark.parametrize("name", ["missing.js", "..%2Fapp.py", "%2Fetc%2Fpasswd", ""])
def test_no_other_file_is_sent(client, name):
    response = client.get(f"/page/{name}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


def test_the_policy_allows_this_server_only():
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules.pop("require-trusted-types-for") == "'script'"
    assert rules.pop("default-src") == "'none'"
    assert set(rules.values()) == {"'self'", "'none'"}
    assert {name for name, value in rules.items() if value == "'self'"} == {
        "script-src",
        "style-src",
        "img-src",
        "connect-src",
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_file_names_no_other_server_and_makes_no_markup(name):
    text = TEXTS[name].replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert re.findall(r"(?:https?:)?//[\w.]+\.\w+", text) == []
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text) == []
    assert re.findall(r"\son\w+=|style=|javascript:", TEXTS["index.html"]) == []


def test_every_file_is_used_and_every_used_file_is_there():
    used = set(re.findall(r'"page/([\w.]+)"', TEXTS["index.html"]))
    scripts = [text for name, text in TEXTS.items() if name.endswith(".js")]
    used |= {name for text in scripts for name in re.findall(r'from "\./([\w.]+)"', text)}
    assert used | {"index.html"} == set(NAMES)


def test_laws_are_listed_as_the_command_lists_them(client):
    listing = client.get("/laws").json()
    assert [law["name"] for law in listing["laws"]] == [info.name for info in law_infos()]
    typical = next(law for law in listing["laws"] if law["name"] == "typical")
    assert typical["guarantee"] == "none"
    delta = next(knob for knob in typical["options"] if knob["name"] == "delta")
    assert (delta["is_required"], delta["default"], delta["high"]) == (True, None, None)
    assert {preset["name"]: preset["law"] for preset in listing["presets"]}["medusa"] == "typical"
