"""What the record says against a write: open orders of the same, unknown units, absurd doses."""

import json
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import (
    AuditLog,
    FhirService,
    Overlay,
    Store,
    WriteMode,
    Writer,
    WriteResult,
)
from tests.fhir.invented import (
    build_store,
    codeable_concept,
    medication,
    medication_request,
    observation,
    patient,
)
from tests.fhir.serving import BASE
from tests.fhir.writes import MEDICATION_ORDER, REFERRAL, VITAL_SIGN

NDC = "http://hl7.org/fhir/sid/ndc"
LOINC = "http://loinc.org"


def dosage(value: Any, unit: str, **more: Any) -> list[dict[str, Any]]:
    return [{"doseAndRate": [{"doseQuantity": {"value": value, "unit": unit}}], **more}]


def order(
    value: Any, unit: str, *, name: str = "Drug", code: str = "0338-1", **more: Any
) -> Any:
    concept = codeable_concept(code, name, NDC, name)
    instruction = dosage(value, unit, **more)
    return {
        **MEDICATION_ORDER,
        "medicationCodeableConcept": concept,
        "dosageInstruction": instruction,
    }


def past_orders(
    *amounts: tuple[float, str], code: str = "0338-1"
) -> list[dict[str, Any]]:
    """Completed orders of another patient."""
    resources = []
    for number, (value, unit) in enumerate(amounts):
        resource = medication_request(
            f"past{number}", "p2", "absent", status="completed"
        )
        del resource["medicationReference"]
        resource["medicationCodeableConcept"] = codeable_concept(code, "Drug", NDC)
        resource["dosageInstruction"] = dosage(value, unit)
        resources.append(resource)
    return resources


def record(folder: Path, *resources: dict[str, Any]) -> Store:
    return build_store(folder / "store", [patient("p1"), patient("p2"), *resources])


def write(
    store: Store, body: dict[str, Any], mode: WriteMode = WriteMode.VALIDATE
) -> WriteResult:
    return Writer(store, mode).post(body["resourceType"], json.dumps(body))


def warnings(store: Store, body: dict[str, Any]) -> list[str]:
    """The warnings about a write, which must not refuse it."""
    result = write(store, body)
    assert result.status == 200
    assert {finding.level for finding in result.findings} <= {"warn"}
    return [f"{finding.path} {finding.message}" for finding in result.findings]


GRAMS = [(2.0, "g"), (1.0, "g"), (4000.0, "mg"), (2.0, "g"), (3.0, "g")]


@pytest.mark.parametrize(
    ("value", "unit", "warned"),
    [
        (2, "g", ""),
        (20, "g", ""),
        (20.1, "g", "5 times the highest"),
        (2000, "mg", ""),
        (2000, "g", "5 times the highest"),
        (0.1, "g", ""),
        (0.09, "g", "10th of the lowest"),
        (2, "mcg", "10th of the lowest"),
        (2, "mL", "in other units"),
    ],
)
def test_a_dose_is_compared_with_the_other_orders_whatever_their_unit(
    tmp_path: Path, value: float, unit: str, warned: str
) -> None:
    store = record(tmp_path, *past_orders(*GRAMS))
    found = warnings(store, order(value, unit))
    assert len(found) == bool(warned)
    assert all(warned in text for text in found)


@pytest.mark.parametrize("profile", ["gcp", "hapi"])
def test_every_profile_warns(tmp_path: Path, profile: str) -> None:
    open_order = {**order(2, "g"), "id": "open1"}
    store = record(tmp_path, *past_orders(*GRAMS), open_order).as_profile(profile)
    assert len(warnings(store, order(2000, "g"))) == 2


def test_few_orders_of_a_medication_say_nothing(tmp_path: Path) -> None:
    store = record(tmp_path, *past_orders(*GRAMS[:4]))
    assert warnings(store, order(2000, "g")) == []
    other = record(tmp_path / "other", *past_orders(*GRAMS, code="other"))
    assert warnings(other, order(2000, "g")) == []


