"""Who, where and why: what rows refer to, and the class of an encounter."""

import pytest

from tests.query.clinic import (
    PEOPLE,
    Ask,
    Resource,
    coded,
    contact,
    names,
    order,
    problem,
    refs,
)


def seen_by(reference: Resource) -> Resource:
    return {"participant": [{"individual": reference}]}


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ({"reference": "Practitioner/d1"}, "Dr. Okafor"),
        ({"reference": "PractitionerRole/w1"}, "Dr. Okafor"),
        ({"reference": "urn:uuid:d1"}, "Dr. Okafor"),
        ({"reference": "Practitioner/gone", "display": "Dr. Lin"}, "Dr. Lin"),
        ({"reference": "Practitioner?identifier=x|7", "display": "Dr. Lin"}, "Dr. Lin"),
        ({"display": "Dr. Lin"}, "Dr. Lin"),
        ({"reference": "Organization/g1"}, None),
    ],
)
def test_a_practitioner_is_named_through_the_reference(
    ask: Ask, reference: Resource, name: str | None
) -> None:
    held = [*PEOPLE, contact("e", "AMB", "2020-01-01", **seen_by(reference))]
    values = ask(held, "encounter", returns="practitioner").answer.values
    assert values == ((name,) if name else ())


def test_the_place_and_the_people_of_an_encounter_stand_in(ask: Ask) -> None:
    held = [
        *PEOPLE,
        contact(
            "e",
            "AMB",
            "2020-01-01",
            serviceProvider={"reference": "Organization/g1"},
            **seen_by({"reference": "Practitioner/d1"}),
        ),
        order("r1", "Aspirin", encounter={"reference": "Encounter/e"}),
        order("r2", "Ibuprofen", requester={"display": "Dr. Lin"}),
    ]
    place = ask(held, "medication", names=["Aspirin"], returns="place")
    assert place.answer.values == ("Hill Clinic",)
    assert "that of their encounter stands in" in place.warnings[0]
    people = ask(held, "medication", returns="practitioner").answer.values
    assert people == ("Dr. Okafor", "Dr. Lin")


@pytest.mark.parametrize(
    ("class_code", "visit_class"),
    [
        ("AMB", "ambulatory"),
        ("EMER", "emergency"),
        ("IMP", "inpatient"),
        ("ACUTE", "inpatient"),
        ("VR", "virtual"),
        ("HH", "home"),
    ],
)
def test_an_encounter_is_of_its_class(
    ask: Ask, class_code: str, visit_class: str
) -> None:
    held = [contact("e", class_code, "2020-01-01")]
    for asked in ("ambulatory", "emergency", "inpatient", "icu", "virtual", "home"):
        answer = ask(held, "encounter", classes=[asked], summary="count")
        assert answer.answer.values == (int(asked == visit_class),)


def test_an_icu_is_known_by_its_place(ask: Ask) -> None:
    in_unit = [{"location": {"reference": "Location/l1"}}]
    held = [*PEOPLE, contact("e", "IMP", "2020-01-01", location=in_unit)]
    for visit_class in ("icu", "inpatient"):
        answer = ask(held, "encounter", classes=[visit_class], summary="count")
        assert answer.answer.values == (1,)


def test_only_inpatients_visit_a_hospital(ask: Ask) -> None:
    held = [contact("e1", "AMB", "2020-01-01"), contact("e2", "IMP", "2021-01-01")]
    assert refs(ask(held, "hospital_visit", returns="time")) == ["Encounter/e2"]
    benchmark = ask(held, "hospital_visit", returns="time", conventions="mimic-ehrsql")
    assert len(benchmark.chosen) == 2


REASONED = [
    problem(
        "c1", "Essential hypertension", code=coded("59621000", "Essential hypertension")
    ),
    problem("c2", "Sprain of ankle", encounter={"reference": "Encounter/e"}),
    contact("e", "EMER", "2020-01-01", reasonCode=[{"text": "fell_on_stairs"}]),
    order("r1", "Lisinopril", reasonReference=[{"reference": "Condition/c1"}]),
    order("r2", "Metoprolol", reasonReference=[{"reference": "urn:uuid:c1"}]),
    order("r3", "Aspirin", reasonCode=[{"text": "Headache"}]),
]


def test_a_reason_is_cited_with_the_row(ask: Ask) -> None:
    answer = ask(REASONED, "medication", names=["Lisinopril"], returns="reason")
    assert answer.answer.values == ("Essential hypertension",)
    assert answer.evidence == {"Condition": ("c1",), "MedicationRequest": ("r1",)}


def test_the_diagnoses_of_an_encounter_are_among_its_reasons(ask: Ask) -> None:
    answer = ask(REASONED, "encounter", returns="reason")
    assert answer.answer.values == ("fell_on_stairs", "Sprain of ankle")
    assert answer.evidence == {"Condition": ("c2",), "Encounter": ("e",)}


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("hypertension", ["Lisinopril", "Metoprolol"]),
        ("headache", ["Aspirin"]),
        ("asthma", []),
    ],
)
def test_drugs_are_found_by_their_reason(
    ask: Ask, reason: str, found: list[str]
) -> None:
    assert names(ask(REASONED, "medication", reasons=[reason], returns="name")) == found
