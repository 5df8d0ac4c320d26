import pytest

from archqa.query.questions.everyday import read_question
from tests.query.questions.everyday.invented_vocabulary import VOCABULARY
from tests.query.questions.everyday.questions import questions
from tests.query.questions.everyday.readings_as_text import reading_as_text

TABLES = ("understood", "declined", "not_understood")
ALL = [row for table in TABLES for row in questions(table)]


@pytest.mark.parametrize(
    ("question", "expected"), ALL, ids=[question for question, _ in ALL]
)
def test_a_question_is_read_as_the_table_says(question: str, expected: str) -> None:
    assert reading_as_text(read_question(question, VOCABULARY)) == expected


@pytest.mark.parametrize(
    "question", [question for question, _ in questions("understood")]
)
def test_case_and_the_question_mark_decide_nothing(question: str) -> None:
    plain = question.rstrip("?")
    readings = {
        reading_as_text(read_question(text, VOCABULARY))
        for text in (question, plain, f"{plain}?", plain[:1].upper() + plain[1:])
    }
    assert len(readings) == 1


@pytest.mark.parametrize(
    ("polite", "plain"),
    [
        ("Could you please tell me her last A1c?", "her last A1c"),
        (
            "Hi, can you show me the patient's current medications, please?",
            "current medications",
        ),
        (
            "I would like to know when his last colonoscopy was",
            "when was his last colonoscopy",
        ),
        ("Do you know if she is allergic to aspirin?", "is she allergic to aspirin"),
        ("what’s the patient’s birthday", "birthday"),
        ("When's her last flu shot on file?", "when was her last flu shot"),
        ("E.R. visits in 2020", "ER visits in 2020"),
    ],
)
def test_polite_words_and_spellings_carry_nothing(polite: str, plain: str) -> None:
    assert read_question(polite, VOCABULARY) == read_question(plain, VOCABULARY)


def test_a_name_that_is_not_the_patients_is_not_understood() -> None:
    reading = read_question("Is Mr. Smith allergic to aspirin?", VOCABULARY)
    assert reading_as_text(reading) == "not understood: mr | smith"
