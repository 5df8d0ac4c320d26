"""Views of a record: projections, cards, lookups, visits and references that are followed."""

from archqa.fhir import (
    EncounterKind,
    Encounters,
    Resolver,
    Store,
    build_schema_card,
    display_name,
    lookup,
    project,
    project_all,
)
from archqa.fhir.views.encounters import encounter_kind
from tests.fhir.invented import (
    Resource,
    codeable_concept,
    encounter,
    ids_of,
    observation,
)


def test_a_projection_drops_narrative_and_says_codes_in_words() -> None:
    glucose = observation(
        "o1",
        "p1",
        codeable_concept("GLU", "Glucose"),
        "2130-01-01",
        text={"div": "<p/>"},
        meta={"profile": ["x"]},
        extension=[{"url": "x"}],
        valueQuantity={"value": 5.4, "unit": "mmol/L", "system": "s", "code": "c"},
    )
    assert project(glucose) == {
        "resourceType": "Observation",
        "id": "o1",
        "status": "final",
        "category": "Laboratory [laboratory]",
        "code": "Glucose [GLU]",
        "subject": "Patient/p1",
        "effectiveDateTime": "2130-01-01",
        "valueQuantity": {"value": 5.4, "unit": "mmol/L"},
    }


def test_a_projection_keeps_words_of_annotations_and_concepts_and_spoken_languages() -> (
    None
):
    order = {
        "resourceType": "MedicationRequest",
        "id": "m1",
        "language": "en",
        "text": {"div": "<p/>"},
        "medicationCodeableConcept": {"text": "Aspirin"},
        "note": [{"text": "by telephone"}],
        "communication": [{"language": {"text": "Spanish"}}],
    }
    assert project(order) == {
        "resourceType": "MedicationRequest",
        "id": "m1",
        "medicationCodeableConcept": {"text": "Aspirin"},
        "note": {"text": "by telephone"},
        "communication": {"language": {"text": "Spanish"}},
    }


def test_a_projection_names_the_targets_of_references(ward_store: Store) -> None:
    shown = project_all(
        ward_store.search("MedicationRequest?patient=p1").resources,
        Resolver(ward_store),
    )
    assert [row["medicationReference"] for row in shown.rows] == [
        "Medication/m3 (Insulin + 0.9% Sodium Chloride)",
        "Medication/m4 (Heparin)",
    ]


def test_a_projection_says_how_many_more_there_are() -> None:
    observations = [observation(f"o{number}", "p1") for number in range(100)]
    projection = project_all(observations, rows=7)
    assert projection.omitted == 93
    assert projection.text.endswith("\n(93 more)")
    small = project_all(observations, rows=100, max_bytes=1000)
    assert len(small.text) < 1100
    assert small.omitted == 100 - len(small.rows)
    assert len(project_all(observations, max_bytes=1).rows) == 1


def test_a_card_tells_types_codes_dates_and_references(ward_store: Store) -> None:
    cards = {card.type: card for card in build_schema_card(ward_store, "p1").types}
    assert {name: card.count for name, card in cards.items()} == {
        "Condition": 1,
        "Encounter": 3,
        "MedicationRequest": 2,
        "Observation": 5,
        "Patient": 1,
        "Specimen": 1,
    }
    observations = cards["Observation"]
    examples = {system.system: system.examples for system in observations.systems}
    assert "Heart Rate" in examples["http://example.org/items"]
    assert observations.dates == ("effectiveDateTime",)
    assert "encounter -> Encounter" in observations.references
    assert "valueQuantity.value" in observations.paths
    assert "Glucose" in build_schema_card(ward_store).text


def test_a_lookup_finds_codes_by_words_in_one_patients_record(
    ward_store: Store,
) -> None:
    (hit,) = lookup(ward_store, " heart  RATE ", patient="p1")
    assert (hit.match, hit.code.code, hit.code.count) == ("equal", "HR", 1)
    assert lookup(ward_store, "heart rate", patient="p2") == []
    culture_hits = lookup(ward_store, "blood culture")
    assert [hit.code.type for hit in culture_hits] == ["Observation", "Specimen"]
    assert lookup(ward_store, "glucos", patient="p1")[0].match == "part"
    assert lookup(ward_store, "gluocse", patient="p1")[0].match == "near"
    (drug_hit,) = lookup(ward_store, "heparin", patient="p2")
    assert drug_hit.code.code == "Heparin"
    assert lookup(ward_store, "insulin", patient="p2") == []
    assert lookup(ward_store, "", patient="p1") == []


def read(store: Store, resource_type: str, resource_id: str) -> Resource:
    resource = store.get(resource_type, resource_id)
    assert resource is not None
    return resource


def test_a_resolver_follows_drugs_members_and_specimens(ward_store: Store) -> None:
    resolver = Resolver(ward_store)
    mix = read(ward_store, "MedicationRequest", "r1")
    test = read(ward_store, "Observation", "o5")
    (medication,) = resolver.at(mix, "medicationReference")
    drug_names = map(display_name, resolver.at(medication, "ingredient.itemReference"))
    assert list(drug_names) == ["Insulin", "0.9% Sodium Chloride"]
    (organism,) = resolver.at(test, "hasMember")
    assert display_name(organism) == "STAPH AUREUS"
    assert resolver.at(organism, "derivedFrom") == [test]
    specimen = resolver.specimen(test)
    assert specimen is not None
    assert display_name(specimen) == "BLOOD CULTURE"


def test_a_resolver_follows_visits_and_their_locations(ward_store: Store) -> None:
    resolver = Resolver(ward_store)
    icu_stay = read(ward_store, "Encounter", "i1")
    visit = read(ward_store, "Encounter", "h1")
    assert resolver.at(icu_stay, "partOf") == [visit]
    (stay,) = resolver.stays(visit)
    assert stay.location["name"] == "Surgery"
    assert stay.start == "2130-01-01T08:00:00-05:00"
    assert resolver.resolve("Medication/absent") is None
    assert resolver.resolve({"display": "nobody"}) is None


def test_visits_are_classified_and_counted_from_either_end(ward_store: Store) -> None:
    visits = Encounters.of(ward_store, "p1")
    assert ids_of(visits.all) == ["h1", "i1", "h2"]
    assert ids_of(visits.hospital.all) == ["h1", "h2"]
    assert visits.icu.first == visits.icu.last == visits.nth(2)
    assert visits.nth(-2) == visits.nth(2)
    assert visits.nth(0) is visits.nth(4) is visits.nth(-4) is None
    assert visits.current == visits.last
    assert Encounters.of(ward_store, "p2").current is None
    assert visits.hospital.first is not None
    assert ids_of(visits.within(visits.hospital.first).all) == ["i1"]


def test_without_known_identifiers_the_class_tells_what_a_visit_is() -> None:
    def kind(code: str, **more: object) -> EncounterKind:
        return encounter_kind(
            {
                **encounter("e", "p", "2130", None, "other", **more),
                "class": {"code": code},
            }
        )

    assert kind("EMER") is EncounterKind.EMERGENCY
    assert kind("ACUTE", partOf={"reference": "Encounter/x"}) is EncounterKind.ICU
    assert kind("AMB") is EncounterKind.HOSPITAL


def test_codes_are_counted_the_same_by_the_store_and_one_by_one(
    ward_store: Store,
) -> None:
    from archqa.fhir.client.http_client import count_codes

    for resource_type in (
        "Observation",
        "Encounter",
        "Medication",
        "MedicationRequest",
    ):
        resources = ward_store.search_all(resource_type)
        assert count_codes(resource_type, resources) == ward_store.codes(resource_type)
