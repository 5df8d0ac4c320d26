"""A yes or no about a record, and what is said where there is nothing."""

from dataclasses import replace
from typing import Any

import pytest

from archqa.asking.answer import Status
from archqa.asking.record_answer import (
    record_answer,
)
from archqa.query.execution.findings import QueryResult
from archqa.query.model import Query, ValueTest
from archqa.query.scope import Span, When
from tests.asking.invented_rows import (
    PATIENT,
    InventedRecord,
    answer_to,
    lab,
    order,
    query,
    result,
    row,
    texts,
)


class TestYesAndNo:
    def test_yes_stands_before_the_first_row(self) -> None:
        asked = query("medication", summary="exists", names=("simvastatin",))
        answer = answer_to(asked, [order(1, "2025-03-30", "stopped")])
        assert texts(answer) == [
            "Yes: Simvastatin 10 mg Oral Tablet, ordered 2025-03-30 (stopped)"
        ]

    def test_a_yes_shows_eight_of_its_rows_and_counts_the_others(self) -> None:
        rows = [order(n, f"{2010 + n}-03-30", name=f"Drug {n}") for n in range(12)]
        answer = answer_to(query("medication", summary="exists"), rows)
        assert len(answer.lines) == 8
        assert texts(answer)[-1] == "Drug 4, ordered 2014-03-30 (active), and 4 more"
        assert len(answer.evidence) == 12

    def test_a_problem_that_is_only_suspected_is_no_yes(self) -> None:
        facts = {"status": ("active",), "status_detail": ("provisional",)}
        asthma = row("Condition/a", "Asthma", "2020-01-02", facts=facts)
        answer = answer_to(
            query("diagnosis", names=("asthma",), summary="exists"), [asthma]
        )
        assert texts(answer) == [
            "Recorded, but not confirmed: Asthma, since 2020-01-02 (active, provisional)"
        ]

    def test_what_has_ended_is_a_no_that_cites_it(self) -> None:
        asked = query(
            "medication", summary="exists", names=("simvastatin",), state="current"
        )
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
        assert (
            answer.message
            == "No warfarin is recorded: 38 medication orders were searched."
        )
        assert answer.lines == ()

    def test_a_condition_without_a_diagnosis_is_told_by_the_results_of_its_tests(
        self,
    ) -> None:
        negative = row(
            "Observation/o", "C. difficile toxin", "2025-03-30", text="Not detected"
        )

        def execute(further: Query) -> QueryResult:
            is_test = "c. difficile test" in further.concepts
            return result(further, [negative] if is_test else [])

        asked = query(
            "diagnosis", summary="exists", concepts=("c. difficile infection",)
        )
        answer = answer_to(
            asked, [], execute=execute, record=InventedRecord([negative])
        )
        assert answer.status is Status.ANSWERED
        assert texts(answer) == [
            "No C. difficile infection is recorded: the record has no diagnoses, but there are "
            "results on it: C. difficile toxin: Not detected on 2025-03-30"
        ]
        assert answer.lines[0].citations == ("Observation/o",)

    def test_two_searches_for_one_thing_are_one_sentence(self) -> None:
        doses = [order(number, "2025-03-30") for number in range(12)]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.names else doses)

        queries = [
            query(what, names=("warfarin",), summary="exists")
            for what in ("medication", "administration")
        ]
        readings = [(asked, result(asked, [])) for asked in queries]
        answer = record_answer(
            "?", readings, PATIENT, InventedRecord([]), execute=execute
        )  # type: ignore[arg-type]
        assert answer.message == (
            "No warfarin is recorded: 12 medication orders and 12 doses given were searched."
        )

    def test_an_absence_names_every_limit_and_what_there_is_without_the_last(
        self,
    ) -> None:
        stay = row("Encounter/a", "Admission", "2019-01-02")

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.reasons else [stay])

        asked = query(
            "encounter", returns="time", classes=("inpatient",), reasons=("COVID-19",)
        )
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

    def test_beside_results_within_their_range_those_without_one_are_counted(
        self,
    ) -> None:
        judged = replace(
            lab(1, "2019-01-02", 136, "Sodium", "mmol/L"), facts={"flag": ("normal",)}
        )
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
        typed = row(
            "Procedure/a", "Blood group typing", "2000-10-15", status="completed"
        )
        queries = [
            query("observation", names=("blood group",)),
            query("procedure", names=("blood group",), returns="time"),
        ]
        readings = [
            (queries[0], result(queries[0], [])),
            (queries[1], result(queries[1], [typed])),
        ]
        record: Any = InventedRecord([typed])
        answer = record_answer(
            "?", readings, PATIENT, record, execute=lambda q: result(q, [])
        )
        assert answer.text == (
            "No blood group result is recorded: the record has no results.\n"
            "Blood group typing on 2000-10-15"
        )

    def test_a_value_that_none_reaches_is_a_no_with_the_nearest(self) -> None:
        rows = [lab(1, "2019-01-02", 95), lab(2, "2020-01-02", 99)]

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.value else rows)

        asked = query(
            "lab", value=ValueTest(comparison="greater", number=126), summary="exists"
        )
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
            (
                ("Smokes tobacco daily (finding)", "Ex-smoker (finding)"),
                "Yes, in the past: ",
            ),
            (("Ex-smoker (finding)",), "In the past: "),
            (("Unemployed",), "As recorded: Result: "),
        ],
    )
    def test_a_result_in_words_says_yes_or_no_by_what_it_asserts(
        self, words: tuple[str, ...], verdict: str
    ) -> None:
        rows = [
            row(f"Observation/o{number}", "Result", f"202{number}-01-02", text=text)
            for number, text in enumerate(words)
        ]
        answer = answer_to(
            query("observation", names=("result",), summary="exists"), rows
        )
        assert texts(answer)[0].startswith(verdict)

    def test_an_entry_that_there_is_no_allergy_is_a_no(self) -> None:
        entry = row(
            "AllergyIntolerance/a",
            "No known allergy (situation)",
            "2020-01-02",
            status="active",
        )
        answer = answer_to(query("allergy", summary="exists"), [entry])
        assert texts(answer) == ["No: No known allergy, recorded 2020-01-02 (active)"]

    def test_two_things_asked_together_have_a_yes_and_a_no_of_their_own(self) -> None:
        taken, ended = (
            order(1, "2025-03-30", name="Lisinopril"),
            order(2, "2024-03-30", "stopped"),
        )

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
        given = row(
            "MedicationAdministration/a", "Heparin", "2020-01-02", status="completed"
        )
        queries = [
            query(what, names=("Heparin",), summary="exists")
            for what in ("medication", "administration")
        ]
        readings = [
            (queries[0], result(queries[0], [])),
            (queries[1], result(queries[1], [given])),
        ]
        record: Any = InventedRecord([given])
        answer = record_answer(
            "?", readings, PATIENT, record, execute=lambda q: result(q, [])
        )
        assert answer.text == "Yes: Heparin, given 2020-01-02"
        assert answer.remarks == ("The record has no medication orders.",)

    def test_a_yes_of_one_search_is_not_denied_by_another(self) -> None:
        given = row(
            "MedicationAdministration/a", "Heparin", "2020-01-02", status="completed"
        )
        ended = order(1, "2025-03-30", "stopped", name="Heparin")

        def execute(further: Query) -> QueryResult:
            return result(further, [] if further.state else [ended])

        ordered = query(
            "medication", names=("Heparin",), summary="exists", state="current"
        )
        done = query("administration", names=("Heparin",), summary="exists")
        readings = [(ordered, result(ordered, [])), (done, result(done, [given]))]
        record: Any = InventedRecord([given, ended])
        answer = record_answer("?", readings, PATIENT, record, execute=execute)
        assert texts(answer) == [
            "Yes: Heparin, given 2020-01-02",
            "Heparin, ordered 2025-03-30 (stopped)",
        ]
