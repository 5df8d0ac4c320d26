"""Execution beyond single kinds of rows: companions, records without MIMIC codes, servers, charts."""

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
    QueryResult,
    Span,
    Visit,
    When,
    execute,
)
from archqa.query.wording.support import Support
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
from tests.query.generated_queries import BENCHMARK_KINDS, queries
from tests.query.invented import random_record

CATEGORY = "http://terminology.hl7.org/CodeSystem/observation-category"


def loinc_result(
    resource_id: str, patient_id: str, name: str, category: str, time: str, value: float
) -> Resource:
    """A result in a record that is not MIMIC's: with a LOINC code and a category."""
    return observation(
        resource_id,
        patient_id,
        codeable_concept(f"1{resource_id}", name, "http://loinc.org"),
        time,
        category=[{"coding": [{"system": CATEGORY, "code": category}]}],
        valueQuantity={"value": value, "unit": "u"},
    )


def condition(condition_id: str, name: str, **fields: Any) -> Resource:
    return {
        "resourceType": "Condition",
        "id": condition_id,
        "code": codeable_concept(condition_id, name),
        "subject": {"reference": "Patient/p"},
        "encounter": {"reference": "Encounter/h1"},
        **fields,
    }


def order(order_id: str, medication_id: str, start: str) -> Resource:
    return medication_request(
        order_id,
        "p",
        medication_id,
        encounter={"reference": "Encounter/h1"},
        dispenseRequest={"validityPeriod": {"start": start}},
    )


def clinic_resources() -> list[Resource]:
    """A record with LOINC codes, onsets of diagnoses, a drug without a resource, an open visit."""
    order_of_code = order("r3", "m1", "2023-01-05T10:00:00Z")
    del order_of_code["medicationReference"]
    order_of_code["medicationCodeableConcept"] = {"text": "Metoprolol"}
    return [
        patient("p", birthDate="1960-06-15", deceasedDateTime="2024-01-01"),
        patient("q"),
        encounter("h1", "p", "2023-01-01T08:00:00Z", None),
        loinc_result("o1", "p", "Potassium", "laboratory", "2023-01-02T08:00:00Z", 4.1),
        loinc_result("o2", "p", "Potassium", "laboratory", "2023-01-03T08:00:00Z", 5.1),
        loinc_result("o3", "p", "Potassium", "laboratory", "2022-01-03T08:00:00Z", 3.1),
        loinc_result(
            "o4", "p", "Heart rate", "vital-signs", "2023-01-03T08:00:00Z", 80
        ),
        loinc_result("o5", "q", "Potassium", "laboratory", "2023-01-03T08:00:00Z", 9.9),
        condition("c1", "Sepsis", onsetDateTime="2023-01-04"),
        condition("c2", "Hypertension"),
        medication("m1", "Aspirin"),
        medication("m2", "Ceftriaxone"),
        order("r1", "m1", "2023-01-03T10:00:00Z"),
        order("r2", "m2", "2023-01-05T10:00:00Z"),
        order_of_code,
    ]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("clinic"), clinic_resources()) as store:
        yield store


def values(clinic: Store, query: Query) -> tuple[Any, ...]:
    return execute(query, clinic, "p").answer.values


def test_a_record_without_mimics_systems_is_read_by_its_categories(
    clinic: Store,
) -> None:
    year = When(spans=(Span(year=2023),))
    potassium = Query(what="lab", names=("potassium",), summary="average", when=year)
    assert values(clinic, potassium) == (pytest.approx(4.6),)
    assert values(clinic, Query(what="vital", summary="count")) == (1,)
    assert values(clinic, Query(what="microbiology_test", summary="count")) == (0,)


def test_results_without_an_encounter_belong_to_the_visit_of_their_time(
    clinic: Store,
) -> None:
    current_visit = When(visit=Visit(kind="hospital", which="current"))
    assert values(clinic, Query(what="lab", summary="count", when=current_visit)) == (
        2,
    )


def test_a_drug_may_be_known_by_its_code_only(clinic: Store) -> None:
    result = execute(
        Query(what="medication", names=("metoprolol",), returns="name"), clinic, "p"
    )
    assert result.answer.values == ("Metoprolol",)
    assert result.evidence == {"MedicationRequest": ("r3",)}


