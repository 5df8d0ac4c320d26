"""A review that cannot be saved stays on the page, and never overwrites what it cannot read."""

import json
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from archqa.settings import Settings
from archqa.web import WebConfig, create_app
from tests.report.synthetic_runs import cases_with_specialties, create_run
from tests.safety.storage_tools import files_of_at_most, tree
from tests.web.review_client import ReviewClient, form_fields

PAGE = "/runs/one/review/0"
BETTER_ANSWER = 'Because of <b>"fluid"</b>.'
REVIEW = {
    "answer_right": "no",
    "sentence__1": "essential",
    "better_answer": BETTER_ANSWER,
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    create_run(tmp_path / "runs", cases_with_specialties(2, sentences=3), name="one")
    return tmp_path / "runs"


@pytest.fixture
def client(runs: Path) -> ReviewClient:
    return ReviewClient(create_app(WebConfig([runs]), settings=Settings()), "Anna")


def log_of(runs: Path) -> Path:
    """The log of the reviews."""
    (log,) = (runs / "annotations").glob("*.reviews.jsonl")
    return log


async def test_a_review_on_a_full_disk_stays_on_the_page_and_is_saved_from_there(
    client: ReviewClient, runs: Path
) -> None:
    with files_of_at_most(10):
        response = await client.save(PAGE, **REVIEW)
    assert response.status_code == 507
    assert "File too large" in response.text
    kept = form_fields(response.text)
    assert kept["field-better_answer"] == BETTER_ANSWER
    assert kept["field-sentence/1"] == "essential"
    assert "fluid" not in json.dumps(tree(runs / "annotations"), default=str)
    assert (await client.post(PAGE, kept)).status_code == 303
    said = [json.loads(line) for line in log_of(runs).read_text().splitlines()]
    assert BETTER_ANSWER in [event["value"] for event in said]


async def test_a_file_in_the_place_of_the_annotations_is_named_on_the_page(
    client: ReviewClient, runs: Path
) -> None:
    form = await client.form(PAGE)
    (runs / "annotations").write_text("a file")
    response = await client.post(PAGE, form, **REVIEW)
    assert response.status_code == 507
    assert "annotations cannot be read or written" in response.text
    assert (runs / "annotations").read_text() == "a file"


@pytest.mark.parametrize(
    "damage", ["{\n", '{"case_id": "1"}\n', "[1]\n", "[" * 100_000 + "\n"]
)
async def test_a_damaged_file_of_reviews_is_not_overwritten(
    damage: str, client: ReviewClient, runs: Path
) -> None:
    form = await client.form(PAGE)
    assert (await client.post(PAGE, form, **REVIEW)).status_code == 303
    log_of(runs).write_text(damage)
    response = await client.post(PAGE, form, **REVIEW)
    assert response.status_code == 507
    assert form_fields(response.text)["field-better_answer"] == BETTER_ANSWER
    assert log_of(runs).read_text() == damage
