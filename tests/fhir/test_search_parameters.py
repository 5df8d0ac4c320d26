"""Search parameters of R4 and US Core: composites, modifiers, chains, what every type has."""

from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirError, FhirService, Overlay, Store
from archqa.fhir.values.element_values import compile_path
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.values.search_parameters import Kind, parameters
from tests.fhir.invented import (
    Resource,
    build_store,
    codeable_concept,
    ids_of,
    observation,
    patient,
)
from tests.fhir.serving import BASE

LOINC = "http://loinc.org"
US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition"
ID_TYPES = "http://terminology.hl7.org/CodeSystem/v2-0203"
BLOOD_PRESSURE = "http://hl7.org/fhir/StructureDefinition/bp"


def found(record: Store | Overlay, query: str) -> list[str]:
    return ids_of(record.search(query).resources)


def blood_pressure(
    name: str, systolic: float, diastolic: float, **more: Any
) -> Resource:
    components = []
    for code, value in (("8480-6", systolic), ("8462-4", diastolic)):
        quantity = {"value": value, "unit": "mmHg", "code": "mm[Hg]"}
        components.append(
            {"code": codeable_concept(code, system=LOINC), "valueQuantity": quantity}
        )
    return observation(
        name,
        "p1",
        codeable_concept("85354-9", system=LOINC),
        component=components,
        **more,
    )


def chart() -> list[Resource]:
    """A chart in the shape of US Core."""
    race = {
        "url": f"{US_CORE}/us-core-race",
        "extension": [
            {
                "url": "ombCategory",
                "valueCoding": {"code": "2106-3", "display": "White"},
            },
            {"url": "detailed", "valueCoding": {"code": "2108-9"}},
            {"url": "text", "valueString": "White"},
        ],
    }
    identifiers = [
        {"type": {"coding": [{"system": ID_TYPES, "code": "MR"}]}, "value": "7"},
        {"type": {"coding": [{"system": ID_TYPES, "code": "SS"}]}, "value": "8"},
    ]
    profile = {"profile": [f"{BLOOD_PRESSURE}|4.0.1"], "tag": [{"code": "HTEST"}]}
    return [
        patient("p1", extension=[race], identifier=identifiers),
        patient("p2"),
        blood_pressure("high", 150, 80, meta=profile),
        blood_pressure("low", 90, 150),
        observation(
            "potassium",
            "p1",
            codeable_concept("K$1"),
            valueQuantity={"value": 3.1, "unit": "mmol/L"},
            encounter={"reference": "Encounter/e1"},
        ),
        {
            "resourceType": "Observation",
            "id": "elsewhere",
            "code": codeable_concept("GLU"),
            "subject": {
                "identifier": {"system": "http://example.org/mrn", "value": "MRN-9"}
            },
        },
        {
            "resourceType": "Encounter",
            "id": "e1",
            "class": {"code": "IMP"},
            "subject": {"reference": "Patient/p1"},
            "participant": [{"individual": {"reference": "Practitioner/d1"}}],
        },
        {"resourceType": "Practitioner", "id": "d1", "name": [{"family": "Stone"}]},
        {
            "resourceType": "AuditEvent",
            "id": "a1",
            "agent": [{"who": {"reference": "Practitioner/d1"}}],
            "entity": [{"what": {"reference": "Observation/potassium"}}],
        },
        {
            "resourceType": "CareTeam",
            "id": "t1",
            "subject": {"reference": "Patient/p1"},
            "participant": [{"role": codeable_concept("nurse")}],
        },
        {
            "resourceType": "ValueSet",
            "id": "v1",
            "url": "http://example.org/fhir/ValueSet/labs",
            "version": "2",
        },
    ]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return build_store(tmp_path, chart())


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("Observation?component-code-value-quantity=8480-6$gt140", ["high"]),
        ("Observation?component-code-value-quantity=8480-6$gt140||mmHg", ["high"]),
        ("Observation?component-code-value-quantity=8480-6$gt140||kPa", []),
        (f"Observation?combo-code-value-quantity={LOINC}|8462-4$ge150", ["low"]),
        (
            "Observation?combo-code-value-quantity=K\\$1$lt3.5,8480-6$lt100",
            ["low", "potassium"],
        ),
        ("Observation?code-value-quantity=K\\$1$lt3.5", ["potassium"]),
        ("Observation?code-value-quantity=8480-6$gt140", []),
        ("Observation?patient=p1&code-value-quantity=k\\$1$3.1", ["potassium"]),
        (f"Observation?_profile={BLOOD_PRESSURE}", ["high"]),
        (f"Observation?_profile={BLOOD_PRESSURE}|4.0.1", ["high"]),
        (f"Observation?_profile={BLOOD_PRESSURE}|4.0.2", []),
        ("Observation?_tag=HTEST", ["high"]),
        ("ValueSet?url:below=http://example.org/fhir", ["v1"]),
        ("ValueSet?url:below=http://example.org/fhir/Value", []),
        ("ValueSet?url:above=http://example.org/fhir/ValueSet/labs/_history/2", ["v1"]),
        ("Patient?identifier:of-type=" + f"{ID_TYPES}|MR|7", ["p1"]),
        ("Patient?identifier:of-type=" + f"{ID_TYPES}|MR|8", []),
        ("Observation?patient:identifier=http://example.org/mrn|MRN-9", ["elsewhere"]),
        ("Patient?race=2106-3", ["p1"]),
        ("Patient?race=2108-9", ["p1"]),
        ("Patient?race:text=white", ["p1"]),
        ("CareTeam?role=nurse", ["t1"]),
        ("Observation?encounter.participant:Practitioner.name=stone", ["potassium"]),
        ("Patient?_has:Observation:patient:_has:AuditEvent:entity:agent=d1", ["p1"]),
        ("Encounter?subject._has:CareTeam:patient:role=nurse", ["e1"]),
        ("AuditEvent?entity:Observation.encounter.class=IMP", ["a1"]),
    ],
)
def test_a_search_finds_what_r4_and_us_core_say(
    store: Store, query: str, ids: list[str]
) -> None:
    assert found(store, query) == ids


