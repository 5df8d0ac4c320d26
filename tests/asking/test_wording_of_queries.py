"""Answers to queries that a model wrote say what the query asks: a length, a unit, a dose, a sum, an age."""

import json
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.asking.answer import Answer, Status
from archqa.fhir import Store
from archqa.llm.scripted import ScriptedModel
from archqa.settings import load_settings
from tests.fhir.invented import patient, write_ndjson
from tests.query.clinic import coded, contact, order, resource, result

NOW = "2020-06-01T12:00"
POTASSIUM = {"what": "observation", "concepts": ["potassium"]}
WARFARIN = {"what": "medication", "concepts": ["warfarin"], "returns": "dose"}


def ventilation(name: str, start: str, end: str) -> dict[str, Any]:
    return resource(
        "Procedure",
        name,
        status="completed",
        code=coded("40617009", "Artificial ventilation"),
        performedPeriod={"start": start, "end": end},
    )


def warfarin(name: str, dose: float, day: str) -> dict[str, Any]:
    amount = {"doseQuantity": {"value": dose, "unit": "mg"}}
    return order(
        name,
        "Warfarin",
        authoredOn=f"{day}T10:00:00Z",
        dosageInstruction=[{"doseAndRate": [amount]}],
    )


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wording")
    resources = [
        {
            **patient("p"),
            "birthDate": "1950-03-01",
            "deceasedDateTime": "2020-05-30T10:00:00Z",
        },
        contact("v1", "IMP", "2019-01-01T08:00:00Z", end="2019-01-08T08:00:00Z"),
        contact("v2", "IMP", "2020-01-01T08:00:00Z", end="2020-01-03T20:00:00Z"),
        ventilation("short", "2020-01-01T10:00:00Z", "2020-01-01T22:30:00Z"),
        ventilation("long", "2020-01-02T10:00:00Z", "2020-01-03T18:00:00Z"),
        resource(
            "Procedure",
            "dialysis",
            status="completed",
            code=coded("108241001", "Dialysis"),
            performedDateTime="2020-01-02T10:00:00Z",
        ),
        warfarin("w1", 2, "2020-01-01"),
        warfarin("w2", 5, "2020-02-01"),
        result("k1", "6298-4", "Potassium", "2020-01-02T08:00:00Z", (5.5, "mmol/L")),
        result("k2", "6298-4", "Potassium", "2020-02-02T08:00:00Z", (4.1, "mmol/L")),
        result("k3", "6298-4", "Potassium", "2020-02-03T08:00:00Z", (4.5, "mmol/L")),
    ]
    with Store.open(folder / "record.db", create=True) as store:
        store.load([write_ndjson(folder / "resources.ndjson", resources)])
    return folder / "record.db"


def answer_of(record: Path, **query: Any) -> Answer:
    settings = load_settings(
        typed={"model": "m", "base_url": "http://127.0.0.1:9/v1", "grammar": "off"},
        assignments=("cache=false",),
    )
    plan = json.dumps({"thought": "t", "queries": [query]})
    return archqa.ask(
        "What then?",
        patient="p",
        record=record,
        now=NOW,
        settings=settings,
        scripted=ScriptedModel([plan] * 6),
    )


VENTILATION = {"what": "procedure", "names": ["Artificial ventilation"]}
VISITS = {"what": "hospital_visit", "returns": "length_of_stay"}


def test_the_longest_stay_is_the_one_of_the_extreme_length(record: Path) -> None:
    longest = answer_of(record, **VISITS, extreme="maximum")
    assert longest.text.startswith("Longest: 7 days: Hospital visit from 2019-01-01")
    assert longest.lines[0].citations == ("Encounter/v1",)
    shortest = answer_of(record, **VISITS, extreme="minimum")
    assert shortest.text.startswith("Shortest: ")
    assert [line.citations for line in shortest.lines] == [("Encounter/v2",)]


def test_the_longest_procedure_is_the_one_of_the_extreme_duration(record: Path) -> None:
    fields = {**VENTILATION, "returns": "length_of_stay"}
    answer = answer_of(record, **fields, extreme="maximum")
    assert [line.citations for line in answer.lines] == [("Procedure/long",)]
    assert answer.query is not None
    assert "with the maximum duration" in answer.query


