"""The page for everybody: by keyboard, by screen reader, on a narrow screen, light and dark."""

import re

import pytest
from playwright.sync_api import expect

from tests.server.page.conftest import FOCUSED, QUESTION, ask, wait_ready
from tests.support.browser import NARROW, watched_page


def test_everything_can_be_done_by_keyboard(browser, table_url):
    with watched_page(browser, table_url) as (page, watch):
        wait_ready(page)
        assert page.evaluate(FOCUSED) == "prompt"
        page.keyboard.type("ab")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("cd")
        page.keyboard.press("Enter")
        page.wait_for_selector(".turn-note")
        assert watch.bodies[0]["messages"][0]["content"] == "ab\ncd"
        assert page.evaluate(FOCUSED) == "prompt"
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED) == "law-chip"
        page.keyboard.press("Enter")
        assert page.evaluate(FOCUSED) == "law"
        page.keyboard.type("medusa")
        assert page.input_value("#law") == "medusa"
        seen = []
        while "new-chat" not in seen and len(seen) < 40:
            page.keyboard.press("Tab")
            seen.append(page.evaluate(f"{FOCUSED} || document.activeElement.tagName"))
        assert {"knob-delta", "knob-off_set", "SUMMARY", "marks", "new-chat"} <= set(seen)
        page.keyboard.press("Enter")
        expect(page.locator(".turn")).to_have_count(0)
        assert page.evaluate(FOCUSED) == "prompt"


def test_every_control_has_a_name_and_news_are_announced(browser, table_url):
    with watched_page(browser, table_url) as (page, _):
        wait_ready(page)
        page.select_option("#law", "typical")
        nameless = page.evaluate("""() => [...document.querySelectorAll(
            "button, input, select, textarea, [role=img]")].filter(one => !(
            one.labels?.[0]?.textContent.trim() || one.getAttribute("aria-label")
            || (one.tagName === "BUTTON" && one.textContent.trim()))).map(one => one.id)""")
        assert nameless == []
        for role, name in (("log", "Conversation"), ("region", "Chat")):
            assert page.get_by_role(role, name=name).count() == 1
        assert page.get_by_role("complementary", name="What the engine is doing").count() == 1
        page.fill("#knob-delta", "0.3")
        ask(page)
        expect(page.locator("#announce")).to_have_text(
            re.compile(r"Answer (finished|cut at the limit), \d+ tokens\.")
        )
        assert page.get_attribute("#announce", "role") == "status"
        assert page.get_attribute("#log", "aria-busy") == "false"


def test_a_narrow_screen_never_scrolls_sideways(browser, table_url):
    with watched_page(browser, table_url, viewport=NARROW) as (page, _):
        wait_ready(page)
        ask(page, QUESTION * 20)
        expect(page.locator("#send")).to_be_in_viewport()
        assert page.locator(".panel").is_hidden()
        assert overflow(page) == []
        page.click("#view-engine")
        assert page.locator(".panel").is_visible() and page.locator(".chat").is_hidden()
        page.select_option("#law", "medusa")
        assert overflow(page) == []
        page.click("#view-chat")
        page.click("#law-chip")
        assert page.evaluate(FOCUSED) == "law"


def overflow(page):
    """Return what reaches beyond the right edge of the screen."""
    return page.evaluate("""() => [document.documentElement, ...document.querySelectorAll("body *")]
        .filter(one => one.getBoundingClientRect().right > innerWidth
            || (one === document.documentElement && one.scrollWidth > innerWidth))
        .map(one => one.id || one.className || one.tagName)""")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in(browser, table_url, scheme):
    with watched_page(browser, table_url, color_scheme=scheme) as (page, _):
        wait_ready(page)
        ground = colour(page, "--ground")
        assert (luminance(ground) > 0.5) == (scheme == "light")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            f"rgb({', '.join(map(str, ground))})"
        )
        for front, back in (
            ("--ink", "--ground"),
            ("--ink", "--raised"),
            ("--ink", "--accent-tint"),
            ("--ink", "--amber-tint"),
            ("--soft", "--ground"),
            ("--accent", "--raised"),
            ("--amber", "--raised"),
            ("--red", "--raised"),
            ("--on-accent", "--accent"),
        ):
            pair = sorted(luminance(colour(page, name)) for name in (front, back))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (front, back)


def colour(page, name):
    style = "getComputedStyle(document.documentElement)"
    value = page.evaluate(f"{style}.getPropertyValue('{name}')").strip().lstrip("#")
    return [int(value[index : index + 2], 16) for index in (0, 2, 4)]


def luminance(channels):
    """Return WCAG's relative luminance, 0 to 1."""
    parts = [one / 255 for one in channels]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
