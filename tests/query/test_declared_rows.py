"""Rows of every profile: drugs and doses, family, plans, devices, insurance, the patient."""

from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirService
from archqa.query import Query, execute
from archqa.query.kinds import KINDS
from tests.fhir.invented import build_store, patient
from tests.fhir.serving import client_of
from tests.query.clinic import (
    LOINC,
    NOW,
    PEOPLE,
    RXNORM,
    SUBJECT,
    Ask,
    Resource,
    care_plan,
    clinic_record,
    coded,
    names,
    order,
    refs,
    resource,
)


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ({"repeat": {"frequency": 1, "period": 1, "periodUnit": "d"}}, "once a day"),
        ({"repeat": {"frequency": 2, "period": 1, "periodUnit": "d"}}, "twice a day"),
        ({"repeat": {"frequency": 3, "period": 1, "periodUnit": "d"}}, "3 times a day"),
        ({"repeat": {"frequency": 1, "period": 8, "periodUnit": "h"}}, "every 8 hours"),
        (
            {"repeat": {"frequency": 2, "period": 3, "periodUnit": "wk"}},
            "twice every 3 weeks",
        ),
        ({"repeat": {"when": ["HS"]}}, "at bedtime"),
        ({"code": {"text": "BID"}}, "twice a day"),
        ({"code": {"coding": [{"code": "Q6H"}]}}, "every 6 hours"),
        ({"code": {"text": "as directed"}}, "as directed"),
    ],
)
def test_a_frequency_is_told_in_words(ask: Ask, timing: Resource, words: str) -> None:
    held = order("r", "Aspirin", dosageInstruction=[{"timing": timing}])
    assert ask([held], "medication", returns="frequency").answer.values == (words,)


def test_as_needed_is_told_beside_the_frequency(ask: Ask) -> None:
    repeat = {"frequency": 1, "period": 4, "periodUnit": "h"}
    dosage = {
        "timing": {"repeat": repeat},
        "asNeededBoolean": True,
        "text": "1 tablet for pain",
    }
    answer = ask(
        [order("r", "Aspirin", dosageInstruction=[dosage])],
        "medication",
        returns="dose",
    )
    assert answer.chosen[0].facts["frequency"] == ("every 4 hours, as needed",)
    assert answer.chosen[0].facts["dosage"] == ("1 tablet for pain",)


def test_an_order_without_validity_begins_when_it_was_written(ask: Ask) -> None:
    answer = ask([order("r", "Aspirin")], "medication", returns="time")
    assert answer.answer.values == ("2020-01-05 10:00:00",)
    assert answer.warnings == ()


def test_what_a_patient_is_said_to_take_and_was_handed_is_a_medication(
    ask: Ask,
) -> None:
    aspirin = {"medicationCodeableConcept": {"text": "Aspirin"}}
    held = [
        resource("MedicationStatement", "t1", status="active", **aspirin),
        resource("MedicationStatement", "t2", status="not-taken", **aspirin),
        resource("MedicationDispense", "s1", status="completed", **aspirin),
        resource(
            "MedicationDispense",
            "s2",
            status="completed",
            authorizingPrescription=[{"reference": "MedicationRequest/r"}],
            **aspirin,
        ),
    ]
    found = ask(held, "medication", returns="name")
    handed_over = ["MedicationDispense/s1", "MedicationDispense/s2"]
    assert refs(found) == ["MedicationStatement/t1", *handed_over]
    of_the_order = ask([order("r", "Aspirin"), *held], "medication", returns="name")
    assert set(refs(of_the_order)) == {
        "MedicationRequest/r",
        "MedicationStatement/t1",
        "MedicationDispense/s1",
    }
    assert (
        ask(held, "medication", conventions="mimic-ehrsql", returns="name").chosen == ()
    )


def test_a_drug_is_found_within_its_order_or_in_the_transaction(ask: Ask) -> None:
    contained = order("r1", "", medicationReference={"reference": "#m"})
    contained["contained"] = [
        {"resourceType": "Medication", "id": "m", "code": {"text": "Aspirin"}}
    ]
    by_urn = order("r2", "", medicationReference={"reference": "urn:uuid:m2"})
    drug = {
        "resourceType": "Medication",
        "id": "m2",
        "code": coded("1", "Ibuprofen", RXNORM),
    }
    for held in (contained, by_urn):
        del held["medicationCodeableConcept"]
    assert names(ask([contained, by_urn, drug], "medication", returns="name")) == [
        "Aspirin",
        "Ibuprofen",
    ]


def given(given_id: str, time: str, **fields: Any) -> Resource:
    return resource(
        "MedicationAdministration",
        given_id,
        status="completed",
        medicationCodeableConcept={"text": "Enoxaparin"},
        effectiveDateTime=time,
        **fields,
    )


def test_a_dose_that_was_given_is_told(ask: Ask) -> None:
    dosage = {"dose": {"value": 40, "unit": "mg"}, "route": {"text": "SC"}}
    held = [given("a", "2020-01-01T08:00:00Z", dosage=dosage)]
    answer = ask(held, "administration", concepts=["anticoagulant"], returns="dose")
    assert (answer.answer.values, answer.answer.unit) == (("40",), "mg")
    assert ask(held, "administration", routes=["SC"], returns="name").chosen


FAMILY: Resource = {
    "resourceType": "FamilyMemberHistory",
    "id": "f",
    "status": "completed",
    "patient": SUBJECT,
    "relationship": {"text": "mother"},
    "condition": [
        {"code": {"text": "Breast cancer"}},
        {"code": {"text": "Type 2 diabetes"}},
    ],
}


