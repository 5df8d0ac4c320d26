"""Splitting a note into sentences, and the offsets of the sentences in the note."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archqa.errors import CallerError
from archqa.notes.sentences import case_from_text, split_note


def sentence_texts(note: str) -> list[str]:
    return [sentence.text for sentence in split_note(note)]


@pytest.mark.parametrize(
    ("note", "sentences"),
    [
        ("Pt c/o SOB x 3 d. Dr. Smith saw him.", ["Pt c/o SOB x 3 d.", "Dr. Smith saw him."]),
        ("Took 40 mg p.o. daily. He slept.", ["Took 40 mg p.o. daily.", "He slept."]),
        ("Lasix 20 mg b.i.d. He improved.", ["Lasix 20 mg b.i.d.", "He improved."]),
        ("K was 3.5 mEq/L. Hgb 10.2, plt. 180.", ["K was 3.5 mEq/L.", "Hgb 10.2, plt. 180."]),
        (
            "Hospital course: went well. Pt. was d/c'd home.",
            ["Hospital course: went well.", "Pt. was d/c'd home."],
        ),
        (
            "Seen by Pt. Jones vs. Dr. Wu at approx. 3 p.m.",
            ["Seen by Pt. Jones vs. Dr. Wu at approx. 3 p.m."],
        ),
        ("EF 35%. Given IV Lasix.", ["EF 35%.", "Given IV Lasix."]),
        (
            "Admitted on ___ with fever. T 101.3 at 3 a.m.",
            ["Admitted on ___ with fever.", "T 101.3 at 3 a.m."],
        ),
    ],
)
def test_abbreviations_and_numbers_do_not_end_sentences(note: str, sentences: list[str]) -> None:
    assert sentence_texts(note) == sentences


def test_list_lines_and_headings_stand_alone() -> None:
    lines = [
        "Discharge Medications:",
        "1. Lasix 40 mg p.o. q.d.",
        "2. K-Dur 20 mEq b.i.d.",
        "- ASA 81 mg",
        "Diet: none",
    ]
    assert sentence_texts("\n".join(lines)) == lines


def test_a_wrapped_line_continues_on_the_next_line() -> None:
    note = (
        "The patient is a 63 year old man with a history of hypertension who presented\n"
        "with chest pain and was found to have an elevated troponin. He was taken to\n"
        "the catheterization laboratory. A stent was placed.\n"
        "DISCHARGE CONDITION\n"
        "Stable"
    )
    assert sentence_texts(note) == [
        "The patient is a 63 year old man with a history of hypertension who presented\n"
        "with chest pain and was found to have an elevated troponin.",
        "He was taken to\nthe catheterization laboratory.",
        "A stent was placed.",
        "DISCHARGE CONDITION",
        "Stable",
    ]


def test_a_sentence_ends_with_its_paragraph_and_paragraphs_are_numbered() -> None:
    sentences = split_note("One line\r\n\r\nAnother. And more.\n \nThird")
    assert [(sentence.id, sentence.paragraph_id, sentence.text) for sentence in sentences] == [
        ("1", "0", "One line"),
        ("2", "1", "Another."),
        ("3", "1", "And more."),
        ("4", "2", "Third"),
    ]


PIECES = [
    "Pt. stable",
    "żółć",
    "😀",
    "المريض",
    ". ",
    "\n",
    "\r\n",
    "\n\n",
    " ",
    "- a",
    "b.i.d. He",
    "1. ",
    ":",
    "T 3.5",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=40).map("".join))
def test_offsets_point_to_the_text_and_only_white_space_is_lost(note: str) -> None:
    if not note.strip():
        with pytest.raises(CallerError):
            split_note(note)
        return
    previous_start = -1
    characters = ""
    for sentence in split_note(note):
        start = sentence.start_char_index
        assert start is not None
        assert start > previous_start
        assert note[start : start + len(sentence.text)] == sentence.text
        previous_start = start
        characters += "".join(sentence.text.split())
    assert characters == "".join(note.split())


def test_a_case_from_text_has_the_note_unchanged() -> None:
    note = "One.  Two.\n"
    case = case_from_text(" Why?\n", note)
    assert case.note_excerpt == note
    assert case.clinician_question == "Why?"
    assert case.sentence_ids == ("1", "2")


def test_a_case_from_text_needs_a_question_and_a_note() -> None:
    with pytest.raises(CallerError, match="question"):
        case_from_text(" ", "One.")
    with pytest.raises(CallerError, match="empty"):
        case_from_text("Why?", " \n ")
