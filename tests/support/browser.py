"""The system's Chromium, driven by Playwright; each page is watched while a test uses it."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import sync_playwright

WIDE = {"width": 1280, "height": 860}
NARROW = {"width": 390, "height": 844}


@contextmanager
def chromium(*arguments):
    """Yield a browser started with these arguments, or skip the test, saying how to get one."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium on this machine; `apt install chromium` lets the page be tested")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(arguments))
        yield browser
        browser.close()


@dataclass
class Watch:
    """What a page did.

    Attributes:
        addresses: every address it asked for.
        bodies: JSON bodies of its chat requests, in order.
        complaints: errors and warnings on its console, uncaught errors, dialogs.
    """

    addresses: list[str] = field(default_factory=list)
    bodies: list[dict] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def note_request(self, request):
        self.addresses.append(request.url)
        if request.url.endswith("/v1/chat/completions"):
            self.bodies.append(request.post_data_json)

    def note_console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def note_dialog(self, dialog):
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()


@contextmanager
def watched_page(browser, url, *, expected=(), viewport=WIDE, **settings):
    """Open a page and yield it with its watch.

    At the end nothing may have left the origin, and the console may hold no complaint but those
    that contain one of `expected`, each of which must be there.
    """
    context = browser.new_context(viewport=viewport, **settings)
    page, watch = context.new_page(), Watch()
    page.set_default_timeout(15_000)
    page.on("request", watch.note_request)
    page.on("console", watch.note_console)
    page.on("pageerror", lambda error: watch.complaints.append(str(error)))
    page.on("dialog", watch.note_dialog)
    try:
        page.goto(url)
        yield page, watch
        assert watch.addresses
        assert {address for address in watch.addresses if not address.startswith(url)} == set()
        unexpected = [one for one in watch.complaints if not any(part in one for part in expected)]
        assert unexpected == []
        assert [part for part in expected if not any(part in c for c in watch.complaints)] == []
    finally:
        context.close()
