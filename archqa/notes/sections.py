"""The structure of a note: headings, and each sentence's section and block.

A block is a problem, a list item or a paragraph.
"""

import re
from functools import cache
from typing import NamedTuple

from archqa.core.case import Case, Sentence
from archqa.core.tables import read_rows

_LABEL = re.compile(r"^\s*(?:[-*•]\s*)?(?:#+\s*)?(?:\d+[.)]\s*)?([A-Z][^:.!?]{0,60}?):(?:\s|$)")
_PROBLEM = re.compile(r"^\s*(?:#+\s*[A-Za-z]|PROBLEM\b|\d{1,2}[.)]\s+[A-Z])")
_LIST_MARKER = re.compile(r"^\s*(?:[-*•#]+|\d{1,2}[.)])\s*")
_SHORTHAND = re.compile(r"/|->|___|^#|\+")
_FINAL_PUNCTUATION = re.compile(r"[.!?;]\s*$")

MAX_LABEL_WORDS = 10
"""Words of a heading that ends with a colon."""
MAX_HEADING_WORDS = 8
"""Words of a heading without a colon."""
NO_SECTION = "none"
OTHER_SECTION = "other"

MIN_TYPED_SHORTHAND = 0.085
"""The share of shorthand between dictated and typed notes."""


class SentencePosition(NamedTuple):
    """The position of a sentence in its note; blocks are numbered from 0."""

    heading: bool
    section: str
    block: int


def sentence_positions(case: Case) -> tuple[SentencePosition, ...]:
    """Return the position of each sentence, in note order.

    A section extends to the next heading, a block to the next block.
    """
    section = NO_SECTION
    block = -1
    paragraph_id = None
    positions = []
    for sentence in case.sentences:
        heading = is_heading(sentence.text)
        label = _LABEL.match(sentence.text)
        title = label[1] if label else sentence.text
        if heading or (label and section_kind(title) != OTHER_SECTION):
            section = section_kind(title)
        is_new_paragraph = block < 0 or sentence.paragraph_id != paragraph_id
        if heading or label or is_new_paragraph or opens_problem(sentence.text):
            block += 1
        paragraph_id = sentence.paragraph_id
        positions.append(SentencePosition(heading, section, block))
    return tuple(positions)


def is_heading(text: str) -> bool:
    """Whether the line only names what follows."""
    words = text.split()
    if text.rstrip().endswith(":"):
        return len(words) <= MAX_LABEL_WORDS
    if not words or len(words) > MAX_HEADING_WORDS:
        return False
    if _FINAL_PUNCTUATION.search(text) or ":" in text:
        return False
    letters = [character for character in text if character.isalpha()]
    if not letters:
        return False
    if text.lstrip().startswith("#"):
        return True
    return all(letter.isupper() for letter in letters)


def opens_problem(text: str) -> bool:
    """Whether the sentence begins a numbered or marked problem."""
    return _PROBLEM.match(text) is not None


def section_kind(title: str) -> str:
    """Return the kind of section of a heading (`sections.tsv`), "other" for an unknown one."""
    for kind, pattern in _section_patterns():
        if pattern.search(title):
            return kind
    return OTHER_SECTION


def shorthand_ratio(case: Case) -> float:
    """Return the share of words that are shorthand (`w/`, `->`, `CXR`).

    It is about .12 in typed notes, .05 in dictated ones.
    """
    words = 0
    shorthand = 0
    for sentence in case.sentences:
        for word in sentence.text.split():
            words += 1
            shorthand += _is_shorthand(word.strip(".,:;()"))
    return shorthand / max(words, 1)


def text_without_list_marker(sentence: Sentence) -> str:
    """Return the sentence without its list marker and with single spaces."""
    return " ".join(_LIST_MARKER.sub("", sentence.text).split())


def _is_shorthand(word: str) -> bool:
    if _SHORTHAND.search(word):
        return True
    return word.isupper() and len(word) > 1


@cache
def _section_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    patterns = []
    for kind, pattern in read_rows("notes/data/sections.tsv", 2):
        compiled = re.compile(pattern, re.IGNORECASE)
        patterns.append((kind, compiled))
    return tuple(patterns)
