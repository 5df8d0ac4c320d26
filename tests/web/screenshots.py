"""The reference screenshots of the pages: `python -m tests.web.screenshots` makes them anew.

They show the three fictional cases of data/mini (CC0), answered by the embedded engine, and lie in
docs/screenshots. `made-with.json` there says with which font and which answers: on a machine where
these differ, the pages cannot be compared (`tests/web/test_screenshots.py`).
"""

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from archqa import load_cases, predict
from archqa.core.case import Case
from archqa.evaluation.scoring import ScoreSettings, score
from tests.conftest import ROOT
from tests.web.browser import close_browser, open_page
from tests.web.served import page_url, served

REFERENCES = ROOT / "docs" / "screenshots"
MADE_WITH = "made-with.json"
README_PICTURE = "answer"
SIZES = (1440, 390)
SCHEMES = ("light", "dark")
_HEIGHT = 1200
_QUALITY = 70
_RUN = "mini"
_REVIEWER = "Reviewer"


class Screenshot(NamedTuple):
    """One picture of a page; `total_height` is that of the whole page."""

    name: str
    image: Image.Image
    total_height: int


class Screenshots(NamedTuple):
    """All pictures, and what decides what they look like beside the pages themselves."""

    made_with: dict[str, Any]
    pictures: tuple[Screenshot, ...]


def take_screenshots(folder: Path) -> Screenshots:
    """Answer the cases of data/mini in a folder, and take a picture of each page in each look."""
    run = _scored_run(folder)
    pictures: list[Screenshot] = []
    with served(folder) as url:
        for page, visit in _pages().items():
            for width in SIZES:
                for scheme in SCHEMES:
                    picture = _take(f"{page}-{width}-{scheme}", url, visit, width, scheme)
                    pictures.append(picture)
        pictures.append(_readme_picture(url))
        font = _font(url)
    answers = hashlib.sha256((run / "submission.json").read_bytes()).hexdigest()
    heights = {picture.name: picture.total_height for picture in pictures}
    return Screenshots({"font": font, "answers": answers, "heights": heights}, tuple(pictures))


def read_references() -> Screenshots:
    """Return the reference screenshots of docs/screenshots."""
    made_with = json.loads((REFERENCES / MADE_WITH).read_text(encoding="utf-8"))
    pictures = [
        Screenshot(name, Image.open(REFERENCES / f"{name}.webp").convert("RGB"), height)
        for name, height in made_with["heights"].items()
    ]
    return Screenshots(made_with, tuple(pictures))


def write_references(screenshots: Screenshots) -> None:
    """Write the pictures over those of docs/screenshots."""
    shutil.rmtree(REFERENCES, ignore_errors=True)
    REFERENCES.mkdir(parents=True)
    for picture in screenshots.pictures:
        picture.image.save(REFERENCES / f"{picture.name}.webp", quality=_QUALITY, method=6)
    made_with = json.dumps(screenshots.made_with, indent=1)
    (REFERENCES / MADE_WITH).write_text(made_with + "\n", encoding="utf-8")


def _scored_run(folder: Path) -> Path:
    mini = ROOT / "data" / "mini"
    run = folder / _RUN
    predict(mini / "mini.json", out=run)
    score(run, ScoreSettings(key=mini / "mini_key.json"))
    return run


def _pages() -> dict[str, Callable[[Any, str], None]]:
    return {
        "run": lambda page, url: page.goto(page_url(url, f"runs/{_RUN}")),
        "case": lambda page, url: page.goto(page_url(url, f"runs/{_RUN}/cases/0")),
        "review": lambda page, url: page.goto(page_url(url, f"runs/{_RUN}/review/0")),
        "ask": lambda page, url: page.goto(url),
        "answer": _ask,
    }


def _ask(page: Any, url: str) -> None:
    case = _first_case()
    page.goto(url)
    page.fill("#question", case.clinician_question)
    page.fill("#note", "\n".join(sentence.text for sentence in case.sentences))
    page.locator("button.main").first.click()
    page.locator("ol.answer").wait_for(timeout=60_000)


def _first_case() -> Case:
    case = load_cases(ROOT / "data" / "mini" / "mini.json")[0]
    assert isinstance(case, Case)
    return case


def _take(
    name: str, url: str, visit: Callable[[Any, str], None], width: int, scheme: str
) -> Screenshot:
    with _opened(url, width, scheme) as page:
        visit(page, url)
        height = page.evaluate("document.documentElement.scrollHeight")
        return Screenshot(name, _picture(page.screenshot(animations="disabled")), height)


def _readme_picture(url: str) -> Screenshot:
    """Return the first case as a whole, from its question to the last line of its note."""
    with _opened(url, SIZES[0], "light") as page:
        _pages()["case"](page, url)
        main = page.locator("#main")
        image = _picture(main.screenshot(animations="disabled"))
        return Screenshot(README_PICTURE, image, image.height)