@pytest.mark.parametrize(
    ("order_in_time", "within", "names"),
    [
        ("any", "same_visit", ["Aspirin", "Ceftriaxone", "Metoprolol"]),
        ("after", "same_visit", ["Ceftriaxone", "Metoprolol"]),
        ("before", "same_visit", ["Aspirin"]),
        ("any", "same_day", []),
        ("after", "same_month", ["Ceftriaxone", "Metoprolol"]),
    ],
)
def test_drugs_near_a_diagnosis(
    clinic: Store, order_in_time: Any, within: Any, names: list[str]
) -> None:
    sepsis = Companion(
        what="diagnosis", names=("sepsis",), within=within, order=order_in_time
    )
    drugs = values(clinic, Query(what="medication", returns="name", companion=sepsis))
    assert sorted(drugs) == names


def test_drugs_at_the_same_time_as_another(clinic: Store) -> None:
    ceftriaxone = Companion(
        what="medication", names=("Ceftriaxone",), within="same_time"
    )
    drugs = values(
        clinic, Query(what="medication", returns="name", companion=ceftriaxone)
    )
    assert drugs == ("Metoprolol",)


def test_a_companion_row_is_cited_but_is_no_evidence(clinic: Store) -> None:
    sepsis = Companion(what="diagnosis", names=("sepsis",), order="before")
    result = execute(
        Query(what="medication", returns="name", companion=sepsis), clinic, "p"
    )
    assert result.evidence == {"Medication": ("m1",), "MedicationRequest": ("r1",)}
    [order] = result.chosen
    assert order.refs == ("MedicationRequest/r1", "Medication/m1")
    assert order.context_refs == ("Condition/c1",)
    assert Support(clinic).problem(order) == ""


def test_two_names_can_be_compared_at_one_time(clinic: Store) -> None:
    day = When(spans=(Span(year=2023, month=1, day=3),))
    against = Against(relation="difference", names=("Potassium",), when=day)
    query = Query(what="lab", names=("potassium",), when=day, against=against)
    assert values(clinic, query) == (0,)


def test_an_age_is_that_at_the_clock_at_a_visit_or_at_death(clinic: Store) -> None:
    age = Query(what="patient", returns="age", now="2023-06-14T12:00:00")
    assert values(clinic, age) == (62,)
    assert values(clinic, age.model_copy(update={"now": "2023-06-15T00:00:00"})) == (
        63,
    )
    assert values(clinic, age.model_copy(update={"now": "2050-06-15T00:00:00"})) == (
        63,
    )
    assert values(clinic, Query(what="hospital_visit", returns="age")) == (62,)
    visit = When(visit=Visit(kind="hospital", which="first"))
    assert values(clinic, Query(what="patient", returns="age", when=visit)) == (62,)


def test_a_diagnosis_without_a_date_has_that_of_its_visit(clinic: Store) -> None:
    query = Query(what="diagnosis", returns="time", when=When(position="first"))
    result = execute(query, clinic, "p")
    assert result.answer.values == ("2023-01-01 08:00:00",)
    assert any("no date of their own" in warning for warning in result.warnings)


def test_neither_an_emergency_visit_nor_an_emergency_class_is_an_admission_by_the_emergency_room(
    tmp_path: Path,
) -> None:
    by_physician = {
        "hospitalization": {"admitSource": codeable_concept("PHYSICIAN REFERRAL")},
        "class": {"code": "EMER"},
    }
    by_emergency_room = {
        "hospitalization": {"admitSource": codeable_concept("EMERGENCY ROOM")},
        "class": {"code": "OBSENC"},
    }
    encounters = [
        encounter(
            "h1", "p", "2130-01-01T08:00:00Z", "2130-01-09T08:00:00Z", **by_physician
        ),
        encounter(
            "h2",
            "p",
            "2131-01-01T08:00:00Z",
            "2131-01-09T08:00:00Z",
            **by_emergency_room,
        ),
        encounter("e1", "p", "2132-01-01T08:00:00Z", "2132-01-02T08:00:00Z", "ed"),
    ]
    with build_store(tmp_path / "visits", [patient("p"), *encounters]) as store:
        assert values(store, Query(what="hospital_visit", summary="count")) == (2,)
        sources = ("emergency room",)
        query = Query(what="hospital_visit", admission_sources=sources, returns="time")
        assert values(store, query) == ("2131-01-01 08:00:00",)


