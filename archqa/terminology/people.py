"""Relatives of the patient, and the parts and sides of the body."""

import re
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows, split_cell
from archqa.terminology.matching import LetterMatcher, Reading, compile_forms, expand


class Relative(NamedTuple):
    """How those who ask call a patient who is a relative of theirs.

    `gender` is that of the patient, or `any`. A form that `stands_alone` needs no "my" before it.
    """

    form: str
    gender: str
    stands_alone: bool


@cache
def relatives() -> tuple[Relative, ...]:
    """Return the forms by which people who ask call a relative."""
    forms = []
    for _, gender, alone, after_my, _ in read_rows("terminology/data/people.tsv", 5):
        for form in split_cell(alone):
            forms.append(Relative(form, gender, stands_alone=True))
        for form in split_cell(after_my):
            forms.append(Relative(form, gender, stands_alone=False))
    return tuple(forms)


@cache
def relative_pattern() -> re.Pattern[str]:
    """Return the pattern of words for the people around a patient, as notes and questions have them."""
    forms: list[str] = []
    for *_, in_notes in read_rows("terminology/data/people.tsv", 5):
        forms += expand(in_notes)
    return compile_forms(forms, Reading.FITTED)


def body_parts(text: str) -> frozenset[str]:
    """Return the names of the parts of the body and the sides that a text names."""
    return frozenset(_body_matcher().find_values(text))


def body_part_spans(text: str) -> list[tuple[int, int]]:
    """Return the characters of each name of a part of the body or a side."""
    return [(match.start, match.end) for match in _body_matcher().find(text)]


@cache
def sides() -> frozenset[str]:
    """Return the names of the sides of the body."""
    rows = read_rows("terminology/data/body_parts.tsv", 3)
    return frozenset(name for name, kind, _ in rows if kind == "side")


@cache
def _body_matcher() -> LetterMatcher[str]:
    matcher: LetterMatcher[str] = LetterMatcher(Reading.SENTENCE)
    for name, _, forms in read_rows("terminology/data/body_parts.tsv", 3):
        matcher.add(name, expand(forms))
    return matcher
