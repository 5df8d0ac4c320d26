"""Headless Chromium for the tests of the pages, which are skipped where it is not installed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = (
    os.environ.get("ARCHQA_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
)
AXE = Path(
    os.environ.get("ARCHQA_AXE")
    or Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
)


def require_chromium() -> str:
    """Return the browser's path; skip the test if it or playwright is absent."""
    pytest.importorskip("playwright", reason="needs playwright: pip install playwright")
    if not CHROMIUM:
        pytest.skip("needs chromium: apt-get install chromium (or name it in ARCHQA_CHROMIUM)")
    return CHROMIUM


class RecordedPage:
    """A page with its console messages and its requests."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.console: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.console.append("a dialog opened"), dialog.dismiss()))

    def accessibility_violations(self) -> list[str]:
        """Return axe-core's serious and critical violations; skip the test without axe-core."""
        if not AXE.is_file():
            pytest.skip("needs axe-core: npm install axe-core (or name axe.min.js in ARCHQA_AXE)")
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        report = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        violations = []
        for violation in report["violations"]:
            if violation["impact"] in {"serious", "critical"}:
                html = violation["nodes"][0]["html"][:200]
                violations.append(f"{violation['id']}: {html}")
        return violations

    def overflow_width(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@contextmanager
def open_page(width: int = 1280, scheme: str = "light", **options: Any) -> Iterator[RecordedPage]:
    """Open a page of this width and color scheme."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=require_chromium(), args=["--no-sandbox"]
        )
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **options
        )
        yield RecordedPage(context.new_page())
        browser.close()
