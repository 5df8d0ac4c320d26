"""One question about one note or one patient, answered with its evidence."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from archqa.ask.chart import ask_patient
from archqa.ask.note import AskResult, EvidenceLine, ask_note
from archqa.cli.main import app
from archqa.errors import CallerError
from archqa.fhir import Store
from archqa.notes.documents import patient_documents
from archqa.settings import Settings

NOTE = (
    "Brief Hospital Course:\n"
    "# Acute kidney injury: creatinine rose to 4.1 after omeprazole was begun; biopsy showed interstitial nephritis.\n"
    "Omeprazole was stopped and prednisone started.\n"
    "# GERD: famotidine in place of omeprazole."
)


def _attachment(text: str, **more: Any) -> dict[str, Any]:
    return {"contentType": "text/plain", "data": base64.b64encode(text.encode()).decode(), **more}


def _document(
    each: str, *attachments: dict[str, Any], patient: str = "p1", **more: Any
) -> dict[str, Any]:
    return {
        "resourceType": "DocumentReference",
        "id": each,
        "status": "current",
        "subject": {"reference": f"Patient/{patient}"},
        "content": [{"attachment": attachment} for attachment in attachments],
        **more,
    }


def _observation(each: str, value: float, day: int) -> dict[str, Any]:
    coding = [
        {
            "system": "http://mimic.mit.edu/fhir/mimic/CodeSystem/mimic-d-labitems",
            "code": "50912",
            "display": "Creatinine",
        }
    ]
    category = [
        {
            "coding": [
                {
                    "system": "http://terminology.hl7.org/CodeSystem/observation-category",
                    "code": "laboratory",
                }
            ]
        }
    ]
    return {
        "resourceType": "Observation",
        "id": each,
        "status": "final",
        "category": category,
        "code": {"coding": coding},
        "subject": {"reference": "Patient/p1"},
        "effectiveDateTime": f"2150-03-0{day}T06:00:00-05:00",
        "valueQuantity": {
            "value": value,
            "unit": "mg/dL",
            "system": "http://unitsofmeasure.org",
            "code": "mg/dL",
        },
    }


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return small_record(tmp_path)


def small_record(folder: Path) -> Path:
    """A store of two patients: one with two creatinine values and notes, one with a note."""
    resources = [
        {"resourceType": "Patient", "id": "p1"},
        {"resourceType": "Patient", "id": "p2"},
        _observation("o1", 4.1, 1),
        _observation("o2", 2.9, 4),
        _document("d1", _attachment(NOTE), date="2150-03-05T10:00:00Z"),
        _document("d2", {"contentType": "application/pdf", "data": "JVBERi0="}),
        _document(
            "d3",
            {"contentType": "text/plain; charset=utf-8", "url": "Binary/b1"},
            date="2149-01-01",
        ),
        _document("d4", _attachment("Written by mistake."), status="entered-in-error"),
        _document("d5", _attachment("Of somebody else."), patient="p2"),
        {
            "resourceType": "Binary",
            "id": "b1",
            "contentType": "text/plain",
            "data": base64.b64encode(b"No allergies.").decode(),
        },
    ]
    file = folder / "all.ndjson"
    file.write_text("".join(json.dumps(each) + "\n" for each in resources))
    path = folder / "record.db"
    with Store.open(path, create=True) as store:
        store.load([file])
    return path


def test_a_note_is_answered_with_sentences_of_it() -> None:
    steps = []
    answered = ask_note("Why did the creatinine rise?", NOTE, Settings(), on_step=steps.append)
    assert answered.claims
    cited = {each for claim in answered.claims for each in claim.citations}
    assert {each.id for each in answered.evidence} == cited
    for each in answered.evidence:
        assert each.start_char_index is not None
        assert NOTE[each.start_char_index :].startswith(each.text)
        assert 0 <= (each.probability or -1) <= 1
    assert steps[-1].agent == "decision"
    assert answered.performer.startswith("embedded:")


def test_the_command_prints_answer_evidence_and_probability(tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text(NOTE)
    done = CliRunner().invoke(app, ["ask", "Why did the creatinine rise?", "--note", str(file)])
    assert done.exit_code == 0
    assert "Evidence" in done.stdout
    assert "probability" in done.stdout
    plain = CliRunner().invoke(
        app, ["ask", "Why did the creatinine rise?", "--note", str(file), "--json"]
    )
    told = json.loads(plain.stdout)
    assert told["answer"].splitlines()[0].endswith("|")
    assert {each["id"] for each in told["evidence"]} == {
        each for claim in told["claims"] for each in claim["citations"]
    }


def test_wrong_calls_are_told_in_a_sentence(tmp_path: Path) -> None:
    runner = CliRunner()
    odd = tmp_path / "odd.txt"
    odd.write_bytes(b"caf\xe9")
    calls = (
        ["ask", "Why?"],
        ["ask", "Why?", "--note", "a", "--patient", "b"],
        ["ask", "Why?", "--patient", "b"],
    )
    assert all(isinstance(runner.invoke(app, call).exception, CallerError) for call in calls)
    wrong = runner.invoke(app, ["ask", "Why?", "--note", str(odd)])
    assert "byte 4 is not UTF-8" in str(wrong.exception)
    assert "caf" not in str(wrong.exception)


def test_the_notes_of_a_patient_are_read_latest_first_and_whole(record: Path) -> None:
    with Store.open(record) as store:
        found = patient_documents(store, "Patient/p1")
    assert [each.name for each in found.found] == ["DocumentReference/d1", "DocumentReference/d3"]
    assert [each.text for each in found.found] == [NOTE, "No allergies."]
    assert found.unreadable == 1


def test_one_answer_cites_resources_and_notes(record: Path) -> None:
    answered = ask_patient("What was the last creatinine measured?", "p1", record, Settings())
    kinds: dict[str, list[EvidenceLine]] = {}
    for each in answered.evidence:
        kinds.setdefault(each.kind, []).append(each)
    assert [each.id for each in kinds["resource"]] == ["Observation/o2"]
    assert "2.9" in answered.claims[0].text
    assert _cites_only_its_evidence(answered)


def test_what_only_a_note_knows_is_answered_from_the_note(record: Path) -> None:
    answered = ask_patient("Why did the kidneys fail after omeprazole?", "p1", record, Settings())
    assert {each.kind for each in answered.evidence} == {"sentence"}
    assert {each.source for each in answered.evidence} == {"DocumentReference/d1"}
    assert all(each.id.startswith("n1.") for each in answered.evidence)
    assert any("do not answer" in each for each in answered.remarks)
    assert any("without plain text" in each for each in answered.remarks)


def test_a_patient_who_is_not_there_is_said_to_be_missing(record: Path) -> None:
    with pytest.raises(CallerError, match="no patient"):
        ask_patient("What was the last creatinine?", "p9", record, Settings())


def _cites_only_its_evidence(answered: AskResult) -> bool:
    return {each for claim in answered.claims for each in claim.citations} == {
        each.id for each in answered.evidence
    }
