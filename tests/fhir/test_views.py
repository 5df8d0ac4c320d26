"""What models and people see of a record: projections, cards, lookups, visits, references followed."""

import json

import pytest

from archqa.errors import MissingExtra
from archqa.fhir import (
    EncounterKind,
    Encounters,
    FhirError,
    Resolver,
    Store,
    card,
    lookup,
    name_of,
    project,
    project_all,
)
from archqa.fhir.encounters import kind_of
from tests.fhir.invented import concept, encounter, observation


def test_a_projection_drops_narrative_and_says_codes_in_words() -> None:
    one = observation(
        "o1",
        "p1",
        concept("GLU", "Glucose"),
        "2130-01-01",
        text={"div": "<p/>"},
        meta={"profile": ["x"]},
        extension=[{"url": "x"}],
        valueQuantity={"value": 5.4, "unit": "mmol/L", "system": "s", "code": "c"},
    )
    assert project(one) == {
        "resourceType": "Observation",
        "id": "o1",
        "status": "final",
        "category": "Laboratory [laboratory]",
        "code": "Glucose [GLU]",
        "subject": "Patient/p1",
        "effectiveDateTime": "2130-01-01",
        "valueQuantity": {"value": 5.4, "unit": "mmol/L"},
    }


def test_a_projection_names_what_references_lead_to(ward: Store) -> None:
    shown = project_all(ward.search("MedicationRequest?patient=p1").resources, Resolver(ward))
    assert [row["medicationReference"] for row in shown.rows] == [
        "Medication/m3 (Insulin + 0.9% Sodium Chloride)",
        "Medication/m4 (Heparin)",
    ]


def test_a_projection_says_how_many_more_there_are() -> None:
    many = [observation(f"o{at}", "p1") for at in range(100)]
    assert project_all(many, rows=7).more == 93
    assert project_all(many, rows=7).text.endswith("\n(93 more)")
    small = project_all(many, rows=100, most_bytes=1000)
    assert len(small.text) < 1100
    assert small.more == 100 - len(small.rows)
    assert len(project_all(many, most_bytes=1).rows) == 1


def test_a_card_tells_types_codes_dates_and_references(ward: Store) -> None:
    found = {each.type: each for each in card(ward, "p1").types}
    assert {name: each.count for name, each in found.items()} == {
        "Condition": 1,
        "Encounter": 3,
        "MedicationRequest": 2,
        "Observation": 5,
        "Patient": 1,
        "Specimen": 1,
    }
    observations = found["Observation"]
    assert any(
        each.system == "http://example.org/items" and "Heart Rate" in each.examples for each in observations.systems
    )
    assert observations.dates == ("effectiveDateTime",)
    assert "encounter -> Encounter" in observations.references
    assert "valueQuantity.value" in observations.paths
    assert "Glucose" in card(ward).text


def test_a_lookup_finds_codes_by_words_in_one_patients_record(ward: Store) -> None:
    hits = lookup(ward, " heart  RATE ", patient="p1")
    assert [(hit.match, hit.found.code, hit.found.count) for hit in hits] == [("equal", "HR", 1)]
    assert lookup(ward, "heart rate", patient="p2") == []
    assert [hit.found.type for hit in lookup(ward, "blood culture")] == ["Observation", "Specimen"]
    assert lookup(ward, "glucos", patient="p1")[0].match == "part"
    assert lookup(ward, "gluocse", patient="p1")[0].match == "near"
    assert [hit.found.code for hit in lookup(ward, "heparin", patient="p2")] == ["Heparin"]
    assert lookup(ward, "insulin", patient="p2") == []
    assert lookup(ward, "", patient="p1") == []


def test_a_resolver_follows_drugs_members_specimens_and_stays(ward: Store) -> None:
    resolver = Resolver(ward)
    mix, test = ward.get("MedicationRequest", "r1"), ward.get("Observation", "o5")
    stay, visit = ward.get("Encounter", "i1"), ward.get("Encounter", "h1")
    assert mix is not None and test is not None and stay is not None and visit is not None  # noqa: PT018
    assert [name_of(each) for each in resolver.medications(mix)] == ["Insulin", "0.9% Sodium Chloride"]
    (organism,) = resolver.members(test)
    assert name_of(organism) == "STAPH AUREUS"
    assert resolver.sources(organism) == [test]
    specimen = resolver.specimen(test)
    assert specimen is not None
    assert name_of(specimen) == "BLOOD CULTURE"
    assert resolver.whole(stay) == visit
    assert [(each.location["name"], each.start) for each in resolver.stays(visit)] == [
        ("Surgery", "2130-01-01T08:00:00-05:00")
    ]
    assert resolver.resolve("Medication/absent") is None
    assert resolver.resolve({"display": "nobody"}) is None


def test_visits_are_told_apart_and_counted_from_either_end(ward: Store) -> None:
    visits = Encounters.of(ward, "p1")
    assert [each["id"] for each in visits.all] == ["h1", "i1", "h2"]
    assert [each["id"] for each in visits.hospital.all] == ["h1", "h2"]
    assert visits.icu.first == visits.icu.last == visits.nth(2)
    assert visits.nth(-2) == visits.nth(2)
    assert visits.nth(0) is visits.nth(4) is visits.nth(-4) is None
    assert visits.current == visits.last
    assert Encounters.of(ward, "p2").current is None
    assert visits.hospital.first is not None
    assert [each["id"] for each in visits.within(visits.hospital.first).all] == ["i1"]
    assert len(visits.emergency) == 0


def test_without_known_identifiers_the_class_tells_what_a_visit_is() -> None:
    def kind(code: str, **more: object) -> EncounterKind:
        return kind_of({**encounter("e", "p", "2130", None, "other", **more), "class": {"code": code}})

    assert kind("EMER") is EncounterKind.EMERGENCY
    assert kind("ACUTE", partOf={"reference": "Encounter/x"}) is EncounterKind.ICU
    assert kind("AMB") is EncounterKind.HOSPITAL


def test_fhirpath_is_evaluated_over_a_resource(ward: Store) -> None:
    pytest.importorskip("fhirpathpy")
    from archqa.fhir import fhirpath

    one = ward.get("Observation", "o1")
    assert one is not None
    assert fhirpath.evaluate(one, "Observation.value.unit") == ["mmol/L"]
    assert fhirpath.evaluate(one, "code.coding.where(system = %lab).display", lab="http://example.org/labs") == [
        "Glucose"
    ]
    for expression in ("Observation..", "Observation.(", "1 +", "nosuch()", "'open", "", "a" * 3000):
        with pytest.raises(FhirError):
            fhirpath.evaluate(one, expression)


def test_without_fhirpathpy_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from archqa.fhir import fhirpath

    monkeypatch.setitem(sys.modules, "fhirpathpy", None)
    with pytest.raises(MissingExtra, match=r"archqa\[fhirpath\]"):
        fhirpath.evaluate({}, "id & 'no such expression before'")


def test_codes_are_counted_the_same_by_the_store_and_one_by_one(ward: Store) -> None:
    from archqa.fhir.counting import count_codes

    for kind in ("Observation", "Encounter", "Medication", "MedicationRequest"):
        counted = count_codes(kind, ward.search_all(kind))
        assert json.dumps([each.model_dump() for each in counted]) == json.dumps(
            [each.model_dump() for each in ward.codes(kind)]
        )