@pytest.mark.parametrize(
    ("name", "value", "unit", "timing", "warned"),
    [
        ("Acetaminophen 325 mg tablet", 650, "mg", None, False),
        ("ACETAMINOPHEN", 4.1, "g", None, True),
        (
            "paracetamol",
            1000,
            "mg",
            {"repeat": {"frequency": 4, "period": 1, "periodUnit": "d"}},
            False,
        ),
        (
            "paracetamol",
            1000,
            "mg",
            {"repeat": {"frequency": 1, "period": 4, "periodUnit": "h"}},
            True,
        ),
        ("paracetamol", 1000, "mg", {"code": {"text": "Q6H"}}, False),
        ("paracetamol", 1000, "mg", {"code": {"text": "q4h"}}, True),
        ("paracetamol", 1500, "mg", {"code": codeable_concept("TID")}, True),
        ("paracetamol", 1500, "mg", {"code": codeable_concept("BID")}, False),
        (
            "paracetamol",
            3000,
            "mg",
            {"repeat": {"frequency": 1, "period": 1, "periodUnit": "wk"}},
            False,
        ),
        ("Oxycodone-Acetaminophen", 5000, "mg", None, False),
        ("Acetaminophen w/Codeine", 5000, "mg", None, False),
        ("digoxin", 250, "mg", None, True),
        ("digoxin", 250, "mcg", None, False),
        ("metronidazole 1% gel", 30, "g", None, False),
        ("apapine", 5000, "g", None, False),
        ("acetaminophen", 2, "tablet", None, False),
        ("potassium chloride", 1000, "mEq", None, True),
    ],
)
def test_a_dose_above_the_most_of_a_day_is_warned_of(
    tmp_path: Path, name: str, value: float, unit: str, timing: Any, warned: bool
) -> None:
    more = {"timing": timing} if timing else {}
    found = warnings(record(tmp_path), order(value, unit, name=name, **more))
    assert len(found) == warned
    assert all("a day" in text for text in found)


def test_a_warning_names_the_place_and_no_other_patient(tmp_path: Path) -> None:
    store = record(tmp_path, *past_orders(*GRAMS))
    (text,) = warnings(store, order(2000, "g"))
    assert text.startswith("dosageInstruction[0].doseAndRate[0].doseQuantity ")
    assert not any(secret in text for secret in ("p2", "past", "4", "Drug"))


def test_an_open_order_of_the_same_is_warned_of(tmp_path: Path) -> None:
    open_order = {**order(2, "g"), "id": "open1"}
    open_referral = {**REFERRAL, "id": "referral1", "status": "on-hold"}
    store = record(tmp_path, open_order, open_referral)
    (text,) = warnings(store, order(1, "g"))
    assert text.endswith("same medication, MedicationRequest/open1.")
    (text,) = warnings(store, REFERRAL)
    assert text.endswith("same service, ServiceRequest/referral1.")


