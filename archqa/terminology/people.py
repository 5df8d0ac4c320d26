"""Relatives of the patient, the parts and sides of the body, and specimens."""

import re
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows, split_cell
from archqa.terminology.concepts import related
from archqa.terminology.matching import LetterMatcher, Reading, compile_forms, expand
from archqa.terminology.words import common_form, common_forms

SIDES = frozenset({"maternal", "paternal"})
_SIDE_BY_LETTER = {"M": "maternal", "P": "paternal"}


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


def relatives_named(text: str) -> tuple[str, ...]:
    """Return the relatives that a text names, `maternal grandmother` also without its side.

    Step-relatives, in-laws and the relatives of relatives are others.
    """
    words = common_forms(text)
    if {"law", "step", "great", "s"}.intersection(words):
        return ()
    names = []
    for place, word in enumerate(words):
        if word not in _relative_names():
            continue
        names.append(word)
        if place and words[place - 1] in SIDES:
            names.append(f"{words[place - 1]} {word}")
    return tuple(names)


@cache
def _relative_names() -> frozenset[str]:
    rows = read_rows("terminology/data/people.tsv", 5)
    return frozenset(name for name, *_ in rows)


def relative_called(word: str) -> str:
    """Return the blood relative that a word of a question names, `dad` as `father`; else nothing."""
    form = common_form(word)
    blood_relatives = related("relative code")
    if form in blood_relatives:
        return form
    for name, _, alone, after_my, _ in read_rows("terminology/data/people.tsv", 5):
        forms = {*split_cell(alone), *split_cell(after_my)}
        if name in blood_relatives and form in forms:
            return name
    return ""


@cache
def gender_of(relative: str) -> str:
    """Return the gender of a relative by name, `any` where it may be either."""
    rows = read_rows("terminology/data/people.tsv", 5)
    return {name: gender for name, gender, *_ in rows}.get(relative, "any")


def relatives_coded(code: str) -> tuple[str, ...]:
    """Return the relative that a code of HL7 v3 RoleCode means, with its side if it has one."""
    for name, endings in related("relative code").items():
        for ending in endings:
            if code.upper().endswith(ending) and not code.upper().startswith("STP"):
                side = _SIDE_BY_LETTER.get(code.upper().removesuffix(ending), "")
                return (name, f"{side} {name}") if side else (name,)
    return ()


@cache
def relative_pattern() -> re.Pattern[str]:
    """Return the pattern of words for the people around a patient, as notes and questions have them."""
    forms: list[str] = []
    for *_, in_notes in read_rows("terminology/data/people.tsv", 5):
        forms += expand(in_notes)
    return compile_forms(forms, Reading.FITTED)


_SIDE_INITIAL = re.compile(r"(?<![\d.]\s)(?<![\w/.])([LR])(?= [A-Za-z\d(])")
"""The side in "L leg": not litres, as in "2 L crystalloid"."""
_SIDES_BY_INITIAL = {"L": "left", "R": "right"}


def body_parts(text: str) -> frozenset[str]:
    """Return the names of the parts of the body, the sides and the specimens that a text names."""
    sides = [_SIDES_BY_INITIAL[initial] for initial in _SIDE_INITIAL.findall(text)]
    return frozenset(_body_matcher().find_values(text)).union(sides)


def body_part_spans(text: str) -> list[tuple[int, int]]:
    """Return the characters of each name of a part of the body, a side or a specimen."""
    return [(match.start, match.end) for match in _body_matcher().find(text)]


@cache
def side_names() -> frozenset[str]:
    """Return the names of the sides of the body."""
    return _names_of_kind("side")


@cache
def site_names() -> frozenset[str]:
    """Return the names of the parts of the body, without tissues that are in many places."""
    return _names_of_kind("part")


@cache
def specimen_names() -> frozenset[str]:
    """Return the names of specimens: blood, urine, the tip of a line."""
    return _names_of_kind("specimen")


def _names_of_kind(kind: str) -> frozenset[str]:
    rows = read_rows("terminology/data/body_parts.tsv", 3)
    return frozenset(name for name, row_kind, _ in rows if row_kind == kind)


@cache
def _body_matcher() -> LetterMatcher[str]:
    matcher: LetterMatcher[str] = LetterMatcher(Reading.SENTENCE)
    for name, _, forms in read_rows("terminology/data/body_parts.tsv", 3):
        matcher.add(name, expand(forms))
    return matcher
