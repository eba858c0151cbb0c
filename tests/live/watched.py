"""Pages in Chromium whose faults are collected: console messages, errors, requests to other hosts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = os.environ.get("PALDA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
BROWSER_MARKS = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: install one, or name it in PALDA_CHROMIUM"),
]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
NETWORK_FAULT = "net::ERR"  # what the console says about a request without an answer


@contextmanager
def running_browser() -> Iterator[Any]:
    """Chromium for the tests of a module."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="tests of pages need playwright: pip install playwright"
    )
    with playwright.sync_playwright() as running:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = running.chromium.launch(executable_path=CHROMIUM, headless=True, args=arguments)
        yield browser
        browser.close()


class Person:
    """Somebody with a browser of their own, signed in by a link."""

    def __init__(self, browser: Any, url: str, link: str, name: str | None = None, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.context.on("request", lambda request: self._look(request.url))
        self.sign_in(link, name)

    def _look(self, address: str) -> None:
        if not address.startswith((f"{self.url}/", "data:")):
            self.faults.append(f"request: {address}")

    def sign_in(self, link: str, name: str | None = None) -> None:
        self.page.goto(link)
        if name is not None:
            self.page.fill("#name", name)
        self.page.click("main button")
        self.page.wait_for_url(lambda address: "/join/" not in address)

    def open(self, path: str) -> Any:
        self.page.goto(self.url + path)
        return self.page

    def without_network_faults(self) -> list[str]:
        return [fault for fault in self.faults if NETWORK_FAULT not in fault]

    def close(self) -> None:
        self.context.close()