def test_days_are_those_of_the_local_clock(tmp_path: Path) -> None:
    evening = loinc_result(
        "o1", "p", "Potassium", "laboratory", "2131-12-31T23:30:00-05:00", 4
    )
    with build_store(tmp_path / "evening", [patient("p"), evening]) as store:
        for day, count in ((31, 1), (30, 0)):
            when = When(spans=(Span(year=2131, month=12, day=day),))
            assert values(store, Query(what="lab", summary="count", when=when)) == (
                count,
            )


def test_a_mixture_is_evidence_only_if_all_its_drugs_are(tmp_path: Path) -> None:
    drugs = [
        medication("m1", "Insulin"),
        medication("m2", "Saline"),
        medication("x", "", ["m1", "m2"]),
    ]
    resources = [patient("p"), *drugs, medication_request("r1", "p", "x")]
    only_insulin = Query(what="medication", names=("insulin",), summary="exists")
    all_drugs = Query(what="medication", summary="count")
    with build_store(tmp_path / "mixture", resources) as store:
        insulin_result = execute(only_insulin, store, "p")
        result = execute(all_drugs, store, "p")
    assert insulin_result.evidence == {
        "Medication": ("m1",),
        "MedicationRequest": ("r1",),
    }
    assert result.answer.values == (2,)
    assert set(result.evidence["Medication"]) == {"m1", "m2", "x"}


def test_rows_are_only_the_patients_own_and_an_unknown_patient_has_none(
    clinic: Store,
) -> None:
    assert execute(Query(what="lab"), clinic, "q").answer.values == (9.9,)
    result = execute(Query(what="lab", summary="count"), clinic, "nobody")
    assert result.answer.values == (0,)
    assert result.evidence == {}
    assert "The record has no such patient." in result.warnings


def test_the_charts_of_the_latest_patients_are_cached(clinic: Store) -> None:
    charts = ChartCache(clinic, max_charts=2)
    chart = charts.of("p")
    assert charts.of("p") is chart
    charts.of("q")
    charts.of("nobody")
    assert charts.of("p") is not chart


def test_a_chart_answers_the_same_query_twice(clinic: Store) -> None:
    chart = Chart(clinic, "p")
    query = Query(what="lab", summary="count")
    for _ in range(2):
        assert execute(query, clinic, "p", chart=chart).answer.values == (3,)


def test_one_chart_serves_several_threads(clinic: Store) -> None:
    chart = Chart(clinic, "p")
    answers = []
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
    with build_store(tmp_path_factory.mktemp("invented"), random_record(15)) as store:
        yield store


def test_susceptibilities_are_found_by_their_result(invented: Store) -> None:
    def results(*requested: str) -> list[str]:
        query = Query(what="susceptibility", results=requested, returns="value")
        return sorted(map(str, execute(query, invented, "p").answer.values))

    resistant = results("r")
    susceptible = results("S")
    assert set(resistant) == {"R"}
    assert set(susceptible) == {"S"}
    assert [*resistant, *susceptible] == results()
    assert results("X") == []


