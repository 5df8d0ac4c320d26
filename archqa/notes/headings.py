"""Headings of a note: lines that only name what follows, and labels at the front of sentences.

A line in capitals is not a heading for that: `STATUS POST CABG 2003` is a fact. Without a colon a
heading has words of headings only.
"""

import re

from archqa.notes.sections import OTHER_SECTION, section_kind
from archqa.terminology.words import word_list

_MARKER = re.compile(r"^(?:[\W_]*\s|#+|\(?(?:\d{1,2}|[A-Za-z]|[IVXivx]{1,4})[.)]\s*)*")
_LABEL = re.compile(r"([^\W\d_][^:.!?\n]{0,60}):\s+(?=\S)")
_WORD = re.compile(r"[\w'’-]+(?:/\w+)*")
_FIRST_LETTER = re.compile(r"\b[^\W\d_](?=[^\W\d_]{3})")
"""Of words of four letters and more: `History of Present Illness`."""

_DATE = re.compile(r"\s*\(?\b(?:(?:on|at|from|of)\s+)?[\d/.:-]*\d[\d/.:-]*\)?", re.IGNORECASE)
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
    if any(character.isdigit() for character in title):
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
    label = _LABEL.match(content)
    if label and (is_section_title(label[1]) or _is_known_in_capitals(label[1])):
        return f"{label[1]}:"
    return ""


def _is_known_in_capitals(title: str) -> bool:
    return title.isupper() and section_kind(title) != OTHER_SECTION
