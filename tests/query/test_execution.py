"""What the executor does that no single sort of row shows: companions, other records, servers, charts."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import FhirService, Store
from archqa.query import (
    Against,
    Chart,
    ChartCache,
    Companion,
    Query,
    Span,
    Visit,
    When,
    execute,
    explain,
)
from archqa.query.model import RETURNABLE_FIELDS
from tests.fhir.invented import (
    Resource,
    build_store,
    codeable_concept,
    encounter,
    medication,
    medication_request,
    observation,
    patient,
)
from tests.fhir.serving import client_of
from tests.query.invented import random_record
from tests.query.questions import queries

CATEGORY = "http://terminology.hl7.org/CodeSystem/observation-category"


def plain(name: str, of: str, called: str, category: str, when: str, value: float) -> Resource:
    """A result in a record that is not MIMIC's: LOINC and a category."""
    code = codeable_concept(f"1{name}", called, "http://loinc.org")
    kind = [{"coding": [{"system": CATEGORY, "code": category}]}]
    return observation(
        name, of, code, when, category=kind, valueQuantity={"value": value, "unit": "u"}
    )


def dated(name: str, called: str, visit: str, **more: Any) -> Resource:
    subject = {
        "subject": {"reference": "Patient/p"},
        "encounter": {"reference": f"Encounter/{visit}"},
    }
    return {
        "resourceType": "Condition",
        "id": name,
        "code": codeable_concept(name, called),
        **subject,
        **more,
    }


def a_clinic() -> list[Resource]:
    """A record with LOINC codes, onsets of diagnoses, a drug known by its code only, and an open visit."""
    here = {"encounter": {"reference": "Encounter/h1"}}
    start = {"dispenseRequest": {"validityPeriod": {"start": "2023-01-03T10:00:00Z"}}}
    later = {"dispenseRequest": {"validityPeriod": {"start": "2023-01-05T10:00:00Z"}}}
    coded = medication_request("r3", "p", "m1", **here, **later)
    del coded["medicationReference"]
    return [
        patient("p", birthDate="1960-06-15", deceasedDateTime="2024-01-01"),
        patient("q"),
        encounter("h1", "p", "2023-01-01T08:00:00Z", None),
        plain("o1", "p", "Potassium", "laboratory", "2023-01-02T08:00:00Z", 4.1),
        plain("o2", "p", "Potassium", "laboratory", "2023-01-03T08:00:00Z", 5.1),
        plain("o3", "p", "Potassium", "laboratory", "2022-01-03T08:00:00Z", 3.1),
        plain("o4", "p", "Heart rate", "vital-signs", "2023-01-03T08:00:00Z", 80),
        plain("o5", "q", "Potassium", "laboratory", "2023-01-03T08:00:00Z", 9.9),
        dated("c1", "Sepsis", "h1", onsetDateTime="2023-01-04"),
        dated("c2", "Hypertension", "h1"),
        medication("m1", "Aspirin"),
        medication("m2", "Ceftriaxone"),
        medication_request("r1", "p", "m1", **here, **start),
        medication_request("r2", "p", "m2", **here, **later),
        {**coded, "medicationCodeableConcept": {"text": "Metoprolol"}},
    ]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("clinic"), a_clinic()) as store:
        yield store


def values(clinic: Store, query: Query) -> tuple[Any, ...]:
    return execute(query, clinic, "p").answer.values


def test_a_record_without_mimics_systems_is_read_by_its_categories(clinic: Store) -> None:
    potassium = Query(
        what="lab", names=("potassium",), summary="average", when=When(spans=(Span(year=2023),))
    )
    assert values(clinic, potassium) == (pytest.approx(4.6),)
    assert values(clinic, Query(what="vital", summary="count")) == (1,)
    assert values(clinic, Query(what="microbiology_test", summary="count")) == (0,)


def test_results_without_an_encounter_belong_to_the_visit_of_their_time(clinic: Store) -> None:
    here = When(visit=Visit(kind="hospital", which="current"))
    assert values(clinic, Query(what="lab", summary="count", when=here)) == (2,)


