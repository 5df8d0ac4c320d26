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
    build_schema_card,
    display_name,
    lookup,
    project,
    project_all,
)
from archqa.fhir.views.encounters import encounter_kind
from tests.fhir.invented import codeable_concept, encounter, observation


def test_a_projection_drops_narrative_and_says_codes_in_words() -> None:
    one = observation(
        "o1",
        "p1",
        codeable_concept("GLU", "Glucose"),
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


def test_a_projection_names_what_references_lead_to(ward_store: Store) -> None:
    shown = project_all(
        ward_store.search("MedicationRequest?patient=p1").resources, Resolver(ward_store)
    )
    assert [row["medicationReference"] for row in shown.rows] == [
        "Medication/m3 (Insulin + 0.9% Sodium Chloride)",
        "Medication/m4 (Heparin)",
    ]


def test_a_projection_says_how_many_more_there_are() -> None:
    many = [observation(f"o{at}", "p1") for at in range(100)]
    assert project_all(many, rows=7).omitted == 93
    assert project_all(many, rows=7).text.endswith("\n(93 more)")
    small = project_all(many, rows=100, max_bytes=1000)
    assert len(small.text) < 1100
    assert small.omitted == 100 - len(small.rows)
    assert len(project_all(many, max_bytes=1).rows) == 1


def test_a_card_tells_types_codes_dates_and_references(ward_store: Store) -> None:
    found = {card.type: card for card in build_schema_card(ward_store, "p1").types}
    assert {name: card.count for name, card in found.items()} == {
        "Condition": 1,
        "Encounter": 3,
        "MedicationRequest": 2,
        "Observation": 5,
        "Patient": 1,
        "Specimen": 1,
    }
    observations = found["Observation"]
    assert any(
        system.system == "http://example.org/items" and "Heart Rate" in system.examples
        for system in observations.systems
    )
    assert observations.dates == ("effectiveDateTime",)
    assert "encounter -> Encounter" in observations.references
    assert "valueQuantity.value" in observations.paths
    assert "Glucose" in build_schema_card(ward_store).text


def test_a_lookup_finds_codes_by_words_in_one_patients_record(ward_store: Store) -> None:
    hits = lookup(ward_store, " heart  RATE ", patient="p1")
    assert [(hit.match, hit.found.code, hit.found.count) for hit in hits] == [("equal", "HR", 1)]
    assert lookup(ward_store, "heart rate", patient="p2") == []
    assert [hit.found.type for hit in lookup(ward_store, "blood culture")] == [
        "Observation",
        "Specimen",
    ]
    assert lookup(ward_store, "glucos", patient="p1")[0].match == "part"
    assert lookup(ward_store, "gluocse", patient="p1")[0].match == "near"
    assert [hit.found.code for hit in lookup(ward_store, "heparin", patient="p2")] == ["Heparin"]
    assert lookup(ward_store, "insulin", patient="p2") == []
    assert lookup(ward_store, "", patient="p1") == []


def test_a_resolver_follows_drugs_members_specimens_and_stays(ward_store: Store) -> None:
    resolver = Resolver(ward_store)
    mix, test = ward_store.get("MedicationRequest", "r1"), ward_store.get("Observation", "o5")
    stay, visit = ward_store.get("Encounter", "i1"), ward_store.get("Encounter", "h1")
    assert mix is not None and test is not None and stay is not None and visit is not None  # noqa: PT018
    assert [display_name(resource) for resource in resolver.medications(mix)] == [
        "Insulin",
        "0.9% Sodium Chloride",
    ]
    (organism,) = resolver.members(test)
    assert display_name(organism) == "STAPH AUREUS"
    assert resolver.sources(organism) == [test]
    specimen = resolver.specimen(test)
    assert specimen is not None
    assert display_name(specimen) == "BLOOD CULTURE"
    assert resolver.whole(stay) == visit
    assert [(stay.location["name"], stay.start) for stay in resolver.stays(visit)] == [
        ("Surgery", "2130-01-01T08:00:00-05:00")
    ]
    assert resolver.resolve("Medication/absent") is None
    assert resolver.resolve({"display": "nobody"}) is None


def test_visits_are_told_apart_and_counted_from_either_end(ward_store: Store) -> None:
    visits = Encounters.of(ward_store, "p1")
    assert [resource["id"] for resource in visits.all] == ["h1", "i1", "h2"]
    assert [resource["id"] for resource in visits.hospital.all] == ["h1", "h2"]
    assert visits.icu.first == visits.icu.last == visits.nth(2)
    assert visits.nth(-2) == visits.nth(2)
    assert visits.nth(0) is visits.nth(4) is visits.nth(-4) is None
    assert visits.current == visits.last
    assert Encounters.of(ward_store, "p2").current is None
    assert visits.hospital.first is not None
    assert [resource["id"] for resource in visits.within(visits.hospital.first).all] == ["i1"]
    assert len(visits.emergency) == 0


def test_without_known_identifiers_the_class_tells_what_a_visit_is() -> None:
    def kind(code: str, **more: object) -> EncounterKind:
        return encounter_kind(
            {**encounter("e", "p", "2130", None, "other", **more), "class": {"code": code}}
        )

    assert kind("EMER") is EncounterKind.EMERGENCY
    assert kind("ACUTE", partOf={"reference": "Encounter/x"}) is EncounterKind.ICU
    assert kind("AMB") is EncounterKind.HOSPITAL


def test_fhirpath_is_evaluated_over_a_resource(ward_store: Store) -> None:
    pytest.importorskip("fhirpathpy")
    from archqa.fhir.views import fhirpath

    one = ward_store.get("Observation", "o1")
    assert one is not None
    assert fhirpath.evaluate(one, "Observation.value.unit") == ["mmol/L"]
    assert fhirpath.evaluate(
        one, "code.coding.where(system = %lab).display", lab="http://example.org/labs"
    ) == ["Glucose"]
    for expression in (
        "Observation..",
        "Observation.(",
        "1 +",
        "nosuch()",
        "'open",
        "",
        "a" * 3000,
    ):
        with pytest.raises(FhirError):
            fhirpath.evaluate(one, expression)


def test_without_fhirpathpy_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from archqa.fhir.views import fhirpath

    monkeypatch.setitem(sys.modules, "fhirpathpy", None)
    with pytest.raises(MissingExtra, match=r"archqa\[fhirpath\]"):
        fhirpath.evaluate({}, "id & 'no such expression before'")


def test_codes_are_counted_the_same_by_the_store_and_one_by_one(ward_store: Store) -> None:
    from archqa.fhir.client.code_counts import count_codes

    for kind in ("Observation", "Encounter", "Medication", "MedicationRequest"):
        counted = count_codes(kind, ward_store.search_all(kind))
        assert json.dumps([code.model_dump() for code in counted]) == json.dumps(
            [resource.model_dump() for resource in ward_store.codes(kind)]
        )
