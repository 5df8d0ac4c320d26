"""What a client prefers to get back from a write, and entries of Bundles with conditions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import AuditLog, FhirService, Overlay, Store, WriteMode, Writer
from tests.fhir.invented import patient
from tests.fhir.serving import BASE
from tests.fhir.writes import MEDICATION_ORDER, REFERRAL, VITAL_SIGN


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "audit.jsonl")


@pytest.fixture
def service(ward_store: Store, log: AuditLog) -> Iterator[FhirService]:
    with Overlay.over(ward_store) as overlay:
        yield FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY, log))


def create(service: FhirService, body: dict[str, Any], **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.handle("POST", body["resourceType"], json.dumps(body), named)


def test_a_conditional_create_is_refused_and_creates_nothing(
    service: FhirService, log: AuditLog
) -> None:
    reply = create(service, REFERRAL, if_none_exist="identifier=7")
    (issue,) = reply.json()["issue"]
    assert (reply.status, issue["code"]) == (400, "not-supported")
    assert service.get("ServiceRequest").json()["total"] == 0
    assert log.entries() == []
    refused = send(
        service, "batch", entry("POST", "Patient", patient("x"), ifNoneExist="_id=x")
    )
    assert refused.json()["entry"][0]["response"]["status"] == "400"


def test_the_reply_to_a_create_is_what_the_client_prefers(service: FhirService) -> None:
    minimal = create(service, VITAL_SIGN, prefer="return=minimal")
    assert (minimal.status, minimal.body) == (201, "")
    located = service.get(minimal.headers["location"]).json()
    assert located["resourceType"] == "Observation"
    whole = create(service, VITAL_SIGN, prefer="handling=strict; return=representation")
    assert whole.json()["resourceType"] == "Observation"
    outcome = create(service, VITAL_SIGN, prefer="return=OperationOutcome")
    assert outcome.status == 201
    assert outcome.json()["issue"][0]["diagnostics"].startswith(
        "No problem was found by the"
    )
    unknown = create(service, VITAL_SIGN, prefer="return=everything")
    assert unknown.status == 400
    assert (
        service.get("Observation?patient=p1&category=vital-signs").json()["total"] == 3
    )


def test_warnings_reach_the_client_the_log_and_never_refuse(
    service: FhirService, log: AuditLog
) -> None:
    assert "warning" not in create(service, MEDICATION_ORDER).headers
    second = create(service, MEDICATION_ORDER)
    assert second.status == 201
    assert "open order of the same medication" in second.headers["warning"]
    third = create(service, MEDICATION_ORDER, prefer="return=OperationOutcome")
    (issue,) = third.json()["issue"]
    assert issue["severity"] == "warning"
    assert [len(entry.findings) for entry in log.entries()] == [0, 1, 1]


def entry(method: str, url: str, resource: Any = None, **more: Any) -> dict[str, Any]:
    full_url = more.pop("fullUrl", None)
    content: dict[str, Any] = {"request": {"method": method, "url": url, **more}}
    if resource is not None:
        content["resource"] = resource
    if full_url:
        content["fullUrl"] = full_url
    return content


def send(service: FhirService, kind: str, *entries: Any, prefer: str = "") -> Any:
    bundle = {"resourceType": "Bundle", "type": kind, "entry": list(entries)}
    return service.handle("POST", "", json.dumps(bundle), {"prefer": prefer})


def test_entries_keep_their_conditions(service: FhirService) -> None:
    new = {**VITAL_SIGN, "id": "v1"}
    existing = {**VITAL_SIGN, "id": "o1"}
    reply = send(
        service,
        "batch",
        entry("GET", "Patient/p1", ifNoneMatch='W/"1"'),
        entry("GET", "Patient/p1", ifNoneMatch='W/"2"'),
        entry("PUT", "Observation/v1", new, ifMatch='W/"1"'),
        entry("PUT", "Observation/o1", existing, ifNoneMatch="*"),
        entry("PUT", "Observation/v1", new, ifNoneMatch="*"),
        entry("PUT", "Observation/o1", existing, ifMatch='W/"1"'),
        entry("GET", "Patient/p1", ifNoneExist="_id=p1"),
        entry("POST", "Observation", VITAL_SIGN, ifMatch='W/"1"'),
        entry("POST", "Patient", VITAL_SIGN),
        entry("PUT", "Observation/v2", new),
        entry("POST", "Observation", VITAL_SIGN, ifNoneExist="_id=x"),
    ).json()
    statuses = [item["response"]["status"] for item in reply["entry"]]
    assert statuses == [
        *("304", "200", "412", "412", "201"),
        *("409", "400", "400", "400", "400", "400"),
    ]
    assert reply["entry"][0]["response"]["etag"] == 'W/"1"'
    assert "resource" not in reply["entry"][0]
    assert reply["entry"][4]["response"]["location"] == "Observation/v1/_history/1"


def test_entries_hold_what_the_client_prefers_and_warnings_always(
    service: FhirService,
) -> None:
    write = entry("POST", "MedicationRequest", MEDICATION_ORDER)
    (first,) = send(service, "batch", write).json()["entry"]
    assert set(first["response"]) == {"status", "location", "etag", "lastModified"}
    (second,) = send(service, "batch", write, prefer="return=representation").json()[
        "entry"
    ]
    assert second["resource"]["resourceType"] == "MedicationRequest"
    assert second["response"]["outcome"]["issue"][0]["severity"] == "warning"
    vital_sign = entry("POST", "Observation", VITAL_SIGN)
    (third,) = send(
        service, "batch", vital_sign, prefer="return=OperationOutcome"
    ).json()["entry"]
    assert third["response"]["outcome"]["issue"][0]["severity"] == "information"


def test_a_large_bundle_says_that_it_is_not_compared_with_the_record(
    service: FhirService,
) -> None:
    write = entry("POST", "MedicationRequest", MEDICATION_ORDER)
    entries = send(service, "batch", *[write] * 101).json()["entry"]
    (issue,) = entries[-1]["response"]["outcome"]["issue"]
    assert issue["severity"] == "information"
    assert "not compared with the record" in issue["diagnostics"]
