"""A pasted note becomes sentences as a clinician would count them, and no character moves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archqa.errors import CallerError
from archqa.notes.sentences import case_from_text, split_note


def texts(note: str) -> list[str]:
    return [each.text for each in split_note(note)]


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
    assert texts(note) == sentences


def test_list_lines_and_headings_stand_alone() -> None:
    lines = [
        "Discharge Medications:",
        "1. Lasix 40 mg p.o. q.d.",
        "2. K-Dur 20 mEq b.i.d.",
        "- ASA 81 mg",
        "Diet: none",
    ]
    assert texts("\n".join(lines)) == lines


def test_a_line_that_was_broken_for_want_of_room_goes_on() -> None:
    note = (
        "The patient is a 63 year old man with a history of hypertension who presented\n"
        "with chest pain and was found to have an elevated troponin. He was taken to\n"
        "the catheterization laboratory. A stent was placed.\n"
        "DISCHARGE CONDITION\n"
        "Stable"
    )
    assert texts(note) == [
        "The patient is a 63 year old man with a history of hypertension who presented\n"
        "with chest pain and was found to have an elevated troponin.",
        "He was taken to\nthe catheterization laboratory.",
        "A stent was placed.",
        "DISCHARGE CONDITION",
        "Stable",
    ]


def test_paragraphs_are_kept_apart_and_counted() -> None:
    found = split_note("One line\r\n\r\nAnother. And more.\n \nThird")
    assert [(each.id, each.paragraph_id, each.text) for each in found] == [
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
def test_every_offset_is_true_and_nothing_but_space_is_lost(note: str) -> None:
    if not note.strip():
        with pytest.raises(CallerError):
            split_note(note)
        return
    found = split_note(note)
    for each in found:
        start = each.start_char_index
        assert start is not None
        assert note[start : start + len(each.text)] == each.text
    starts = [each.start_char_index or 0 for each in found]
    assert starts == sorted(starts)
    assert "".join("".join(each.text.split()) for each in found) == "".join(note.split())


def test_a_case_holds_the_note_as_it_was() -> None:
    note = "One.  Two.\n"
    case = case_from_text(" Why?\n", note)
    assert case.note_excerpt == note
    assert case.clinician_question == "Why?"
    assert case.sentence_ids == ("1", "2")
    with pytest.raises(CallerError, match="question"):
        case_from_text(" ", note)
    with pytest.raises(CallerError, match="empty"):
        case_from_text("Why?", " \n ")