@pytest.mark.parametrize("profile", ["archqa", "gcp", "hapi"])
@settings(
    max_examples=40,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_a_server_gives_the_same_answers_and_evidence_as_the_file(
    profile: str, data: st.DataObject, invented: Store
) -> None:
    query = data.draw(queries(data.draw(st.sampled_from(BENCHMARK_KINDS))))
    conventions = data.draw(st.sampled_from(["clinical", "mimic-ehrsql"]))
    service = FhirService(invented.as_profile(profile), "http://localhost:8080/fhir")
    local_result = execute(query, invented, "p", conventions)
    server_result = execute(query, client_of(service), "p", conventions)
    assert _evidence_ids(server_result) == _evidence_ids(local_result)
    assert _sorted_values(server_result) == _sorted_values(local_result)


def _evidence_ids(result: QueryResult) -> dict[str, set[str]]:
    return {resource_type: set(ids) for resource_type, ids in result.evidence.items()}


def _sorted_values(result: QueryResult) -> list[str]:
    return sorted(map(json.dumps, result.answer.values))


@pytest.mark.parametrize(
    ("relation", "summary", "value"),
    [
        ("greater", "minimum", None),
        ("difference", "average", None),
        ("greater", "maximum", False),
        ("less", "average", True),
    ],
)
def test_a_comparison_of_summaries_does_not_use_bounds_as_numbers(
    tmp_path: Path, relation: Any, summary: Any, value: bool | None
) -> None:
    patient = {"resourceType": "Patient", "id": "p"}
    results = []
    for year, number, comparator in (
        (2023, 60, ""),
        (2023, 70, "<"),
        (2024, 50, ""),
        (2024, 90, ""),
    ):
        quantity: dict[str, Any] = {"value": number, "unit": "mg/L"}
        if comparator:
            quantity["comparator"] = comparator
        results.append(
            {
                "resourceType": "Observation",
                "id": f"r{number}",
                "status": "final",
                "subject": {"reference": "Patient/p"},
                "code": {"text": "Ferritin"},
                "effectiveDateTime": f"{year}-03-05",
                "valueQuantity": quantity,
            }
        )
    first, second = (When(spans=(Span(year=year),)) for year in (2023, 2024))
    query = Query(
        what="observation",
        concepts=("ferritin",),
        summary=summary,
        when=first,
        against=Against(relation=relation, when=second),
    )
    with build_store(tmp_path, [patient, *results]) as store:
        assert values(store, query) == (value,)


def test_a_visit_limit_accepts_any_stay_and_visits_of_a_class(tmp_path: Path) -> None:
    """Of a visit are the rows that name its encounter and, of those that name none, what lies within."""
    plain = {"identifier": []}

    def at(place: int, time: str, visit: str = "") -> Resource:
        fields = {"encounter": {"reference": f"Encounter/{visit}"}} if visit else {}
        code = codeable_concept("2345-7", "Glucose", "http://loinc.org")
        quantity = {"value": float(place), "unit": "u"}
        return observation(
            f"o{place}", "p", code, time, valueQuantity=quantity, **fields
        )

    resources = [
        patient("p"),
        encounter("h1", "p", "2130-01-01", "2130-01-05"),
        encounter("h2", "p", "2130-03-01", "2130-03-05"),
        encounter(
            "i1",
            "p",
            "2130-03-02",
            "2130-03-03",
            "icu",
            partOf={"reference": "Encounter/h2"},
        ),
        encounter(
            "e1",
            "p",
            "2130-05-01",
            "2130-05-02",
            **plain,
            **{"class": {"code": "EMER"}},
        ),
        encounter(
            "a1", "p", "2130-06-01", "2130-06-01", **plain, **{"class": {"code": "AMB"}}
        ),
        at(1, "2130-01-02T10:00:00Z"),
        at(2, "2130-02-27T10:00:00Z", "h2"),
        at(3, "2130-03-02T10:00:00Z"),
        at(4, "2130-05-01T10:00:00Z"),
        at(5, "2130-06-07T10:00:00Z", "a1"),
        at(6, "2130-08-01T10:00:00Z"),
    ]
    expected = {
        ("hospital", "any"): [1, 2, 3],
        ("hospital", "last"): [2, 3],
        ("icu", "any"): [3],
        ("emergency", "last"): [4],
        ("ambulatory", "any"): [5],
        ("encounter", "any"): [1, 2, 3, 4, 5],
        ("encounter", "first"): [1],
    }
    with build_store(tmp_path / "visits", resources) as store:
        for (kind, which), values in expected.items():
            when = {"visit": {"kind": kind, "which": which}}
            query = Query.model_validate(
                {"what": "observation", "concepts": ["glucose"], "when": when}
            )
            assert list(execute(query, store, "p").answer.values) == values, (
                kind,
                which,
            )


def test_the_durations_of_a_procedure_can_be_added_up(tmp_path: Path) -> None:
    def ventilated(place: int, start: str, end: str) -> Resource:
        return {
            "resourceType": "Procedure",
            "id": f"v{place}",
            "status": "completed",
            "code": {"text": "Mechanical ventilation"},
            "subject": {"reference": "Patient/p"},
            "performedPeriod": {"start": start, "end": end},
        }

    resources = [
        patient("p"),
        ventilated(1, "2130-01-01T10:00:00Z", "2130-01-01T16:30:00Z"),
        ventilated(2, "2130-01-03T22:00:00Z", "2130-01-04T00:00:00Z"),
    ]
    query = Query(
        what="procedure",
        concepts=("mechanical ventilation",),
        returns="length_of_stay",
        summary="sum",
        unit="hour",
    )
    with build_store(tmp_path / "ventilated", resources) as store:
        assert execute(query, store, "p").answer.values == (8.5,)
