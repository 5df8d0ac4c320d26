"""Sentences of notes that only list what the resources hold."""

import pytest

from archqa.chart.notes import own_texts

DISPLAYS = frozenset(
    {"colonoscopy (procedure)", "oxygen saturation", "aspirin", "mold (organism)"}
)
TEMPLATES = [
    "Patient has a history of aspirin.",
    "Patient has a history of aspirin and mold (organism).",
    "Patient has a history of colonoscopy (procedure), aspirin.",
]


def kept(*texts: str) -> list[str]:
    return [texts[index] for index in own_texts(texts, DISPLAYS)]


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
    [
        "Aspirin was stopped for bleeding.",
        "Colonoscopy was refused.",
        "She collects owls.",
        "Oxygen saturation: 86 % while snoring",
    ],
)
def test_what_a_sentence_says_of_its_own_is_kept(text: str) -> None:
    assert kept(text) == [text]


def test_a_phrase_around_many_lists_is_a_template_and_around_one_is_none() -> None:
    assert kept(*TEMPLATES) == []
    assert kept(TEMPLATES[0]) == [TEMPLATES[0]]


def test_a_name_with_a_comma_is_one_name() -> None:
    names = frozenset({"hep b, adult", "influenza, seasonal"})
    texts = [
        "Given: hep b, adult.",
        "Given: influenza, seasonal.",
        "Given: hep b, adult, influenza, seasonal.",
    ]
    assert own_texts(texts, names) == []
