"""The words of an answer about a record, from invented query results."""

from dataclasses import replace
from typing import Any

import pytest

from archqa.asking.answer import Status
from archqa.asking.record_answer import (
    MAX_CITED_ROWS,
    declined_answer,
    not_understood_answer,
    record_answer,
)
from archqa.query.execution.findings import QueryResult
from archqa.query.model import Query
from archqa.query.questions.everyday.declining import decline_reasons
from tests.asking.invented_rows import (
    PATIENT,
    InventedRecord,
    answer_to,
    lab,
    order,
    person,
    query,
    result,
    row,
    texts,
    vaccine,
)


class TestVerification:
    def test_a_value_that_the_resource_does_not_have_is_left_out_with_a_remark(
        self,
    ) -> None:
        rows = [lab(1, "2019-01-02", 95), lab(2, "2020-01-02", 99)]
        record = InventedRecord(rows)
        record.change("Observation/o2", value=98)
        answer = answer_to(query("lab"), rows, record=record)
        assert texts(answer) == ["Glucose 95 mg/dL on 2019-01-02"]
        assert answer.remarks == (
            "A line was left out: Observation/o2, the value is not in it.",
        )
        assert answer.is_partial

    def test_what_was_entered_in_error_is_left_out(self) -> None:
        rows = [lab(1, "2019-01-02", 95)]
        record = InventedRecord(rows)
        record.change("Observation/o1", status="entered-in-error")
        answer = answer_to(query("lab"), rows, record=record)
        assert answer.lines == ()
        assert answer.status is Status.NOT_FOUND
        assert "could not be confirmed" in answer.message

    def test_a_place_that_the_visit_does_not_name_is_left_out(self) -> None:
        visit = row(
            "Encounter/e", "Visit", "2020-01-02", facts={"place": ("Some Hospital",)}
        )
        record = InventedRecord([visit])
        record.change("Encounter/e", facts=["2020-01-02", "Other Hospital"])
        assert (
            answer_to(query("encounter", returns="place"), [visit], record=record).lines
            == ()
        )


class TestLists:
    def test_lists_are_newest_first_one_line_a_thing_with_its_own_citation(
        self,
    ) -> None:
        rows = [vaccine(1, "1979-12-16", "MMR"), vaccine(2, "2019-10-02")]
        answer = answer_to(query("immunization", returns="name"), rows)
        assert texts(answer) == ["Influenza vaccine on 2019-10-02", "MMR on 1979-12-16"]
        assert [line.citations for line in answer.lines] == [
            ("Immunization/i2",),
            ("Immunization/i1",),
        ]

    def test_the_same_thing_several_times_is_one_line_with_its_latest_dates(
        self,
    ) -> None:
        rows = [vaccine(number, f"20{number:02}-10-02") for number in range(1, 15)]
        answer = answer_to(query("immunization", returns="name"), rows)
        assert len(answer.lines) == 1
        assert answer.lines[0].text.startswith(
            "Influenza vaccine: 2007-10-02, 2008-10-02,"
        )
        assert answer.lines[0].text.endswith(
            "2014-10-02 and 6 earlier, the first on 2001-10-02"
        )
        assert len(answer.lines[0].citations) == MAX_CITED_ROWS
        assert len(answer.evidence) == 14

    def test_more_than_twelve_lines_are_counted_in_the_last_one(self) -> None:
        rows = [
            vaccine(number, f"20{number:02}-10-02", f"Vaccine {number}")
            for number in range(49)
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
            "Encounter/e",
            "Emergency room admission (procedure)",
            "2026-01-24",
            facts=facts,
        )
        assert texts(
            answer_to(query("encounter", returns="practitioner"), [visit])
        ) == [
            "Emergency room admission on 2026-01-24, with Dr. John Okafor, for Sprain of ankle, "
            "at Cape Cod Hospital"
        ]

    @pytest.mark.parametrize(("refs", "told"), [(3, True), (4, False)])
    def test_what_a_visit_was_for_is_looked_up_unless_it_is_many_diagnoses(
        self, refs: int, told: bool
    ) -> None:
        visit = row("Encounter/e", "Visit", "2020-01-02")
        sprain = row("Condition/c0", "Sprain")
        reasons = tuple(f"Condition/c{number}" for number in range(refs))
        detailed = replace(visit, facts={"reason": ("Sprain",)}, reason_refs=reasons)

        def execute(further: Query) -> QueryResult:
            return result(further, [detailed if further.returns == "reason" else visit])

        record = InventedRecord(
            [visit, *(replace(sprain, refs=(ref,)) for ref in reasons)]
        )
        answer = answer_to(
            query("encounter", returns="time"), [visit], execute=execute, record=record
        )
        assert texts(answer) == [
            "Visit on 2020-01-02" + (", for Sprain" if told else "")
        ]
        assert answer.lines[0].citations == ("Encounter/e", *(reasons if told else ()))

    def test_an_allergy_a_goal_and_an_insurance_say_what_they_are(self) -> None:
        rows = [
            (
                "allergy",
                row("AllergyIntolerance/a", "Latex", "1978-12-17", status="active"),
            ),
            (
                "goal",
                row(
                    "Goal/a",
                    "Blood pressure below 140/90",
                    "2011-03-03",
                    status="active",
                ),
            ),
            (
                "coverage",
                row("Coverage/a", "Silver plan", "2000-01-02", status="active"),
            ),
        ]
        found = [
            texts(answer_to(query(what, returns="name"), [each])) for what, each in rows
        ]
        assert found == [
            ["Allergy to Latex, recorded 1978-12-17 (active)"],
            ["Goal: Blood pressure below 140/90, since 2011-03-03 (active)"],
            ["Insurance: Silver plan, since 2000-01-02 (active)"],
        ]

    def test_a_stay_tells_both_its_ends(self) -> None:
        stay = row(
            "Encounter/e", "Admission", "2020-10-13T08:00:00", end="2020-10-21T10:00:00"
        )
        assert texts(answer_to(query("encounter", returns="time"), [stay])) == [
            "Admission from 2020-10-13 to 2020-10-21"
        ]
        assert texts(
            answer_to(query("encounter", returns="length_of_stay"), [stay])
        ) == ["8 days: Admission from 2020-10-13 to 2020-10-21"]

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


