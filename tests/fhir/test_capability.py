"""The CapabilityStatement says exactly what the server answers: a walk over all that it declares."""

from typing import Any

import pytest

from archqa.fhir import FhirService, Store
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.write.overlay import Overlay
from archqa.fhir.write.validation import REQUIRED_ELEMENTS
from archqa.fhir.write.writer import WriteMode, Writer

STRICT = {"prefer": "handling=strict"}
PROFILES = ("archqa", "hapi", "gcp")
VALUES = {
    "token": "a",
    "date": "2130",
    "string": "a",
    "reference": "Patient/p1",
    "quantity": "5",
    "number": "5",
    "uri": "http://a/b",
}
RESULT_VALUES = {
    "_count": "1",
    "_elements": "id",
    "_format": "json",
    "_has": "",
    "_include": "*",
    "_offset": "0",
    "_pretty": "true",
    "_revinclude": "*",
    "_sort": "_id",
    "_summary": "count",
    "_total": "none",
}


def statement(service: FhirService) -> dict[str, Any]:
    rest: dict[str, Any] = service.get("metadata").json()["rest"][0]
    return rest


def status(service: FhirService, url: str) -> int:
    return service.handle("GET", url, headers=STRICT).status


@pytest.fixture(params=PROFILES)
def service(request: pytest.FixtureRequest, ward_store: Store) -> FhirService:
    return FhirService(ward_store.as_profile(request.param))


def test_every_type_of_r4_is_declared_and_answers(service: FhirService) -> None:
    declared = {resource["type"] for resource in statement(service)["resource"]}
    assert declared == set(R4_RESOURCE_TYPES)
    assert {status(service, name) for name in declared} == {200}
    assert status(service, "NoSuchType") == 404


def test_every_declared_parameter_answers(service: FhirService) -> None:
    unanswered = []
    for resource in statement(service)["resource"]:
        for parameter in resource["searchParam"]:
            url = f"{resource['type']}?{parameter['name']}={_fitting(service, resource, parameter)}"
            if status(service, url) != 200:
                unanswered.append(url)
    assert unanswered == []


def _fitting(
    service: FhirService, resource: dict[str, Any], parameter: dict[str, str]
) -> str:
    """A value that fits; of a composite, one of which either half takes what it is."""
    if parameter["type"] != "composite":
        return VALUES[parameter["type"]]
    for first in ("a", "Patient/p1"):
        for second in ("5", "2130", "a", "Patient/p1", "http://a/b"):
            value = f"{first}${second}"
            if (
                status(service, f"{resource['type']}?{parameter['name']}={value}")
                == 200
            ):
                return value
    return "no value fits"


def test_no_undeclared_parameter_answers(service: FhirService) -> None:
    resources = statement(service)["resource"]
    every_name = {
        item["name"] for resource in resources for item in resource["searchParam"]
    }
    answered = []
    for index, resource in enumerate(resources):
        own = {item["name"] for item in resource["searchParam"]}
        undeclared = sorted(
            {*every_name, "no-such-parameter", "_text", "_content"} - own
        )
        for name in undeclared[index % 7 :: 7]:
            if status(service, f"{resource['type']}?{name}=5") != 400:
                answered.append(f"{resource['type']}?{name}")
    assert answered == []


def test_every_general_parameter_answers_and_no_other(service: FhirService) -> None:
    names = {parameter["name"] for parameter in statement(service)["searchParam"]}
    assert names == set(RESULT_VALUES)
    for name in names - {"_has"}:
        assert status(service, f"Patient?{name}={RESULT_VALUES[name]}") == 200, name
    assert status(service, "Patient?_has:Observation:patient:code=GLU") == 200
    for name in (
        "_query",
        "_filter",
        "_list",
        "_type",
        "_contained",
        "_containedType",
        "_score",
    ):
        assert status(service, f"Patient?{name}=a") == 400, name


def test_every_declared_include_answers_and_no_other(service: FhirService) -> None:
    for resource in statement(service)["resource"]:
        for control, declared in (
            ("_include", resource["searchInclude"]),
            ("_revinclude", resource["searchRevInclude"]),
        ):
            for value in declared:
                url = f"{resource['type']}?_id=absent&{control}={value}"
                assert status(service, url) == 200, url
    for value in (
        "Patient:name",
        "Patient:no-such",
        "NoSuchType:patient",
        "Observation",
    ):
        assert status(service, f"Patient?_include={value}") == 400, value
        assert status(service, f"Patient?_revinclude={value}") == 400, value


def test_interactions_are_declared_as_they_are_answered(service: FhirService) -> None:
    for resource in statement(service)["resource"]:
        codes = {interaction["code"] for interaction in resource["interaction"]}
        assert codes == {"read", "vread", "search-type"}
    for url in ("Patient/p1", "Patient/p1/_history/1"):
        assert status(service, url) == 200, url
    for url in ("_history", "Patient/_history", "Patient/p1/_history"):
        assert status(service, url) == 404, url
    for method in ("PUT", "PATCH", "DELETE"):
        assert service.handle(method, "Patient/p1").status == 405, method
    assert service.post("Observation", "{}").status == 403


@pytest.mark.parametrize("mode", list(WriteMode))
def test_creates_are_declared_where_they_are_answered(
    ward_store: Store, mode: WriteMode
) -> None:
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, writer=Writer(overlay, mode))
        declared = set()
        for resource in statement(service)["resource"]:
            if {"code": "create"} in resource["interaction"]:
                declared.add(resource["type"])
        interactions = {item["code"] for item in statement(service)["interaction"]}
    assert declared == (
        set() if mode is WriteMode.READ_ONLY else set(REQUIRED_ELEMENTS)
    )
    assert ("transaction" in interactions) == (mode is WriteMode.APPLY)


def test_operations_are_declared_as_they_are_answered(service: FhirService) -> None:
    declared: set[tuple[str, str]] = set()
    answered: set[tuple[str, str]] = set()
    for resource in statement(service)["resource"]:
        declared |= {
            (resource["type"], operation["name"]) for operation in resource["operation"]
        }
        for name in ("everything", "validate", "lastn", "export", "meta"):
            reply = service.get(f"{resource['type']}/absent/${name}")
            if reply.json()["issue"][0]["code"] != "not-supported":
                answered.add((resource["type"], name))
    assert (
        declared == answered == {("Encounter", "everything"), ("Patient", "everything")}
    )


def test_compartments_are_declared_as_they_are_answered(service: FhirService) -> None:
    names = {url.rpartition("/")[2] for url in statement(service)["compartment"]}
    assert names == {"patient", "encounter"}
    assert status(service, "Patient/p1/Observation") == 200
    assert status(service, "Encounter/e1/Observation") == 200
    assert status(service, "Practitioner/a/Observation") == 404
    assert status(service, "Device/a/Observation") == 404


def test_formats_are_declared_as_they_are_answered(service: FhirService) -> None:
    formats = service.get("metadata").json()["format"]
    assert formats == ["json", "application/fhir+json"]
    for name in formats:
        assert status(service, f"Patient?_format={name}") == 200
    assert status(service, "Patient?_format=xml") == 406
