"""Results of a record in words: values, series, counts, extremes and changes."""

from dataclasses import replace

from archqa.asking.answer import Status
from archqa.query.execution.findings import Answer as Found
from archqa.query.execution.rows import Coding
from archqa.query.model import ValueTest
from archqa.query.scope import Span, When
from tests.asking.invented_rows import (
    LOINC,
    InventedRecord,
    answer_to,
    lab,
    order,
    query,
    row,
    texts,
)


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
        top = row(
            "Observation/p", "Systolic blood pressure", date, value=106.1, unit="mm[Hg]"
        )
        bottom = row(
            "Observation/p", "Diastolic blood pressure", date, value=77.1, unit="mm[Hg]"
        )
        again = replace(bottom, refs=("Observation/d",))
        answer = answer_to(query("observation"), [top, bottom, again])
        assert texts(answer) == ["Blood pressure 106.1/77.1 mmHg on 2025-05-17"]
        assert answer.lines[0].citations == ("Observation/p", "Observation/d")

    def test_the_same_reading_recorded_twice_is_one_line_with_both_citations(
        self,
    ) -> None:
        answer = answer_to(
            query("lab"), [lab(1, "2020-01-02", 95), lab(2, "2020-01-02", 95)]
        )
        assert texts(answer) == ["Glucose 95 mg/dL on 2020-01-02"]
        assert answer.lines[0].citations == ("Observation/o1", "Observation/o2")

    def test_a_series_is_chronological(self) -> None:
        answer = answer_to(
            query("lab"), [lab(1, "2019-01-02", 95), lab(2, "2020-01-02", 99.5)]
        )
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
        assert texts(answer_to(query("lab"), [high])) == [
            "Glucose 180 mg/dL on 2020-01-02"
        ]

    def test_a_value_without_flag_and_range_is_not_said_to_be_normal(self) -> None:
        potassium = lab(1, "2019-01-02", 4.7, "Potassium", "mmol/L")
        assert texts(answer_to(query("lab", returns="flag"), [potassium])) == [
            "Potassium 4.7 mmol/L on 2019-01-02 (whether it is normal is not recorded: "
            "no interpretation, no reference range)"
        ]

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
        assert texts(
            answer_to(query("observation", returns="flag"), [top, bottom])
        ) == [
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
            row(
                "Observation/a",
                name,
                "1988-01-02",
                text="Smokes tobacco daily (finding)",
            ),
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
        rows = [
            lab(number, "2020-01-02", number + 1, name)
            for number, name in enumerate(names)
        ]
        rows.append(lab(99, "2020-02-02", 141, "Sodium"))
        answer = answer_to(query("lab"), rows)
        assert texts(answer)[0] == "Sodium 141 mg/dL on 2020-02-02, and 1 earlier"
        assert texts(answer)[-1].endswith(", and 10 more")
        assert len(answer.evidence) == 23

    def test_degrees_celsius_say_that_fahrenheit_is_recorded(self) -> None:
        fever = row(
            "Observation/t", "Temperature", "2020-01-02", value=39.28, unit="°C"
        )
        record = InventedRecord([fever])
        record.change("Observation/t", value=102.7, unit="°F")
        assert texts(
            answer_to(query("vital", summary="maximum"), [fever], record=record)
        ) == ["Highest temperature: 39.28 °C on 2020-01-02 (converted from 102.7 °F)"]

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


class TestSummaries:
    def test_a_count_says_what_is_counted_with_the_first_and_the_last(self) -> None:
        visits = [
            row(f"Encounter/e{number}", "Visit", f"20{number:02}-01-06")
            for number in range(15, 27)
        ]
        asked = query("encounter", classes=("emergency",), summary="count")
        answer = answer_to(asked, visits)
        assert texts(answer) == [
            "12 emergency visits, the first on 2015-01-06, the last on 2026-01-06"
        ]
        assert len(answer.lines[0].citations) == 12

    def test_a_count_names_every_limit_of_what_is_counted(self) -> None:
        rows = [
            lab(1, "2010-01-02", 5.1, "Potassium"),
            lab(2, "2017-12-30", 5.4, "Potassium"),
        ]
        above = ValueTest(comparison="greater", number=5)
        answer = answer_to(
            query("lab", names=("Potassium",), value=above, summary="count"), rows
        )
        assert texts(answer) == [
            "Potassium: 2 lab results with a value greater than 5, on 2010-01-02 and 2017-12-30"
        ]
        ended = [row("Condition/a", "Sprain", "1995-06-08")]
        answer = answer_to(query("diagnosis", state="ended", summary="count"), ended)
        assert texts(answer) == ["1 diagnosis that has ended, on 1995-06-08"]

    def test_different_things_are_counted_with_their_names(self) -> None:
        rows = [
            order(1, "2020-01-02", name="Heparin"),
            order(2, "2021-01-02", name="heparin"),
            order(3, "2022-01-02", name="Aspirin"),
        ]
        asked = query("medication", returns="name", summary="count_distinct")
        answer = answer_to(asked, rows, found=Found(kind="count", values=(2,)))
        assert texts(answer) == [
            "2 different drugs among 3 medication orders: Heparin; Aspirin"
        ]

    def test_counts_of_each_year_are_one_line_each(self) -> None:
        rows = [
            row("Encounter/a", "Visit", "2019-01-06"),
            row("Encounter/b", "Visit", "2020-01-06"),
        ]
        found = Found(kind="count", values=(1, 1), periods=("2019", "2020"))
        answer = answer_to(
            query("encounter", summary="count", per="year"), rows, found=found
        )
        assert texts(answer) == ["2019: 1 visit", "2020: 1 visit"]
        assert answer.lines[1].citations == ("Encounter/b",)

    def test_a_count_of_a_few_names_their_dates(self) -> None:
        rows = [
            row("Condition/a", "Overdose", "1995-06-08"),
            row("Condition/b", "Overdose", "2005-05-19"),
        ]
        answer = answer_to(
            query("diagnosis", names=("overdose",), summary="count"), rows
        )
        assert texts(answer) == ["Overdose: 2 diagnoses, on 1995-06-08 and 2005-05-19"]

    def test_an_extreme_names_its_date_and_how_many_results_there_are(self) -> None:
        rows = [
            lab(1, "2010-01-02", 1.1, "Creatinine"),
            lab(2, "2017-12-30", 2.11, "Creatinine"),
        ]
        answer = answer_to(query("lab", summary="maximum"), rows)
        assert texts(answer) == [
            "Highest creatinine: 2.11 mg/dL on 2017-12-30, of 2 results from 2010-01-02 to 2017-12-30"
        ]
        assert answer.lines[0].citations == ("Observation/o2",)
        assert {line.id for line in answer.evidence} == {
            "Observation/o1",
            "Observation/o2",
        }

    def test_an_average_says_over_how_many_and_from_when_to_when(self) -> None:
        rows = [
            lab(1, "2010-01-02", 6.0, "A1c", "%"),
            lab(2, "2012-01-02", 6.5, "A1c", "%"),
        ]
        assert texts(answer_to(query("lab", summary="average"), rows)) == [
            "A1c, average: 6.25 % over 2 results, from 2010-01-02 to 2012-01-02"
        ]

    def test_values_of_different_units_are_not_averaged(self) -> None:
        rows = [lab(1, "2010-01-02", 6.0, unit="mmol/L"), lab(2, "2012-01-02", 110)]
        answer = answer_to(query("lab", summary="average"), rows)
        assert answer.status is Status.NOT_FOUND
        assert any(
            "different units (mmol/L and mg/dL)" in remark for remark in answer.remarks
        )

    def test_a_change_names_both_values_and_the_way_between(self) -> None:
        name = "LDL"
        values = [
            ("2011-06-09", 185.5),
            ("2014-08-14", 205.3),
            ("2021-01-07", 229.9),
            ("2024-09-05", 216.3),
        ]
        rows = [
            lab(number, date, value, name)
            for number, (date, value) in enumerate(values)
        ]
        assert texts(answer_to(query("lab", summary="change"), rows)) == [
            "LDL: 30.8 mg/dL more: from 185.5 mg/dL on 2011-06-09 to 216.3 mg/dL on 2024-09-05",
            "LDL, 4 results: it rose to 229.9 mg/dL on 2021-01-07, "
            "then fell to 216.3 mg/dL on 2024-09-05",
        ]

    def test_a_change_in_one_direction_names_the_values_between(self) -> None:
        values = [("2019-09-15", 72.2), ("2021-07-11", 73.8), ("2025-03-02", 77.0)]
        rows = [
            lab(n, date, value, "Weight", "kg")
            for n, (date, value) in enumerate(values)
        ]
        assert texts(answer_to(query("lab", summary="change"), rows)) == [
            "Weight: 4.8 kg more: from 72.2 kg on 2019-09-15 to 77 kg on 2025-03-02",
            "Weight, 3 results: it only rose, between them 73.8 kg on 2021-07-11",
        ]

    def test_a_change_with_many_turns_names_the_highest_and_the_lowest(self) -> None:
        rows = [
            lab(n, f"201{n}-01-02", value)
            for n, value in enumerate((5.0, 7.0, 4.0, 9.0, 6.0))
        ]
        assert texts(answer_to(query("lab", summary="change"), rows))[1] == (
            "Glucose, 5 results: it went up and down, "
            "highest 9 mg/dL on 2013-01-02, lowest 4 mg/dL on 2012-01-02"
        )

    def test_a_change_of_one_value_is_none(self) -> None:
        answer = answer_to(query("lab", summary="change"), [lab(1, "2011-06-09", 99)])
        assert texts(answer) == ["Glucose: only one value, 99 mg/dL on 2011-06-09"]

    def test_time_since_is_said_in_years_and_months(self) -> None:
        done = row("Procedure/a", "Colonoscopy", "2023-09-05", status="completed")
        assert texts(answer_to(query("procedure", returns="elapsed"), [done])) == [
            "3 years and 2 months ago: Colonoscopy on 2023-09-05"
        ]