def test_a_drug_may_be_known_by_its_code_only(clinic: Store) -> None:
    result = execute(Query(what="medication", names=("metoprolol",), returns="name"), clinic, "p")
    assert (result.answer.values, result.evidence) == (
        ("Metoprolol",),
        {"MedicationRequest": ("r3",)},
    )


@pytest.mark.parametrize(
    ("order_", "within", "names"),
    [
        ("any", "same_visit", ["Aspirin", "Ceftriaxone", "Metoprolol"]),
        ("after", "same_visit", ["Ceftriaxone", "Metoprolol"]),
        ("before", "same_visit", ["Aspirin"]),
        ("any", "same_day", []),
        ("after", "same_month", ["Ceftriaxone", "Metoprolol"]),
    ],
)
def test_drugs_near_a_diagnosis(clinic: Store, order_: Any, within: Any, names: list[str]) -> None:
    beside = Companion(what="diagnosis", names=("sepsis",), within=within, order=order_)
    assert (
        sorted(values(clinic, Query(what="medication", returns="name", companion=beside))) == names
    )  # type: ignore[type-var]


def test_drugs_at_the_same_time_as_another(clinic: Store) -> None:
    beside = Companion(what="medication", names=("Ceftriaxone",), within="same_time")
    assert values(clinic, Query(what="medication", returns="name", companion=beside)) == (
        "Metoprolol",
    )


def test_what_a_row_stands_beside_is_cited_but_no_evidence(clinic: Store) -> None:
    beside = Companion(what="diagnosis", names=("sepsis",), order="before")
    result = execute(Query(what="medication", returns="name", companion=beside), clinic, "p")
    assert result.evidence == {"Medication": ("m1",), "MedicationRequest": ("r1",)}
    explanation = explain(result, clinic)
    assert explanation.claims[0].refs == ("MedicationRequest/r1", "Medication/m1", "Condition/c1")
    assert explanation.verified


def test_two_names_can_be_compared_at_one_time(clinic: Store) -> None:
    day = When(spans=(Span(year=2023, month=1, day=3),))
    against = Against(relation="difference", names=("Potassium",), when=day)
    query = Query(what="lab", names=("potassium",), when=day, against=against)
    assert values(clinic, query) == (0,)


def test_an_age_is_that_at_the_clock_at_a_visit_or_at_death(clinic: Store) -> None:
    age = Query(what="patient", returns="age", now="2023-06-14T12:00:00")
    assert values(clinic, age) == (62,)
    assert values(clinic, age.model_copy(update={"now": "2023-06-15T00:00:00"})) == (63,)
    assert values(clinic, age.model_copy(update={"now": "2050-06-15T00:00:00"})) == (63,)
    assert values(clinic, Query(what="hospital_visit", returns="age")) == (62,)
    visit = When(visit=Visit(kind="hospital", which="first"))
    assert values(clinic, Query(what="patient", returns="age", when=visit)) == (62,)


def test_a_diagnosis_without_a_date_has_that_of_its_visit(clinic: Store) -> None:
    result = execute(
        Query(what="diagnosis", returns="time", when=When(position="first")), clinic, "p"
    )
    assert result.answer.values == ("2023-01-01 08:00:00",)
    assert any("no date of their own" in each for each in result.warnings)


def test_an_emergency_visit_is_no_hospital_visit_and_an_emergency_class_no_emergency_room(
    tmp_path: Path,
) -> None:
    source = {
        "hospitalization": {"admitSource": codeable_concept("PHYSICIAN REFERRAL")},
        "class": {"code": "EMER"},
    }
    room = {
        "hospitalization": {"admitSource": codeable_concept("EMERGENCY ROOM")},
        "class": {"code": "OBSENC"},
    }
    encounters = [
        encounter("h1", "p", "2130-01-01T08:00:00Z", "2130-01-09T08:00:00Z", **source),
        encounter("h2", "p", "2131-01-01T08:00:00Z", "2131-01-09T08:00:00Z", **room),
        encounter("e1", "p", "2132-01-01T08:00:00Z", "2132-01-02T08:00:00Z", "ed"),
    ]
    with build_store(tmp_path / "visits", [patient("p"), *encounters]) as store:
        assert values(store, Query(what="hospital_visit", summary="count")) == (2,)
        through = Query(
            what="hospital_visit", admission_sources=("emergency room",), returns="time"
        )
        assert values(store, through) == ("2131-01-01 08:00:00",)