def test_what_has_no_length_is_not_said_to_be_absent(record: Path) -> None:
    fields = {"what": "procedure", "names": ["Dialysis"], "returns": "length_of_stay"}
    answer = answer_of(record, **fields, extreme="maximum")
    assert answer.status is Status.NOT_FOUND
    assert answer.message == "No number is recorded for Dialysis."


@pytest.mark.parametrize(
    "query",
    [
        {"what": "hospital_visit", "returns": "time", "extreme": "maximum"},
        {"what": "patient", "returns": "age", "when": {"spans": [{"year": 2015}]}},
    ],
)
def test_a_query_that_would_leave_its_limit_out_is_sent_back(
    record: Path, query: dict[str, Any]
) -> None:
    with pytest.raises(archqa.errors.CaseFailed):
        answer_of(record, **query)


def test_a_length_is_said_in_the_unit_that_is_asked_for(record: Path) -> None:
    last = {"when": {"position": "last"}, "unit": "hour"}
    assert answer_of(record, **VISITS, **last).text.startswith("60 hours (")
    fields = {**VENTILATION, "returns": "length_of_stay", "summary": "sum"}
    assert "44.5 hours in total" in answer_of(record, **fields).text
    assert "1.85 days in total" in answer_of(record, **fields, unit="day").text


def test_the_time_since_is_said_in_the_unit_that_is_asked_for(record: Path) -> None:
    fields = {**POTASSIUM, "returns": "elapsed", "when": {"position": "last"}}
    answer = answer_of(record, **fields, unit="day")
    assert answer.text.startswith("119 days ago (3 months and 29 days ago): Potassium")
    assert answer_of(record, **fields).text.startswith("3 months and 29 days ago: ")


def test_the_highest_dose_has_its_unit_and_counts_orders(record: Path) -> None:
    text = answer_of(record, **WARFARIN, summary="maximum").text
    assert text.startswith("Highest dose of Warfarin: 5 mg on 2020-02-01")
    assert "of 2 medication orders" in text


def test_doses_of_two_times_are_compared(record: Path) -> None:
    against = {"relation": "greater", "when": {"position": "first"}}
    fields = {**WARFARIN, "when": {"position": "last"}, "against": against}
    answer = answer_of(record, **fields)
    assert answer.status is Status.ANSWERED
    assert answer.text.startswith("Yes: Warfarin, dose 5 mg")


def test_sums_that_are_compared_are_both_said(record: Path) -> None:
    against = {
        "relation": "greater",
        "when": {"spans": [{"year": 2020, "month": 1}]},
    }
    february = {"spans": [{"year": 2020, "month": 2}]}
    answer = answer_of(
        record, **POTASSIUM, summary="average", when=february, against=against
    )
    first, second = answer.lines
    assert first.text.startswith("No: Potassium, average: 4.3 mmol/L over 2 results")
    assert second.text.startswith("Potassium, average: 5.5 mmol/L over 1 result")


def test_an_age_at_a_visit_is_that_of_the_visit_and_not_of_the_death(
    record: Path,
) -> None:
    first = {"visit": {"kind": "hospital", "which": "first"}}
    answer = answer_of(record, what="patient", returns="age", when=first)
    assert "was 68 years old during the first hospital visit" in answer.text
    assert "died" not in answer.text
    assert answer.query is not None
    assert "during the first hospital visit" in answer.query


def test_an_end_on_the_day_of_the_start_is_said_where_it_is_asked_for(
    record: Path,
) -> None:
    fields = {**VENTILATION, "returns": "end_time", "when": {"position": "first"}}
    assert "to 2020-01-01" in answer_of(record, **fields).text


def test_a_limit_that_no_value_passes_names_all_values_whatever_the_position(
    record: Path,
) -> None:
    value = {"comparison": "greater", "number": 6}
    answer = answer_of(record, **POTASSIUM, value=value, when={"position": "first"})
    assert answer.text.startswith("None of 3 results is greater than 6")