class TestMedicines:
    def test_orders_of_one_medicine_are_one_line_with_status(self) -> None:
        rows = [order(1, "2025-03-30", "stopped"), order(2, "2026-04-06", "stopped")]
        assert texts(answer_to(query("medication", returns="name"), rows)) == [
            "Simvastatin 10 mg Oral Tablet, ordered 2025-03-30 and 2026-04-06 (stopped)"
        ]

    def test_the_strength_answers_for_the_dose_and_how_often_is_said_to_be_missing(
        self,
    ) -> None:
        answer = answer_to(
            query("medication", returns="dose"), [order(1, "2025-03-30")]
        )
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
        facts = {
            "status": ("active",),
            "reason": ("Generalized anxiety disorder (disorder)",),
        }
        rows = [order(1, "2024-03-30"), replace(order(2, "2025-03-30"), facts=facts)]
        assert texts(answer_to(query("medication", returns="reason"), rows)) == [
            "Simvastatin 10 mg Oral Tablet, ordered 2025-03-30, for Generalized anxiety disorder (active)",
            "Simvastatin 10 mg Oral Tablet, ordered 2024-03-30, the reason is not recorded (active)",
        ]

    def test_many_doses_given_are_counted_with_the_first_and_the_last_day(self) -> None:
        rows = [
            row(f"MedicationAdministration/{n}", "Heparin", f"2020-10-{n}")
            for n in range(12, 21)
        ]
        assert texts(answer_to(query("administration", returns="name"), rows)) == [
            "Heparin, given 9 times from 2020-10-12 to 2020-10-20"
        ]


class TestThePatient:
    @pytest.mark.parametrize(
        ("returns", "facts", "text"),
        [
            (
                "age",
                {"birth_date": ("1971-08-28",)},
                "She is 55 years old (born 1971-08-28).",
            ),
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
        assert texts(alive) == ["No, he died on 2011-07-17 at the age of 34 years."]
        died = query("patient", returns="death_time", summary="exists")
        assert texts(answer_to(died, [found], patient=resource)) == [
            "Yes, he died on 2011-07-17 at the age of 34 years."
        ]

    def test_who_lives_did_not_die(self) -> None:
        found, resource = person({})
        died = query("patient", returns="death_time", summary="exists")
        answer = answer_to(died, [found], patient=resource)
        assert texts(answer) == ["No, no death is recorded."]

    def test_without_a_sex_no_pronoun_is_guessed(self) -> None:
        found, resource = person({"language": ("Spanish",)}, gender="unknown")
        answer = answer_to(
            query("patient", returns="language"), [found], patient=resource
        )
        assert texts(answer) == ["The patient's language is Spanish."]

    def test_what_is_not_recorded_is_not_found(self) -> None:
        found, resource = person({})
        answer = answer_to(query("patient", returns="phone"), [found], patient=resource)
        assert (answer.status, answer.message) == (
            Status.NOT_FOUND,
            "No phone number is recorded.",
        )

    def test_what_two_queries_find_is_told_once(self) -> None:
        found, resource = person({"language": ("Spanish",)})
        asked = query("patient", returns="language")
        record: Any = InventedRecord([], resource)
        readings = [(asked, result(asked, [found]))] * 2
        assert texts(record_answer("?", readings, resource, record)) == [
            "Her language is Spanish."
        ]

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
            "under control?",
            decline_reasons()["control"],
            [(asked, result(asked, [value]))],
            PATIENT,
            record,
        )
        assert answer.status is Status.DECLINED
        assert answer.message.startswith(
            "Whether something is under control is a clinical judgement"
        )
        assert answer.ground == "judgement"
        assert texts(answer) == ["Systolic blood pressure 167.8 mmHg on 2024-08-29"]
        assert answer.lines[0].citations == ("Observation/o1",)

    def test_for_a_declined_question_about_death_only_the_death_is_told(self) -> None:
        found, resource = person({"death_time": ("2011-07-17",)}, gender="male")
        asked = query("patient", returns="alive")
        record: Any = InventedRecord([], resource)
        answer = declined_answer(
            "of what?",
            decline_reasons()["cause_of_death"],
            [(asked, result(asked, [found]))],
            resource,
            record,
        )
        assert texts(answer) == ["He died on 2011-07-17."]

    def test_words_that_are_not_understood_are_named(self) -> None:
        answer = not_understood_answer("any shngles?", ["shngles"], "", PATIENT)
        assert answer.status is Status.NOT_UNDERSTOOD
        assert answer.not_understood == ("shngles",)
        assert "shngles" in answer.message