@pytest.mark.parametrize(
    "change",
    [
        {"status": "completed"},
        {"subject": {"reference": "Patient/p2"}},
        {"medicationCodeableConcept": codeable_concept("other", "Other", NDC)},
    ],
)
def test_another_or_a_closed_order_is_no_double(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    store = record(tmp_path, {**order(2, "g"), "id": "open1", **change})
    assert warnings(store, order(1, "g")) == []
    assert (
        warnings(
            record(tmp_path / "b", {**order(2, "g"), "id": "o"}),
            {**order(1, "g"), **change},
        )
        == []
    )


def test_a_medication_is_the_same_by_reference_name_or_contained(
    tmp_path: Path,
) -> None:
    store = record(
        tmp_path, medication("m1", "Heparin"), medication_request("open1", "p1", "m1")
    )
    base = {**order(1, "mg"), "status": "active"}
    by_name = {**base, "medicationCodeableConcept": {"text": "heparin"}}
    del base["medicationCodeableConcept"]
    by_reference = {**base, "medicationReference": {"reference": "Medication/m1"}}
    contained = {
        **base,
        "contained": [
            {"resourceType": "Medication", "id": "x", "code": {"text": "HEPARIN"}}
        ],
        "medicationReference": {"reference": "#x"},
    }
    for body in (by_name, by_reference, contained):
        assert len(warnings(store, body)) == 1


def test_an_order_that_was_just_written_counts(ward_store: Store) -> None:
    with Overlay.over(ward_store) as overlay:
        writer = Writer(overlay, WriteMode.APPLY)
        results = [
            writer.post("ServiceRequest", json.dumps(REFERRAL)) for _ in range(2)
        ]
        assert [result.status for result in results] == [201, 201]
        assert [len(result.findings) for result in results] == [0, 1]
    writer = Writer(ward_store, WriteMode.VALIDATE)
    results = [writer.post("ServiceRequest", json.dumps(REFERRAL)) for _ in range(2)]
    assert [len(result.findings) for result in results] == [0, 1]
    assert "nothing is stored" in results[1].findings[0].message


def glucose(quantity: dict[str, Any]) -> dict[str, Any]:
    result = {**VITAL_SIGN, "code": codeable_concept("2345-7", "Glucose", LOINC)}
    del result["valueString"]
    return {**result, "valueQuantity": quantity}


@pytest.mark.parametrize(
    ("quantity", "warned"),
    [
        ({"value": 100, "unit": "mg/dL"}, ""),
        ({"value": 100, "unit": "MG/DL"}, ""),
        ({"value": 100, "unit": "mg%", "code": "mg/dL"}, ""),
        ({"value": 5.5, "unit": "mmol/L"}, "something else"),
        ({"value": 1, "unit": "g/L"}, "has this unit, but mg/dL"),
        ({"value": 1, "unit": "kg"}, "something else"),
        ({"value": 1, "unit": "gizmos"}, "has this unit, but mg/dL"),
    ],
)
def test_a_unit_that_the_record_does_not_have_for_the_code_is_warned_of(
    tmp_path: Path, quantity: dict[str, Any], warned: str
) -> None:
    known = observation(
        "g1",
        "p2",
        codeable_concept("2345-7", "Glucose", LOINC),
        valueQuantity={"value": 90, "unit": "mg/dL"},
    )
    store = record(tmp_path, known)
    found = warnings(store, glucose(quantity))
    assert len(found) == bool(warned)
    assert all(warned in text and text.startswith("valueQuantity ") for text in found)
    panel = {**VITAL_SIGN, "component": [glucose(quantity)]}
    assert len(warnings(store, panel)) == bool(warned)


def test_a_code_without_results_says_nothing_about_units(tmp_path: Path) -> None:
    other_system = observation(
        "g1",
        "p2",
        codeable_concept("2345-7"),
        valueQuantity={"value": 90, "unit": "mg/dL"},
    )
    store = record(tmp_path, other_system)
    assert warnings(store, glucose({"value": 1, "unit": "kg"})) == []


def test_units_of_the_overlay_count_too(ward_store: Store) -> None:
    with Overlay.over(ward_store) as overlay:
        writer = Writer(overlay, WriteMode.APPLY)
        first = writer.post(
            "Observation", json.dumps(glucose({"value": 90, "unit": "mg/dL"}))
        )
        second = writer.post(
            "Observation", json.dumps(glucose({"value": 5, "unit": "mmol/L"}))
        )
        assert (len(first.findings), len(second.findings)) == (0, 1)


def test_modes_that_check_nothing_against_the_record_warn_of_nothing(
    tmp_path: Path,
) -> None:
    store = record(tmp_path, {**order(2, "g"), "id": "open1"})
    recorded = write(store, order(2, "g"), WriteMode.RECORD)
    assert (recorded.status, recorded.findings) == (200, ())


def test_warnings_are_issues_of_the_reply_and_in_the_log(tmp_path: Path) -> None:
    store = record(tmp_path, {**order(2, "g"), "id": "open1"})
    log = AuditLog(tmp_path / "audit.jsonl")
    service = FhirService(store, BASE, Writer(store, WriteMode.VALIDATE, log))
    reply = service.post("MedicationRequest", json.dumps(order(2, "g")))
    (issue,) = reply.json()["issue"]
    assert (reply.status, issue["severity"]) == (200, "warning")
    (entry,) = log.entries()
    assert entry.findings[0]["level"] == "warn"


@pytest.mark.parametrize(
    "change",
    [
        {
            "dosageInstruction": [
                {"doseAndRate": [{"doseQuantity": {"value": 10**400, "unit": "g"}}]}
            ]
        },
        {
            "dosageInstruction": [
                {"doseAndRate": [{"doseRange": {"high": {"value": 9, "unit": "x"}}}]}
            ]
        },
        {
            "dosageInstruction": [
                {"timing": {"repeat": {"period": 0, "periodUnit": []}}}
            ]
        },
        {"dosageInstruction": [{"timing": 3, "doseAndRate": 4}, 5]},
        {"dosageInstruction": [{"timing": {"code": {"text": "Q0H"}}}]},
        {"contained": 3},
        {"medicationReference": {"reference": 7}},
        {"medicationReference": {"reference": "Medication/a,b|c$d"}},
    ],
)
def test_odd_shapes_are_no_failure(tmp_path: Path, change: dict[str, Any]) -> None:
    result = write(record(tmp_path, *past_orders(*GRAMS)), {**order(2, "g"), **change})
    assert result.status in {200, 400, 422}