def test_each_condition_of_a_relative_is_a_row(ask: Ask) -> None:
    assert names(ask([FAMILY], "family_history", returns="name")) == [
        "Breast cancer",
        "Type 2 diabetes",
    ]
    answer = ask([FAMILY], "family_history", concepts=["breast cancer"])
    assert answer.answer.values == ("mother",)


def test_a_care_plan_tells_activities_and_goals_but_not_its_profile(ask: Ask) -> None:
    detail = {"detail": {"code": {"text": "Low salt diet"}, "status": "in-progress"}}
    goal = resource(
        "Goal", "g", lifecycleStatus="active", description={"text": "BP below 140/90"}
    )
    held = [
        goal,
        care_plan(
            "c",
            "Hypertension",
            "active",
            activity=[detail],
            goal=[{"reference": "Goal/g"}],
        ),
    ]
    assert names(ask(held, "care_plan", returns="name")) == ["Hypertension"]
    assert ask(held, "care_plan", returns="activity").answer.values == (
        "Low salt diet",
    )
    assert ask(held, "care_plan", returns="target").answer.values == (
        "BP below 140/90",
    )
    assert names(ask(held, "goal", state="current", returns="name")) == [
        "BP below 140/90"
    ]


def test_the_measure_and_the_value_of_a_goal_are_its_target(ask: Ask) -> None:
    quantity = {"value": 7, "unit": "%", "comparator": "<"}
    target = {
        "measure": coded("4548-4", "Hemoglobin A1c", LOINC),
        "detailQuantity": quantity,
    }
    goal = resource(
        "Goal",
        "g",
        lifecycleStatus="active",
        description={"text": "A1c"},
        target=[target],
    )
    assert ask([goal], "goal", returns="target").answer.values == (
        "Hemoglobin A1c",
        "<7 %",
    )


def test_an_insurance_is_named_by_its_plan_and_payer(ask: Ask) -> None:
    held: Resource = {
        "resourceType": "Coverage",
        "id": "v",
        "status": "active",
        "beneficiary": SUBJECT,
        "payor": [{"reference": "Organization/g1"}],
        "class": [{"name": "Gold plan"}],
        "period": {"start": "2020-01-01"},
    }
    assert names(ask([held, *PEOPLE], "coverage", state="current", returns="name")) == [
        "Gold plan"
    ]
    assert ask([held, *PEOPLE], "coverage", returns="payer").answer.values == (
        "Hill Clinic",
    )


def test_the_team_names_its_practitioners_but_not_the_patient(ask: Ask) -> None:
    members = [{"member": SUBJECT}, {"member": {"reference": "Practitioner/d1"}}]
    held = [
        resource("CareTeam", "k", status="active", name="Team", participant=members),
        *PEOPLE,
    ]
    assert ask(held, "care_team", returns="practitioner").answer.values == (
        "Dr. Okafor",
    )


def test_a_device_in_use_has_the_name_of_its_device(ask: Ask) -> None:
    device = {
        "resourceType": "Device",
        "id": "d",
        "status": "active",
        "deviceName": [{"name": "Pacemaker X", "type": "user-friendly-name"}],
    }
    use = resource(
        "DeviceUseStatement",
        "u",
        status="active",
        device={"reference": "Device/d"},
        timingPeriod={"start": "2020-01-01"},
    )
    answer = ask([device, use], "device", state="current", returns="name")
    assert refs(answer) == ["DeviceUseStatement/u"]
    assert names(answer) == ["Pacemaker X"]


DEAD = {"deceasedDateTime": "2024-05-06T07:00:00Z"}
CONTACTS = {
    "address": [
        {"use": "old", "line": ["1 Past Rd"]},
        {"line": ["2 Elm St"], "city": "Boston", "state": "MA"},
    ],
    "telecom": [
        {"system": "phone", "value": "555-0100"},
        {"system": "email", "value": "a@example.com"},
        {"system": "phone", "value": "555-0199", "use": "old"},
    ],
}


@pytest.mark.parametrize(
    ("fields", "returns", "value"),
    [
        ({}, "alive", True),
        (DEAD, "alive", False),
        ({"deceasedBoolean": True}, "alive", False),
        ({"deceasedBoolean": False}, "alive", True),
        (CONTACTS, "address", "2 Elm St, Boston, MA"),
        (CONTACTS, "phone", "555-0100"),
        (CONTACTS, "email", "a@example.com"),
        ({"birthDate": "1980-11-24"}, "age", 45),
        ({"birthDate": "1980-11-23"}, "age", 46),
    ],
)
def test_a_patient_is_described(
    ask: Ask, fields: Resource, returns: str, value: Any
) -> None:
    answer = ask([patient("p", **fields)], "patient", returns=returns)
    assert answer.answer.values == (value,)
    assert answer.evidence == {"Patient": ("p",)}


@pytest.mark.parametrize(("fields", "died"), [({}, False), (DEAD, True)])
def test_a_death_exists_only_if_the_patient_died(
    ask: Ask, fields: Resource, died: bool
) -> None:
    held = [patient("p", **fields)]
    answer = ask(held, "patient", returns="death_time", summary="exists")
    assert answer.answer.values == (died,)


@pytest.mark.parametrize("profile", ["archqa", "gcp", "hapi"])
def test_a_server_gives_the_same_rows_of_every_kind_as_the_file(
    tmp_path: Path, profile: str
) -> None:
    with build_store(tmp_path / "clinic", [patient("p"), *clinic_record()]) as store:
        server = client_of(
            FhirService(store.as_profile(profile), "http://localhost/fhir")
        )
        for what, kind in KINDS.items():
            query = Query.model_validate(
                {"what": what, "returns": min(kind.returns), "now": NOW}
            )
            local = execute(query, store, "p")
            assert execute(query, server, "p").evidence == local.evidence
