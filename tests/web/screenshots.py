"""The reference screenshots of the pages: `python -m tests.web.screenshots` makes them anew.

They show the three fictional cases of data/mini (CC0), answered by the embedded engine, and lie in
docs/screenshots. `made-with.json` there says with which font and which answers: on a machine where
these differ, the pages cannot be compared (`tests/web/test_screenshots.py`).
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from archqa import predict, score
from tests.conftest import ROOT
from tests.web.browser import close_browser, open_page
from tests.web.served import page_url, served

REFERENCES = ROOT / "docs" / "screenshots"
MADE_WITH = "made-with.json"
README_PICTURE = "readme"
SIZES = (1440, 390)
SCHEMES = ("light", "dark")
_HEIGHT = 1200
_README_HEIGHT = 2600
"""So high that no part of a case scrolls."""
_MARGIN = 24
_BOXES = "all => all.map(one => one.getBoundingClientRect().toJSON())"
_QUALITY = 70
_RUN = "mini"
_REVIEWER = "Reviewer"

Visit = Callable[[Any, str], Any]
"""Opens a page of the server with this URL."""


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
        for (page, visit), width, scheme in product(_pages().items(), SIZES, SCHEMES):
            pictures.append(_take(f"{page}-{width}-{scheme}", url, visit, width, scheme))
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
    run = predict(mini / "mini.json", out=folder / _RUN)
    score(run.path, key=mini / "mini_key.json")
    return run.path


def _pages() -> dict[str, Visit]:
    return {"run": _run, "case": _case, "review": _review, "ask": _ask, "answer": _answer}


def _run(page: Any, url: str) -> None:
    page.goto(page_url(url, f"runs/{_RUN}"))


def _case(page: Any, url: str) -> None:
    reply = page.goto(page_url(url, f"runs/{_RUN}/cases/0"))
    if reply.status == 404:  # Cases without a page of their own are parts of their run's page.
        page.goto(page_url(url, f"runs/{_RUN}") + "#c1")


def _review(page: Any, url: str) -> None:
    page.goto(page_url(url, f"runs/{_RUN}/review/0"))


def _ask(page: Any, url: str) -> None:
    page.goto(url)


def _answer(page: Any, url: str) -> None:
    case = json.loads((ROOT / "data" / "mini" / "mini.json").read_text(encoding="utf-8"))[0]
    page.goto(url)
    page.fill("#question", case["clinician_question"])
    page.fill("#note", "\n".join(sentence["text"] for sentence in case["sentences"]))
    page.locator("form[action='/ask'] button.main").click()
    page.locator("ol.answer").wait_for(timeout=60_000)


def _take(name: str, url: str, visit: Visit, width: int, scheme: str) -> Screenshot:
    with _opened(url, width, scheme) as page:
        visit(page, url)
        height = page.evaluate("document.documentElement.scrollHeight")
        return Screenshot(name, _image(page.screenshot(animations="disabled")), height)


def _readme_picture(url: str) -> Screenshot:
    """Return the first case as a whole: its question, its answer, and its note."""
    with _opened(url, SIZES[0], "light", height=_README_HEIGHT) as page:
        _case(page, url)
        boxes = page.locator("header.case-head, .beside, article.case").evaluate_all(_BOXES)[:2]
        top = min(box["top"] for box in boxes) - _MARGIN
        bottom = max(box["bottom"] for box in boxes) + _MARGIN
        clip = {"x": 0, "y": top, "width": SIZES[0], "height": bottom - top}
        image = _image(page.screenshot(animations="disabled", full_page=True, clip=clip))
        return Screenshot(README_PICTURE, image, image.height)


@contextmanager
def _opened(url: str, width: int, scheme: str, height: int = _HEIGHT) -> Iterator[Any]:
    """Open a page with the name of a reviewer, which the review pages ask for."""
    with open_page(width, scheme, height=height, reduced_motion="reduce") as recorded:
        host = page_url(url, "").split("?", 1)[0]
        cookie = {"name": "archqa_reviewer", "value": _REVIEWER, "url": host}
        recorded.page.context.add_cookies([cookie])
        yield recorded.page


def _image(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


def _font(url: str) -> str:
    """Return the face that the browser takes for the text of a page."""
    with _opened(url, SIZES[0], "light") as page:
        page.goto(url)
        session = page.context.new_cdp_session(page)
        session.send("DOM.enable")
        session.send("CSS.enable")
        document = session.send("DOM.getDocument")
        selected = {"nodeId": document["root"]["nodeId"], "selector": "h1"}
        node = session.send("DOM.querySelector", selected)
        fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": node["nodeId"]})["fonts"]
        return str(fonts[0]["familyName"])


def main() -> None:
    """Make all reference screenshots anew."""
    with tempfile.TemporaryDirectory() as folder:
        write_references(take_screenshots(Path(folder)))
    close_browser()
    size = sum(path.stat().st_size for path in REFERENCES.iterdir())
    print(f"{REFERENCES}: {size / 1000:.0f} kB; look at the pictures before you commit them.")


if __name__ == "__main__":
    main()
