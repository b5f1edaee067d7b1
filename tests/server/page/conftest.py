"""A browser for a module's tests, a server over a table, and what a person does at the page.

The browser lives no longer than a module: while Playwright runs, its event loop is this thread's.
"""

import asyncio

import msgspec
import pytest
from playwright.sync_api import expect

from leeway.engine.service import EngineService
from tests.server.conftest import frames, live_server, wait_until_ready
from tests.server.fake_service import FakeService
from tests.server.serve_table import load_engine
from tests.support.browser import chromium

QUESTION = "abcdabcdabcdabcd"
FOCUSED = "document.activeElement.id"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def table_url():
    service = EngineService(lambda: load_engine(None))
    service.start()
    wait_until_ready(service)
    with live_server(service, allow_laws=("rejection", "typical")) as url:
        yield url
    service.stop()


class Gate:
    """Lets so many deltas of a scripted service pass."""

    def __init__(self, num_permits):
        self.num_permits = num_permits

    async def acquire(self):
        while self.num_permits == 0:
            await asyncio.sleep(0.001)
        self.num_permits -= 1


def gated(num_permits, reply):
    service, gate = FakeService(), Gate(num_permits)
    service.gate = lambda prompt: gate
    service.reply = lambda prompt: reply
    return service, gate


def wait_ready(page):
    page.wait_for_selector("#connection[data-state=ready]")
    expect(page.locator("#send")).to_be_enabled()


def ask(page, text=QUESTION):
    """Ask by keyboard; return the finished turn."""
    page.fill("#prompt", text)
    page.press("#prompt", "Enter")
    page.wait_for_selector("#send:not([hidden])")
    return page.locator("#log .turn").last


def ask_for_receipt(page):
    """Ask; return the turn and the receipt that its stream carried."""
    with page.expect_response("**/v1/chat/completions") as caught:
        turn = ask(page)
    last = msgspec.json.decode(frames(caught.value.text())[-2])
    return turn, last["metrics"]["speculative_decoding"]


def use_few_tokens(page, count=24):
    page.locator("summary").click()
    page.fill("#max-tokens", str(count))
    page.press("#max-tokens", "Tab")


def marks_of(turn):
    return [span.get_attribute("class") for span in turn.locator(".answer span").all()]
