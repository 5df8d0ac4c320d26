"""One question about one note or one patient, answered with its evidence."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from archqa.asking.chart import ask_patient
from archqa.asking.note import AskResult, EvidenceLine, ask_note
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
    document_id: str, *attachments: dict[str, Any], patient: str = "p1", **more: Any
) -> dict[str, Any]:
    return {
        "resourceType": "DocumentReference",
        "id": document_id,
        "status": "current",
        "subject": {"reference": f"Patient/{patient}"},
        "content": [{"attachment": attachment} for attachment in attachments],
        **more,
    }


def _observation(observation_id: str, value: float, day: int) -> dict[str, Any]:
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
        "id": observation_id,
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
    file.write_text("".join(json.dumps(resource) + "\n" for resource in resources))
    path = folder / "record.db"
    with Store.open(path, create=True) as store:
        store.load([file])
    return path


def test_a_note_is_answered_with_sentences_of_it() -> None:
    steps = []
    answered = ask_note("Why did the creatinine rise?", NOTE, Settings(), on_step=steps.append)
    assert answered.claims
    cited = {citation for claim in answered.claims for citation in claim.citations}
    assert {line.id for line in answered.evidence} == cited
    for line in answered.evidence:
        assert line.start_char_index is not None
        assert NOTE[line.start_char_index :].startswith(line.text)
        assert 0 <= (line.probability or -1) <= 1
    assert steps[-1].agent == "decision"
    assert answered.performer.startswith("embedded:")


def test_the_command_prints_answer_evidence_and_probability(tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text(NOTE)
    result = CliRunner().invoke(app, ["ask", "Why did the creatinine rise?", "--note", str(file)])
    assert result.exit_code == 0
    assert "Evidence" in result.stdout
    assert "probability" in result.stdout
    plain = CliRunner().invoke(
        app, ["ask", "Why did the creatinine rise?", "--note", str(file), "--json"]
    )
    answer_json = json.loads(plain.stdout)
    assert answer_json["answer"].splitlines()[0].endswith("|")
    assert {line["id"] for line in answer_json["evidence"]} == {
        citation for claim in answer_json["claims"] for citation in claim["citations"]
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
        documents = patient_documents(store, "Patient/p1")
    assert [document.name for document in documents.readable] == [
        "DocumentReference/d1",
        "DocumentReference/d3",
    ]
    assert [document.text for document in documents.readable] == [NOTE, "No allergies."]
    assert documents.unreadable == 1


def test_one_answer_cites_resources_and_notes(record: Path) -> None:
    answered = ask_patient("What was the last creatinine measured?", "p1", record, Settings())
    kinds: dict[str, list[EvidenceLine]] = {}
    for line in answered.evidence:
        kinds.setdefault(line.kind, []).append(line)
    assert [line.id for line in kinds["resource"]] == ["Observation/o2"]
    assert "2.9" in answered.claims[0].text
    assert _cites_only_its_evidence(answered)


def test_what_only_a_note_knows_is_answered_from_the_note(record: Path) -> None:
    answered = ask_patient("Why did the kidneys fail after omeprazole?", "p1", record, Settings())
    assert {line.kind for line in answered.evidence} == {"sentence"}
    assert {line.source for line in answered.evidence} == {"DocumentReference/d1"}
    assert all(line.id.startswith("n1.") for line in answered.evidence)
    assert any("do not answer" in remark for remark in answered.remarks)
    assert any("without plain text" in remark for remark in answered.remarks)


def test_a_patient_who_is_not_there_is_said_to_be_missing(record: Path) -> None:
    with pytest.raises(CallerError, match="no patient"):
        ask_patient("What was the last creatinine?", "p9", record, Settings())


def _cites_only_its_evidence(answered: AskResult) -> bool:
    return {citation for claim in answered.claims for citation in claim.citations} == {
        line.id for line in answered.evidence
    }
