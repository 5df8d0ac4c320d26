"""Notes that are entered in error, replaced or appended to."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

import archqa
from archqa.asking.answer import Answer
from tests.fhir.invented import Resource, build_store

Ask = Callable[..., Answer]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Ask a question about a patient with these notes."""

    def answer(question: str, *notes: Resource) -> Answer:
        patient = {"resourceType": "Patient", "id": "p", "birthDate": "1960-05-05"}
        with build_store(tmp_path, [patient, *notes]) as store:
            return archqa.ask(
                question, patient="p", record=store.path, now="2025-06-02T12:00:00"
            )

    return answer


def note(name: str, text: str, **elements: object) -> Resource:
    """Return a note, its text in plain text."""
    data = base64.b64encode(text.encode()).decode()
    return {
        "resourceType": "DocumentReference",
        "id": name,
        "status": "current",
        "subject": {"reference": "Patient/p"},
        "date": "2025-03-04T10:00:00Z",
        "type": {"text": "Progress note"},
        "content": [{"attachment": {"contentType": "text/plain", "data": data}}],
        **elements,
    }


@pytest.mark.parametrize("element", ["status", "docStatus"])
def test_a_note_entered_in_error_is_named_and_not_quoted(
    ask: Ask, element: str
) -> None:
    wrong = note(
        "n1", "Patient had an appendectomy in 2011.", **{element: "entered-in-error"}
    )
    answer = ask("Has she had an appendectomy?", wrong)
    assert answer.status == "not_found"
    assert "Documents not read: 1 (entered in error)." in answer.remarks


@pytest.mark.parametrize("code", ["replaces", {"coding": [{"code": "replaces"}]}])
def test_a_replaced_note_is_not_quoted(ask: Ask, code: object) -> None:
    first = note("n1", "Her left knee was replaced in 2018.")
    relation = {"code": code, "target": {"reference": "DocumentReference/n1"}}
    second = note("n2", "Her right knee was replaced in 2018.", relatesTo=[relation])
    answer = ask("Which knee was replaced?", first, second)
    assert [line.text for line in answer.lines if "left" in line.text] == []
    assert any("right" in line.text for line in answer.lines)
    assert any("replaced by a newer document" in remark for remark in answer.remarks)


def test_a_note_that_is_appended_to_stays(ask: Ask) -> None:
    first = note("n1", "Patient had an appendectomy in 2011.")
    relation = {"code": "appends", "target": {"reference": "DocumentReference/n1"}}
    second = note("n2", "Addendum: the scar is well healed.", relatesTo=[relation])
    answer = ask("Has she had an appendectomy?", first, second)
    assert answer.status == "answered"
    assert "appendectomy in 2011" in answer.lines[0].text
