"""One answer from the resources and the notes of a patient."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.asking.answer import Answer, AnswerLine, Evidence, Status
from archqa.asking.chart.chart_answer import Lines, reconciled
from archqa.llm.model import Request
from archqa.settings import Settings
from tests.asking.scripted import answering, scripted_answers
from tests.chart.charts import PATIENT, load, note

NOW = datetime(2026, 11, 23)
CLINIC = (
    "HISTORY\n"
    "Digoxin: has not taken a tablet since 2019, it made her see yellow halos.\n"
    "Lives with her niece in Salem.\n"
    "\n"
    "PLAN\n"
    "1. STOP amlodipine today because of ankle swelling.\n"
    "2. Continue lisinopril 10 mg daily.\n"
    "3. PHQ-9 today 11, call in a week.\n"
    "4. TSH sent today."
)
OLDER = "Lives alone in Boston.\nNever smoked."
COPIED = "Never smoked."


def order(name: str, drug: str, date: str = "2024-09-05") -> dict[str, Any]:
    return {
        "resourceType": "MedicationRequest",
        "id": name,
        "status": "active",
        "intent": "order",
        "medicationCodeableConcept": {"text": drug},
        "authoredOn": date,
        "subject": {"reference": "Patient/p1"},
    }


def observation(
    name: str, text: str, code: str, value: float, date: str
) -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "id": name,
        "status": "final",
        "code": {
            "text": text,
            "coding": [{"system": "http://loinc.org", "code": code}],
        },
        "valueQuantity": {"value": value, "unit": "1"},
        "effectiveDateTime": date,
        "subject": {"reference": "Patient/p1"},
    }


RESOURCES: list[Mapping[str, Any]] = [
    {**PATIENT, "gender": "female", "birthDate": "1950-02-01"},
    order("digoxin", "Digoxin 0.25 MG Oral Tablet"),
    order("lisinopril", "Lisinopril 10 MG Oral Tablet"),
    observation("phq-old", "PHQ-9", "44261-6", 18, "2022-10-13"),
    note("clinic", CLINIC, "2025-03-12", type={"text": "Primary care note"}),
    note("older", OLDER, "2021-04-01"),
    note("copied", COPIED, "2023-04-01"),
]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return load(tmp_path_factory.mktemp("chart") / "r.db", RESOURCES)


def ask(record: Path, question: str, **more: Any) -> Answer:
    answer = archqa.ask(
        question, patient="p1", record=record, settings=Settings(), now=NOW, **more
    )
    known = {row.id for row in answer.evidence}
    assert all(set(line.citations) <= known for line in answer.lines)
    return answer


def cited(answer: Answer) -> set[str]:
    return {name for line in answer.lines for name in line.citations}


def test_a_line_of_a_note_is_dated_and_cited_by_its_number(record: Path) -> None:
    answer = ask(record, "Why was amlodipine stopped?")
    assert answer.status is Status.ANSWERED
    line = answer.lines[0]
    assert "ankle swelling" in line.text
    assert line.text.endswith("(2025-03-12)")
    assert line.citations == ("DocumentReference/clinic#5",)
    evidence = next(row for row in answer.evidence if row.id == line.citations[0])
    assert evidence.source == "DocumentReference/clinic"
    assert evidence.start_char_index is not None
    assert CLINIC[evidence.start_char_index :].startswith(evidence.text)


def test_a_note_by_which_an_ordered_drug_is_not_taken_stands_beside_the_order(
    record: Path,
) -> None:
    answer = ask(record, "Is she taking digoxin?")
    assert {"MedicationRequest/digoxin", "DocumentReference/clinic#2"} <= cited(answer)
    assert not answer.text.startswith("Yes")
    assert any(
        "digoxin" in remark and "otherwise" in remark for remark in answer.remarks
    )


def test_a_note_that_agrees_with_an_order_is_no_conflict(record: Path) -> None:
    answer = ask(record, "Is she taking lisinopril?")
    assert cited(answer) == {"MedicationRequest/lisinopril"}
    assert not any("otherwise" in remark for remark in answer.remarks)


def test_a_later_value_of_a_note_stands_beside_the_last_of_the_resources(
    record: Path,
) -> None:
    answer = ask(record, "What is her latest PHQ-9?")
    assert cited(answer) == {"Observation/phq-old", "DocumentReference/clinic#7"}
    for question in (
        "What was her PHQ-9 in 2022?",
        "What was her last PHQ-9 before 2024-01-01?",
    ):
        assert cited(ask(record, question)) == {"Observation/phq-old"}


def test_a_value_that_a_later_note_dates_before_is_no_later_one(tmp_path: Path) -> None:
    value = observation("old", "PHQ-9", "44261-6", 18, "2022-10-13")
    later = note("later", "RF: PHQ-9 18 in 10/2022, never treated.", "2023-11-21")
    answer = ask(
        load(tmp_path / "r.db", [PATIENT, value, later]), "What is her latest PHQ-9?"
    )
    assert cited(answer) == {"Observation/old"}


def test_the_newest_note_is_first_and_the_older_one_is_not_hidden(record: Path) -> None:
    answer = ask(record, "Where does she live now?")
    assert "Salem" in answer.lines[0].text
    assert all("Salem" in line.text or line.text.endswith(")") for line in answer.lines)


def test_a_copied_sentence_is_one_line_with_its_first_and_last_date(
    record: Path,
) -> None:
    answer = ask(record, "Has she ever been a smoker?")
    lines = [line.text for line in answer.lines if "Never smoked" in line.text]
    assert lines == ["No. Never smoked. (in notes from 2021-04-01 to 2023-04-01)"]


def test_a_test_that_was_only_sent_is_not_found_in_either_half(record: Path) -> None:
    answer = ask(record, "What was her ferritin?")
    assert answer.status is Status.NOT_FOUND
    assert answer.lines == ()
    assert "No ferritin result is recorded: 1 result was searched." in answer.message
    assert "No answer found in 3 notes." in answer.message


def test_a_reason_that_nobody_states_is_not_found(record: Path) -> None:
    answer = ask(record, "Why was furosemide stopped?")
    assert answer.status is Status.NOT_FOUND
    assert answer.message.startswith("No furosemide is recorded")
    assert "What it holds on this" not in answer.message


def test_advice_is_declined_with_what_the_chart_holds(record: Path) -> None:
    answer = ask(record, "Should I restart amlodipine?")
    assert answer.status is Status.DECLINED
    assert any("ankle swelling" in line.text for line in answer.lines)


def test_both_halves_answer_a_question_of_two_parts(record: Path) -> None:
    answer = ask(
        record, "Digoxin is among the orders. Is she on it, and if not, since when?"
    )
    assert answer.status is Status.ANSWERED
    assert {"MedicationRequest/digoxin", "DocumentReference/clinic#2"} <= cited(answer)


def test_a_given_note_is_searched_with_the_others(record: Path) -> None:
    answer = ask(
        record,
        "What does her niece collect?",
        note="Her niece collects porcelain owls.",
    )
    assert [(row.text, row.source) for row in answer.evidence] == [
        ("Her niece collects porcelain owls.", "the given note")
    ]


VISIT = (
    "Lisinopril was stopped today because of a dry cough.\n"
    "PHQ-9 was 15.\n"
    "She fell in the garden and bruised her hip."
)


def test_a_given_note_that_says_otherwise_stands_next_to_the_resources(
    record: Path,
) -> None:
    for question in ("Is she taking lisinopril?", "What medicines does she take?"):
        answer = ask(record, question, note=VISIT)
        assert {"MedicationRequest/lisinopril", "the given note#1"} <= cited(answer)
        assert "both are shown" in answer.remarks[0]
        assert not answer.text.startswith(("Yes", "No"))


def test_a_given_note_without_a_date_may_be_of_any_time(record: Path) -> None:
    answer = ask(record, "Did she fall this month?", note=VISIT)
    assert cited(answer) == {"the given note#3"}


def test_notes_and_resources_that_contradict_each_other_are_said_to(
    tmp_path: Path,
) -> None:
    condition = {
        "resourceType": "Condition",
        "id": "dm",
        "code": {"text": "Diabetes mellitus"},
        "clinicalStatus": {"coding": [{"code": "active"}]},
        "subject": {"reference": "Patient/p1"},
    }
    path = load(tmp_path / "r.db", [PATIENT, condition])
    answer = ask(path, "Does she have diabetes?", note="She does not have diabetes.")
    assert cited(answer) == {"Condition/dm", "the given note#1"}
    assert "contradict each other" in answer.remarks[0]
    assert "Yes" not in answer.text


def test_where_a_given_note_adds_nothing_that_is_said(record: Path) -> None:
    answer = ask(record, "How old is she?", note=VISIT)
    assert answer.status is Status.ANSWERED
    assert "No answer found in 4 notes." in answer.remarks


def test_a_given_note_in_another_language_is_said_to_be_one(record: Path) -> None:
    german = (
        "Die Patientin wurde wegen einer Pneumonie aufgenommen und hat sich gut erholt."
    )
    answer = ask(record, "How old is she?", note=german)
    assert answer.text.startswith("Only notes in English are supported")


def test_a_note_that_was_replaced_is_asked_as_it_is_now(tmp_path: Path) -> None:
    path = load(tmp_path / "r.db", [PATIENT, note("d1", "Walks with a cane.")])
    load(path, [note("d1", "Walks without any aid.")], index=False)
    answer = ask(path, "How does she walk?")
    assert [row.text for row in answer.evidence] == ["Walks without any aid."]


def test_a_model_is_asked_where_notes_speak_of_what_is_asked(record: Path) -> None:
    requests: list[Request] = []

    def reply(request: Request) -> str:
        requests.append(request)
        return answering(
            ("It made her see yellow halos.", _mark(request, "yellow halos"))
        )

    model = scripted_answers(reply)
    answer = ask(record, "Is she taking digoxin?", scripted=model)
    assert cited(answer) == {"DocumentReference/clinic#2"}
    assert answer.usage.calls >= 2
    assert len(requests) == 1


def test_no_model_is_asked_for_what_the_resources_answer_whole(record: Path) -> None:
    def fail(_: Request) -> str:
        raise AssertionError("The model was asked.")

    answer = ask(record, "When was she born?", scripted=scripted_answers(fail))
    assert answer.status is Status.ANSWERED
    assert "1950-02-01" in answer.text


def _mark(request: Request, words: str) -> str:
    """The mark of the sentence that a request shows with these words."""
    text = "\n".join(str(message.content) for message in request.messages)
    line = next(
        line for line in text.splitlines() if words in line and line.startswith("[n")
    )
    return line[1 : line.index("]")]


def test_the_same_value_of_the_same_day_is_one_line_that_cites_both() -> None:
    resources = Lines(
        (
            AnswerLine(
                text="Potassium 3.1 mmol/L on 2024-01-05", citations=("Observation/k",)
            ),
        ),
        (Evidence(id="Observation/k", kind="resource", text="3.1", date="2024-01-05"),),
    )
    same = AnswerLine(text="K was 3.1, replaced. (2024-01-05)", citations=("d#1",))
    other = AnswerLine(text="K was 2.9, replaced. (2024-01-05)", citations=("d#2",))
    evidence = tuple(
        Evidence(id=name, kind="sentence", text="", date="2024-01-05T08:00:00Z")
        for name in ("d#1", "d#2")
    )
    both = reconciled(Lines((same, other), evidence), resources)
    assert [line.citations for line in both.lines] == [
        ("d#2",),
        ("Observation/k", "d#1"),
    ]
    assert len(both.evidence) == 3


def test_what_only_repeats_the_resources_does_not_answer(tmp_path: Path) -> None:
    listed = note(
        "d1", "Seen for a check.\n\nMedications\n- Digoxin 0.25 MG Oral Tablet"
    )
    path = load(
        tmp_path / "r.db",
        [PATIENT, order("digoxin", "Digoxin 0.25 MG Oral Tablet"), listed],
    )
    answer = ask(path, "Why was digoxin started?")
    assert all(not name.startswith("DocumentReference/") for name in cited(answer))


def test_no_yes_stands_before_a_sentence_that_denies(tmp_path: Path) -> None:
    listed = note("d1", "NOT taking: simvastatin, digoxin, topiramate.")
    answer = ask(load(tmp_path / "r.db", [PATIENT, listed]), "Is she on digoxin?")
    assert cited(answer) == {"DocumentReference/d1#1"}
    assert not answer.text.startswith("Yes")


REPORT = (
    "Indication: swelling of the legs, echo of 2019 for comparison.\n\n"
    "FINDINGS\nLeft atrium normal. Mitral valve normal.\n\n"
    "IMPRESSION\n1. Mildly reduced function, global hypokinesis."
)


def test_what_a_report_showed_is_its_impression(tmp_path: Path) -> None:
    echo = note("echo", REPORT, type={"text": "Echocardiogram"})
    other = note("other", "Echo ordered. Swelling of the legs.", "2024-02-01")
    answer = ask(
        load(tmp_path / "r.db", [PATIENT, echo, other]), "What did the echo show?"
    )
    assert "global hypokinesis" in answer.lines[0].text


def test_a_value_of_another_year_does_not_answer_for_the_year_asked(
    tmp_path: Path,
) -> None:
    later = note("later", "EXAM: PHQ-9 7, heart rate 80.", "2026-09-29")
    resources = [
        PATIENT,
        observation("old", "PHQ-9", "44261-6", 18, "2022-10-13"),
        later,
    ]
    answer = ask(
        load(tmp_path / "r.db", resources), "PHQ-9 at the physical in October 2022?"
    )
    assert cited(answer) == {"Observation/old"}


def test_words_that_carry_nothing_do_not_keep_the_resources_from_answering(
    record: Path,
) -> None:
    answer = ask(record, "Which kind of digoxin was ordered for her, and which type?")
    assert answer.status is Status.ANSWERED
    assert "MedicationRequest/digoxin" in cited(answer)


def test_a_visit_that_is_named_limits_the_notes_and_that_is_said(
    tmp_path: Path,
) -> None:
    def stay(name: str, start: str, end: str) -> dict[str, Any]:
        return {
            "resourceType": "Encounter",
            "id": name,
            "status": "finished",
            "class": {"code": "IMP"},
            "subject": {"reference": "Patient/p1"},
            "period": {"start": start, "end": end},
        }

    first = note("first", "Discharged to a nursing home.", "2020-03-09")
    last = note("last", "Discharged home with her niece.", "2024-05-09")
    clinic = note("clinic", "Discharged from physiotherapy.", "2025-01-01")
    stays = [
        stay("e1", "2020-03-01", "2020-03-09"),
        stay("e2", "2024-05-01", "2024-05-09"),
    ]
    path = load(tmp_path / "r.db", [PATIENT, *stays, first, last, clinic])
    answer = ask(path, "Where was she discharged to after the last admission?")
    assert cited(answer) == {"DocumentReference/last#1", "Encounter/e2"}
    assert (
        "Of the notes, searched: the visit from 2024-05-01 to 2024-05-09."
        in answer.remarks
    )
    earlier = ask(path, "Where was she discharged to after the first admission?")
    assert cited(earlier) == {"DocumentReference/first#1", "Encounter/e1"}


def test_what_cannot_be_asked_as_a_query_names_what_was_searched(record: Path) -> None:
    answer = ask(record, "Does she like to sing in a choir?")
    assert answer.status is Status.NOT_FOUND
    assert answer.message == (
        "No answer found: 3 notes, 1 observation, 2 medication orders searched."
    )


def test_a_note_of_after_the_question_is_left_out_and_that_is_said(
    record: Path,
) -> None:
    answer = archqa.ask(
        "Where does she live now?",
        patient="p1",
        record=record,
        settings=Settings(),
        now=datetime(2022, 1, 1),
    )
    assert cited(answer) == {"DocumentReference/older#1"}
    assert "Left out, since dated after the question: 2 notes." in answer.remarks


def test_a_resource_of_after_the_question_is_left_out_and_that_is_said(
    record: Path,
) -> None:
    answer = archqa.ask(
        "What was her last PHQ-9?",
        patient="p1",
        record=record,
        settings=Settings(),
        now=datetime(2022, 1, 1),
    )
    assert "Observation/phq-old" not in cited(answer)
    assert any(
        remark.startswith("Left out, since dated after the question: 1 ")
        for remark in answer.remarks
        if "note" not in remark
    )
