"""The reference screenshots of the pages: `python -m tests.web.screenshots` makes them anew.

They show the three fictional cases of data/mini (CC0), answered by the embedded engine, and lie in
docs/screenshots. `made-with.json` there says with which font and which answers: on a machine where
these differ, the pages cannot be compared (`tests/web/test_screenshots.py`).
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

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
_MARGIN = 10
_BOXES = "all => all.map(one => one.getBoundingClientRect().toJSON())"
_WHOLE_HEIGHT = """() => {
    document.querySelectorAll("article").forEach(one => one.style.contentVisibility = "visible");
    return document.documentElement.scrollHeight;
}"""
"""The height of the page, also of parts that the browser has not laid out yet."""
_LOADED = "networkidle"
"""A run page asks for its rows after it was loaded, and is higher with them."""
_QUALITY = 70
_RUN = "mini"
_REVIEWER = "Reviewer"

Look = tuple[int, str]
"""The width of the window and the color scheme."""

LOOKS: tuple[Look, ...] = tuple(product(SIZES, SCHEMES))


class Screenshot(NamedTuple):
    """One picture of a page; `total_height` is that of the whole page."""

    name: str
    image: Image.Image
    total_height: int


class Screenshots(NamedTuple):
    """All pictures, and what decides what they look like beside the pages themselves."""

    made_with: dict[str, Any]
    pictures: tuple[Screenshot, ...]


def take_screenshots(folder: Path, looks: Sequence[Look] = LOOKS) -> Screenshots:
    """Answer the cases of data/mini in a folder, and take a picture of each page in each look."""
    run = _scored_run(folder)
    with served(folder) as url:
        addresses = {name: page_url(url, path) for name, path in _pages(url).items()}
        pictures = [_readme_picture(addresses["case"])]
        for (name, address), (width, scheme) in product(addresses.items(), looks):
            pictures.append(_take(f"{name}-{width}-{scheme}", address, width, scheme))
        font = _font(url)
    answers = hashlib.sha256((run / "submission.json").read_bytes()).hexdigest()
    heights = {picture.name: picture.total_height for picture in pictures}
    return Screenshots(
        {"font": font, "answers": answers, "heights": heights}, tuple(pictures)
    )


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
        picture.image.save(
            REFERENCES / f"{picture.name}.webp", quality=_QUALITY, method=6
        )
    made_with = json.dumps(screenshots.made_with, indent=1)
    (REFERENCES / MADE_WITH).write_text(made_with + "\n", encoding="utf-8")


def _scored_run(folder: Path) -> Path:
    mini = ROOT / "data" / "mini"
    run = predict(mini / "mini.json", out=folder / _RUN)
    score(run.path, key=mini / "mini_key.json")
    return run.path


def _pages(url: str) -> dict[str, str]:
    """Return the path of each page on the server; the first case is asked about for one of them."""
    return {
        "run": f"runs/{_RUN}",
        "case": f"runs/{_RUN}/cases/0",
        "review": f"runs/{_RUN}/review/0",
        "ask": "",
        "answer": _ask_first_case(url),
    }


def _ask_first_case(url: str) -> str:
    """Paste the note of the first case, ask its question, and return the path of the answer."""
    mini = (ROOT / "data" / "mini" / "mini.json").read_text(encoding="utf-8")
    case = json.loads(mini)[0]
    with _opened(url) as page:
        page.goto(url)
        page.fill("#question", case["clinician_question"])
        page.fill(
            "#note", "\n".join(sentence["text"] for sentence in case["sentences"])
        )
        page.locator("form[action='/ask'] button.main").click()
        page.locator("article ol.answer").wait_for(timeout=60_000)
        return urlsplit(page.url).path.removeprefix("/")


def _take(name: str, address: str, width: int, scheme: str) -> Screenshot:
    with _opened(address, width, scheme) as page:
        page.goto(address, wait_until=_LOADED)
        height = page.evaluate(_WHOLE_HEIGHT)
        return Screenshot(name, _image(page.screenshot(animations="disabled")), height)


def _readme_picture(address: str) -> Screenshot:
    """Return the first case as a whole: its question, its answer, and its note."""
    with _opened(address, height=_README_HEIGHT) as page:
        page.goto(address, wait_until=_LOADED)
        page.evaluate(_WHOLE_HEIGHT)
        parts = page.locator(".case-head, .beside")
        boxes = parts.evaluate_all(_BOXES)
        top = min(box["top"] for box in boxes) - _MARGIN
        bottom = max(box["bottom"] for box in boxes) + _MARGIN
        clip = {"x": 0, "y": top, "width": SIZES[0], "height": bottom - top}
        image = _image(
            page.screenshot(animations="disabled", full_page=True, clip=clip)
        )
        return Screenshot(README_PICTURE, image, image.height)


@contextmanager
def _opened(
    url: str, width: int = SIZES[0], scheme: str = SCHEMES[0], height: int = _HEIGHT
) -> Iterator[Any]:
    """Open a page with the name of a reviewer, which the review pages ask for."""
    with open_page(width, scheme, height=height, reduced_motion="reduce") as recorded:
        cookie = {"name": "archqa_reviewer", "value": _REVIEWER, "url": url}
        recorded.page.context.add_cookies([cookie])
        yield recorded.page


def _image(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


def _font(url: str) -> str:
    """Return the face that the browser takes for the text of a page."""
    with _opened(url) as page:
        page.goto(url)
        session = page.context.new_cdp_session(page)
        session.send("DOM.enable")
        session.send("CSS.enable")
        document = session.send("DOM.getDocument")
        selected = {"nodeId": document["root"]["nodeId"], "selector": "h1"}
        node = session.send("DOM.querySelector", selected)
        fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": node["nodeId"]})[
            "fonts"
        ]
        return str(fonts[0]["familyName"])


def main() -> None:
    """Make all reference screenshots anew."""
    with tempfile.TemporaryDirectory() as folder:
        write_references(take_screenshots(Path(folder)))
    close_browser()
    size = sum(path.stat().st_size for path in REFERENCES.iterdir())
    print(
        f"{REFERENCES}: {size / 1000:.0f} kB; look at the pictures before you commit them."
    )


if __name__ == "__main__":
    main()
