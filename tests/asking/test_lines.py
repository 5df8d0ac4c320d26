"""Lines of an answer: whole sentences, each with its own citation, in the order that answers."""

from collections.abc import Sequence

import pytest

from archqa.asking.note import answer_lines, texts_with_headings
from archqa.core.case import Case, Sentence
from archqa.notes.yes_no import YesNo, yes_no_answer

LONG = (
    "The patient denies irregular heartbeats, sudden changes in heartbeat, difficulty breathing at"
    " night, swollen legs or feet, heart murmurs, high blood pressure, cramps in his legs with"
    " walking, pain in his feet or toes at night, and varicose veins or any other trouble with his"
    " vessels."
)


def _case(*texts: str, question: str = "Any murmurs?") -> Case:
    sentences = tuple(
        Sentence(id=str(number), text=text) for number, text in enumerate(texts, 1)
    )
    return Case(id="note", clinician_question=question, sentences=sentences)


def _lines(
    case: Case, selected: Sequence[int], headings: dict[int, str] | None = None
) -> list[tuple[str, tuple[str, ...]]]:
    lines = answer_lines(case, selected, headings or {})
    return [(line.text, line.citations) for line in lines]


def test_each_sentence_is_a_line_with_its_own_citation_the_best_one_first() -> None:
    case = _case("He has  asthma.", "He is 40.", "He uses\tan inhaler\nat night.")
    assert _lines(case, [2, 0]) == [
        ("He uses an inhaler at night.", ("3",)),
        ("He has asthma.", ("1",)),
    ]


def test_sentences_that_lean_on_one_another_stay_in_note_order() -> None:
    case = _case(
        "She took Motrin.", "It was stopped.", "Both knees hurt.", "She is 60."
    )
    assert [text for text, _ in _lines(case, [3, 1, 0])] == [
        "She is 60.",
        "She took Motrin.",
        "It was stopped.",
    ]


def test_a_sentence_does_not_lean_on_one_that_was_not_selected() -> None:
    case = _case("She took Motrin.", "She is 60.", "It was stopped.")
    assert [text for text, _ in _lines(case, [2, 0])] == [
        "It was stopped.",
        "She took Motrin.",
    ]


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ("1. Motrin 800 mg t.i.d.", "Discharge medications: Motrin 800 mg t.i.d."),
        ("- Motrin", "Discharge medications: Motrin"),
        ("None.", "Discharge medications: None."),
        ("Motrin | 800 mg | t.i.d.", "Discharge medications: Motrin | 800 mg | t.i.d."),
        ("She takes Motrin.", "She takes Motrin."),
        ("Pain: Motrin 800 mg.", "Pain: Motrin 800 mg."),
        ("Medications at discharge, Motrin.", "Medications at discharge, Motrin."),
    ],
)
def test_an_item_gets_its_heading_where_it_does_not_stand_alone(
    item: str, line: str
) -> None:
    case = _case("Discharge medications:", item)
    assert _lines(case, [1], {1: "Discharge medications:"}) == [(line, ("2",))]


def test_yes_or_no_opens_the_first_line_only() -> None:
    case = _case("He denies fever.", "No chills.")
    lines = answer_lines(case, [0, 1], {}, YesNo.NO)
    assert [line.text for line in lines] == ["No. He denies fever.", "No chills."]


def test_the_clause_that_answers_is_marked_in_a_long_line_and_nothing_is_cut() -> None:
    text = LONG.replace("The patient denies", "The  patient \n denies")
    start = text.index("cramps")
    clauses = [(0, start, 0.1), (start, start + len("cramps in his legs"), 0.9)]
    line = answer_lines(_case(text), [0], {}, YesNo.NO, lambda _: clauses)[0]
    assert line.text == f"No. {LONG}"
    assert line.answering is not None
    assert line.text[slice(*line.answering)] == "cramps in his legs"


def test_short_lines_and_lines_without_a_best_clause_are_not_marked() -> None:
    case = _case("No heart murmurs, no gallop.", LONG)
    short, _ = answer_lines(case, [0, 1], {}, None, lambda _: [(0, 10, 0.9)])
    assert short.answering is None
    _, long = answer_lines(
        case, [0, 1], {}, None, lambda _: [(0, 50, 0.5), (50, 90, 0.5)]
    )
    assert long.answering is None


def test_a_heading_tells_of_whom_a_sentence_is_before_yes_or_no_is_read() -> None:
    case = _case("FAMILY HISTORY:", "Positive for diabetes in her youth.")
    texts = texts_with_headings(case, [1], {1: "FAMILY HISTORY:"})
    assert yes_no_answer("Does she have diabetes?", texts) is YesNo.NOT_STATED
    assert (
        yes_no_answer("Does she have diabetes?", [case.sentences[1].text]) is YesNo.YES
    )
