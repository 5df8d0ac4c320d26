"""Abbreviations, brand names and terms explained: `data/glossary.tsv`, written for this project (CC0-1.0)."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.notes.tables import read_rows
from archqa.notes.tokens import MAX_TEXT_LENGTH

GLOSSARY_SOURCE = "archqa glossary 1 (CC0-1.0)"
_WORD = re.compile(r"[A-Za-z][\w./&'-]*")


class Entry(NamedTuple):
    """One term, what it stands for, and that in plain words (empty where it says no more)."""

    written: str
    meaning: str
    plain: str


@lru_cache(maxsize=2048)
def explain_terms(text: str) -> tuple[str, ...]:
    """The terms of `text` explained, a line each, in the order of the text."""
    words = (word.rstrip(".,'-/") for word in _WORD.findall(text[:MAX_TEXT_LENGTH]))
    entries = (_entries().get(word) or _entries().get(word.lower()) for word in words)
    return tuple(dict.fromkeys(line(entry) for entry in entries if entry))


def line(entry: Entry) -> str:
    """`HTN: hypertension (high blood pressure)`."""
    return f"{entry.written}: {entry.meaning}{f' ({entry.plain})' if entry.plain else ''}"


@cache
def _entries() -> dict[str, Entry]:
    """By the exact writing; words that are not abbreviations by small letters as well."""
    entries = [
        Entry(row[0], row[1], row[2] if len(row) > 2 else "") for row in read_rows("glossary.tsv")
    ]
    loose = {entry.written.lower(): entry for entry in entries if not _capitals(entry.written)}
    return loose | {entry.written: entry for entry in entries}


def _capitals(written: str) -> bool:
    return sum(letter.isupper() for letter in written) >= 2 or len(written) < 4
