"""The statements of an answer about a record, and the facts of a row besides its name and date."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from archqa.query.execution.findings import QueryResult
from archqa.query.execution.medications import strength
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import tentative_status
from archqa.query.kinds import KINDS
from archqa.query.model import Query, ReturnedField
from archqa.query.wording.words import (
    DRUGS,
    ENDED,
    MEASURED,
    STAYS,
    clean_name,
    drug_status,
    field_words,
    row_status,
    row_words,
)

_MAX_VALUES = 6
"""Values of a fact that are told, such as the diagnoses of a visit."""

_MAX_ASKED_VALUES = 40
"""Values of the fact that is asked for, such as all diagnoses of a stay."""

_NOT_FACTS = frozenset(
    {"value", "time", "name", "elapsed", "length_of_stay", "age", "end_time", "visit"}
)
"""Returned fields that every line tells as name, value or date."""


def asked_fields(query: Query) -> tuple[str, ...]:
    """Return the facts that a query asks for."""
    fields: list[str] = [] if query.returns in _NOT_FACTS else [query.returns]
    if query.reasons:
        fields.append("reason")
    if query.results and query.what == "encounter":
        fields.append("discharge_destination")
    if query.flag:
        fields.append("flag")
    if query.returns in {"dose", "frequency"} and query.what in DRUGS:
        fields += ["frequency", "dosage"]
    if query.returns == "status_reason":
        fields.append("note")
    return tuple(dict.fromkeys(fields))


def detail_texts(query: Query, row: Row, *, is_single: bool) -> list[str]:
    """Return the facts of a row that belong on its line, then what was asked and is not recorded."""
    kind = KINDS[query.what]
    fields = [*asked_fields(query), *kind.line_fields]
    if is_single:
        fields += kind.single_row_fields
    texts = []
    for field in dict.fromkeys(fields):
        if text := _fact_text(row, field, query.returns):
            texts.append(text)
    for field in _absent_fields(query, row):
        words = field_words().get(field)
        if words and field != "end_time":
            texts.append(f"{words.absent} is not recorded")
    return texts


def lacks_what_is_asked(query: Query, row: Row) -> bool:
    """Whether a row does not say what the query returns: a reason, a dose, an end, a result."""
    if query.returns == "value" and query.what in MEASURED:
        return row.value is None and not row.text and not row.facts.get("organism")
    return query.returns in _absent_fields(query, row)


def status_text(query: Query, row: Row) -> str:
    """Return the status in words, unless it is the rule; empty without one."""
    status = row_status(row)
    if query.what in DRUGS | {"not_done"}:
        status = drug_status(row)
    if query.returns == "end_time" and row.end is None and query.what not in STAYS:
        if row_status(row) in ENDED:
            return f"{status}, on what date is not recorded"
        return f"{status}, no end is recorded" if status else "no end is recorded"
    if status in row_words(query.what).silent and query.returns != "status":
        status = ""
    return ", ".join(filter(None, (status, tentative_status(query.what, row))))


_SAID_ELSEWHERE = frozenset({"status", "status_reason", "flag", "frequency", "dose"})
"""Fields that other parts of a line say."""


def _fact_text(row: Row, field: str, returned_field: str) -> str:
    """A fact in words; empty where another part of the line says it."""
    words = field_words().get(field)
    if words is None or field in _SAID_ELSEWHERE:
        return ""
    if field == "days_supply" and row.currency is not None and row.currency.days:
        return ""
    texts = most_specific(list(map(clean_name, row.facts.get(field, ()))))
    name = clean_name(row.name)
    if name in texts:
        texts.remove(name)
    if field == "place" and returned_field != "place":
        texts = texts[:1]
    if not texts:
        return ""
    limit = _MAX_ASKED_VALUES if field == returned_field else _MAX_VALUES
    text = words.said.format("; ".join(texts[:limit]))
    hidden = len(texts) - limit
    return f"{text} and {hidden} more" if hidden > 0 else text


def strength_text(row: Row) -> str:
    """Return the strength of a medicine, where its name does not state it."""
    return "" if strength(row.name) else ", ".join(row.facts.get("strength", ()))


def most_specific(values: Sequence[str]) -> list[str]:
    """Return values without those whose words another has: "sprain" beside "sprain of ankle"."""
    words_of = {value: frozenset(value.casefold().split()) for value in values}
    specific = []
    for value, words in words_of.items():
        if not any(words < other_words for other_words in words_of.values()):
            specific.append(value)
    return specific


def _absent_fields(query: Query, row: Row) -> list[str]:
    """The facts that are asked for and that the row does not have."""
    absent = []
    for field in asked_fields(query):
        if not row.facts.get(field) and not _needs_no_words(query, row, field):
            absent.append(field)
    if query.returns == "end_time" and row.end is None:
        absent.append("end_time")
    return absent


def _needs_no_words(query: Query, row: Row, field: str) -> bool:
    """Whether another part of the line says a fact, or its absence needs no words."""
    if field == "dose":
        return row.value is not None or bool(
            row.text or row.facts.get("strength") or strength(row.name)
        )
    if field == "frequency":
        return bool(row.facts.get("dosage"))
    if field == "target":
        return query.what == "goal" and bool(row.name)
    return field in {"flag", "status", "dosage", "note"}


Execute = Callable[[Query], QueryResult]
"""Carries out a further query about the same patient."""


_MAX_REASON_REFS = 6
MAX_LINES = 12
"""Lines of an answer; the rest are counted, and their resources are evidence."""


class Statement(NamedTuple):
    """One line of an answer and the rows it rests on, those that decide first."""

    text: str
    rows: tuple[Row, ...]


class Searched(NamedTuple):
    """How many rows were searched without a result: `12 emergency visits`, `no procedures`."""

    number: int
    text: str


Says = Literal["yes", "no"]


class Part(NamedTuple):
    """The answer to one query.

    `topic` is the same for queries that look for one thing in several kinds of rows. `verdict`
    stands before the first statement ("No: "); `says` where that is a yes or a no. `message` says what
    there is not; `subject` and `searched` are its parts, where absences of one thing can be said
    together; `notes` are sentences that limit it: similar results, and what could not be read or
    classified. `rows` are further rows that the answer rests on. `limit` is the number of statements
    that are shown; of a series, which stands oldest first, the last ones. `is_unsearched`: nothing
    can be denied, since there may be rows that could not be read.
    """

    statements: tuple[Statement, ...] = ()
    is_found: bool = True
    topic: str = ""
    verdict: str = ""
    says: Says | None = None
    message: str = ""
    subject: str = ""
    searched: tuple[Searched, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    remarks: tuple[str, ...] = ()
    limit: int = MAX_LINES
    is_series: bool = False
    is_unsearched: bool = False


def references(rows: Iterable[Row]) -> list[str]:
    """Return the resources that rows, their dates and their reasons stand in, each once."""
    refs: list[str] = []
    for row in rows:
        refs += (*row.refs, *row.context_refs, *row.reason_refs[:_MAX_REASON_REFS])
    return list(dict.fromkeys(refs))


def latest_first(rows: Sequence[Row]) -> list[Row]:
    """Return rows newest first, those without a date last. Rows come oldest first."""
    timed = [row for row in rows if row.time is not None]
    return [*reversed(timed), *(row for row in rows if row.time is None)]


def by_label(
    rows: Iterable[Row], labels: Callable[[Row], str]
) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each label, in the order of the first row of each."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(labels(row), []).append(row)
    yield from groups.items()


_MAX_REASONS = 3
_VISITS = frozenset({"encounter", "hospital_visit"})


def with_visit_details(
    query: Query, rows: Sequence[Row], execute: Execute | None
) -> Sequence[Row]:
    """Return visits with their reasons and places, a single one also with who was there.

    Other rows, and visits that are too many to be shown, are returned as they are. The many
    diagnoses of a stay are no reason for it.
    """
    if execute is None or query.what not in _VISITS or len(rows) > MAX_LINES:
        return rows
    fields: list[ReturnedField] = ["reason", "place"]
    if len(rows) == 1:
        fields.append("practitioner")
    detailed_rows = list(rows)
    for field in fields:
        if field == query.returns:
            continue
        changes = {
            "returns": field,
            "summary": "each",
            "per": None,
            "unit": None,
            "extreme": None,
        }
        further = query.model_copy(update=changes)
        by_reference = {row.refs[0]: row for row in execute(further).chosen}
        for position, row in enumerate(detailed_rows):
            detailed = by_reference.get(row.refs[0])
            if detailed is not None and len(detailed.reason_refs) <= _MAX_REASONS:
                detailed_rows[position] = replace(
                    row,
                    facts={**detailed.facts, **row.facts},
                    reason_refs=row.reason_refs or detailed.reason_refs,
                )
    return detailed_rows
