"""The page while the server loads, fails, is gone, or wants a key."""

from playwright.sync_api import expect

from leeway.core.errors import BackendError
from tests.server.conftest import live_server
from tests.server.fake_service import FakeService
from tests.server.page.conftest import ask, gated, wait_ready
from tests.support.browser import watched_page


def test_loading_then_ready_then_gone(browser):
    service = FakeService(state="loading")
    with live_server(service) as url:
        expected = ["503", "ERR_CONNECTION_REFUSED"]
        with watched_page(browser, url, expected=expected) as (page, _):
            page.wait_for_selector("#connection[data-state=loading]")
            expect(page.locator("#connection")).to_have_text("Loading the model")
            expect(page.locator("#send")).to_be_disabled()
            service.start()
            wait_ready(page)
            page.route("**/health", lambda route: route.abort("connectionrefused"))
            expect(page.locator("#connection")).to_have_text("Not reachable")
            expect(page.locator("#trouble")).to_contain_text("cannot be reached")
            expect(page.locator("#send")).to_be_disabled()
            page.unroute("**/health")
            wait_ready(page)
            expect(page.locator("#trouble")).to_be_hidden()


def test_a_failure_in_the_middle_keeps_what_came(browser):
    service, _ = gated(100, "abcdefghijkl")
    service.fail_after = 2
    service.failure = BackendError("logits are not finite <i>here</i>")
    with live_server(service) as url, watched_page(browser, url) as (page, _):
        wait_ready(page)
        turn = ask(page, "Hi")
        assert turn.locator(".answer").inner_text() == "abcde"
        words = turn.locator(".turn-error").inner_text()
        assert words == "The answer broke off. logits are not finite <i>here</i>"
        assert page.input_value("#prompt") == ""


def test_the_key_is_asked_for_and_kept_in_the_tab(browser):
    with (
        live_server(FakeService(), api_key="secret") as url,
        watched_page(browser, url, expected=["401"]) as (page, _),
    ):
        wait_ready(page)
        expect(page.locator("#key-form")).to_be_visible()
        page.fill("#key", "wrong")
        page.press("#key", "Enter")
        expect(page.locator("#key-error")).to_contain_text("this server asks for its API key")
        page.fill("#key", "secret")
        page.press("#key", "Enter")
        expect(page.locator("#key-form")).to_be_hidden()
        with page.expect_request("**/v1/chat/completions") as caught:
            ask(page, "Hi")
        assert caught.value.headers["authorization"] == "Bearer secret"
        kept = page.evaluate("[sessionStorage['leeway.key'], localStorage.length]")
        assert kept == ['"secret"', 0]
