"""The shape of a note: headings, and each sentence's section and block (a problem, a list item, a paragraph)."""

import re
from functools import cache
from typing import NamedTuple

from archqa.core.case import Case, Sentence
from archqa.notes.tables import read_rows

_LABEL = re.compile(r"^\s*(?:[-*•]\s*)?(?:#+\s*)?(?:\d+[.)]\s*)?([A-Z][^:.!?]{0,60}?):(?:\s|$)")
_PROBLEM = re.compile(r"^\s*(?:#+\s*[A-Za-z]|PROBLEM\b|\d{1,2}[.)]\s+[A-Z])")
_BULLET = re.compile(r"^\s*(?:[-*•#]+|\d{1,2}[.)])\s*")
_SHORTHAND = re.compile(r"/|->|___|^#|\+")
_ENDING = re.compile(r"[.!?;]\s*$")


class SentencePosition(NamedTuple):
    """Where one sentence stands. `block` counts from 0."""

    heading: bool
    section: str
    block: int


def sentence_positions(case: Case) -> tuple[SentencePosition, ...]:
    """The place of each sentence, in note order. A section lasts until the next heading, a block until the next one."""
    section, block, paragraph = "none", -1, None
    found = []
    for sentence in case.sentences:
        heading, label = is_heading(sentence.text), _LABEL.match(sentence.text)
        if heading or (label and section_kind(label[1]) != "other"):
            section = section_kind(label[1] if label else sentence.text)
        opens = (
            heading
            or label is not None
            or opens_problem(sentence.text)
            or sentence.paragraph_id != paragraph
        )
        block += opens or block < 0
        paragraph = sentence.paragraph_id
        found.append(SentencePosition(heading, section, block))
    return tuple(found)


def is_heading(text: str) -> bool:
    """True of a line that names what follows and says nothing itself."""
    words = text.split()
    if text.rstrip().endswith(":"):
        return len(words) <= 10
    if not words or len(words) > 8 or _ENDING.search(text) or ":" in text:
        return False
    letters = [each for each in text if each.isalpha()]
    return bool(letters) and (
        text.lstrip().startswith("#") or all(each.isupper() for each in letters)
    )


def opens_problem(text: str) -> bool:
    """True of a sentence that begins a numbered or marked problem."""
    return bool(_PROBLEM.match(text))


def section_kind(title: str) -> str:
    """The kind of section a heading opens: a kind of `sections.tsv`, "other" where no word is known."""
    for kind, expression in _sections():
        if expression.search(title):
            return kind
    return "other"


MIN_TYPED_SHORTHAND = 0.085
"""What `telegraphic` gives between dictated and typed notes."""


def shorthand_ratio(case: Case) -> float:
    """The share of words that are shorthand (`w/`, `->`, `CXR`): about .12 in typed notes, .05 in dictated ones."""
    words = [word.strip(".,:;()") for sentence in case.sentences for word in sentence.text.split()]
    short = sum(
        bool(_SHORTHAND.search(word)) or (word.isupper() and len(word) > 1) for word in words
    )
    return short / max(len(words), 1)


def text_without_list_marker(sentence: Sentence) -> str:
    """The sentence without list marks and with single spaces."""
    return " ".join(_BULLET.sub("", sentence.text).split())


@cache
def _sections() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (kind, re.compile(expression, re.IGNORECASE))
        for kind, expression in read_rows("sections.tsv")
    )
