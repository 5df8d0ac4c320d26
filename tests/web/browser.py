"""Headless Chromium for the tests of the pages, which are skipped where it is not installed.

One browser serves all tests of a module; every page has a context of its own (cookies, storage).
A module of browser tests has no async tests: playwright's own event loop runs until its last test.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = (
    os.environ.get("ARCHQA_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
)
_AXE_PACKAGE = "axe_playwright_python"
_AXE_OPTIONS = {
    "resultTypes": ["violations"],
    # WCAG 2.2 AA 2.5.8, which axe-core leaves off by default.
    "rules": {"target-size": {"enabled": True}},
}
_started: list[tuple[Any, Any]] = []
"""The running playwright and its browser, if a test of this module has started them."""


def require_chromium() -> str:
    """Return the browser's path; skip the test if it or playwright is absent."""
    pytest.importorskip(
        "playwright", reason="needs playwright: pip install --group dev"
    )
    if not CHROMIUM:
        pytest.skip(
            "needs chromium: apt-get install chromium (or name it in ARCHQA_CHROMIUM)"
        )
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
        page.on(
            "dialog",
            lambda dialog: (self.console.append("a dialog opened"), dialog.dismiss()),
        )

    def accessibility_violations(self) -> list[str]:
        """Return all of axe-core's violations, minor ones as well.

        The page must be opened with `bypass_csp=True`, or its policy refuses axe-core.
        """
        self.page.evaluate(_axe_source())
        report = self.page.evaluate(f"axe.run({json.dumps(_AXE_OPTIONS)})")
        violations = []
        for violation in report["violations"]:
            first = violation["nodes"][0]
            count = len(violation["nodes"])
            violations.append(f"{violation['id']} ({count}): {first['html'][:200]}")
        return violations

    def overflow_width(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        )


def _axe_source() -> str:
    package = find_spec(_AXE_PACKAGE)
    if package is None or package.origin is None:
        pytest.skip("needs axe-core: pip install --group dev")
    return (Path(package.origin).parent / "axe.min.js").read_text(encoding="utf-8")


@contextmanager
def open_page(
    width: int = 1280, scheme: str = "light", height: int = 900, **options: Any
) -> Iterator[RecordedPage]:
    """Open a page of this width and color scheme, in a new context with these options."""
    context = _browser().new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, **options
    )
    try:
        yield RecordedPage(context.new_page())
    finally:
        context.close()


def _browser() -> Any:
    if not _started:
        path = require_chromium()
        from playwright.sync_api import sync_playwright

        playwright = sync_playwright().start()
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"]
        )
        _started.append((playwright, browser))
    return _started[0][1]


def close_browser() -> None:
    """Close the browser and playwright's event loop, if they were started."""
    while _started:
        playwright, browser = _started.pop()
        browser.close()
        playwright.stop()
