"""Numbers, lengths of time and displays of a record in words."""

from datetime import datetime

import pytest

from archqa.query.wording.words import (
    asserts,
    clean_name,
    computed_text,
    length_between,
    number_text,
    since_text,
    stay_text,
)
from tests.asking.invented_rows import (
    NOW,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (6.4, "6.4"),
        (6.400000001, "6.4"),
        (77.0, "77"),
        (1.015, "1.015"),
        (41.8567453, "41.86"),
        (0.0512345, "0.05123"),
        (1.00813, "1.008"),
        (-0.0, "0"),
        (1234.56789, "1234.57"),
    ],
)
def test_a_number_has_no_false_digits(number: float, text: str) -> None:
    assert number_text(number) == text


def test_computed_numbers_have_two_decimals() -> None:
    assert [computed_text(number) for number in (6.1249, 30.80000001, 0.012345)] == [
        "6.12",
        "30.8",
        "0.0123",
    ]


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        ("2023-09-05", "2026-11-23", "3 years and 2 months"),
        ("2026-10-31", "2026-11-30", "30 days"),
        ("2024-02-29", "2025-02-28", "11 months and 30 days"),
        ("2025-11-23", "2026-11-23", "1 year"),
    ],
)
def test_lengths_are_of_the_calendar(start: str, end: str, text: str) -> None:
    length = length_between(datetime.fromisoformat(start), datetime.fromisoformat(end))
    assert length.text == text


def test_short_times_are_said_in_days_and_hours() -> None:
    now = datetime.fromisoformat(NOW)
    assert since_text(datetime(2026, 11, 23, 8), now) == "today"
    assert since_text(datetime(2026, 11, 1), now) == "22 days ago"
    assert stay_text(datetime(2026, 1, 1, 8), datetime(2026, 1, 1, 20)) == "12 hours"


@pytest.mark.parametrize(
    ("display", "name"),
    [
        ("Essential hypertension (disorder)", "Essential hypertension"),
        ("Cholesterol in HDL [Mass/volume] in Serum or Plasma", "Cholesterol in HDL"),
        ("Leukocytes [#/volume] in Urine by Automated count", "Leukocytes in Urine"),
        (
            "Latanoprost 0.05 MG/ML Ophthalmic Solution",
            "Latanoprost 0.05 mg/mL Ophthalmic Solution",
        ),
        ("Medication_Review_Due", "Medication Review Due"),
        ("pH of Arterial blood", "pH of Arterial blood"),
        ("{'addresses': ['x'], 'text': 'Below 140/90 mm[Hg]'}", "Below 140/90 mm[Hg]"),
        ("{'text': 'Improve foot health', 'addresses': []}", "Improve foot health"),
        (
            "{'observation': {'codes': [{'display': 'A1c'}], 'operator': '<', 'value': 7}}",
            "A1c < 7",
        ),
        ("{not a dictionary}", "{not a dictionary}"),
    ],
)
def test_displays_lose_the_marks_of_their_code_system(display: str, name: str) -> None:
    assert clean_name(display) == name


@pytest.mark.parametrize(
    ("text", "assertion"),
    [
        ("Not detected", "negative"),
        ("No apparent retinopathy", "negative"),
        ("Detected", "positive"),
        ("Former smoker", "past"),
        ("Staphylococcus aureus", ""),
        ("Gram-negative rods", ""),
        ("HIV 1 antibody negative", "negative"),
        ("Normal", ""),
    ],
)
def test_a_result_asserts_what_its_words_say(text: str, assertion: str) -> None:
    assert asserts(text) == assertion
