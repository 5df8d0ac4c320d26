import pytest

from archqa.query.questions.everyday import (
    Name,
    NameIndex,
    PatientVocabulary,
    read_question,
)
from archqa.query.questions.everyday.declining import NotUnderstood, Understood
from tests.query.questions.everyday.invented_vocabulary import VOCABULARY


def names_in(question: str) -> tuple[str, ...]:
    reading = read_question(question, VOCABULARY)
    assert isinstance(reading, Understood), reading
    return reading.queries[0].names


def test_a_name_holds_all_words_in_any_number_and_order() -> None:
    index = NameIndex([Name("procedure", "Extraction of wisdom tooth (procedure)")])
    assert index.holding(("wisdom", "tooth", "extractions"))
    assert not index.holding(("wisdom", "tooth", "cleaning"))


def test_the_patients_own_names_come_first() -> None:
    own = NameIndex([Name("diagnosis", "Fracture of arm")])
    record = NameIndex([Name("diagnosis", "Fracture of leg", is_own=False)])
    vocabulary = PatientVocabulary(tuple, lambda: own, lambda: record)
    assert [name.display for name in vocabulary.holding(("fracture",))] == [
        "Fracture of arm"
    ]
    assert [name.display for name in vocabulary.holding(("leg",))] == [
        "Fracture of leg"
    ]


def test_a_longer_name_of_the_record_wins_over_a_concept() -> None:
    assert names_in("strength of the methotrexate tablets") == (
        "Methotrexate 2.5 MG Oral Tablet",
    )


def test_several_displays_that_share_the_phrase_are_all_taken() -> None:
    vocabulary = PatientVocabulary(
        tuple,
        lambda: NameIndex(
            [
                Name("diagnosis", "Quax fever, left"),
                Name("diagnosis", "Quax fever, right"),
            ]
        ),
        lambda: NameIndex([]),
    )
    reading = read_question("when did she have quax fever", vocabulary)
    assert isinstance(reading, Understood)
    assert reading.queries[0].names == ("Quax fever, left", "Quax fever, right")


@pytest.mark.parametrize(
    "question",
    [
        "does she have left",
        "is she severe",
        "migraine without?",
        "any partner",
        "sedation before intubation",
        "placing?",
    ],
)
def test_a_word_of_a_display_alone_is_no_name(question: str) -> None:
    assert isinstance(read_question(question, VOCABULARY), NotUnderstood)
