"""Resources of DSTU2, STU3 and R5 in a record of R4 are converted while they are loaded, or named."""

import json
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.fhir import LoadReport, Resource, Store
from tests.fhir.invented import write_ndjson

_PATIENT = {"reference": "Patient/vera"}
_ORDER = {"status": "active", "medicationCodeableConcept": {"text": "Warfarin 5 MG"}}


def _load(folder: Path, *resources: Resource) -> tuple[Store, LoadReport]:
    vera = {"resourceType": "Patient", "id": "vera", "birthDate": "1951-03-04"}
    store = Store.open(folder / "record.db", create=True)
    files = [write_ndjson(folder / "mixed.ndjson", [vera, *resources])]
    return store, store.load(files)


def _resource(resource_type: str, **elements: Any) -> Resource:
    return {"resourceType": resource_type, "id": "r1", **elements}


def _codes(concept: Any) -> list[str]:
    return [coding["code"] for coding in concept["coding"]]


def test_a_condition_of_dstu2_is_stored_as_one_of_r4_and_named_in_the_report(
    tmp_path: Path,
) -> None:
    condition = _resource(
        "Condition",
        patient=_PATIENT,
        code={"text": "Asthma"},
        clinicalStatus="active",
        verificationStatus="confirmed",
        dateRecorded="2020-05-06",
    )
    store, report = _load(tmp_path, condition)
    stored = store.get("Condition", "r1")
    assert stored is not None
    assert stored["subject"] == _PATIENT
    assert _codes(stored["clinicalStatus"]) == ["active"]
    assert _codes(stored["verificationStatus"]) == ["confirmed"]
    assert stored["recordedDate"] == "2020-05-06"
    assert not {"patient", "dateRecorded"} & stored.keys()
    assert store.search("Condition?patient=vera&clinical-status=active").total == 1
    assert (report.converted, report.not_converted, report.bad) == (1, 0, 0)
    place = tmp_path / "mixed.ndjson"
    assert report.remarks == (
        f"{place}: 1 Condition in the shape of DSTU2; converted to R4.",
    )


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (
            _resource("MedicationOrder", patient=_PATIENT, **_ORDER),
            {"resourceType": "MedicationRequest", "subject": _PATIENT, **_ORDER},
        ),
        (
            _resource(
                "MedicationRequest",
                medication={"concept": {"text": "Metformin"}},
                reason=[
                    {"concept": {"text": "Diabetes"}},
                    {"reference": {"reference": "Condition/c"}},
                ],
                status="ended",
            ),
            {
                "medicationCodeableConcept": {"text": "Metformin"},
                "reasonCode": [{"text": "Diabetes"}],
                "reasonReference": [{"reference": "Condition/c"}],
                "status": "completed",
            },
        ),
        (
            _resource(
                "MedicationStatement",
                status="recorded",
                medication={"reference": {"reference": "Medication/m"}},
                adherence={"code": {"coding": [{"code": "stopped-as-directed"}]}},
            ),
            {"medicationReference": {"reference": "Medication/m"}, "status": "stopped"},
        ),
        (
            _resource("MedicationStatement", status="active", wasNotTaken=True),
            {"status": "not-taken"},
        ),
        (
            _resource(
                "MedicationStatement", status="entered-in-error", wasNotTaken=True
            ),
            {"status": "entered-in-error"},
        ),
        (
            _resource(
                "MedicationRequest", dosageInstruction=[{"doseQuantity": {"value": 5}}]
            ),
            {
                "dosageInstruction": [
                    {"doseAndRate": [{"doseQuantity": {"value": 5}}]},
                ]
            },
        ),
        (
            _resource(
                "Encounter",
                status="completed",
                **{"class": [{"coding": [{"code": "IMP"}]}]},
                actualPeriod={"start": "2024-01-01"},
                reason=[{"value": [{"concept": {"text": "Fall"}}]}],
            ),
            {
                "status": "finished",
                "class": {"code": "IMP"},
                "period": {"start": "2024-01-01"},
                "reasonCode": [{"text": "Fall"}],
            },
        ),
        (
            _resource("Procedure", status="completed", notDone=True),
            {"status": "not-done"},
        ),
        (
            _resource("Procedure", occurrencePeriod={"start": "2019-02-03"}),
            {"performedPeriod": {"start": "2019-02-03"}},
        ),
        (
            _resource("Observation", comment="hemolysed", context=_PATIENT),
            {"note": [{"text": "hemolysed"}], "encounter": _PATIENT},
        ),
        (
            _resource("AllergyIntolerance", substance={"text": "Latex"}, type={}),
            {"code": {"text": "Latex"}},
        ),
        (
            _resource("Immunization", date="2020-10-10", notGiven=True),
            {"occurrenceDateTime": "2020-10-10", "status": "not-done"},
        ),
        (
            _resource("Patient", name=[{"family": ["de", "Vries"]}]),
            {"name": [{"family": "de Vries"}]},
        ),
        (
            _resource("DocumentReference", indexed="2020-01-01T00:00:00Z"),
            {"date": "2020-01-01T00:00:00Z"},
        ),
    ],
    ids=lambda value: value.get("resourceType", "") if "id" in value else "",
)
def test_what_maps_without_loss_has_its_place_of_r4(
    tmp_path: Path, resource: Resource, expected: Resource
) -> None:
    store, report = _load(tmp_path, resource)
    resource_type = expected.get("resourceType", resource["resourceType"])
    stored = store.get(resource_type, "r1")
    assert stored is not None
    assert {name: stored.get(name) for name in expected} == expected
    assert report.converted + report.not_converted == 1