def test_the_halves_of_a_composite_must_hold_in_the_same_component_also_in_an_overlay(
    store: Store,
) -> None:
    with Overlay.over(store) as overlay:
        created = overlay.create(blood_pressure("new", 160, 70))
        query = "Observation?component-code-value-quantity=8480-6$gt140"
        assert found(overlay, query) == ["high", created["id"]]
        overlay.reset()
        assert found(overlay, query) == ["high"]


def test_a_changed_resource_has_its_new_components_alone(
    store: Store, tmp_path: Path
) -> None:
    build_store(tmp_path, [blood_pressure("high", 110, 80)])
    assert found(store, "Observation?component-code-value-quantity=8480-6$gt140") == []
    assert found(store, "Observation?component-code-value-quantity=8480-6$110") == [
        "high"
    ]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Observation?code-value-quantity=K", "is written code$number"),
        ("Observation?code-value-quantity=K$", "is written code$number"),
        ("Observation?code-value-quantity=K$1$2", "is written code$number"),
        ("Observation?code-value-quantity=K$many", "not a number"),
        ("Observation?code-value-date=K$soon", "not a date"),
        (
            "Observation?code-value-quantity:missing=true",
            "takes no modifier :missing; it takes none",
        ),
        ("Observation?_sort=code-value-quantity", "is a composite"),
        (
            "Observation?code:in=http://example.org/ValueSet/labs",
            "no terminology server",
        ),
        (
            "Observation?code:not-in=http://example.org/ValueSet/labs",
            "no terminology server",
        ),
        ("Observation?code:below=1", "no terminology server"),
        ("Observation?subject:below=1", "takes no modifier :below"),
        ("Observation?code:of-type=a|b|c", "takes no modifier :of-type"),
        ("Observation?identifier:text=a", "takes no modifier :text"),
        ("Patient?identifier:of-type=MR|7", "is written system|code|value"),
        ("ValueSet?url:below=urn:oid:1.2", "are for URLs"),
        (
            "Observation?encounter.part-of.part-of.part-of.class=IMP",
            "may follow 3 references",
        ),
        (
            "Patient?_has:Observation:patient:encounter.part-of.part-of.class=IMP",
            "may follow 3 references",
        ),
        ("Observation?has-member.code=1", "Say what has-member refers to"),
        ("Binary?status=final", "has no search parameter status"),
    ],
)
@pytest.mark.parametrize("profile", ["archqa", "hapi"])
def test_what_cannot_be_searched_is_refused(
    store: Store, profile: str, query: str, words: str
) -> None:
    with pytest.raises(FhirError) as caught:
        store.as_profile(profile).search(query)
    assert words in str(caught.value)
    assert all(len(text) <= 600 for text in caught.value.diagnostics)


