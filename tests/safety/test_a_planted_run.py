"""A run folder of somebody else sends no token and no search to the servers that it names."""

import json
from pathlib import Path

import pytest

from tests.safety.command_line import CommandResult, archqa
from tests.safety.raw_server import RawServer, json_response

TOKEN = "fhir-canary"
BUNDLE = json.dumps({"resourceType": "Bundle", "total": 0})
QUESTION = {
    "kind": "record",
    "id": "q1",
    "question_id": "q1",
    "question": "What is the last creatinine?",
    "patient_fhir_id": "p1",
}


@pytest.fixture
def planted_run(tmp_path: Path) -> Path:
    """A batch run that was turned into one over a record, before a server is put into it."""
    run = tmp_path / "run"
    words = ["batch", "submit", "mini", "--model", "m", "--offline", "--limit", "1"]
    result = archqa(*words, "--out", str(run))
    assert result.returncode == 0, result.stderr
    return run


def point_to(run: Path, url: str) -> None:
    manifest = json.loads((run / "run.json").read_text())
    manifest |= {
        "task": "fhir-agentbench",
        "pipeline": "retrieve-all",
        "case_ids": ["q1"],
    }
    manifest["settings"] |= {"record": url, "pipelines": {}}
    (run / "run.json").write_text(json.dumps(manifest))
    (run / "input.jsonl").write_text(json.dumps(QUESTION) + "\n")


def go_on(run: Path, **variables: str) -> CommandResult:
    words = ["batch", "submit", str(run), "--offline"]
    return archqa(*words, ARCHQA_FHIR_TOKEN=TOKEN, **variables)


def test_a_batch_does_not_search_a_record_that_only_its_folder_names(
    planted_run: Path,
) -> None:
    with RawServer(lambda _: json_response(BUNDLE)) as server:
        point_to(planted_run, f"{server.url}/fhir?key=canary")
        result = go_on(planted_run)
    assert server.requests == []
    assert result.returncode == 2, result.stderr
    assert f"127.0.0.1:{server.port}" in result.stderr
    assert "ARCHQA_RECORD" in result.stderr
    assert "canary" not in result.stderr


def test_a_batch_searches_a_record_that_its_user_names_too(planted_run: Path) -> None:
    with RawServer(lambda _: json_response(BUNDLE)) as server:
        record = f"{server.url}/fhir"
        point_to(planted_run, record)
        result = go_on(planted_run, ARCHQA_RECORD=record)
    assert result.returncode == 0, result.stderr
    assert server.requests


def test_a_batch_does_not_write_to_the_record_that_its_folder_names(
    planted_run: Path, tmp_path: Path
) -> None:
    manifest = json.loads((planted_run / "run.json").read_text())
    manifest |= {"task": "medagentbench", "pipeline": "typed"}
    settings = {
        "record": str(tmp_path / "mine.db"),
        "pipelines": {"typed": {"writes": "apply"}},
    }
    manifest["settings"] |= settings
    (planted_run / "run.json").write_text(json.dumps(manifest))
    result = go_on(planted_run)
    assert result.returncode == 2, result.stderr
    assert "A batch writes to no record." in result.stderr
