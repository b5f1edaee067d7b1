"""A chat at the page: streaming, provenance, figures, stopping, reloading, hostile text."""

import json
import re
import time

import pytest
from playwright.sync_api import expect

from tests.server.conftest import live_server
from tests.server.fake_service import FakeService
from tests.server.page.conftest import (
    FOCUSED,
    QUESTION,
    ask,
    ask_for_receipt,
    gated,
    marks_of,
    use_few_tokens,
    wait_ready,
)
from tests.support.browser import watched_page

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>&lt;b&gt; \u202e </span>"


SEED = 3
"""At which drafts are accepted and rejected both."""


def seeded(route):
    body = json.loads(route.request.post_data)
    route.continue_(post_data=json.dumps({**body, "seed": SEED}))


def test_a_chat_streams_and_its_tokens_carry_their_provenance(browser, table_url):
    with watched_page(browser, table_url) as (page, watch):
        page.route("**/v1/chat/completions", seeded)
        wait_ready(page)
        use_few_tokens(page)
        turn, receipt = ask_for_receipt(page)
        marks = marks_of(turn)
        assert receipt["seed"] == SEED
        assert receipt["output_tokens"] == len(marks) == 24 and receipt["drafted"] > 0
        assert marks[0] == "plain"
        assert marks.count("accepted") == receipt["accepted"] > 0
        assert marks.count("recovered") == receipt["resampled"] > 0
        assert marks.count("bonus") + marks.count("plain") == receipt["bonus"]
        for name in ("accepted", "recovered", "bonus", "plain"):
            assert page.locator(f"[data-count={name}]").inner_text() == str(marks.count(name))
        assert watch.bodies[0]["messages"] == [{"role": "user", "content": QUESTION}]
        assert watch.bodies[0]["speculative"] == {"metrics": "detailed"}


def test_the_panel_shows_the_figures_of_the_receipt(browser, table_url):
    with watched_page(browser, table_url) as (page, watch):
        wait_ready(page)
        use_few_tokens(page)
        page.select_option("#law", "typical")
        expect(page.locator("#law-summary")).to_contain_text("Needs delta")
        page.fill("#knob-delta", "0.2")
        page.press("#knob-delta", "Tab")
        expect(page.locator("#law-summary")).not_to_contain_text("Needs")
        turn, receipt = ask_for_receipt(page)
        assert watch.bodies[0]["speculative"] == {
            "metrics": "detailed",
            "law": "typical",
            "options": {"delta": 0.2},
        }
        loss = receipt["loss"]["total_variation_mean"]
        assert receipt["law"] == "typical" and loss > 0.01
        assert page.inner_text("#loss-mean") == f"{loss:.3f}"
        assert page.inner_text("#tokens-per-step") == f"{receipt['tokens_per_verify_step']:.2f}"
        speed = 23 / receipt["decode_s"]
        assert float(page.inner_text("#tokens-per-s")) == pytest.approx(speed, abs=0.051)
        assert "Judged by typical (delta 0.2" in page.inner_text("#answer-law")
        assert "approximate" in turn.locator(".turn-note").inner_text()
        shown = page.locator("#acceptance .value").all_inner_texts()
        pairs = zip(receipt["accepted_by_depth"], receipt["drafted_by_depth"], strict=True)
        assert [int(re.findall(r"\d+", one)[0]) for one in shown] == [
            int(100 * accepted / drafted + 0.5) for accepted, drafted in pairs
        ]
        assert page.locator("#loss span").count() == 1
        assert f"{loss:.3f}" in page.get_attribute("#loss", "aria-label")
        expect(page.locator("#totals")).to_contain_text("typical · ngram")
        expect(page.locator("#facts")).to_contain_text("Answering")


def test_stop_cancels_and_the_chat_goes_on(browser):
    service, gate = gated(2, "abcdefghijkl")
    with live_server(service) as url, watched_page(browser, url) as (page, watch):
        wait_ready(page)
        page.fill("#prompt", "Hi")
        page.press("#prompt", "Enter")
        expect(page.locator(".answer")).to_have_text("abcde")
        assert page.get_attribute(".answer", "aria-busy") == "true"
        expect(page.locator("#stop")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(".turn-note")).to_have_text("stopped")
        expect(page.locator("#send")).to_be_visible()
        deadline = time.monotonic() + 10
        while not service.closed and time.monotonic() < deadline:
            page.wait_for_timeout(5)
        assert service.closed == [service.requests[0].request_id]
        gate.num_permits = 100
        ask(page, "more")
        assert [one["content"] for one in watch.bodies[1]["messages"]] == ["Hi", "abcde", "more"]


def test_the_stop_button_stops(browser):
    service, _ = gated(1, "abcdef")
    with live_server(service) as url, watched_page(browser, url) as (page, _):
        wait_ready(page)
        page.fill("#prompt", "Hi")
        page.click("#send")
        expect(page.locator(".answer")).to_have_text("a")
        page.click("#stop")
        expect(page.locator(".turn-note")).to_have_text("stopped")
        assert page.evaluate(FOCUSED) == "prompt"


def test_a_reload_keeps_the_conversation_and_a_new_chat_forgets_it(browser, table_url):
    with watched_page(browser, table_url) as (page, watch):
        wait_ready(page)
        use_few_tokens(page)
        page.select_option("#law", "medusa")
        answer = ask(page).locator(".answer").inner_text()
        loss = page.inner_text("#loss-mean")
        page.reload()
        wait_ready(page)
        assert page.locator(".answer").inner_text() == answer
        assert page.input_value("#law") == "medusa"
        assert page.input_value("#max-tokens") == "24"
        assert (watch.bodies[0]["temperature"], watch.bodies[0]["max_tokens"]) == (0.8, 24)
        assert page.inner_text("#loss-mean") == loss != "–"
        ask(page, "abc")
        assert [one["content"] for one in watch.bodies[1]["messages"]] == [QUESTION, answer, "abc"]
        page.click("#new-chat")
        page.reload()
        wait_ready(page)
        assert page.locator(".turn").count() == 0 and page.locator("#empty").is_visible()
        ask(page, "abc")
        assert len(watch.bodies[2]["messages"]) == 1


def test_what_comes_from_outside_is_text(browser):
    service = FakeService()
    service.reply = lambda prompt: HOSTILE
    service.engine.parts.model_name = "<b>model</b>"
    service.engine.parts.backend.context_len = 2000
    with live_server(service) as url, watched_page(browser, url) as (page, _):
        wait_ready(page)
        turn = ask(page, HOSTILE)
        assert turn.locator(".answer").text_content() == HOSTILE
        assert turn.locator(".asked").text_content() == "You: " + HOSTILE
        assert page.inner_text("#model") == "<b>model</b>"
        page.reload()
        wait_ready(page)
        assert page.locator(".answer").text_content() == HOSTILE
        assert page.locator("main img, main script, main b, .answer span span").count() == 0


def test_markup_cannot_be_made_of_text_even_by_mistake(browser, table_url):
    with watched_page(browser, table_url, expected=["TrustedHTML"]) as (page, _):
        wait_ready(page)
        with pytest.raises(Exception, match="TrustedHTML"):
            page.evaluate("document.body.innerHTML = '<i>x</i>'")
        assert page.locator("i").count() == 0
