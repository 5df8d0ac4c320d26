"""`$validate`: always an issue, errors for what R4 forbids, warnings for what the record says."""

import json
from typing import Any

import pytest

from archqa.fhir import FhirService, Overlay, Store, WriteMode, Writer
from archqa.fhir.server.application import FhirApplication
from tests.fhir.serving import BASE, send_request
from tests.fhir.writes import MEDICATION_ORDER, VITAL_SIGN


@pytest.fixture
def service(ward_store: Store) -> FhirService:
    return FhirService(ward_store, BASE)


def parameters(resource: Any = None, **more: str) -> dict[str, Any]:
    members: list[dict[str, Any]] = []
    if resource is not None:
        members.append({"name": "resource", "resource": resource})
    kinds = {"mode": "valueCode", "profile": "valueUri"}
    for name, value in more.items():
        members.append({"name": name, kinds.get(name, "valueString"): value})
    return {"resourceType": "Parameters", "parameter": members}


def issues(service: FhirService, url: str, body: Any = None) -> list[tuple[str, str]]:
    """Severity and text of the issues of a reply that must be 200."""
    method = "GET" if body is None else "POST"
    reply = service.handle(method, url, "" if body is None else json.dumps(body))
    assert reply.status == 200, reply.body
    outcome = reply.json()
    assert outcome["resourceType"] == "OperationOutcome"
    assert outcome["issue"]
    return [(issue["severity"], issue["diagnostics"]) for issue in outcome["issue"]]


def test_a_good_resource_has_an_issue_that_says_what_was_checked(service: FhirService) -> None:
    for body in (VITAL_SIGN, parameters(VITAL_SIGN), parameters(VITAL_SIGN, mode="create")):
        ((severity, text),) = issues(service, "Observation/$validate", body)
        assert severity == "information"
        assert text.startswith("No problem was found by the checks this server makes:")


def test_every_mistake_is_an_issue(service: FhirService) -> None:
    bad = {**VITAL_SIGN, "status": "done", "subject": {"reference": "Patient/absent"}}
    severities = [severity for severity, _ in issues(service, "Observation/$validate", bad)]
    assert severities == ["error", "error"]


def test_rules_of_this_server_alone_are_errors_of_a_create_and_else_warnings(
    service: FhirService,
) -> None:
    plain = {
        "resourceType": "Observation",
        "status": "final",
        "code": {"text": "BP"},
        "effectiveDateTime": "2023-11-13",
    }
    valid = issues(service, "Observation/$validate", plain)
    assert {severity for severity, _ in valid} == {"warning"}
    assert all("not by R4" in text for _, text in valid)
    created = issues(service, "Observation/$validate", parameters(plain, mode="create"))
    assert {severity for severity, _ in created} == {"error"}


def test_a_stored_resource_is_validated_by_get_and_post(service: FhirService) -> None:
    got = issues(service, "Observation/o1/$validate")
    assert "error" not in {severity for severity, _ in got}
    posted = issues(service, "Observation/o1/$validate", parameters(mode="profile"))
    assert posted == got
    other = issues(service, "Observation/o1/$validate", {**VITAL_SIGN, "id": "o2"})
    assert ("error", "id: must be that of the URL.") in other


def test_a_profile_is_named_as_not_checked(service: FhirService) -> None:
    profile = "http://hl7.org/fhir/StructureDefinition/bp"
    body = parameters(VITAL_SIGN, profile=profile)
    in_body = issues(service, "Observation/$validate", body)
    in_url = issues(service, f"Observation/$validate?profile={profile}", VITAL_SIGN)
    expected = [("warning", f"the profile {profile} was not checked.")]
    assert in_body == in_url == expected


@pytest.mark.parametrize("mode", ["update", "delete"])
def test_what_the_server_does_not_do_is_an_error_of_its_mode(
    service: FhirService, mode: str
) -> None:
    found = issues(service, "Observation/o1/$validate", parameters(VITAL_SIGN, mode=mode))
    assert found[0][0] == "error"
    assert "this server" in found[0][1]
    by_url = issues(service, f"Patient/p1/$validate?mode={mode}")
    assert by_url[0][0] == "error"


def test_the_elements_of_another_type_are_said_to_be_unchecked(service: FhirService) -> None:
    ((severity, text),) = issues(service, "Patient/p1/$validate")
    assert severity == "information"
    assert "MedicationRequest, Observation, ServiceRequest alone" in text
    wrong = {"resourceType": "Group", "id": "a b", "meta": 1}
    assert len(issues(service, "Patient/$validate", wrong)) == 3
    create = issues(
        service, "Patient/$validate", parameters({"resourceType": "Patient"}, mode="create")
    )
    assert create == [("error", "a Patient cannot be created here.")]


@pytest.mark.parametrize(
    ("url", "body", "status"),
    [
        ("Foo/$validate", "{}", 404),
        ("Observation/absent/$validate", "{}", 404),
        ("Observation/$validate", "", 400),
        ("Observation/$validate", "{", 400),
        ("Observation/$validate?mode=wish&colour=red", json.dumps(VITAL_SIGN), 400),
        ("Observation/$validate", json.dumps(parameters(mode="create")), 400),
        ("Observation/$validate", json.dumps(parameters(VITAL_SIGN, colour="red")), 400),
        ("Observation/$validate", '{"resourceType": "Parameters", "parameter": [1]}', 400),
    ],
)
def test_a_request_that_cannot_be_validated_is_refused(
    service: FhirService, url: str, body: str, status: int
) -> None:
    reply = service.handle("POST", url, body)
    assert reply.status == status
    assert reply.json()["resourceType"] == "OperationOutcome"


@pytest.mark.parametrize("body", ["[]", "null", '"x"', "1", '{"resourceType": 1, "code": 1}'])
@pytest.mark.parametrize("resource_type", ["Observation", "MedicationRequest", "Patient"])
def test_any_json_is_answered(service: FhirService, resource_type: str, body: str) -> None:
    reply = service.handle("POST", f"{resource_type}/$validate", body)
    assert reply.status in {200, 400}
    assert reply.json()["issue"]


def test_validation_stores_nothing(ward_store: Store) -> None:
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        for _ in range(2):
            ((severity, _),) = issues(service, "MedicationRequest/$validate", MEDICATION_ORDER)
            assert severity == "information"
        assert overlay.added() == []


async def test_validation_over_http(service: FhirService) -> None:
    application = FhirApplication(service, on_loopback=True)
    body = json.dumps(VITAL_SIGN).encode()
    status, text = await send_request(application, "POST", "/fhir/Observation/$validate", body)
    assert status == 200
    assert json.loads(text)["issue"][0]["severity"] == "information"
    status, _ = await send_request(application, "GET", "/fhir/Observation/o1/$validate")
    assert status == 200