def test_resources_of_r4_are_stored_as_they_are_written(tmp_path: Path) -> None:
    text = (
        '{"id":"r1", "resourceType":"Observation","status":"final","code":{"text":"K"},'
        '"category":[{"text":"lab"}],"subject":{"reference":"Patient/vera"},'
        '"note":[{"text":"ok"}],"valueQuantity":{"value":4.10}}'
    )
    store, report = _load(tmp_path)
    path = tmp_path / "r4.ndjson"
    path.write_text(text)
    report = store.load([path])
    assert (report.converted, report.not_converted, report.remarks) == (0, 0, ())
    assert store.text("Observation", "r1") == text


def test_the_numbers_of_a_converted_resource_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "stu3.ndjson"
    path.write_text(
        '{"resourceType": "Observation", "id": "r1", "comment": "ok",'
        ' "valueQuantity": {"value": 1.00}}'
    )
    store, _ = _load(tmp_path)
    store.load([path])
    assert '"value": 1.00' in str(store.text("Observation", "r1"))


def test_what_r4_has_no_place_for_is_named_by_file_line_and_element(
    tmp_path: Path,
) -> None:
    procedure = _resource(
        "Procedure", subject=_PATIENT, occurrenceTiming={"event": ["2020-01-01"]}
    )
    order = _resource("DiagnosticOrder", subject=_PATIENT)
    _, report = _load(tmp_path, procedure, order)
    assert (report.converted, report.not_converted, report.bad) == (0, 1, 1)
    (remark,) = report.remarks
    assert remark.startswith(f"{tmp_path / 'mixed.ndjson'}: 1 Procedure in the shape")
    assert "R5" in remark
    assert remark.endswith("occurrenceTiming: Procedure/r1 (2)")
    (mistake,) = report.mistakes
    assert mistake.endswith(
        ":3: the type DiagnosticOrder is of DSTU2; R4 does not have it."
    )


def test_references_of_a_bundle_lead_to_an_order_under_its_type_of_r4(
    tmp_path: Path,
) -> None:
    order = _resource("MedicationOrder", patient=_PATIENT, **_ORDER)
    dose = {
        "resourceType": "MedicationAdministration",
        "id": "d1",
        "prescription": {"reference": "urn:uuid:6a2d8a1e-0000-4000-8000-000000000001"},
    }
    entries = [
        {"fullUrl": "urn:uuid:6a2d8a1e-0000-4000-8000-000000000001", "resource": order},
        {"fullUrl": "urn:uuid:6a2d8a1e-0000-4000-8000-000000000002", "resource": dose},
    ]
    path = tmp_path / "bundle.json"
    path.write_text(
        json.dumps({"resourceType": "Bundle", "type": "collection", "entry": entries})
    )
    store, _ = _load(tmp_path)
    store.load([path])
    stored = store.get("MedicationAdministration", "d1")
    assert stored is not None
    assert stored["request"] == {"reference": "MedicationRequest/r1"}


@pytest.mark.parametrize(
    "value", [None, True, "x", 1.5, [], {}, [[]], [{}], {"coding": "x"}, {"concept": 1}]
)
def test_values_of_no_version_are_loaded_all_the_same(
    tmp_path: Path, value: Any
) -> None:
    encounter = _resource(
        "Encounter",
        **{"class": value},
        reason=value,
        participant=value,
        meta=value,
        context=value,
        serviceType=value,
        diagnosis=[{"condition": value}],
        indication=value,
    )
    _, report = _load(tmp_path, encounter)
    assert (report.added, report.bad) == (2, 0)


def test_questions_read_the_conditions_and_orders_of_other_versions(
    tmp_path: Path,
) -> None:
    gout = _resource(
        "Condition",
        subject=_PATIENT,
        code={"text": "Gout"},
        clinicalStatus="active",
        assertedDate="2021-04-05",
    )
    order = _resource(
        "MedicationOrder", patient=_PATIENT, dateWritten="2024-02-02", **_ORDER
    )
    store, _ = _load(tmp_path, gout, order)
    diagnoses = archqa.ask(
        "What diagnoses does she have?", patient="vera", record=store.path
    )
    assert "Gout" in diagnoses.text
    drug = archqa.ask("Does she take warfarin?", patient="vera", record=store.path)
    assert "Warfarin" in drug.text
