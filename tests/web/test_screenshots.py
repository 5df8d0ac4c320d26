"""The pages look like their reference screenshots, apart from what fonts and rounding change.

After a change of the looks: `python -m tests.web.screenshots`, look at the pictures, commit them.
"""

from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat

from tests.web.browser import require_chromium
from tests.web.screenshots import (
    REFERENCES,
    SCHEMES,
    SIZES,
    Screenshots,
    read_references,
    take_screenshots,
)

COMPARED_LOOKS = [(1440, "light"), (390, "dark")]
"""Every width and every color scheme once, as taking a picture takes a second."""

GRID = (12, 16)
"""Cells of a picture that are compared by their mean color, which a moved line hardly changes."""

MEAN_TOLERANCE = 1.5
"""Of 255; a page without any of its text differs by 3."""

CELL_TOLERANCE = 32
HEIGHT_TOLERANCE = 0.1


@pytest.fixture(scope="module")
def references() -> Screenshots:
    return read_references()


@pytest.fixture(scope="module")
def screenshots(
    tmp_path_factory: pytest.TempPathFactory, references: Screenshots
) -> Screenshots:
    """The pages as they are now; skipped where font or processor make others of them."""
    require_chromium()
    taken = take_screenshots(tmp_path_factory.mktemp("pages"), COMPARED_LOOKS)
    for what in ("font", "answers"):
        if taken.made_with[what] != references.made_with[what]:
            pytest.skip(f"the reference screenshots were made with other {what}")
    return taken


def difference(one: Image.Image, other: Image.Image) -> tuple[float, float]:
    """Return the mean and the largest difference of the cells of two pictures, from 0 to 255."""
    coarse = [
        image.convert("L").resize(GRID, Image.Resampling.BOX) for image in (one, other)
    ]
    cells = ImageChops.difference(*coarse)
    statistics = ImageStat.Stat(cells)
    return statistics.mean[0], statistics.extrema[0][1]


@pytest.mark.browser
def test_the_pages_look_like_their_reference_screenshots(
    screenshots: Screenshots, references: Screenshots
) -> None:
    expected = {picture.name: picture for picture in references.pictures}
    assert {picture.name for picture in screenshots.pictures} <= set(expected)
    different = []
    for picture in screenshots.pictures:
        reference = expected[picture.name]
        mean, largest = difference(picture.image, reference.image)
        height_change = abs(picture.total_height / reference.total_height - 1)
        if (
            mean > MEAN_TOLERANCE
            or largest > CELL_TOLERANCE
            or height_change > HEIGHT_TOLERANCE
        ):
            different.append(
                f"{picture.name}: {mean:.1f}, {largest}, {height_change:.0%}"
            )
    assert different == [], "if this is wanted: python -m tests.web.screenshots"


def test_the_comparison_sees_a_page_without_its_style(references: Screenshots) -> None:
    light = next(
        picture for picture in references.pictures if picture.name == "run-1440-light"
    )
    dark = next(
        picture for picture in references.pictures if picture.name == "run-1440-dark"
    )
    assert difference(light.image, dark.image)[0] > 10 * MEAN_TOLERANCE
    blank = Image.new("RGB", light.image.size, "#fbfaf7")
    assert difference(light.image, blank)[0] > MEAN_TOLERANCE
    moved = ImageChops.offset(light.image, 1, 1)
    assert difference(light.image, moved)[0] < MEAN_TOLERANCE / 4


def test_the_references_are_small_and_of_every_page_and_look() -> None:
    pages = ("run", "case", "ask", "answer", "review")
    names = {
        f"{page}-{size}-{scheme}.webp"
        for page in pages
        for size in SIZES
        for scheme in SCHEMES
    }
    files = [path for path in Path(REFERENCES).iterdir() if path.suffix == ".webp"]
    assert {path.name for path in files} == {*names, "readme.webp"}
    assert sum(path.stat().st_size for path in files) < 1_500_000