def test_a_search_by_an_identifier_in_references_says_that_none_has_it(
    store: Store,
) -> None:
    page = store.search("Observation?patient:identifier=MRN-p2")
    assert page.resources == []
    assert "patient.identifier=" in page.notices[0]


def test_a_composite_has_a_hundred_values(store: Store) -> None:
    values = ",".join(f"8480-6${value}" for value in range(101, 201))
    assert found(store, f"Observation?combo-code-value-quantity={values}") == ["high"]
    with pytest.raises(FhirError, match="Ask several times"):
        store.search(f"Observation?combo-code-value-quantity={values},8480-6$201")


def test_a_step_of_a_chain_finds_a_limited_number_of_resources(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "Patient?_has:Observation:patient:_has:AuditEvent:entity:agent=d1"
    monkeypatch.setattr("archqa.fhir.search.filter_compiler.MAX_STEP_RESOURCES", 0)
    with pytest.raises(
        FhirError, match="A step of the chain finds more than 0 Observations"
    ):
        store.search(query)


def test_amounts_of_money_and_ranges_are_compared(tmp_path: Path) -> None:
    total = {"value": 120, "currency": "EUR"}
    age = {"low": {"value": 40, "code": "a"}, "high": {"value": 50, "code": "a"}}
    resources = [
        {"resourceType": "Invoice", "id": "i1", "totalNet": total},
        {"resourceType": "Condition", "id": "c1", "onsetRange": age},
        {
            "resourceType": "Condition",
            "id": "c2",
            "onsetAge": {"value": 30, "code": "a"},
        },
    ]
    store = build_store(tmp_path, resources)
    assert found(store, "Invoice?totalnet=gt100|urn:iso:std:iso:4217|EUR") == ["i1"]
    assert found(store, "Condition?onset-age=gt45") == ["c1"]
    assert found(store, "Condition?onset-age=lt45") == ["c1", "c2"]


def test_every_type_has_the_parameters_of_meta_and_each_path_can_be_compiled() -> None:
    common = {"_profile", "_tag", "_security", "_source"}
    for resource_type in sorted(R4_RESOURCE_TYPES):
        by_name = parameters(resource_type)
        assert common <= set(by_name)
        for parameter in by_name.values():
            for part in (parameter, *parameter.halves):
                for path in (*part.elements, *part.extra):
                    assert list(compile_path(path)({})) in ([], [False])


def test_the_capability_statement_declares_composites(store: Store) -> None:
    statement = FhirService(store, BASE).get("metadata").json()
    resources = {part["type"]: part for part in statement["rest"][0]["resource"]}
    kinds = {
        part["name"]: part["type"] for part in resources["Observation"]["searchParam"]
    }
    assert kinds["component-code-value-quantity"] == Kind.COMPOSITE
    assert kinds["_profile"] == Kind.URI


def test_what_is_listed_as_codes_leaves_out_tags_and_extensions(store: Store) -> None:
    assert {code.code for code in store.codes("Patient")} == {"false", "female"}
    assert "HTEST" not in {code.code for code in store.codes("Observation")}


def test_everything_that_an_observation_refers_to_is_included_once(
    store: Store,
) -> None:
    page = store.search("AuditEvent?_include=*&_include:iterate=Observation:*")
    assert sorted(ids_of(page.included)) == ["d1", "e1", "p1", "potassium"]
