"""Which sentences of a patient's notes answer: what is read, what is weighed, what is left out."""

from pathlib import Path

import pytest

import archqa
from tests.chart.charts import PATIENT, load, note
from tests.fhir.invented import Resource, medication, medication_request


def _cited(answer: archqa.Answer) -> set[str]:
    return {name for line in answer.lines for name in line.citations}


@pytest.fixture(scope="module")
def empty_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record without notes, for questions that come with a note."""
    return load(tmp_path_factory.mktemp("empty") / "r.db", [PATIENT], index=False)


def test_a_sentence_without_a_time_does_not_answer_when(empty_record: Path) -> None:
    text = "The drain was pulled by the surgeon.\nThe drain came out on Tuesday."
    answer = archqa.ask(
        "When was the drain pulled?", text, patient="p1", record=empty_record
    )
    assert [line.text.partition(" (")[0] for line in answer.lines] == [
        "The drain came out on Tuesday."
    ]


def test_a_sentence_without_a_reason_comes_after_one_with_a_reason(
    empty_record: Path,
) -> None:
    text = "The catheter was removed by the nurse.\nThe catheter had to come out because of fever."
    question = "Why was the catheter removed?"
    answer = archqa.ask(question, text, patient="p1", record=empty_record)
    assert "because of fever" in answer.lines[0].text


def test_a_sentence_of_the_same_meaning_is_read_where_hundreds_repeat_the_questions_words(
    tmp_path: Path,
) -> None:
    log = "\n".join(f"Blood work {number} was sent." for number in range(1, 201))
    title = {"type": {"text": "Work history"}}
    notes = [
        note("log", log),
        note("history", "He drives a truck for a living.", **title),
    ]
    record = load(tmp_path / "r.db", [PATIENT, *notes], index=False)
    answer = archqa.ask("What does he do for work?", patient="p1", record=record)
    assert "DocumentReference/history#1" in _cited(answer)


def _orders(*drugs: str) -> list[Resource]:
    resources: list[Resource] = []
    for drug in drugs:
        resources.append(medication(drug.lower(), drug))
        resources.append(medication_request(f"order-{drug}", "p1", drug.lower()))
    return resources


@pytest.mark.parametrize(("count", "is_evidence"), [(2, True), (3, False)])
def test_a_phrase_around_two_ordered_drugs_answers_and_around_three_counts_as_generated(
    tmp_path: Path, count: int, *, is_evidence: bool
) -> None:
    drugs = ("Lisinopril", "Digoxin", "Amlodipine")
    text = "\n".join(f"She was dizzy on {drug.lower()}." for drug in drugs[:count])
    record = load(
        tmp_path / "r.db", [PATIENT, *_orders(*drugs), note("n", text)], index=False
    )
    answer = archqa.ask("Was she ever dizzy?", patient="p1", record=record)
    expected = {f"DocumentReference/n#{number + 1}" for number in range(count)}
    assert _cited(answer) == (expected if is_evidence else set())


@pytest.mark.parametrize(
    ("question", "near_miss", "answer"),
    [
        (
            "Why was metoprolol stopped?",
            "Lisinopril was stopped because of cough.",
            "Metoprolol was stopped because of dizziness.",
        ),
        (
            "Did his mother have a stroke?",
            "His father had a stroke.",
            "His mother had a stroke.",
        ),
        ("What was the ferritin?", "Ferritin sent today.", "Ferritin was 9 ng/mL."),
        (
            "What was her vitamin D level?",
            "Takes vitamin D 1000 IU.",
            "Vitamin D was 31 ng/mL.",
        ),
        (
            "What did the kidney doctor tell him about salt?",
            "Creatinine was 0.9.",
            "Nephrology: less salt, no more than 5 g a day.",
        ),
    ],
)
def test_a_sentence_about_something_else_is_related_and_does_not_answer(
    empty_record: Path, question: str, near_miss: str, answer: str
) -> None:
    def ask(note: str) -> archqa.Answer:
        return archqa.ask(question, note, patient="p1", record=empty_record)

    missed = ask(near_miss)
    assert missed.status == "not_found"
    assert [row.text for row in missed.related] == [near_miss]
    assert not missed.lines
    assert "No answer found in 1 note." in missed.text
    answered = ask(f"{near_miss}\n{answer}")
    assert answered.status == "answered"
    assert answered.lines[0].fact.startswith(answer)
    assert not answered.related


def test_what_opens_a_line_is_typed_and_stays_out_of_the_json(
    empty_record: Path,
) -> None:
    answer = archqa.ask(
        "Does she have asthma?", "She has asthma.", patient="p1", record=empty_record
    )
    line = answer.lines[0]
    assert line.opening is not None
    assert (line.opening.words, line.opening.says) == ("Yes. ", "yes")
    assert line.fact.startswith("She has asthma.")
    assert line.text == f"Yes. {line.fact}"
    assert set(answer.as_json()["lines"][0]) == {"text", "citations", "answering"}
