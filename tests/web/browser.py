"""Headless Chromium, where it is installed: what these tests drive, and why they are skipped where it is not."""

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


def needed() -> str:
    """The browser's path; skips the test where it, or playwright, is absent."""
    pytest.importorskip("playwright", reason="needs playwright: pip install playwright")
    if not CHROMIUM:
        pytest.skip("needs chromium: apt-get install chromium (or name it in ARCHQA_CHROMIUM)")
    return CHROMIUM


class Watched:
    """A page, with what its console said and what it asked of others."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.console: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.console.append("a dialog opened"), dialog.dismiss()))

    def serious_faults(self) -> list[str]:
        """What axe-core finds serious or critical; skips the test where axe-core is absent."""
        if not AXE.is_file():
            pytest.skip("needs axe-core: npm install axe-core (or name axe.min.js in ARCHQA_AXE)")
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        worst = [each for each in found if each["impact"] in {"serious", "critical"}]
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in worst]

    def too_wide(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@contextmanager
def opened(width: int = 1280, scheme: str = "light", **more: Any) -> Iterator[Watched]:
    """A page of that width and colour scheme."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=needed(), args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **more
        )
        yield Watched(context.new_page())
        browser.close()
