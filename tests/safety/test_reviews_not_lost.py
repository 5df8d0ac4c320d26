"""A review that cannot be saved stays on the page, and never overwrites what it cannot read."""

import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from archqa.settings import Settings
from archqa.web.app import WebConfig, create_app
from tests.report.synthetic_runs import cases_with_specialties, create_run
from tests.safety.storage_tools import files_of_at_most, tree

REVIEW = {"thumb": "down", "label-0": "essential", "answer": 'Because of <b>"fluid"</b>.\n'}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    create_run(tmp_path / "runs", cases_with_specialties(2, sentences=3), name="one")
    return tmp_path / "runs"


@pytest.fixture
async def client(runs: Path) -> AsyncIterator[httpx2.AsyncClient]:
    app = create_app(WebConfig([runs]), settings=Settings())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484") as client:
        yield client


async def post(client: httpx2.AsyncClient) -> httpx2.Response:
    page = (await client.get("/")).text
    token = re.search(r'name="form_token" value="([^"]+)"', page)
    assert token
    form = {**REVIEW, "form_token": token[1]}
    return await client.post("/runs/one/review/0", data=form)


def fields(page: str) -> dict[str, str]:
    """The form of a page, as a browser would send it."""
    hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page)
    (answer,) = re.findall(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)
    values = {name: html.unescape(value) for name, value in hidden}
    return values | {"answer": html.unescape(answer)}


async def test_a_review_on_a_full_disk_stays_on_the_page_and_is_saved_from_there(
    client: httpx2.AsyncClient, runs: Path
) -> None:
    with files_of_at_most(10):
        response = await post(client)
    assert response.status_code == 507
    assert "File too large" in response.text
    form = fields(response.text)
    assert form.items() >= REVIEW.items()
    assert tree(runs / "annotations") == {}
    (action,) = re.findall(r'<form method="post" action="([^"]*)"', response.text)
    assert (await client.post(action, data=form)).status_code == 303
    (key,) = (runs / "annotations").glob("*_key.json")
    assert json.loads(key.read_text())[0]["clinician_answer"] == REVIEW["answer"].strip()


async def test_a_file_in_the_place_of_the_annotations_is_named_on_the_page(
    client: httpx2.AsyncClient, runs: Path
) -> None:
    (runs / "annotations").write_text("a file")
    response = await post(client)
    assert response.status_code == 507
    assert "annotations cannot be read or written" in response.text
    assert (runs / "annotations").read_text() == "a file"


@pytest.mark.parametrize("damage", ["", "{", '{"case_id": "1"}', "[1]", "[" * 100_000])
async def test_a_damaged_file_of_reviews_is_not_overwritten(
    damage: str, client: httpx2.AsyncClient, runs: Path
) -> None:
    assert (await post(client)).status_code == 303
    (key,) = (runs / "annotations").glob("*_key.json")
    key.write_text(damage)
    response = await post(client)
    assert response.status_code == 507
    assert fields(response.text).items() >= REVIEW.items()
    assert key.read_text() == damage
    page = await client.get("/runs/one/review/0")
    assert (page.status_code, "is not a file of reviews" in page.text) == (200, True)
