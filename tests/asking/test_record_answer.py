"""The words of an answer about a record, from invented query results."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from archqa.asking.answer import Answer, Status
from archqa.asking.record_answer import (
    MAX_CITED_ROWS,
    declined_answer,
    not_understood_answer,
    record_answer,
)
from archqa.asking.record_displays import clean_name
from archqa.asking.record_names import asserts
from archqa.asking.record_numbers import (
    computed_text,
    length_between,
    number_text,
    since_text,
    stay_text,
)
from archqa.query.execution.findings import Answer as Found
from archqa.query.execution.findings import QueryResult, collect_evidence
from archqa.query.execution.rows import Coding, Row, parse_datetime
from archqa.query.model import Query, ValueTest
from archqa.query.scope import Span, When

Resource = dict[str, Any]
NOW = "2026-11-23T12:00:00"
LOINC = "http://loinc.org"
PATIENT: Resource = {
    "resourceType": "Patient",
    "id": "p1",
    "name": [{"given": ["Ana"], "family": "Cruz"}],
    "gender": "female",
    "birthDate": "1971-08-28",
}


class InventedRecord:
    """A record that holds what rows say, each row as a resource of its own."""

    def __init__(self, rows: Iterable[Row], patient: Resource = PATIENT) -> None:
        self._resources: dict[tuple[str, str], Resource] = {("Patient", patient["id"]): patient}
        for each in rows:
            for ref in each.refs:
                resource_type, resource_id = ref.split("/")
                resource = self._resources.setdefault((resource_type, resource_id), {})
                resource.setdefault("rows", []).append(_as_element(each))

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        return self._resources.get((resource_type, resource_id))

    def change(self, ref: str, **elements: Any) -> None:
        resource_type, resource_id = ref.split("/")
        resource = self._resources[resource_type, resource_id]
        resource["rows"] = [element | elements for element in resource["rows"]]


def _as_element(row: Row) -> Resource:
    texts = [text for values in row.facts.values() for text in values]
    times = [time.isoformat() for time in (row.time, row.end) if time]
    return {"names": list(row.names), "value": row.value, "text": row.text, "facts": texts + times}


def row(ref: str, name: str, date: str = "", **fields: Any) -> Row:
    end = parse_datetime(fields.pop("end", ""))
    facts = dict(fields.pop("facts", {}))
    if "status" in fields:
        facts["status"] = (fields.pop("status"),)
    return Row(
        refs=(ref,),
        name=name,
        names=(name,),
        time=parse_datetime(date),
        end=end,
        facts=facts,
        chosen=True,
        **fields,
    )


def result(query: Query, rows: Iterable[Row], answer: Found | None = None) -> QueryResult:
    rows = tuple(rows)
    return QueryResult(
        query=query,
        patient="p1",
        conventions="clinical",
        answer=answer or Found(kind="text"),
        rows=rows,
        evidence=collect_evidence(row for row in rows if row.chosen),
    )


def answer_to(
    query: Query,
    rows: Iterable[Row],
    *,
    found: Found | None = None,
    execute: Callable[[Query], QueryResult] | None = None,
    patient: Resource = PATIENT,
    record: Any = None,
) -> Answer:
    rows = list(rows)
    record = record or InventedRecord(rows, patient)
    readings = [(query, result(query, rows, found))]
    return record_answer("?", readings, patient, record, execute=execute)


def texts(answer: Answer) -> list[str]:
    return [line.text for line in answer.lines]


def query(what: str, **fields: Any) -> Query:
    return Query(what=what, now=NOW, **fields)


def lab(number: int, date: str, value: float, name: str = "Glucose", unit: str = "mg/dL") -> Row:
    return row(f"Observation/o{number}", name, date, value=value, unit=unit)


class TestValues:
    def test_a_value_comes_with_name_unit_and_date(self) -> None:
        a1c = row(
            "Observation/o1",
            "Hemoglobin A1c/Hemoglobin.total in Blood",
            "2026-04-28T03:07:03Z",
            value=6.4,
            unit="%",
            codings=(Coding(LOINC, "4548-4", ""),),
        )
        answer = answer_to(query("observation", concepts=("hemoglobin a1c",)), [a1c])
        assert texts(answer) == ["Hemoglobin A1c 6.4 % on 2026-04-28"]
        assert answer.lines[0].citations == ("Observation/o1",)
        assert answer.status is Status.ANSWERED
        assert answer.patient == {"id": "p1", "name": "Ana Cruz"}

    def test_the_parts_of_a_blood_pressure_stand_together(self) -> None:
        date = "2025-05-17T10:00:00Z"
        top = row("Observation/p", "Systolic blood pressure", date, value=106.1, unit="mm[Hg]")
        bottom = row("Observation/p", "Diastolic blood pressure", date, value=77.1, unit="mm[Hg]")
        again = replace(bottom, refs=("Observation/d",))
        answer = answer_to(query("observation"), [top, bottom, again])
        assert texts(answer) == ["Blood pressure 106.1/77.1 mmHg on 2025-05-17"]
        assert answer.lines[0].citations == ("Observation/p", "Observation/d")

    def test_the_same_reading_recorded_twice_is_one_line_with_both_citations(self) -> None:
        answer = answer_to(query("lab"), [lab(1, "2020-01-02", 95), lab(2, "2020-01-02", 95)])
        assert texts(answer) == ["Glucose 95 mg/dL on 2020-01-02"]
        assert answer.lines[0].citations == ("Observation/o1", "Observation/o2")

    def test_a_series_is_chronological(self) -> None:
        answer = answer_to(query("lab"), [lab(1, "2019-01-02", 95), lab(2, "2020-01-02", 99.5)])
        assert texts(answer) == [
            "Glucose 95 mg/dL on 2019-01-02",
            "Glucose 99.5 mg/dL on 2020-01-02",
        ]

    def test_two_readings_of_one_day_have_their_time_of_day(self) -> None:
        rows = [lab(1, "2020-01-02T08:30:00", 95), lab(2, "2020-01-02T17:05:00", 99)]
        assert texts(answer_to(query("lab"), rows)) == [
            "Glucose 95 mg/dL on 2020-01-02 08:30",
            "Glucose 99 mg/dL on 2020-01-02 17:05",
        ]

    def test_a_reading_of_an_asked_day_has_its_time_of_day(self) -> None:
        when = When(spans=(Span(year=2020, month=1, day=2),))
        answer = answer_to(query("lab", when=when), [lab(1, "2020-01-02T08:30:00", 95)])
        assert texts(answer) == ["Glucose 95 mg/dL on 2020-01-02 08:30"]

    def test_flag_and_range_stand_where_the_flag_was_asked_for(self) -> None:
        facts = {"flag": ("high",), "reference_range": ("70-100 mg/dL",)}
        high = replace(lab(1, "2020-01-02", 180), facts=facts)
        asked = answer_to(query("lab", flag="high"), [high])
        assert texts(asked) == [
            "Glucose 180 mg/dL on 2020-01-02 (high, reference range 70-100 mg/dL)"
        ]
        assert texts(answer_to(query("lab"), [high])) == ["Glucose 180 mg/dL on 2020-01-02"]

    def test_the_flags_of_a_blood_pressure_say_of_which_part(self) -> None:
        facts = {"flag": ("high",), "reference_range": ("90-120 mm[Hg]",)}
        top = row(
            "Observation/p",
            "Systolic blood pressure",
            "2020-01-02",
            value=141.8,
            unit="mm[Hg]",
            facts=facts,
        )
        bottom = row(
            "Observation/p",
            "Diastolic blood pressure",
            "2020-01-02",
            value=70.0,
            unit="mm[Hg]",
            facts={"flag": ("normal",)},
        )
        assert texts(answer_to(query("observation", returns="flag"), [top, bottom])) == [
            "Blood pressure 141.8/70 mmHg on 2020-01-02 "
            "(systolic high, reference range 90-120 mmHg; diastolic normal)"
        ]

    def test_a_converted_value_says_what_is_recorded(self) -> None:
        weight = row(
            "Observation/w",
            "Body weight",
            "2020-01-02",
            value=77.11,
            unit="kg",
            facts={"recorded_value": ("170 lb",)},
        )
        record = InventedRecord([weight])
        record.change("Observation/w", value=170, unit="lb")
        assert texts(answer_to(query("observation"), [weight], record=record)) == [
            "Body weight 77.11 kg on 2020-01-02 (converted from 170 lb)"
        ]
        record.change("Observation/w", value=171)
        assert answer_to(query("observation"), [weight], record=record).lines == ()

    def test_a_result_in_words_that_repeats_is_one_line_with_its_dates(self) -> None:
        name = "Tobacco smoking status"
        rows = [
            row("Observation/a", name, "1988-01-02", text="Smokes tobacco daily (finding)"),
            row("Observation/b", name, "2024-01-02", text="Ex-smoker (finding)"),
            row("Observation/c", name, "2025-01-02", text="Ex-smoker (finding)"),
        ]
        assert texts(answer_to(query("observation"), rows)) == [
            "Tobacco smoking status: Smokes tobacco daily on 1988-01-02",
            "Tobacco smoking status: Ex-smoker on 2024-01-02 and 2025-01-02",
        ]

    def test_a_test_without_a_result_is_not_an_answer(self) -> None:
        typed = row("Observation/a", "ABO blood group", "2000-10-15")
        answer = answer_to(query("observation", names=("blood type",)), [typed])
        assert answer.status is Status.NOT_FOUND
        assert answer.message == "Blood type: the result is not recorded."

    def test_of_a_long_series_the_latest_are_shown_and_all_are_evidence(self) -> None:
        rows = [lab(number, f"20{number:02}-01-02", number) for number in range(1, 50)]
        answer = answer_to(query("lab"), rows)
        assert len(answer.lines) == 12
        assert texts(answer)[0] == "Glucose 38 mg/dL on 2038-01-02"
        assert texts(answer)[-1] == "Glucose 49 mg/dL on 2049-01-02, and 37 earlier"
        assert len(answer.evidence) == 49
        assert {line.id for line in answer.evidence} == {row.refs[0] for row in rows}

    def test_of_many_results_of_many_things_the_latest_of_each_is_shown(self) -> None:
        names = ["Sodium", "Potassium", *(f"Test {number}" for number in range(20))]
        rows = [lab(number, "2020-01-02", number + 1, name) for number, name in enumerate(names)]
        rows.append(lab(99, "2020-02-02", 141, "Sodium"))
        answer = answer_to(query("lab"), rows)
        assert texts(answer)[0] == "Sodium 141 mg/dL on 2020-02-02, and 1 earlier"
        assert texts(answer)[-1].endswith(", and 10 more")
        assert len(answer.evidence) == 23

    def test_degrees_celsius_say_that_fahrenheit_is_recorded(self) -> None:
        fever = row("Observation/t", "Temperature", "2020-01-02", value=39.28, unit="°C")
        record = InventedRecord([fever])
        record.change("Observation/t", value=102.7, unit="°F")
        assert texts(answer_to(query("vital", summary="maximum"), [fever], record=record)) == [
            "Highest temperature: 39.28 °C on 2020-01-02 (converted from 102.7 °F)"
        ]

    def test_what_grew_is_the_result_of_a_culture(self) -> None:
        grown = row(
            "Observation/c",
            "Blood culture",
            "2020-01-02",
            facts={"organism": ("E. COLI",), "specimen": ("BLOOD",)},
        )
        asked = query("microbiology_test", names=("culture",), summary="exists")
        assert texts(answer_to(asked, [grown])) == [
            "Yes: Blood culture: E. COLI on 2020-01-02, specimen BLOOD"
        ]

    def test_a_date_is_as_precise_as_the_record(self) -> None:
        value = lab(1, "2013-04-01", 95)
        record = InventedRecord([value])
        record.change("Observation/o1", facts=["2013-04"])
        answer = answer_to(query("lab"), [value], record=record)
        assert texts(answer) == ["Glucose 95 mg/dL on 2013-04"]


class TestVerification:
    def test_a_value_that_the_resource_does_not_have_is_left_out_with_a_remark(self) -> None:
        rows = [lab(1, "2019-01-02", 95), lab(2, "2020-01-02", 99)]
        record = InventedRecord(rows)
        record.change("Observation/o2", value=98)
        answer = answer_to(query("lab"), rows, record=record)
        assert texts(answer) == ["Glucose 95 mg/dL on 2019-01-02"]
        assert answer.remarks == ("A line was left out: Observation/o2, the value is not in it.",)

    def test_what_was_entered_in_error_is_left_out(self) -> None:
        rows = [lab(1, "2019-01-02", 95)]
        record = InventedRecord(rows)
        record.change("Observation/o1", status="entered-in-error")
        answer = answer_to(query("lab"), rows, record=record)
        assert answer.lines == ()
        assert answer.status is Status.NOT_FOUND
        assert "could not be confirmed" in answer.message

    def test_a_place_that_the_visit_does_not_name_is_left_out(self) -> None:
        visit = row("Encounter/e", "Visit", "2020-01-02", facts={"place": ("Some Hospital",)})
        record = InventedRecord([visit])
        record.change("Encounter/e", facts=["2020-01-02", "Other Hospital"])
        assert answer_to(query("encounter", returns="place"), [visit], record=record).lines == ()


def vaccine(number: int, date: str, name: str = "Influenza vaccine") -> Row:
    return row(f"Immunization/i{number}", name, date, status="completed")


class TestLists:
    def test_lists_are_newest_first_one_line_a_thing_with_its_own_citation(self) -> None:
        rows = [vaccine(1, "1979-12-16", "MMR"), vaccine(2, "2019-10-02")]
        answer = answer_to(query("immunization", returns="name"), rows)
        assert texts(answer) == ["Influenza vaccine on 2019-10-02", "MMR on 1979-12-16"]
        assert [line.citations for line in answer.lines] == [
            ("Immunization/i2",),
            ("Immunization/i1",),
        ]

    def test_the_same_thing_several_times_is_one_line_with_its_latest_dates(self) -> None:
        rows = [vaccine(number, f"20{number:02}-10-02") for number in range(1, 15)]
        answer = answer_to(query("immunization", returns="name"), rows)
        assert len(answer.lines) == 1
        assert answer.lines[0].text.startswith("Influenza vaccine: 2007-10-02, 2008-10-02,")
        assert answer.lines[0].text.endswith("2014-10-02 and 6 earlier")
        assert len(answer.lines[0].citations) == MAX_CITED_ROWS
        assert len(answer.evidence) == 14

    def test_more_than_twelve_lines_are_counted_in_the_last_one(self) -> None:
        rows = [
            vaccine(number, f"20{number:02}-10-02", f"Vaccine {number}") for number in range(49)
        ]
        answer = answer_to(query("immunization", returns="name"), rows)
        assert len(answer.lines) == 12
        assert texts(answer)[0] == "Vaccine 48 on 2048-10-02"
        assert texts(answer)[-1] == "Vaccine 37 on 2037-10-02, and 37 more"
        assert len(answer.evidence) == 49

    def test_a_visit_tells_for_what_where_and_with_whom(self) -> None:
        facts = {
            "reason": ("Sprain of ankle (disorder)",),
            "place": ("Cape Cod Hospital",),
            "practitioner": ("Dr. John Okafor",),
        }
        visit = row(
            "Encounter/e", "Emergency room admission (procedure)", "2026-01-24", facts=facts
        )
        assert texts(answer_to(query("encounter", returns="practitioner"), [visit])) == [
            "Emergency room admission on 2026-01-24, with Dr. John Okafor, for Sprain of ankle, "
            "at Cape Cod Hospital"
        ]

    def test_a_stay_tells_both_its_ends(self) -> None:
        stay = row("Encounter/e", "Admission", "2020-10-13T08:00:00", end="2020-10-21T10:00:00")
        assert texts(answer_to(query("encounter", returns="time"), [stay])) == [
            "Admission from 2020-10-13 to 2020-10-21"
        ]
        assert texts(answer_to(query("encounter", returns="length_of_stay"), [stay])) == [
            "8 days: Admission from 2020-10-13 to 2020-10-21"
        ]

    def test_a_problem_tells_since_when_or_when_it_was_resolved(self) -> None:
        rows = [
            row(
                "Condition/a",
                "Pneumonia (disorder)",
                "2020-10-13",
                end="2020-10-21",
                status="resolved",
            ),
            row("Condition/b", "Essential hypertension", "2021-03-03", status="active"),
            row("Condition/c", "Anemia", "2022-03-03", status="resolved"),
        ]
        assert texts(answer_to(query("diagnosis", returns="name"), rows)) == [
            "Anemia from 2022-03-03 (resolved)",
            "Essential hypertension, since 2021-03-03 (active)",
            "Pneumonia from 2020-10-13, resolved 2020-10-21",
        ]


def order(number: int, date: str, status: str = "active", **fields: Any) -> Row:
    name = fields.pop("name", "Simvastatin 10 MG Oral Tablet")
    return row(f"MedicationRequest/m{number}", name, date, status=status, **fields)


class TestMedicines:
    def test_orders_of_one_medicine_are_one_line_with_status(self) -> None:
        rows = [order(1, "2025-03-30", "stopped"), order(2, "2026-04-06", "stopped")]
        assert texts(answer_to(query("medication", returns="name"), rows)) == [
            "Simvastatin 10 mg Oral Tablet, ordered 2025-03-30 and 2026-04-06 (stopped)"
        ]

    def test_the_strength_answers_for_the_dose_and_how_often_is_said_to_be_missing(self) -> None:
        answer = answer_to(query("medication", returns="dose"), [order(1, "2025-03-30")])
        assert texts(answer) == [
            "Simvastatin 10 mg Oral Tablet, ordered 2025-03-30, how often is not recorded (active)"
        ]
        assert answer.status is Status.ANSWERED

    def test_dose_and_frequency_are_told_as_recorded(self) -> None:
        facts = {"frequency": ("2 times a day",)}
        tablet = replace(order(1, "2025-03-30", value=10.0, unit="mg"), text="10.0")
        tablet = replace(tablet, facts=tablet.facts | facts)
        answer = answer_to(query("medication", returns="frequency"), [tablet])
        assert texts(answer) == [
            "Simvastatin 10 mg Oral Tablet, dose 10 mg, 2 times a day, ordered 2025-03-30 (active)"
        ]

    def test_a_stop_date_is_told_only_if_the_record_has_one(self) -> None:
        asked = query("medication", returns="end_time")
        ended = answer_to(asked, [order(1, "2025-03-30", "stopped", end="2025-06-01")])
        assert texts(ended) == [
            "Simvastatin 10 mg Oral Tablet, ordered 2025-03-30, until 2025-06-01 (stopped)"
        ]
        endless = answer_to(asked, [order(1, "2025-03-30", "stopped")])
        assert endless.status is Status.NOT_FOUND
        assert texts(endless) == [
            "Simvastatin 10 mg Oral Tablet, ordered 2025-03-30 "
            "(stopped, on what date is not recorded)"
        ]

    def test_a_reason_is_told_and_its_absence_too(self) -> None:
        facts = {"status": ("active",), "reason": ("Generalized anxiety disorder (disorder)",)}
        rows = [order(1, "2024-03-30"), replace(order(2, "2025-03-30"), facts=facts)]
        assert texts(answer_to(query("medication", returns="reason"), rows)) == [
            "Simvastatin 10 mg Oral Tablet, ordered 2025-03-30, for Generalized anxiety disorder (active)",
            "Simvastatin 10 mg Oral Tablet, ordered 2024-03-30, the reason is not recorded (active)",
        ]

    def test_many_doses_given_are_counted_with_the_first_and_the_last_day(self) -> None:
        rows = [
            row(f"MedicationAdministration/{n}", "Heparin", f"2020-10-{n}") for n in range(12, 21)
        ]
        assert texts(answer_to(query("administration", returns="name"), rows)) == [
            "Heparin, given 9 times from 2020-10-12 to 2020-10-20"
        ]


class TestYesAndNo:
    def test_yes_stands_before_the_first_row(self) -> None:
        asked = query("medication", summary="exists", names=("simvastatin",))
        answer = answer_to(asked, [order(1, "2025-03-30", "stopped")])
        assert texts(answer) == ["Yes: Simvastatin 10 mg Oral Tablet, ordered 2025-03-30 (stopped)"]

    def test_what_has_ended_is_a_no_that_cites_it(self) -> None:
        asked = query("medication", summary="exists", names=("simvastatin",), state="current")
        ended = order(1, "2025-03-30", "stopped")

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.state else [ended])

        answer = answer_to(asked, [], execute=execute, record=InventedRecord([ended]))
        assert answer.status is Status.ANSWERED
        assert texts(answer) == [
            "No, not currently: Simvastatin 10 mg Oral Tablet, ordered 2025-03-30 (stopped)"
        ]
        assert answer.lines[0].citations == ("MedicationRequest/m1",)

    def test_what_has_no_state_is_neither_current_nor_ended(self) -> None:
        asked = query("diagnosis", summary="exists", names=("asthma",), state="current")
        asthma = row("Condition/a", "Asthma", "2020-01-02")

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.state else [asthma])

        answer = answer_to(asked, [], execute=execute, record=InventedRecord([asthma]))
        assert not texts(answer)[0].startswith(("Yes", "No"))
        assert "does not say whether this is still so" in texts(answer)[0]

    def test_without_any_row_it_says_what_was_searched_and_how_many_rows(self) -> None:
        orders = [order(number, "2025-03-30") for number in range(38)]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.names else orders)

        asked = query("medication", summary="exists", names=("warfarin",))
        answer = answer_to(asked, [], execute=execute)
        assert answer.status is Status.NOT_FOUND
        assert answer.message == "No warfarin is recorded: 38 medication orders were searched."
        assert answer.lines == ()

    def test_two_searches_for_one_thing_are_one_sentence(self) -> None:
        doses = [order(number, "2025-03-30") for number in range(12)]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.names else doses)

        queries = [
            query(what, names=("warfarin",), summary="exists")
            for what in ("medication", "administration")
        ]
        readings = [(asked, result(asked, [])) for asked in queries]
        answer = record_answer("?", readings, PATIENT, InventedRecord([]), execute=execute)  # type: ignore[arg-type]
        assert answer.message == (
            "No warfarin is recorded: 12 medication orders and 12 doses given were searched."
        )

    def test_an_absence_names_every_limit_and_what_there_is_without_the_last(self) -> None:
        stay = row("Encounter/a", "Admission", "2019-01-02")

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.reasons else [stay])

        asked = query("encounter", returns="time", classes=("inpatient",), reasons=("COVID-19",))
        assert answer_to(asked, [], execute=execute).message == (
            "No inpatient visit for COVID-19 is recorded: 1 inpatient visit was searched."
        )

    def test_rows_at_other_times_are_told(self) -> None:
        visits = [
            row("Encounter/a", "Visit", "2019-01-02"),
            row("Encounter/b", "Visit", "2021-01-02"),
        ]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.when.spans else visits)

        asked = query("encounter", returns="time", when=When(spans=(Span(year=2020),)))
        answer = answer_to(asked, [], execute=execute)
        assert answer.status is Status.NOT_FOUND
        assert answer.message == (
            "No visit in 2020 is recorded. "
            "At other times there are 2 visits, from 2019-01-02 to 2021-01-02."
        )

    def test_results_within_their_range_are_a_no_to_a_low_one(self) -> None:
        facts = {"flag": ("normal",), "reference_range": ("135-145 mmol/L",)}
        rows = [
            replace(lab(1, "2019-01-02", 136, "Sodium", "mmol/L"), facts=facts),
            replace(lab(2, "2020-01-02", 142, "Sodium", "mmol/L"), facts=facts),
        ]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.flag else rows)

        asked = query("lab", names=("Sodium",), flag="low", summary="exists")
        answer = answer_to(asked, [], execute=execute, record=InventedRecord(rows))
        assert answer.status is Status.ANSWERED
        assert texts(answer) == [
            "No: Sodium, 2 results, none marked low: 136 mmol/L to 142 mmol/L, "
            "from 2019-01-02 to 2020-01-02"
        ]

    def test_results_without_mark_and_range_are_no_no_to_a_low_one(self) -> None:
        rows = [lab(1, "2019-01-02", 136, "Sodium", "mmol/L")]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.flag else rows)

        asked = query("lab", names=("Sodium",), flag="low", summary="exists")
        answer = answer_to(asked, [], execute=execute, record=InventedRecord(rows))
        assert answer.status is Status.NOT_FOUND
        assert answer.message == (
            "No Sodium result is marked low: 1 result was searched, "
            "none with a mark or reference range (136 mmol/L, on 2019-01-02)."
        )

    def test_beside_results_within_their_range_those_without_one_are_counted(self) -> None:
        judged = replace(lab(1, "2019-01-02", 136, "Sodium", "mmol/L"), facts={"flag": ("normal",)})
        rows = [judged, lab(2, "2020-01-02", 139, "Sodium", "mmol/L")]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.flag else rows)

        asked = query("lab", names=("Sodium",), flag="low", summary="exists")
        answer = answer_to(asked, [], execute=execute, record=InventedRecord(rows))
        assert texts(answer) == [
            "No: Sodium, 1 result, not marked low: 136 mmol/L, on 2019-01-02; "
            "1 result without a mark or reference range: 139 mmol/L, on 2020-01-02"
        ]

    def test_a_missing_result_is_told_beside_the_test_that_was_done(self) -> None:
        typed = row("Procedure/a", "Blood group typing", "2000-10-15", status="completed")
        queries = [
            query("observation", names=("blood group",)),
            query("procedure", names=("blood group",), returns="time"),
        ]
        readings = [(queries[0], result(queries[0], [])), (queries[1], result(queries[1], [typed]))]
        record: Any = InventedRecord([typed])
        answer = record_answer("?", readings, PATIENT, record, execute=lambda q: result(q, []))
        assert answer.text == (
            "No blood group result is recorded: the record has no results.\n"
            "Blood group typing on 2000-10-15"
        )

    def test_a_value_that_none_reaches_is_a_no_with_the_nearest(self) -> None:
        rows = [lab(1, "2019-01-02", 95), lab(2, "2020-01-02", 99)]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.value else rows)

        asked = query("lab", value=ValueTest(comparison="greater", number=126), summary="exists")
        answer = answer_to(asked, [], execute=execute, record=InventedRecord(rows))
        assert texts(answer) == [
            "No: none of 2 results is greater than 126; the nearest is Glucose 99 mg/dL on 2020-01-02"
        ]

    @pytest.mark.parametrize(
        ("words", "verdict"),
        [
            (("Negative",), "No: "),
            (("Negative", "Positive"), "Yes: "),
            (("Positive", "Negative"), "Yes, in the past: "),
            (("Never smoked tobacco (finding)",), "No: "),
            (("Smokes tobacco daily (finding)", "Ex-smoker (finding)"), "Yes, in the past: "),
            (("Ex-smoker (finding)",), "In the past: "),
            (("Unemployed",), "Result: "),
        ],
    )
    def test_a_result_in_words_says_yes_or_no_by_what_it_asserts(
        self, words: tuple[str, ...], verdict: str
    ) -> None:
        rows = [
            row(f"Observation/o{number}", "Result", f"202{number}-01-02", text=text)
            for number, text in enumerate(words)
        ]
        answer = answer_to(query("observation", names=("result",), summary="exists"), rows)
        assert texts(answer)[0].startswith(verdict)

    def test_an_entry_that_there_is_no_allergy_is_a_no(self) -> None:
        entry = row(
            "AllergyIntolerance/a", "No known allergy (situation)", "2020-01-02", status="active"
        )
        answer = answer_to(query("allergy", summary="exists"), [entry])
        assert texts(answer) == ["No: No known allergy, recorded 2020-01-02 (active)"]

    def test_two_things_asked_together_have_a_yes_and_a_no_of_their_own(self) -> None:
        taken, ended = order(1, "2025-03-30", name="Lisinopril"), order(2, "2024-03-30", "stopped")

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.state else [ended])

        first, second = (
            query("medication", names=(name,), summary="exists", state="current")
            for name in ("lisinopril", "simvastatin")
        )
        readings = [(first, result(first, [taken])), (second, result(second, []))]
        record: Any = InventedRecord([taken, ended])
        answer = record_answer("?", readings, PATIENT, record, execute=execute)
        assert texts(answer) == [
            "Yes: Lisinopril, ordered 2025-03-30 (active)",
            "No, not currently: Simvastatin 10 mg Oral Tablet, ordered 2024-03-30 (stopped)",
        ]

    def test_where_one_kind_of_rows_has_it_the_other_is_a_remark(self) -> None:
        given = row("MedicationAdministration/a", "Heparin", "2020-01-02", status="completed")
        queries = [
            query(what, names=("Heparin",), summary="exists")
            for what in ("medication", "administration")
        ]
        readings = [(queries[0], result(queries[0], [])), (queries[1], result(queries[1], [given]))]
        record: Any = InventedRecord([given])
        answer = record_answer("?", readings, PATIENT, record, execute=lambda q: result(q, []))
        assert answer.text == "Yes: Heparin, given 2020-01-02"
        assert answer.remarks == ("The record has no medication orders.",)

    def test_a_yes_of_one_search_is_not_denied_by_another(self) -> None:
        given = row("MedicationAdministration/a", "Heparin", "2020-01-02", status="completed")
        ended = order(1, "2025-03-30", "stopped", name="Heparin")

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.state else [ended])

        ordered = query("medication", names=("Heparin",), summary="exists", state="current")
        done = query("administration", names=("Heparin",), summary="exists")
        readings = [(ordered, result(ordered, [])), (done, result(done, [given]))]
        record: Any = InventedRecord([given, ended])
        answer = record_answer("?", readings, PATIENT, record, execute=execute)
        assert texts(answer) == [
            "Yes: Heparin, given 2020-01-02",
            "Heparin, ordered 2025-03-30 (stopped)",
        ]


class TestSummaries:
    def test_a_count_says_what_is_counted_with_the_first_and_the_last(self) -> None:
        visits = [
            row(f"Encounter/e{number}", "Visit", f"20{number:02}-01-06") for number in range(15, 27)
        ]
        asked = query("encounter", classes=("emergency",), summary="count")
        answer = answer_to(asked, visits)
        assert texts(answer) == [
            "12 emergency visits, the first on 2015-01-06, the last on 2026-01-06"
        ]
        assert len(answer.lines[0].citations) == 12

    def test_different_things_are_counted_with_their_names(self) -> None:
        rows = [
            order(1, "2020-01-02", name="Heparin"),
            order(2, "2021-01-02", name="heparin"),
            order(3, "2022-01-02", name="Aspirin"),
        ]
        asked = query("medication", returns="name", summary="count_distinct")
        answer = answer_to(asked, rows, found=Found(kind="count", values=(2,)))
        assert texts(answer) == ["2 different drugs among 3 medication orders: Heparin; Aspirin"]

    def test_counts_of_each_year_are_one_line_each(self) -> None:
        rows = [
            row("Encounter/a", "Visit", "2019-01-06"),
            row("Encounter/b", "Visit", "2020-01-06"),
        ]
        found = Found(kind="count", values=(1, 1), periods=("2019", "2020"))
        answer = answer_to(query("encounter", summary="count", per="year"), rows, found=found)
        assert texts(answer) == ["2019: 1 visit", "2020: 1 visit"]
        assert answer.lines[1].citations == ("Encounter/b",)

    def test_a_count_of_a_few_names_their_dates(self) -> None:
        rows = [
            row("Condition/a", "Overdose", "1995-06-08"),
            row("Condition/b", "Overdose", "2005-05-19"),
        ]
        answer = answer_to(query("diagnosis", names=("overdose",), summary="count"), rows)
        assert texts(answer) == ["Overdose: 2 diagnoses, on 1995-06-08 and 2005-05-19"]

    def test_an_extreme_names_its_date_and_how_many_results_there_are(self) -> None:
        rows = [lab(1, "2010-01-02", 1.1, "Creatinine"), lab(2, "2017-12-30", 2.11, "Creatinine")]
        answer = answer_to(query("lab", summary="maximum"), rows)
        assert texts(answer) == [
            "Highest creatinine: 2.11 mg/dL on 2017-12-30, of 2 results from 2010-01-02 to 2017-12-30"
        ]
        assert answer.lines[0].citations == ("Observation/o2",)
        assert {line.id for line in answer.evidence} == {"Observation/o1", "Observation/o2"}

    def test_an_average_says_over_how_many_and_from_when_to_when(self) -> None:
        rows = [lab(1, "2010-01-02", 6.0, "A1c", "%"), lab(2, "2012-01-02", 6.5, "A1c", "%")]
        assert texts(answer_to(query("lab", summary="average"), rows)) == [
            "A1c, average: 6.25 % over 2 results, from 2010-01-02 to 2012-01-02"
        ]

    def test_values_of_different_units_are_not_averaged(self) -> None:
        rows = [lab(1, "2010-01-02", 6.0, unit="mmol/L"), lab(2, "2012-01-02", 110)]
        answer = answer_to(query("lab", summary="average"), rows)
        assert answer.status is Status.NOT_FOUND
        assert any("different units (mmol/L and mg/dL)" in remark for remark in answer.remarks)

    def test_a_change_names_both_values_and_the_way_between(self) -> None:
        name = "LDL"
        values = [
            ("2011-06-09", 185.5),
            ("2014-08-14", 205.3),
            ("2021-01-07", 229.9),
            ("2024-09-05", 216.3),
        ]
        rows = [lab(number, date, value, name) for number, (date, value) in enumerate(values)]
        assert texts(answer_to(query("lab", summary="change"), rows)) == [
            "LDL: 30.8 mg/dL more: from 185.5 mg/dL on 2011-06-09 to 216.3 mg/dL on 2024-09-05",
            "LDL, 4 results: it rose to 229.9 mg/dL on 2021-01-07, "
            "then fell to 216.3 mg/dL on 2024-09-05",
        ]

    def test_a_change_in_one_direction_names_the_values_between(self) -> None:
        values = [("2019-09-15", 72.2), ("2021-07-11", 73.8), ("2025-03-02", 77.0)]
        rows = [lab(n, date, value, "Weight", "kg") for n, (date, value) in enumerate(values)]
        assert texts(answer_to(query("lab", summary="change"), rows)) == [
            "Weight: 4.8 kg more: from 72.2 kg on 2019-09-15 to 77 kg on 2025-03-02",
            "Weight, 3 results: it only rose, between them 73.8 kg on 2021-07-11",
        ]

    def test_a_change_of_one_value_is_none(self) -> None:
        answer = answer_to(query("lab", summary="change"), [lab(1, "2011-06-09", 99)])
        assert texts(answer) == ["Glucose: only one value, 99 mg/dL on 2011-06-09"]

    def test_time_since_is_said_in_years_and_months(self) -> None:
        done = row("Procedure/a", "Colonoscopy", "2023-09-05", status="completed")
        assert texts(answer_to(query("procedure", returns="elapsed"), [done])) == [
            "3 years and 2 months ago: Colonoscopy on 2023-09-05"
        ]


def person(facts: dict[str, tuple[str, ...]], **patient: Any) -> tuple[Row, Resource]:
    resource = PATIENT | patient | {"said": [text for values in facts.values() for text in values]}
    return Row(refs=("Patient/p1",), name="patient", facts=facts, chosen=True), resource


class TestThePatient:
    @pytest.mark.parametrize(
        ("returns", "facts", "text"),
        [
            ("age", {"birth_date": ("1971-08-28",)}, "She is 55 years old (born 1971-08-28)."),
            ("sex", {"sex": ("female",)}, "She is female."),
            ("language", {"language": ("Spanish",)}, "Her language is Spanish."),
            (
                "phone",
                {"phone": ("555-125-7216 (home)",)},
                "Her phone number is 555-125-7216 (home).",
            ),
            ("alive", {}, "Yes, as far as the record tells: no death is recorded."),
        ],
    )
    def test_what_is_recorded_is_said_in_a_sentence(
        self, returns: str, facts: dict[str, tuple[str, ...]], text: str
    ) -> None:
        found, resource = person(facts)
        answer = answer_to(query("patient", returns=returns), [found], patient=resource)
        assert texts(answer) == [text]
        assert answer.lines[0].citations == ("Patient/p1",)

    def test_a_death_answers_no_to_being_alive_and_yes_to_having_died(self) -> None:
        facts = {"birth_date": ("1976-09-09",), "death_time": ("2011-07-17T03:00:00Z",)}
        found, resource = person(facts, gender="male")
        alive = answer_to(query("patient", returns="alive"), [found], patient=resource)
        assert texts(alive) == ["No, he died on 2011-07-17 at age 34."]
        died = query("patient", returns="death_time", summary="exists")
        assert texts(answer_to(died, [found], patient=resource)) == [
            "Yes, he died on 2011-07-17 at age 34."
        ]

    def test_who_lives_did_not_die(self) -> None:
        found, resource = person({})
        died = query("patient", returns="death_time", summary="exists")
        answer = answer_to(died, [found], patient=resource)
        assert texts(answer) == ["No, no death is recorded."]

    def test_without_a_sex_no_pronoun_is_guessed(self) -> None:
        found, resource = person({"language": ("Spanish",)}, gender="unknown")
        answer = answer_to(query("patient", returns="language"), [found], patient=resource)
        assert texts(answer) == ["The patient's language is Spanish."]

    def test_what_is_not_recorded_is_not_found(self) -> None:
        found, resource = person({})
        answer = answer_to(query("patient", returns="phone"), [found], patient=resource)
        assert (answer.status, answer.message) == (Status.NOT_FOUND, "No phone number is recorded.")

    def test_what_two_queries_find_is_told_once(self) -> None:
        found, resource = person({"language": ("Spanish",)})
        asked = query("patient", returns="language")
        record: Any = InventedRecord([], resource)
        readings = [(asked, result(asked, [found]))] * 2
        assert texts(record_answer("?", readings, resource, record)) == ["Her language is Spanish."]

    def test_one_part_found_and_one_not_are_both_said(self) -> None:
        found, resource = person({"language": ("Spanish",)})
        queries = [query("patient", returns=field) for field in ("language", "phone")]
        readings = [(asked, result(asked, [found])) for asked in queries]
        record: Any = InventedRecord([], resource)
        answer = record_answer("?", readings, resource, record)
        assert answer.status is Status.ANSWERED
        assert answer.text == "No phone number is recorded.\nHer language is Spanish."


class TestRefusals:
    def test_a_judgement_is_declined_with_related_facts_and_no_yes_or_no(self) -> None:
        value = lab(1, "2024-08-29", 167.8, "Systolic blood pressure", "mm[Hg]")
        asked = query("lab", summary="exists")
        record: Any = InventedRecord([value])
        answer = declined_answer(
            "under control?", "", [(asked, result(asked, [value]))], PATIENT, record
        )
        assert answer.status is Status.DECLINED
        assert answer.message.startswith("The record cannot judge or predict this.")
        assert texts(answer) == ["Systolic blood pressure 167.8 mmHg on 2024-08-29"]
        assert answer.lines[0].citations == ("Observation/o1",)

    def test_for_a_declined_question_about_death_only_the_death_is_told(self) -> None:
        found, resource = person({"death_time": ("2011-07-17",)}, gender="male")
        asked = query("patient", returns="alive")
        record: Any = InventedRecord([], resource)
        answer = declined_answer(
            "of what?", "", [(asked, result(asked, [found]))], resource, record
        )
        assert texts(answer) == ["He died on 2011-07-17."]

    def test_words_that_are_not_understood_are_named(self) -> None:
        answer = not_understood_answer("any shngles?", ["shngles"], "", PATIENT)
        assert answer.status is Status.NOT_UNDERSTOOD
        assert answer.not_understood == ("shngles",)
        assert "shngles" in answer.message


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (6.4, "6.4"),
        (6.400000001, "6.4"),
        (77.0, "77"),
        (1.015, "1.015"),
        (41.8567453, "41.86"),
        (0.0512345, "0.05123"),
        (1.00813, "1.008"),
        (-0.0, "0"),
        (1234.56789, "1234.57"),
    ],
)
def test_a_number_has_no_false_digits(number: float, text: str) -> None:
    assert number_text(number) == text


def test_computed_numbers_have_two_decimals() -> None:
    assert [computed_text(number) for number in (6.1249, 30.80000001, 0.012345)] == [
        "6.12",
        "30.8",
        "0.0123",
    ]


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        ("2023-09-05", "2026-11-23", "3 years and 2 months"),
        ("2026-10-31", "2026-11-30", "30 days"),
        ("2024-02-29", "2025-02-28", "11 months and 30 days"),
        ("2025-11-23", "2026-11-23", "1 year"),
    ],
)
def test_lengths_are_of_the_calendar(start: str, end: str, text: str) -> None:
    length = length_between(datetime.fromisoformat(start), datetime.fromisoformat(end))
    assert length.text == text


def test_short_times_are_said_in_days_and_hours() -> None:
    now = datetime.fromisoformat(NOW)
    assert since_text(datetime(2026, 11, 23, 8), now) == "today"
    assert since_text(datetime(2026, 11, 1), now) == "22 days ago"
    assert stay_text(datetime(2026, 1, 1, 8), datetime(2026, 1, 1, 20)) == "12 hours"


@pytest.mark.parametrize(
    ("display", "name"),
    [
        ("Essential hypertension (disorder)", "Essential hypertension"),
        ("Cholesterol in HDL [Mass/volume] in Serum or Plasma", "Cholesterol in HDL"),
        ("Leukocytes [#/volume] in Urine by Automated count", "Leukocytes in Urine"),
        (
            "Latanoprost 0.05 MG/ML Ophthalmic Solution",
            "Latanoprost 0.05 mg/mL Ophthalmic Solution",
        ),
        ("Medication_Review_Due", "Medication Review Due"),
        ("pH of Arterial blood", "pH of Arterial blood"),
        ("{'addresses': ['x'], 'text': 'Below 140/90 mm[Hg]'}", "Below 140/90 mm[Hg]"),
        ("{'text': 'Improve foot health', 'addresses': []}", "Improve foot health"),
        (
            "{'observation': {'codes': [{'display': 'A1c'}], 'operator': '<', 'value': 7}}",
            "A1c < 7",
        ),
        ("{not a dictionary}", "{not a dictionary}"),
    ],
)
def test_displays_lose_the_marks_of_their_code_system(display: str, name: str) -> None:
    assert clean_name(display) == name


@pytest.mark.parametrize(
    ("text", "assertion"),
    [
        ("Not detected", "negative"),
        ("No apparent retinopathy", "negative"),
        ("Detected", "positive"),
        ("Former smoker", "past"),
        ("Staphylococcus aureus", ""),
        ("Gram-negative rods", ""),
        ("HIV 1 antibody negative", "negative"),
        ("Normal", ""),
    ],
)
def test_a_result_asserts_what_its_words_say(text: str, assertion: str) -> None:
    assert asserts(text) == assertion
