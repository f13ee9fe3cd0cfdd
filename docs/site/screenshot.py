"""Takes the picture of a report that the README shows: ``screenshot.py FILE.girih FILE.png``; needs Chromium."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import girih

WIDTH = 1280
SHOWN = {"verdict": ".lead, .second, .figures", "timeline": ".plot", "memory": ".memory-tabs, .plot"}
"""The sections of the page that the picture shows, and what of them."""

MOST_BYTES = 300_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Where there is none of these, Playwright takes its own."""


def main() -> None:
    compiled, picture = (Path(name) for name in sys.argv[1:])
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        girih.load(compiled).explain().save(page_file)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready=true]", state="attached")
        kept = ", ".join(f"#{section}" for section in SHOWN)
        rules = [f"#{section} .body > :not({parts})" for section, parts in SHOWN.items()]
        page.add_style_tag(content=f".caption, .view:not({kept}), {', '.join(rules)} {{ display: none }}")
        page.wait_for_timeout(2000)
        page.screenshot(path=picture, full_page=True)
        chromium.close()
    size = picture.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"error: {picture} has {size:,} bytes, {MOST_BYTES:,} at most")
    print(f"{picture}: {size:,} bytes")


if __name__ == "__main__":
    main()
