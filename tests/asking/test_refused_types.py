"""A server that refuses some types of resources: the others answer, and nothing is denied for those."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import archqa
from archqa.errors import AuthenticationFailed, ServerUnavailable
from archqa.fhir import FhirService, Resource, Store
from archqa.fhir.record import operation_outcome
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from tests.fhir.invented import write_ndjson

_OF_OLGA = {"subject": {"reference": "Patient/olga"}}
_NOW = "2025-03-01"
_RECORD: list[Resource] = [
    {
        "resourceType": "Patient",
        "id": "olga",
        "gender": "female",
        "birthDate": "1949-11-30",
    },
    {
        "resourceType": "Condition",
        "id": "gout",
        "code": {"text": "Gout"},
        "clinicalStatus": {"coding": [{"code": "active"}]},
        "recordedDate": "2024-01-02",
        **_OF_OLGA,
    },
    {
        "resourceType": "Observation",
        "id": "urate",
        "status": "final",
        "category": [{"coding": [{"code": "laboratory"}]}],
        "code": {"text": "Uric acid"},
        "effectiveDateTime": "2025-01-05",
        "valueQuantity": {"value": 7.9, "unit": "mg/dL"},
        **_OF_OLGA,
    },
    {
        "resourceType": "MedicationRequest",
        "id": "order",
        "status": "active",
        "intent": "order",
        "medicationCodeableConcept": {"text": "Allopurinol 100 MG"},
        "authoredOn": "2025-01-05",
        **_OF_OLGA,
    },
    {
        "resourceType": "MedicationStatement",
        "id": "statement",
        "status": "active",
        "medicationCodeableConcept": {"text": "Ramipril 5 MG"},
        "effectivePeriod": {"start": "2024-06-01"},
        **_OF_OLGA,
    },
]

Refusals = dict[str, int]
"""The HTTP status for each type; 200 is an OperationOutcome in place of a Bundle."""


@pytest.fixture(name="serve")
def _serve(tmp_path: Path) -> Iterator[Callable[[Refusals], str]]:
    with Store.open(tmp_path / "record.db", create=True) as store:
        store.load([write_ndjson(tmp_path / "olga.ndjson", _RECORD)])
    servers = []

    def serve(refusals: Refusals) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store, refusals))
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/fhir"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def _handler(store: Store, refusals: Refusals) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            base = f"http://127.0.0.1:{self.server.server_port}/fhir"  # type: ignore[attr-defined]
            target = self.path.removeprefix("/fhir").lstrip("/")
            resource_type = target.partition("?")[0].partition("/")[0]
            reply = FhirService(store, base).handle("GET", target, "", {})
            status, body = reply.status, reply.body
            status = refusals.get(resource_type, status)
            if resource_type in refusals:
                body = _outcome_text()
            self.send_response(status)
            self.send_header("content-type", "application/fhir+json")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    return Handler


def _outcome_text() -> str:
    return json.dumps(operation_outcome(["Not for you."], "error", "forbidden"))


def _ask(question: str, record: str | Path) -> archqa.Answer:
    return archqa.ask(question, patient="olga", record=record, now=_NOW)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "403 Forbidden"),
        (400, "400 Bad Request"),
        (404, "404 Not Found"),
        (500, "500 Internal Server Error"),
        (200, "no Bundle"),
    ],
)
def test_the_types_that_the_server_gives_answer_and_the_refused_one_is_named(
    serve: Callable[[Refusals], str], status: int, reason: str
) -> None:
    answer = _ask(
        "What medications does she take?", serve({"MedicationRequest": status})
    )
    assert answer.status == "answered"
    assert "Ramipril" in answer.text
    remarks = " ".join(answer.remarks)
    assert "The server refused MedicationRequest" in remarks
    assert reason in remarks


@pytest.mark.parametrize(
    "question",
    [
        "Does she take allopurinol?",
        "Is she on warfarin?",
        "How many times was she prescribed allopurinol?",
        "When was allopurinol started?",
        "Is she still taking allopurinol?",
    ],
)
def test_nothing_is_denied_that_may_be_in_a_refused_type(
    serve: Callable[[Refusals], str], question: str
) -> None:
    answer = _ask(question, serve({"MedicationRequest": 403}))
    assert answer.status == "not_found"
    assert "could not be searched" in answer.text
    assert "the server refused MedicationRequest (403 Forbidden)" in answer.text
    assert not answer.text.startswith("No")


def test_an_absence_in_one_type_is_no_absence_while_another_is_refused(
    serve: Callable[[Refusals], str],
) -> None:
    answer = _ask("Was she given morphine?", serve({"MedicationAdministration": 403}))
    assert answer.status == "not_found"
    assert answer.text.startswith("Morphine could not be searched: the server refused")
    assert "is recorded" not in answer.text


def test_other_kinds_of_rows_answer_as_if_nothing_was_refused(
    serve: Callable[[Refusals], str],
) -> None:
    address = serve({"MedicationRequest": 403, "DocumentReference": 403})
    answer = _ask("What was her last uric acid?", address)
    assert answer.status == "answered"
    assert "7.9" in answer.text
    absent = _ask("Does she have diabetes?", address)
    assert absent.text.startswith("No diabetes mellitus is recorded")
    assert "Not searched: the server refused" in absent.text
    assert "DocumentReference (403 Forbidden)" in absent.text


def test_a_question_on_results_says_that_they_could_not_be_searched(
    serve: Callable[[Refusals], str],
) -> None:
    answer = _ask("What was her last uric acid?", serve({"Observation": 500}))
    assert answer.status == "not_found"
    assert "could not be searched" in answer.text
    assert "Observation (500 Internal Server Error)" in answer.text


def test_a_summary_says_which_sections_could_not_be_searched(
    serve: Callable[[Refusals], str],
) -> None:
    brief = archqa.brief(
        patient="olga", record=serve({"AllergyIntolerance": 403}), now=_NOW
    )
    sections = {section.name: section for section in brief.sections}
    assert "could not be searched" in sections["allergies"].message
    assert "No allergy" not in brief.text
    assert "Gout" in brief.text
    assert any("AllergyIntolerance (403 Forbidden)" in text for text in brief.remarks)


@pytest.mark.parametrize("refused", [{"Patient": 403}, {"Condition": 401}])
def test_without_the_patient_or_with_a_wrong_token_there_is_no_answer(
    serve: Callable[[Refusals], str], refused: Refusals
) -> None:
    with pytest.raises(AuthenticationFailed):
        _ask("Does she have gout?", serve(refused))


def test_a_server_that_refuses_every_type_but_patients_is_an_error(
    serve: Callable[[Refusals], str],
) -> None:
    refused = dict.fromkeys(R4_RESOURCE_TYPES - {"Patient"}, 403)
    with pytest.raises(AuthenticationFailed):
        _ask("Does she have gout?", serve(refused))


def test_a_server_that_is_overloaded_is_an_error(
    serve: Callable[[Refusals], str],
) -> None:
    with pytest.raises(ServerUnavailable):
        _ask("Does she have gout?", serve({"Condition": 503}))


def test_a_question_says_which_resources_of_another_version_could_not_be_read(
    tmp_path: Path,
) -> None:
    statement = {
        "resourceType": "Procedure",
        "id": "dialysis",
        "status": "completed",
        "occurrenceTiming": {"event": ["2024-01-01"]},
        **_OF_OLGA,
    }
    with Store.open(tmp_path / "r5.db", create=True) as store:
        store.load([write_ndjson(tmp_path / "r5.ndjson", [*_RECORD, statement])])
    answer = _ask("Did she have an appendectomy?", store.path)
    assert "could not be searched" in answer.text
    reason = "1 Procedure of another FHIR version could not be read as a whole"
    assert reason in answer.text
    assert "another FHIR version" not in _ask("Does she have gout?", store.path).text