def test_days_are_those_of_the_local_clock(tmp_path: Path) -> None:
    evening = plain("o1", "p", "Potassium", "laboratory", "2131-12-31T23:30:00-05:00", 4)
    with build_store(tmp_path / "evening", [patient("p"), evening]) as store:
        for day, number in ((31, 1), (30, 0)):
            on = When(spans=(Span(year=2131, month=12, day=day),))
            assert values(store, Query(what="lab", summary="count", when=on)) == (number,)


def test_a_mix_is_evidence_only_if_all_its_drugs_are(tmp_path: Path) -> None:
    drugs = [
        medication("m1", "Insulin"),
        medication("m2", "Saline"),
        medication("x", "", ["m1", "m2"]),
    ]
    with build_store(
        tmp_path / "mix", [patient("p"), *drugs, medication_request("r1", "p", "x")]
    ) as store:
        one = execute(Query(what="medication", names=("insulin",), summary="exists"), store, "p")
        both = execute(Query(what="medication", summary="count"), store, "p")
    assert one.evidence == {"Medication": ("m1",), "MedicationRequest": ("r1",)}
    assert both.answer.values == (2,)
    assert set(both.evidence["Medication"]) == {"m1", "m2", "x"}


def test_nobody_elses_rows_are_seen_and_an_unknown_patient_has_none(clinic: Store) -> None:
    assert execute(Query(what="lab"), clinic, "q").answer.values == (9.9,)
    result = execute(Query(what="lab", summary="count"), clinic, "nobody")
    assert (result.answer.values, result.evidence) == ((0,), {})
    assert "The record has no such patient." in result.warnings


def test_a_chart_is_kept_for_the_patients_asked_about_last(clinic: Store) -> None:
    charts = ChartCache(clinic, max_charts=2)
    first = charts.of("p")
    assert charts.of("p") is first
    charts.of("q")
    charts.of("nobody")
    assert charts.of("p") is not first
    query = Query(what="lab", summary="count")
    again = [execute(query, clinic, "p", chart=first).answer.values for _ in range(2)]
    assert again == [(3,), (3,)]


def test_one_chart_serves_several_threads(clinic: Store) -> None:
    chart, answers = Chart(clinic, "p"), []
    query = Query(what="medication", returns="name")

    def ask() -> None:
        answers.append(execute(query, clinic, "p", chart=chart).answer.values)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [("Aspirin", "Ceftriaxone", "Metoprolol")] * 8


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("invented"), random_record(3)) as store:
        yield store


def test_susceptibilities_are_found_by_their_result(invented: Store) -> None:
    asked = [
        Query(what="susceptibility", results=results, returns="value")
        for results in ((), ("r",), ("S",), ("X",))
    ]
    every, resistant, susceptible, none = (
        execute(each, invented, "p").answer.values for each in asked
    )
    assert set(resistant) <= {"R"}
    assert set(susceptible) <= {"S"}
    assert sorted(map(str, every)) == sorted(map(str, (*resistant, *susceptible)))
    assert len(every) > 0
    assert none == ()


@pytest.mark.parametrize("profile", ["archqa", "gcp", "hapi"])
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_server_gives_the_same_findings_as_the_file(
    profile: str, data: st.DataObject, invented: Store
) -> None:
    query = data.draw(queries(data.draw(st.sampled_from(sorted(RETURNABLE_FIELDS)))))
    conventions = data.draw(st.sampled_from(["clinical", "mimic-ehrsql"]))
    far = client_of(FhirService(invented.as_profile(profile), "http://localhost:8080/fhir"))
    here, there = (execute(query, record, "p", conventions) for record in (invented, far))
    assert {kind: set(ids) for kind, ids in there.evidence.items()} == {
        k: set(v) for k, v in here.evidence.items()
    }
    assert sorted(map(json.dumps, there.answer.values)) == sorted(
        map(json.dumps, here.answer.values)
    )
