"""`_elements` and `_summary` on searches and reads: what is left of a resource, and what is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirService, Store
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, resource_elements
from tests.fhir.invented import build_store, codeable_concept
from tests.fhir.serving import BASE

PROFILES = ["archqa", "gcp", "hapi"]
STRICT = {"prefer": "handling=strict"}
LENIENT = {"prefer": "handling=lenient"}

MANDATORY = {
    "AllergyIntolerance": "patient",
    "Claim": "status type use patient created provider priority insurance",
    "Condition": "subject",
    "DiagnosticReport": "status code",
    "DocumentReference": "status content",
    "Encounter": "status class",
    "Immunization": "status vaccineCode patient occurrence",
    "MedicationAdministration": "status medication subject effective",
    "MedicationRequest": "status intent medication subject",
    "Observation": "status code",
    "Procedure": "status subject",
    "ServiceRequest": "status intent subject",
}
"""Elements of cardinality 1..1 and 1..* on the pages of the types (hl7.org/fhir/R4)."""

NAME = {
    "family": "Stone",
    "_family": {"extension": [{"url": "http://x", "valueCode": "y"}]},
}


def report() -> dict[str, Any]:
    """A report with everything that the parameters tell apart."""
    return {
        "resourceType": "Observation",
        "id": "o1",
        "meta": {"versionId": "3", "tag": [{"code": "mine"}]},
        "language": "en",
        "text": {"status": "generated", "div": "<div/>"},
        "contained": [{"resourceType": "Device", "id": "d"}],
        "modifierExtension": [{"url": "http://x", "valueBoolean": True}],
        "status": "final",
        "code": codeable_concept("GLU"),
        "subject": {"reference": "Patient/p1"},
        "effectiveDateTime": "2130",
        "_effectiveDateTime": {"id": "e"},
        "valueString": "high",
        "interpretation": [codeable_concept("H")],
        "device": {"reference": "#d"},
        "note": [{"text": "seen"}],
    }


KEPT = {"resourceType", "id", "meta", "modifierExtension", "status", "code"}

FORMS = {
    "_elements=note": KEPT | {"note"},
    "_elements=value": KEPT | {"valueString"},
    "_elements=value[x],note": KEPT | {"valueString", "note"},
    "_elements=valueString&_elements=note": KEPT | {"valueString", "note"},
    "_elements=Observation.note": KEPT | {"note"},
    "_elements=effective": KEPT | {"effectiveDateTime", "_effectiveDateTime"},
    "_elements=device": KEPT | {"device", "contained"},
    "_elements=language": KEPT | {"language"},
    "_summary=text": KEPT | {"text"},
    "_summary=data": set(report()) - {"text"},
    "_summary=true": KEPT
    | {"subject", "effectiveDateTime", "_effectiveDateTime", "valueString"},
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Store:
    patient = {
        "resourceType": "Patient",
        "id": "p1",
        "name": [NAME],
        "birthDate": "1950",
    }
    return build_store(tmp_path_factory.mktemp("reports"), [patient, report()])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "url", ["Observation?_id=o1&", "Observation/o1?", "Patient/p1/Observation?"]
)
@pytest.mark.parametrize("form", FORMS)
def test_a_part_has_what_is_asked_for_and_what_is_mandatory(
    reports: Store, profile: str, url: str, form: str
) -> None:
    reply = FhirService(reports.as_profile(profile), BASE).get(f"{url}{form}").json()
    part = reply["entry"][0]["resource"] if reply["resourceType"] == "Bundle" else reply
    assert set(part) == FORMS[form]
    assert [tag["code"] for tag in part["meta"]["tag"]] == ["mine", "SUBSETTED"]
    whole = report()
    for name in set(part) - {"meta"}:
        assert part[name] == whole[name]


@pytest.mark.parametrize(
    "url", ["Observation?_summary=false", "Observation/o1?_summary=false"]
)
def test_a_whole_resource_keeps_its_text(reports: Store, url: str) -> None:
    text = reports.text("Observation", "o1")
    assert text is not None
    assert text in FhirService(reports, BASE).get(url).body


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("Observation?_elements=colour", "colour is no element of Observation"),
        (
            "Observation?_elements=note,colour,shape",
            "shape is no element of Observation",
        ),
        ("Observation/o1?_elements=statu", "Did you mean status"),
        ("Observation?_elements=Patient.name", "Patient is no element of Observation"),
        ("Observation?_elements=valueColour", "valueColour is no element"),
        ("Observation?_elements=note&_summary=true", "cannot be combined"),
        ("Observation/o1?_elements=note&_summary=true", "cannot be combined"),
        ("Observation/o1?_summary=count", "is for searches"),
        ("Observation/o1?_summary=short", "_summary is one of"),
        (
            "Observation?_summary=text&_include=Observation:subject",
            "cannot be combined",
        ),
        ("Patient/p1/$everything?_elements=colour", "colour is no element"),
        ("Patient/p1/$everything?_elements=note&_summary=true", "cannot be combined"),
        ("Patient/p1/$everything?_summary=short", "_summary is one of"),
    ],
)
def test_a_part_that_does_not_exist_is_refused(
    reports: Store, profile: str, url: str, message: str
) -> None:
    service = FhirService(reports.as_profile(profile), BASE)
    reply = service.handle("GET", url, headers=STRICT)
    assert reply.status == 400
    assert message in reply.body


@pytest.mark.parametrize("profile", PROFILES)
def test_an_unknown_element_is_reported_where_it_is_not_refused(
    reports: Store, profile: str
) -> None:
    service = FhirService(reports.as_profile(profile), BASE)
    reply = service.handle("GET", "Observation?_elements=note,colour", headers=LENIENT)
    outcome = reply.json()["entry"][-1]
    assert outcome["search"]["mode"] == "outcome"
    assert "colour is no element" in outcome["resource"]["issue"][0]["diagnostics"]
    read = service.handle("GET", "Observation/o1?_elements=colour", headers=LENIENT)
    assert "_elements" in read.headers["warning"]


def test_an_element_within_another_is_returned_with_all_of_it(reports: Store) -> None:
    bundle = (
        FhirService(reports, BASE).get("Observation?_elements=subject.reference").json()
    )
    assert bundle["entry"][0]["resource"]["subject"] == {"reference": "Patient/p1"}
    assert "subject is returned whole" in json.dumps(bundle["entry"][1])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "url",
    [
        "Observation?_summary=count",
        "Observation?_count=0",
        "Observation?_summary=count&_include=Observation:subject&_count=1&_total=none",
        "Patient/p1/Observation?_summary=count",
        "Encounter/e1/Observation?_summary=count",
        "Patient/p1/$everything?_summary=count",
    ],
)
def test_a_count_has_a_total_and_nothing_else(
    reports: Store, profile: str, url: str
) -> None:
    service = FhirService(reports.as_profile(profile), BASE)
    bundles = [service.get(url).json()]
    path, _, query = url.partition("?")
    if "$" not in path:
        bundles.append(service.handle("POST", f"{path}/_search", query).json())
    totals = {"Encounter/e1/Observation": 0, "Patient/p1/$everything": 2}
    for bundle in bundles:
        assert bundle["total"] == totals.get(path, 1)
        assert "entry" not in bundle
        assert [link["relation"] for link in bundle["link"]] == ["self"]


def test_included_resources_stay_whole_where_elements_are_listed(
    reports: Store,
) -> None:
    url = "Observation?_elements=note&_include=Observation:subject"
    _, included = FhirService(reports, BASE).get(url).json()["entry"]
    assert included["resource"]["birthDate"] == "1950"


def test_the_table_of_elements_has_all_types_and_their_mandatory_elements() -> None:
    for resource_type, names in MANDATORY.items():
        table = resource_elements(resource_type)
        members = frozenset[str]().union(
            *(table.members[name] for name in names.split())
        )
        assert table.mandatory == members
    for resource_type in R4_RESOURCE_TYPES:
        table = resource_elements(resource_type)
        assert table.mandatory <= table.summary
        assert {"id", "meta", "text"} <= table.members.keys()


@pytest.mark.parametrize(
    "form", ["_elements=id", "_summary=true", "_summary=text", "_summary=data"]
)
def test_another_library_finds_that_parts_are_valid(
    ward_store: Store, form: str
) -> None:
    r4b = pytest.importorskip("fhir.resources.R4B", reason="needs fhir.resources")
    service = FhirService(ward_store, BASE)
    for resource_type in (
        "Patient",
        "Encounter",
        "Observation",
        "MedicationRequest",
        "Condition",
    ):
        for entry in service.get(f"{resource_type}?{form}").json()["entry"]:
            model = r4b.get_fhir_model_class(resource_type)
            assert model.model_validate(entry["resource"]).id == entry["resource"]["id"]


def test_types_without_a_row_in_the_index_have_parts_as_well(tmp_path: Path) -> None:
    flag = {
        "resourceType": "Flag",
        "id": "f1",
        "status": "active",
        "author": {"display": "A"},
    }
    store = build_store(
        tmp_path, [{**flag, "code": {"text": "falls"}, "subject": {"display": "B"}}]
    )
    part = (
        FhirService(store, BASE)
        .get("Flag?_elements=period")
        .json()["entry"][0]["resource"]
    )
    assert set(part) == {"resourceType", "id", "meta", "status", "code", "subject"}
