"""What rows of a record are called in an answer, and what their words assert."""

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple, cast

from archqa.asking.record_displays import clean_name, sentence_case
from archqa.core.tables import TableRow, read_rows
from archqa.query.execution.rows import Row
from archqa.query.kinds import KINDS
from archqa.query.model import Query
from archqa.terminology.codes import matches_code
from archqa.terminology.concepts import concept_named
from archqa.terminology.cues import result_patterns
from archqa.terminology.words import word_list

MEASURED = frozenset(
    {"lab", "vital", "output", "observation", "microbiology_test", "organism", "susceptibility"}
)
"""Kinds of rows that have a result."""

STAYS = frozenset({"hospital_visit", "icu_stay", "care_unit", "encounter"})
"""Kinds of rows that are a visit, each told on a line of its own."""

DRUGS = frozenset({"medication", "administration"})

ENDED = frozenset(
    {"stopped", "completed", "resolved", "inactive", "remission", "finished", "cancelled"}
    | {"revoked", "ended", "discontinued", "expired", "suspended"}
)
"""Statuses of what has ended."""

Assertion = Literal["negative", "past", "positive", ""]


class RowWords(NamedTuple):
    """How rows of one kind are called.

    `named` says what is missing, `lead` what a name is; `dated` stands before the date.
    """

    singular: str
    plural: str
    named: str
    lead: str
    dated: str
    silent: frozenset[str]


class FieldWords(NamedTuple):
    """How a field is said in a line (`at {}`), and how its absence is (`the place`)."""

    said: str
    absent: str


def row_words(what: str) -> RowWords:
    """Return how rows of a kind are called."""
    return _row_words()[what]


@cache
def _row_words() -> dict[str, RowWords]:
    words = {}
    for what, nouns, named, lead, dated, silent in _words_of("row"):
        kind = KINDS[what]
        singular, plural = nouns.split("|") if nouns != "-" else (kind.singular, kind.plural)
        words[what] = RowWords(
            singular, plural, named, lead.replace("-", "{}"), dated, frozenset(silent.split("|"))
        )
    return words


@cache
def field_words() -> dict[str, FieldWords]:
    """Return how the fields are said."""
    return {field: FieldWords(said, absent) for field, said, absent, *_ in _words_of("field")}


def _words_of(kind: str) -> list[TableRow]:
    rows = read_rows("asking/data/record_words.tsv", 7, optional=3)
    return [row[1:] for row in rows if row[0] == kind]


def asserts(text: str) -> Assertion:
    """Return what a result in words asserts; empty for one that asserts neither, such as a genus."""
    for assertion, pattern in result_patterns():
        if pattern.search(text):
            return "" if assertion == "neither" else cast("Assertion", assertion)
    return ""


def denies(name: str) -> bool:
    """Whether a name itself says that there is nothing: "No known allergy"."""
    return re.match(r"(?:no|not|never|none|absence of|denies)\b", name, re.IGNORECASE) is not None


def row_label(query: Query, row: Row) -> str:
    """Return what a result is called: the concept that was asked for, else its display."""
    for name in _measurements(query.concepts):
        concept = concept_named("measurement", name)
        if any(matches_code(concept, *coding) for coding in row.codings):
            return sentence_case(concept_text(name))
    return clean_name(row.name) or "Result without a name"


@lru_cache(maxsize=256)
def _measurements(names: tuple[str, ...]) -> tuple[str, ...]:
    """The single measurements among concepts; of a panel, its parts."""
    singles: dict[str, None] = {}
    for name in names:
        try:
            concept = concept_named("measurement", name)
        except KeyError:
            continue
        singles.update(dict.fromkeys(_measurements(concept.parts) if concept.parts else (name,)))
    return tuple(singles)


def concept_text(name: str) -> str:
    """Return the name of a concept with its capitals: `hemoglobin A1c`."""
    return re.sub(r"\w+", lambda word: _written().get(word[0], word[0]), name)


@cache
def _written() -> dict[str, str]:
    return {word.lower(): word for word in word_list("written")}


def row_status(row: Row) -> str:
    """Return the status in words; empty if the row has none."""
    statuses = row.facts.get("status", ())
    return statuses[0].replace("-", " ") if statuses else ""
