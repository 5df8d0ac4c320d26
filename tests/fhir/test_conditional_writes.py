"""Creates that depend on what exists, what a client prefers to get back, entries with conditions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import AuditLog, FhirService, Overlay, Store, WriteMode, Writer
from tests.fhir.invented import patient
from tests.fhir.serving import BASE
from tests.fhir.writes import MEDICATION_ORDER, REFERRAL, VITAL_SIGN

ORDER = {**REFERRAL, "identifier": [{"system": "http://example.org/orders", "value": "7"}]}
CRITERIA = "identifier=http://example.org/orders|7"


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


def test_a_conditional_create_creates_once(service: FhirService, log: AuditLog) -> None:
    first = create(service, ORDER, if_none_exist=CRITERIA)
    again = create(service, ORDER, if_none_exist=f"ServiceRequest?{CRITERIA}")
    assert (first.status, again.status) == (201, 200)
    assert again.json() == first.json()
    for name in ("location", "etag", "last-modified"):
        assert again.headers[name] == first.headers[name]
    assert service.get("ServiceRequest?patient=p1").json()["total"] == 1
    assert [entry.status for entry in log.entries()] == [201, 200]
    assert log.entries()[1].findings[0]["message"].startswith("a resource matches")


def test_a_conditional_create_that_matches_several_is_refused(service: FhirService) -> None:
    reply = create(service, VITAL_SIGN, if_none_exist="patient=p1&code=GLU")
    assert reply.status == 412
    assert service.get("Observation?patient=p1").json()["total"] == 5


@pytest.mark.parametrize(
    "criteria",
    ["colour=red", "", "?", "identifier=", "_count=1", "Patient?identifier=7", "date=soon"],
)
def test_criteria_that_say_nothing_are_an_error(ward_store: Store, criteria: str) -> None:
    for profile in ("archqa", "gcp", "hapi"):
        with Overlay.over(ward_store.as_profile(profile)) as overlay:
            service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
            reply = create(service, VITAL_SIGN, if_none_exist=criteria)
            assert reply.status == 400
            assert reply.json()["resourceType"] == "OperationOutcome"
            assert overlay.added() == []


def test_criteria_match_codes_exactly_whatever_the_profile(service: FhirService) -> None:
    assert service.get("Observation?code=bc").json()["total"] == 1
    assert create(service, VITAL_SIGN, if_none_exist="code=bc").status == 201
    assert create(service, VITAL_SIGN, if_none_exist="code=BC").status == 200


def test_a_mode_that_stores_nothing_tells_of_the_match_too(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE, Writer(ward_store, WriteMode.VALIDATE))
    reply = create(service, VITAL_SIGN, if_none_exist="code=BC")
    assert (reply.status, reply.json()["id"]) == (200, "o5")
    read_only = FhirService(ward_store, BASE)
    assert create(read_only, VITAL_SIGN, if_none_exist="code=BC").status == 403


def test_the_reply_to_a_create_is_what_the_client_prefers(service: FhirService) -> None:
    minimal = create(service, VITAL_SIGN, prefer="return=minimal")
    assert (minimal.status, minimal.body) == (201, "")
    located = service.get(minimal.headers["location"]).json()
    assert located["resourceType"] == "Observation"
    whole = create(service, VITAL_SIGN, prefer="handling=strict; return=representation")
    assert whole.json()["resourceType"] == "Observation"
    outcome = create(service, VITAL_SIGN, prefer="return=OperationOutcome")
    assert outcome.status == 201
    assert outcome.json()["issue"][0]["diagnostics"].startswith("No problem was found by the")
    unknown = create(service, VITAL_SIGN, prefer="return=everything")
    assert unknown.status == 400
    assert service.get("Observation?patient=p1&category=vital-signs").json()["total"] == 3


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


def test_entries_refer_to_what_a_conditional_create_finds(service: FhirService) -> None:
    new = entry(
        "POST",
        "Patient",
        patient("ignored"),
        ifNoneExist="identifier=MRN-p2",
        fullUrl="urn:uuid:1",
    )
    sign = {**VITAL_SIGN, "subject": {"reference": "urn:uuid:1"}}
    reply = send(service, "transaction", entry("POST", "Observation", sign), new).json()
    written, matched = (item["response"] for item in reply["entry"])
    assert (matched["status"], matched["location"]) == ("200", "Patient/p2/_history/1")
    assert written["status"] == "201"
    stored = service.get(written["location"]).json()
    assert stored["subject"]["reference"] == "Patient/p2"


def test_the_same_condition_twice_creates_once(service: FhirService, log: AuditLog) -> None:
    twice = [entry("POST", "ServiceRequest", ORDER, ifNoneExist=CRITERIA) for _ in range(2)]
    assert send(service, "transaction", *twice).status == 412
    assert service.get("ServiceRequest").json()["total"] == 0
    assert [logged.status for logged in log.entries()] == [412], "undone, so not 201"
    reply = send(service, "batch", *twice).json()
    assert [item["response"]["status"] for item in reply["entry"]] == ["201", "200"]
    assert service.get("ServiceRequest").json()["total"] == 1


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
        entry("POST", "Observation", VITAL_SIGN, ifNoneExist="colour=red"),
    ).json()
    statuses = [item["response"]["status"] for item in reply["entry"]]
    assert statuses == [
        *("304", "200", "412", "412", "201"),
        *("409", "400", "400", "400", "400", "400"),
    ]
    assert reply["entry"][0]["response"]["etag"] == 'W/"1"'
    assert "resource" not in reply["entry"][0]
    assert reply["entry"][4]["response"]["location"] == "Observation/v1/_history/1"


def test_entries_hold_what_the_client_prefers_and_warnings_always(service: FhirService) -> None:
    write = entry("POST", "MedicationRequest", MEDICATION_ORDER)
    (first,) = send(service, "batch", write).json()["entry"]
    assert set(first["response"]) == {"status", "location", "etag", "lastModified"}
    (second,) = send(service, "batch", write, prefer="return=representation").json()["entry"]
    assert second["resource"]["resourceType"] == "MedicationRequest"
    assert second["response"]["outcome"]["issue"][0]["severity"] == "warning"
    vital_sign = entry("POST", "Observation", VITAL_SIGN)
    (third,) = send(service, "batch", vital_sign, prefer="return=OperationOutcome").json()["entry"]
    assert third["response"]["outcome"]["issue"][0]["severity"] == "information"


def test_a_large_bundle_says_that_it_is_not_compared_with_the_record(service: FhirService) -> None:
    write = entry("POST", "MedicationRequest", MEDICATION_ORDER)
    entries = send(service, "batch", *[write] * 101).json()["entry"]
    (issue,) = entries[-1]["response"]["outcome"]["issue"]
    assert issue["severity"] == "information"
    assert "not compared with the record" in issue["diagnostics"]
