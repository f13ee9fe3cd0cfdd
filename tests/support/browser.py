"""A headless Chromium that opens a page from disk, without a network, and keeps what the page complains about."""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextmanager
def opened(path: Path, *, width: int = 1280, theme: str = "light") -> Iterator[Any]:
    """The drawn page; it must have asked for nothing and complained about nothing when the block ends.

    Without a browser the test is skipped, or fails where the environment says GIRIH_BROWSER_TESTS=required.
    """
    context = _browser().new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
    try:
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=true]", state="attached", timeout=60_000)
        yield page
        assert not complaints, complaints
        assert {url for url in requests if not url.startswith(("data:", "blob:"))} == {path.as_uri()}
    finally:
        context.close()


def browser_library(name: str) -> Any:
    """A module that drives the browser; without it the test is skipped, or fails as in :func:`opened`."""
    return importlib.import_module(name) if _required() else pytest.importorskip(name)


def _required() -> bool:
    return os.environ.get("GIRIH_BROWSER_TESTS") == "required"


def _browser() -> Any:
    playwright = browser_library("playwright.sync_api")
    if CHROMIUM is None:
        (pytest.fail if _required() else pytest.skip)("no Chromium is installed")
    return _launched(playwright.sync_playwright)


@cache
def _launched(sync_playwright: Any) -> Any:
    """One browser for all tests of a process: to start it takes longer than most of them."""
    driver = sync_playwright().start()
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
    atexit.register(lambda: (browser.close(), driver.stop()))
    return browser
