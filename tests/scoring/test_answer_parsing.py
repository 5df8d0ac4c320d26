"""The official reading of an answer, by the table of the shared task's reference (section 1.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.submission import WORD_LIMIT, parse_answer


@pytest.mark.parametrize(
    ("line", "text", "citations"),
    [
        ("Alpha beta |1,2|", "Alpha beta.", {"1", "2"}),
        ("Alpha beta |1, 2|", "Alpha beta.", {"1", " 2"}),
        ("Alpha beta |1| |2|", "Alpha beta |1|.", {"2"}),
        ("|1| Alpha beta.", "", {"1"}),
        ("Alpha |1|. Gamma |2|", "Alpha |1|. Gamma.", {"2"}),
        ("Alpha |1-3|", "Alpha.", {"1-3"}),
        ("Alpha |01|", "Alpha.", {"01"}),
        ("Alpha |[1]|", "Alpha.", {"[1]"}),
        ("Alpha |1,,2|", "Alpha.", {"1", "2"}),
        ("Alpha ||", "Alpha.", set()),
        ("Alpha |1", "Alpha |1.", set()),
        ("Alpha|beta gamma |1|", "Alpha|beta gamma.", {"1"}),
        ("Alpha |1|\r\nGamma |2|", "Alpha. Gamma.", {"1", "2"}),
        ("|4|", "", {"4"}),
        ("Pus drained! |5| and this is lost", "Pus drained!", {"5"}),
        ("(beta) |1|", "(beta).", {"1"}),
        ("Really? |1|\n\n   \nYes |2|", "Really? Yes.", {"1", "2"}),
    ],
)
def test_a_line_is_read_as_officially(
    line: str, text: str, citations: set[str]
) -> None:
    answer = parse_answer("1", line)
    assert answer.text == text
    assert answer.citations == citations


def test_text_of_at_most_75_words_is_kept_byte_for_byte() -> None:
    assert (
        parse_answer("1", "Two  spaces\tand a tab. |1|").text
        == "Two  spaces\tand a tab."
    )


def test_longer_text_is_cut_to_75_words_but_late_citations_survive() -> None:
    answer = parse_answer("1", f"{'word ' * 80}|1|\nLate. |2|")
    assert answer.text == " ".join(["word"] * WORD_LIMIT)
    assert answer.citations == {"1", "2"}


def test_words_are_cut_at_the_space_character_only() -> None:
    answer = parse_answer("1", "\t".join(["word"] * 100) + " |1|")
    assert len(answer.words) == 1
    assert answer.text.count("word") == 100


@given(st.text(alphabet="ab1 ,|.\n\r\t", max_size=80))
def test_any_text_can_be_read_and_reading_its_own_text_again_changes_nothing(
    raw: str,
) -> None:
    answer = parse_answer("1", raw)
    assert len([word for word in answer.text.split(" ") if word.strip()]) <= WORD_LIMIT
    assert all(cited.strip() and "|" not in cited for cited in answer.citations)
    assert "\n" not in answer.text
