"""`archqa ask --format fhir`: the answer as a Bundle with its Provenance."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.briefing.invented_chart import NOW, chart
from tests.cli.test_commands import archqa

NOTE = "Brief Hospital Course:\nFurosemide was given for fluid overload. His wife drove him home."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    record = chart(tmp_path_factory.mktemp("chart"))
    return ("--patient", "p1", "--record", record, "--now", NOW)


def bundle_of(*arguments: str) -> dict[str, Any]:
    result = archqa("ask", *arguments, "--format", "fhir")
    assert result.returncode == 0, result.stderr
    bundle: dict[str, Any] = json.loads(result.stdout)
    r4b = pytest.importorskip(
        "fhir.resources.R4B.bundle", reason="needs fhir.resources"
    )
    r4b.Bundle.model_validate(bundle)
    return bundle


def of_type(bundle: dict[str, Any], resource_type: str) -> list[dict[str, Any]]:
    resources = [entry["resource"] for entry in bundle["entry"]]
    return [each for each in resources if each["resourceType"] == resource_type]


def test_each_line_has_a_provenance_with_what_it_cites(place: tuple[str, ...]) -> None:
    question = "What medications is she taking?"
    asked = json.loads(archqa("ask", question, *place, "--json").stdout)
    bundle = bundle_of(question, *place)
    (response,) = of_type(bundle, "QuestionnaireResponse")
    answer, status, *_ = response["item"]
    assert (answer["text"], status["answer"][0]["valueString"]) == (
        question,
        "answered",
    )
    assert response["subject"] == {"reference": "Patient/p1"}
    assert [each["valueString"] for each in answer["answer"]] == [
        line["text"] for line in asked["lines"]
    ]
    of_line = {}
    for provenance in of_type(bundle, "Provenance"):
        (target,) = provenance["target"]
        line_id = target["extension"][0]["valueUri"]
        of_line[line_id] = [one["what"]["reference"] for one in provenance["entity"]]
    for value, line in zip(answer["answer"], asked["lines"], strict=True):
        cited = [citation.partition("#")[0] for citation in line["citations"]]
        assert of_line[value["id"]] == cited


def test_a_sentence_of_a_note_is_named_beside_its_document(
    place: tuple[str, ...],
) -> None:
    bundle = bundle_of("Is she on lisinopril?", *place)
    whats = [
        one["what"] for each in of_type(bundle, "Provenance") for one in each["entity"]
    ]
    assert {"reference": "DocumentReference/n1", "display": "sentence 5"} in whats


def test_without_a_line_the_message_stands_and_nothing_is_cited(
    place: tuple[str, ...],
) -> None:
    bundle = bundle_of("What is her sesquipedalian index?", *place)
    (response,) = of_type(bundle, "QuestionnaireResponse")
    (provenance,) = of_type(bundle, "Provenance")
    assert response["item"][1]["answer"][0]["valueString"] in {
        "not_understood",
        "not_found",
    }
    assert "entity" not in provenance


def test_an_answer_from_a_note_has_no_patient(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text(NOTE)
    bundle = bundle_of("Why was furosemide given?", "--note", str(note))
    (response,) = of_type(bundle, "QuestionnaireResponse")
    assert "subject" not in response
    (provenance,) = of_type(bundle, "Provenance")
    assert provenance["entity"][0]["what"] == {"display": "sentence 2 of the note"}


@pytest.mark.parametrize(
    "options",
    [("--json",), ("--questions", "questions.csv", "--out", "answers.csv")],
)
def test_two_formats_are_refused(
    place: tuple[str, ...], options: tuple[str, ...]
) -> None:
    question = () if "--questions" in options else ("Is she on lisinopril?",)
    result = archqa("ask", *question, *place, *options, "--format", "fhir")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--format" in result.stderr
