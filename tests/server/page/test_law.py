"""The law at the page: what it promises, what is sent, what is refused."""

from playwright.sync_api import expect

from leeway.core.config import EngineConfig
from leeway.core.limits import Limits
from leeway.core.types import Acceptance
from leeway.engine.engine import Engine
from leeway.engine.service import EngineService
from tests.server.conftest import live_server, wait_until_ready
from tests.server.page.conftest import (
    QUESTION,
    ask,
    ask_for_receipt,
    marks_of,
    use_few_tokens,
    wait_ready,
)
from tests.server.serve_table import load_engine
from tests.support.browser import watched_page


def test_the_law_says_what_it_promises(browser, table_url):
    with watched_page(browser, table_url) as (page, _):
        wait_ready(page)
        assert "exact" in page.inner_text("#law-chip")
        assert page.inner_text("#guarantee").startswith("Exact: answers have the model's own")
        page.select_option("#law", "medusa")
        assert page.inner_text("#guarantee").startswith("Approximate: answers may differ")
        assert page.inner_text("#law-chip").split() == ["medusa", "approximate"]
        assert page.input_value("#knob-delta") == "0.3"
        page.locator("summary").click()
        for temperature, exact in (("0.8", "false"), ("0", "true")):
            page.fill("#temperature", temperature)
            page.press("#temperature", "Tab")
            page.select_option("#law", "greedy_match")
            assert page.inner_text("#guarantee").startswith("Exact at temperature 0")
            assert page.get_attribute("#guarantee", "data-exact") == exact
        groups = page.eval_on_selector_all("#law optgroup", "all => all.map(one => one.label)")
        assert groups == ["Laws", "Settings of other systems", "Not allowed by this server"]


def test_plain_decoding_stands_beside_the_law(browser, table_url):
    with watched_page(browser, table_url) as (page, watch):
        wait_ready(page)
        use_few_tokens(page)
        ask(page)
        assert page.locator("#speed li").count() == 1
        page.uncheck("#drafts")
        assert "no drafts" in page.inner_text("#law-chip")
        turn, receipt = ask_for_receipt(page)
        assert watch.bodies[1]["speculative"] == {
            "metrics": "detailed",
            "num_speculative_tokens": 0,
        }
        assert receipt["drafted"] == 0 and set(marks_of(turn)) == {"plain"}
        names = page.locator("#speed .name").all_inner_texts()
        assert names == ["rejection × 1", "no drafts × 1"]


def test_a_refusal_is_shown_in_the_servers_words(browser, table_url):
    with watched_page(browser, table_url, expected=["403"]) as (page, watch):
        wait_ready(page)
        page.select_option("#law", "tokenv3")
        page.fill("#knob-alpha", "0.5")
        expect(page.locator("#law-summary")).to_contain_text("does not let a request choose it")
        turn = ask(page)
        assert watch.bodies[0]["speculative"]["law"] == "tokenv3"
        words = turn.locator(".turn-error").inner_text()
        assert "law 'tokenv3' may not be chosen by a request to this server" in words
        assert "allowed: rejection, typical" in words
        assert page.input_value("#prompt") == QUESTION
        page.select_option("#law", "rejection")
        ask(page)
        assert page.locator(".turn").count() == 1 and page.locator(".turn-error").count() == 0
        assert len(watch.bodies[1]["messages"]) == 1


def test_limits_are_told_for_the_server_and_for_each_answer(browser):
    limits = Limits(tv_budget=0.3, exact_prefix=4, hard_support=True)
    law = Acceptance("typical", {"delta": 0.2})
    config = EngineConfig(acceptance=law, limits=limits)
    service = EngineService(lambda: Engine(load_engine(None).parts, config))
    service.start()
    wait_until_ready(service)
    with (
        live_server(service, engine=config) as url,
        watched_page(browser, url) as (page, _),
    ):
        wait_ready(page)
        use_few_tokens(page)
        expect(page.locator("#facts")).to_contain_text(
            "total variation up to 0.300, first 4 tokens exact, inside the model's support"
        )
        assert page.inner_text("#answer-limits") == ""
        _, receipt = ask_for_receipt(page)
        spent = receipt["limits"]["tv_spent"]
        assert 0.1 < spent <= 0.3
        assert page.inner_text("#answer-limits") == (
            f"Limits: total variation {spent:.3f} of 0.300, first 4 tokens exact, inside the "
            "model's support."
        )
    service.stop()
