"""The structure of a note: headings, and each sentence's section and block.

A block is a problem, a list item or a paragraph.
"""

import re
from functools import cache
from typing import NamedTuple

from archqa.core.case import Case, Sentence
from archqa.core.tables import read_rows
from archqa.terminology.words import word_list

_LABEL = re.compile(
    r"^\s*(?:[-*•]\s*)?(?:#+\s*)?(?:\d+[.)]\s*)?([A-Z][^:.!?]{0,60}?):(?:\s|$)"
)
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
_KINDS_OF_HISTORY = {"family", "social"}
"""Kinds that the fitted engine does not tell from the patient's own history."""

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
            if section in _KINDS_OF_HISTORY:
                section = "history"
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
    letters = list(filter(str.isalpha, text))
    if not letters:
        return False
    if text.lstrip().startswith("#"):
        return True
    return all(map(str.isupper, letters))


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
            plain = word.strip(".,:;()")
            is_in_capitals = plain.isupper() and len(plain) > 1
            if is_in_capitals or _SHORTHAND.search(plain):
                shorthand += 1
    return shorthand / max(words, 1)


def text_without_list_marker(sentence: Sentence) -> str:
    """Return the sentence without its list marker and with single spaces."""
    return " ".join(_LIST_MARKER.sub("", sentence.text).split())


@cache
def _section_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    patterns = []
    for kind, pattern in read_rows("notes/data/sections.tsv", 2):
        compiled = re.compile(pattern, re.IGNORECASE)
        patterns.append((kind, compiled))
    return tuple(patterns)


_MARKER = re.compile(
    r"^(?:[\W_]{0,80}\s|#+|\*\*|\(?(?:\d{1,2}|[A-Za-z]|[IVXivx]{1,4})[.)]\s*)*"
)
_SECTION_LABEL = re.compile(
    r"([^\W\d_][^:.!?\n]{0,60}?)(?:\*{0,2}:\*{0,2}\s*|\s+[-–—]\s+)(?=\S)"
)
_LABEL_IN_TEXT = re.compile(
    r"(?:^\W*(?:\d{1,2}[.)]\s*)?|(?<=[\w,.;|)])\s+)"
    r"(?P<title>[^\W\d_][\w/&'’()-]*(?: \w[\w/&'’()-]*){0,5}):(?P<space>\**\s*)(?=\S)"
)
_MAX_LABEL_WORDS_IN_TEXT = 4
_ABBREVIATION = re.compile(r"[A-Z][A-Z/&]+x?")
_WORD = re.compile(r"[\w'’-]+(?:[/&]\w+)*")
_FIRST_LETTER = re.compile(r"\b[^\W\d_](?=[^\W\d_]{3})")
"""Of words of four letters and more: `History of Present Illness`."""

_DATE = re.compile(
    r"(?:(?<!\s)\s++)?\(?\b(?:(?:on|at|from|of)\s++)?[\d/.:-]*\d[\d/.:-]*\)?",
    re.IGNORECASE,
)
_PUNCTUATION = re.compile(r"[.:;!?]")
_MAX_LEAD_IN_WORDS = 10
_TIME_OF_STAY = re.compile(
    r"\b(?:on|at|upon) (?:the (?:day|time) of )?(?:admission|discharge|transfer|presentation)$"
)


def is_heading_alone(text: str) -> bool:
    """Whether a line only names what follows: `ALLERGIES:`, `Past Medical History`.

    A few words before a colon are a heading too, unless they hold a number that is a fact.
    """
    line = text.strip("*_# \t\n=-")
    content = _MARKER.sub("", line, count=1)
    if not content.endswith(":"):
        # An item of a plan, `3. Neurological evaluation`, is no heading; `3. PLAN` is one.
        return is_section_title(content) and (content == line or content.isupper())
    title = content.rstrip(": ")
    if any(map(str.isdigit, title)):
        undated = _DATE.sub("", title).strip()
        return is_section_title(undated) or _is_known_in_capitals(undated)
    parts = title.split(":")
    return all(len(part.split()) <= _MAX_LEAD_IN_WORDS for part in parts)


def is_section_title(text: str) -> bool:
    """Whether all the words, capitalised, are words of headings, and the last names a section."""
    if _PUNCTUATION.search(text) or any(map(str.islower, _FIRST_LETTER.findall(text))):
        return False
    words = [word.replace("’", "'") for word in _WORD.findall(text.lower())]
    heads, modifiers = word_list("heading"), word_list("heading modifier")
    if not words or any(word not in heads and word not in modifiers for word in words):
        return False
    phrase = _TIME_OF_STAY.sub("", " ".join(words)).split()
    return bool(phrase) and phrase[-1] in heads


def section_label(text: str) -> str:
    """Return the name of a section that the sentence begins with (`ALLERGIES: none`), else ""."""
    content = _MARKER.sub("", text, count=1)
    label = _SECTION_LABEL.match(content)
    return f"{label[1]}:" if label and names_section(label[1]) else ""


class LabelledPart(NamedTuple):
    """A stretch of a sentence and the label it begins with, "" before the first; `end` is exclusive."""

    start: int
    end: int
    label: str


def labelled_parts(text: str) -> tuple[LabelledPart, ...]:
    """Return the parts of a sentence, each with its label (`PMH: asthma, FH: father MI`).

    A name of a section is a label wherever it stands, other words only at the front and after a full
    stop, a semicolon or a bar (`Chest: clear`).
    """
    starts = [0]
    labels = [section_label(text)]
    for match in _LABEL_IN_TEXT.finditer(text, len(labels[0])):
        title = _title_in(match)
        if not title:
            continue
        if match.start() == 0 and title == match["title"]:
            labels[0] = f"{title}:"
        else:
            starts.append(match.end("title") - len(title))
            labels.append(f"{title}:")
    ends = [*starts[1:], len(text)]
    return tuple(map(LabelledPart, starts, ends, labels))


def _title_in(match: re.Match[str]) -> str:
    title = match["title"]
    words = title.split()
    if names_section(title):
        return title
    if _ABBREVIATION.fullmatch(words[-1]) and words[-1].lower() in word_list("heading"):
        return words[-1]
    is_first = match.start() == 0 or match.string[match.start() - 1] in ".;|"
    is_label = match["space"] and title[0].isupper()
    is_label = is_label and words[0].lower() not in word_list("stop")
    if is_first and is_label and len(words) <= _MAX_LABEL_WORDS_IN_TEXT:
        return title
    return ""


def names_section(title: str) -> bool:
    """Whether a label is the name of a section (`FHx`), not of a finding, test or drug (`Chest`)."""
    title = title.rstrip(":")
    # Before a colon only the first word needs a capital: `Past medical history`.
    written = title.title() if title[:1].isupper() else title
    return is_section_title(written) or _is_known_in_capitals(title)


def _is_known_in_capitals(title: str) -> bool:
    return title.isupper() and section_kind(title) != OTHER_SECTION
