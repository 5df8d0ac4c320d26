"""Runs as rows and FHIR Bundles, read by the tools that they are for."""

import json
import stat
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from archqa.evaluation.scoring import score
from archqa.fhir import Store
from archqa.llm.scripted import ScriptedModel
from archqa.runs.export import export
from archqa.runs.predict import predict
from archqa.runs.run import Run
from archqa.settings import load_settings
from tests.cli.test_commands import MINI, archqa
from tests.runs.conftest import default_reply
from tests.runs.fhir_questions import VISITS, run_embedded


@pytest.fixture
def note_run(tmp_path: Path) -> Run:
    settings = load_settings(typed={"model": "gpt-4.1"})
    model = ScriptedModel(default_reply)
    return predict(MINI, settings=settings, out=tmp_path / "run", scripted=model)


@pytest.fixture
def record_run(questions: Path, record: Path, tmp_path: Path) -> Run:
    return run_embedded(questions, record, tmp_path / "record-run")


def test_a_row_has_the_question_the_answer_and_the_text_of_what_it_cites(
    note_run: Run,
) -> None:
    rows = [json.loads(line) for line in export(note_run.path, "jsonl").splitlines()]
    cases = {case.id: case for case in note_run.notes}
    assert [row["id"] for row in rows] == list(cases)
    for row in rows:
        case = cases[row["id"]]
        assert row["question"] == case.clinician_question
        assert row["answer"] == "\n".join(line["text"] for line in row["lines"])
        assert {one["id"]: one["text"] for one in row["evidence"]} == {
            name: case.text_of[name] for name in row["citations"]
        }
        assert row["scores"] is None


def test_rows_of_a_scored_run_have_the_scores_of_their_cases(note_run: Run) -> None:
    report = score(note_run.path)
    out = note_run.path.parent / "data.jsonl"
    result = archqa(
        "export", str(note_run.path), "--format", "jsonl", "--out", str(out)
    )
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    for row in rows:
        expected = report.scores.per_case[row["id"]]["strict_micro_f1"]
        assert row["scores"]["strict_micro_f1"] == pytest.approx(expected)


def test_rows_of_questions_to_a_record_have_patient_and_resources(
    record_run: Run,
) -> None:
    rows = pd.read_json(StringIO(export(record_run.path, "jsonl")), lines=True)
    assert list(rows["patient"]) == ["p", "p", "p"]
    visits = rows["evidence"][0]
    assert {one["id"] for one in visits} == {f"Encounter/{visit}" for visit in VISITS}
    assert all(one["text"] for one in visits)


def test_every_row_has_the_same_keys(record_run: Run, note_run: Run) -> None:
    keys = set()
    for run in (record_run, note_run):
        for line in export(run.path, "jsonl").splitlines():
            keys.add(tuple(json.loads(line)))
    assert len(keys) == 1


def test_rows_are_readable_by_their_owner_alone(note_run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    result = archqa(
        "export", str(note_run.path), "--format", "jsonl", "--out", str(out)
    )
    assert result.returncode == 0, result.stderr
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_run_on_notes_has_no_bundle(note_run: Run) -> None:
    result = archqa("export", str(note_run.path), "--format", "fhir-bundle")
    assert (result.returncode, result.stdout) == (2, "")
    assert "run on notes" in result.stderr


def test_a_record_runs_bundle_says_which_resources_each_answer_cites(
    record_run: Run,
) -> None:
    bundle = json.loads(export(record_run.path, "fhir-bundle"))
    resources = {entry["fullUrl"]: entry["resource"] for entry in bundle["entry"]}
    cited = {}
    for provenance in resources.values():
        if provenance["resourceType"] != "Provenance":
            continue
        response = resources[provenance["target"][0]["reference"]]
        assert response["subject"] == {"reference": "Patient/p"}
        who = resources[provenance["agent"][0]["who"]["reference"]]
        assert who["deviceName"][0]["name"] == "archqa"
        references = {one["what"]["reference"] for one in provenance.get("entity", ())}
        cited[response["item"][0]["text"]] = references
    visits, gender, _ = (item.question for item in record_run.cases)  # type: ignore[union-attr]
    assert cited[visits] == {f"Encounter/{visit}" for visit in VISITS}
    assert cited[gender] == {"Patient/p"}
    assert export(record_run.path, "fhir-bundle") == export(
        record_run.path, "fhir-bundle"
    )


def test_a_bundle_is_valid_fhir_and_can_be_loaded(
    record_run: Run, tmp_path: Path
) -> None:
    r4b = pytest.importorskip(
        "fhir.resources.R4B.bundle", reason="needs fhir.resources"
    )
    text = export(record_run.path, "fhir-bundle")
    bundle = r4b.Bundle.model_validate_json(text)
    assert bundle.type == "collection"
    path = tmp_path / "bundle.json"
    path.write_text(text, encoding="utf-8")
    with Store.open(tmp_path / "answers.db", create=True) as store:
        store.load([path], strict=True)
        assert store.counts()["Provenance"] == len(record_run.records)
        answered = store.search("QuestionnaireResponse?subject=Patient/p")
    assert answered.total == len(record_run.records)
