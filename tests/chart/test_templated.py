"""Sentences of notes that only list what the resources hold."""

import pytest

from archqa.asking.restated import own_sentences
from archqa.core.case import Case, Sentence

DISPLAYS = frozenset({"colonoscopy (procedure)", "oxygen saturation", "aspirin", "mold (organism)"})


def kept(*texts: str) -> list[str]:
    sentences = tuple(Sentence(id=f"n1.{n}", text=text) for n, text in enumerate(texts, 1))
    case = Case(id="c", patient_narrative="q", clinician_question="q", sentences=sentences)
    return [sentence.text for sentence in own_sentences(case, DISPLAYS).sentences]


@pytest.mark.parametrize(
    "text",
    [
        "- colonoscopy (procedure)",
        "Aspirin, mold (organism)",
        "- Oxygen saturation: 97.0 %",
        "2025-08-20",
        "The following procedures were conducted:",
    ],
)
def test_what_the_resources_hold_is_left_out(text: str) -> None:
    assert kept(text) == []


@pytest.mark.parametrize(
    "text",
    ["Aspirin was stopped for bleeding.", "Colonoscopy was refused.", "She collects owls."],
)
def test_what_a_sentence_says_of_its_own_is_kept(text: str) -> None:
    assert kept(text) == [text]


def test_what_several_notes_repeat_is_kept_once() -> None:
    assert kept("She smokes.", "She has a dog.", "She smokes.") == ["She has a dog.", "She smokes."]
