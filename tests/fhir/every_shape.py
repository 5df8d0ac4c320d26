"""Invented resources of every R4 type in every shape that the official examples and Synthea have."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES

Resource = dict[str, Any]

NPI = "http://hl7.org/fhir/sid/us-npi"
LONGEST_ID = "Az09-." * 10 + "last"
"""An id of 64 characters, of all kinds that an id may have."""

REFERENCES: list[Resource] = [
    {"reference": "Patient/p1"},
    {"reference": f"Patient/{LONGEST_ID}"},
    {"reference": "http://example.org/fhir/Patient/p1"},
    {"reference": "Patient/p1/_history/3"},
    {"reference": "http://example.org/fhir/Patient/p1/_history/3"},
    {"reference": "urn:uuid:0c3151bd-1cbf-4d64-b04d-cd9187a4c6e0"},
    {"reference": "urn:oid:1.2.3.4"},
    {"reference": "#inner"},
    {
        "identifier": {"system": "http://example.org/mrn", "value": "7"},
        "display": "Ann",
    },
    {"reference": "Patient?identifier=http://example.org/mrn|MRN-p1"},
    {"display": "someone"},
    {
        "_reference": {
            "extension": [{"url": "http://example.org/none", "valueCode": "unknown"}]
        }
    },
]
"""References of every form (references.html)."""


def resource_of_every_type() -> list[Resource]:
    """A resource of each type, with contained resources, extensions and a narrative."""
    return [
        _with_shapes(name, "x" if name != "Basic" else LONGEST_ID) for name in _types()
    ]


def _types() -> list[str]:
    # A Bundle without entries is a resource like any other.
    return sorted(R4_RESOURCE_TYPES)


def _with_shapes(resource_type: str, resource_id: str) -> Resource:
    table = "<tr><td>é &lt; 5.10</td></tr>" * 500
    return {
        "resourceType": resource_type,
        "id": resource_id,
        "meta": {"versionId": "7", "lastUpdated": "2024-02-29T23:59:59.123+14:00"},
        "text": {"status": "generated", "div": f"<div><table>{table}</table></div>"},
        "contained": [
            {"resourceType": "Patient", "id": "inner", "name": [{"family": "Inner"}]}
        ],
        "extension": [{"url": "http://example.org/deep", "extension": _nested(20)}],
        "_birthDate": {
            "extension": [{"url": "http://example.org/time", "valueTime": "08:00:00"}]
        },
        "given": ["Ann", None],
        "_given": [None, {"id": "g2"}],
        "subject": {"reference": "Patient/p1"},
    }


def _nested(levels: int) -> list[Resource]:
    extension: Resource = {"url": "http://example.org/leaf", "valueDecimal": 1}
    for _ in range(levels):
        extension = {"url": "http://example.org/level", "extension": [extension]}
    return [extension]


def observations_with_every_reference() -> list[Resource]:
    """An Observation for each form of reference, as subject."""
    resources = []
    for number, reference in enumerate(REFERENCES):
        common = {"resourceType": "Observation", "id": f"r{number}", "status": "final"}
        resources.append({**common, "code": {"text": "x"}, "subject": reference})
    return resources


def synthea_patient(number: int) -> Resource:
    """A transaction as Synthea writes it: urn:uuid inside, conditions for what is elsewhere."""
    person = f"0000000{number}-aaaa-4bbb-8ccc-000000000001"
    visit = f"0000000{number}-aaaa-4bbb-8ccc-000000000002"
    result = f"0000000{number}-aaaa-4bbb-8ccc-000000000003"
    practitioner = {"reference": f"Practitioner?identifier={NPI}|999999{number}"}
    hospital = {
        "reference": "Organization?identifier=http://example.org/synthea|hospital-1"
    }
    resources: list[Resource] = [
        {
            "resourceType": "Patient",
            "id": person,
            "name": [{"family": f"Stone{number}"}],
        },
        {
            "resourceType": "Encounter",
            "id": visit,
            "status": "finished",
            "class": {"code": "AMB"},
            "subject": {"reference": f"urn:uuid:{person}"},
            "participant": [{"individual": practitioner}],
            "serviceProvider": hospital,
        },
        {
            "resourceType": "Observation",
            "id": result,
            "status": "final",
            "code": {"coding": [{"system": "http://loinc.org", "code": "8302-2"}]},
            "subject": {"reference": f"urn:uuid:{person}"},
            "encounter": {"reference": f"urn:uuid:{visit}"},
            "valueQuantity": {"value": 1.1, "unit": "cm"},
        },
    ]
    return transaction(resources)


def synthea_practitioners(count: int) -> Resource:
    """The practitioners that the patients' Bundles name by condition."""
    resources = []
    for number in range(count):
        identifier = [{"system": NPI, "value": f"999999{number}"}]
        resources.append(
            {
                "resourceType": "Practitioner",
                "id": f"doctor{number}",
                "identifier": identifier,
            }
        )
    return transaction(resources, if_none_exist=True)


def synthea_hospitals() -> Resource:
    """The hospital that the patients' Bundles name by condition."""
    identifier = [{"system": "http://example.org/synthea", "value": "hospital-1"}]
    return transaction(
        [{"resourceType": "Organization", "id": "h1", "identifier": identifier}]
    )


def transaction(resources: list[Resource], *, if_none_exist: bool = False) -> Resource:
    """A transaction that creates these, each with a urn:uuid of its id."""
    entries = []
    for resource in resources:
        request = {"method": "POST", "url": resource["resourceType"]}
        if if_none_exist:
            request["ifNoneExist"] = f"identifier={resource['identifier'][0]['value']}"
        full_url = f"urn:uuid:{resource['id']}"
        entries.append({"fullUrl": full_url, "resource": resource, "request": request})
    return {"resourceType": "Bundle", "type": "transaction", "entry": entries}


def collection(resources: list[Resource]) -> Resource:
    """A collection of resources."""
    entries = [{"resource": resource} for resource in resources]
    return {"resourceType": "Bundle", "type": "collection", "entry": entries}


def write_json(path: Path, value: Any) -> Path:
    """Write a document; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    return path


def references_of(value: Any) -> Iterator[str]:
    """Yield every literal reference in a resource."""
    if isinstance(value, list):
        for item in value:
            yield from references_of(item)
    elif isinstance(value, dict):
        reference = value.get("reference")
        if isinstance(reference, str):
            yield reference
        for item in value.values():
            yield from references_of(item)


def walk_bundles(folder: Path, visit: Callable[[Resource], None]) -> None:
    """Visit each resource in the files of a folder, those in Bundles one by one."""
    for path in sorted(folder.rglob("*.json")):
        document = json.loads(path.read_bytes().decode("utf-8-sig"))
        if not isinstance(document, dict) or "resourceType" not in document:
            continue
        if document["resourceType"] == "Bundle" and "entry" in document:
            for entry in document["entry"]:
                if "resource" in entry:
                    visit(entry["resource"])
        else:
            visit(document)
