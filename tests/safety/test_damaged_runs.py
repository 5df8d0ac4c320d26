"""A damaged run is one error and exit 3, or one page; other runs are shown as ever."""

from pathlib import Path

import httpx2
import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from archqa.evaluation.scoring import ScoreSettings, score
from archqa.settings import Settings
from archqa.web import WebConfig, create_app
from tests.safety.command_line import archqa, synthetic_run
from tests.safety.damaged_runs import EXAMPLES, damages

PAGES = ("/runs/damaged", "/compare?first=damaged&second=two", "/runs/damaged/review/0")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    one = synthetic_run(folder, name="one")
    synthetic_run(folder, name="two")
    score(one, settings=ScoreSettings(metrics=("strict_micro_f1",), bootstrap=0))
    return folder


def test_the_examples_of_damages_are_made(runs: Path) -> None:
    made = [description for description, _ in damages(runs / "one")]
    assert set(made) >= EXAMPLES
    assert len(made) > len(EXAMPLES) + 5


@pytest.mark.parametrize("command", ["report", "show", "show case", "compare"])
def test_a_command_on_a_damaged_run_ends_with_one_error(
    runs: Path, command: str
) -> None:
    name, _, case = command.partition(" ")
    arguments = ["s1"] if case else [str(runs / "two")] if name == "compare" else []
    refused = 0
    for description, run in damages(runs / "one"):
        result = archqa(name, str(run), *arguments)
        assert result.returncode in {0, 2, 3}, description
        if result.returncode == 2:
            is_right = (
                "has no case" in result.stderr or "Name it with --key" in result.stderr
            )
            assert is_right, description
        if result.returncode:
            assert len(result.stderr.splitlines()) <= 4, (description, result.stderr)
            refused += 1
    assert refused >= 5


def test_a_damaged_run_is_listed_with_the_others(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)
    damaged = 0
    for description, _ in damages(runs / "one"):
        result = archqa("list", "runs")
        assert result.returncode == 0, description
        assert "runs/two  finished  2 of 2 cases" in result.stdout, description
        damaged += "runs/damaged  damaged: " in result.stdout
    assert damaged >= 3


async def test_pages_of_a_damaged_run_say_so_and_those_of_others_are_shown(
    runs: Path,
) -> None:
    refused = 0
    for description, _ in damages(runs / "one"):
        app = create_app(WebConfig([runs]), settings=Settings())
        transport = httpx2.ASGITransport(app=app)  # type: ignore[arg-type]
        base = "http://127.0.0.1:8484"
        async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
            index = await client.get("/")
            assert index.status_code == 200, description
            assert 'href="/runs/two"' in index.text, description
            is_listed = 'href="/runs/damaged"' in index.text
            assert is_listed or "damaged cannot be read" in index.text, description
            for page in PAGES:
                response = await client.get(page)
                # 303: a review asks who reviews before it reads the run.
                assert response.status_code in {200, 303, 404, 422}, (description, page)
                refused += response.status_code == 422
                if response.status_code == 422:
                    assert "This cannot be shown" in response.text
    assert refused > 10
