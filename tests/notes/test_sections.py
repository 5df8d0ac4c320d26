import pytest

from archqa.notes.sections import is_heading, section_kind, sentence_positions
from tests.engine.conftest import NOTE, make_case


@pytest.mark.parametrize(
    "line", ["HOSPITAL COURSE:", "# Catatonia", "Discharge Medications:", "ICU COURSE"]
)
def test_a_line_that_only_names_what_follows_is_a_heading(line: str) -> None:
    assert is_heading(line)


@pytest.mark.parametrize(
    "line", ["He was stable.", "Cr 2.2 -> 0.9", "#AKI: Cr 2.2 with fluids.", ""]
)
def test_a_line_that_makes_a_statement_is_no_heading(line: str) -> None:
    assert not is_heading(line)


def test_sections_last_until_the_next_heading() -> None:
    positions = sentence_positions(make_case(NOTE))
    sections = [position.section for position in positions]
    assert sections == ["course"] * 5 + ["instructions"] * 3


def test_a_problem_opens_a_block() -> None:
    case = make_case(("#AKI: Cr 2.2.", "It fell to 0.9.", "#HTN: stable."))
    blocks = [position.block for position in sentence_positions(case)]
    assert blocks == [0, 0, 1]


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("PAST MEDICAL HISTORY", "history"),
        ("Labs on discharge", "results"),
        ("Zebra", "other"),
    ],
)
def test_a_heading_has_a_kind_of_section(title: str, kind: str) -> None:
    assert section_kind(title) == kind
