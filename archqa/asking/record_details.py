"""The statements of an answer about a record, and the facts of a row besides its name and date."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from archqa.asking.answer import Status
from archqa.asking.record_words import (
    DRUGS,
    ENDED,
    MEASURED,
    STAYS,
    clean_name,
    field_words,
    row_status,
    row_words,
)
from archqa.query.execution.dosage import strength
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import tentative_status
from archqa.query.model import Query, ReturnedField

_ALWAYS_TOLD = {
    "encounter": ("reason", "place"),
    "hospital_visit": ("reason", "place"),
    "icu_stay": ("care_unit",),
    "care_unit": ("care_unit",),
    "allergy": ("reaction", "severity"),
    "coverage": ("payer",),
    "goal": ("target",),
    "imaging": ("body_site",),
    "microbiology_test": ("specimen",),
    "organism": ("specimen",),
    "susceptibility": ("organism", "result", "specimen"),
}
"""Fields that belong to every line of a kind of rows, if the record has them."""

_TOLD_OF_A_SINGLE_ROW = {
    "encounter": ("practitioner",),
    "hospital_visit": ("practitioner",),
    "care_plan": ("activity",),
    "procedure": ("reason",),
}
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
    if query.flag:
        fields.append("flag")
    if query.returns in {"dose", "frequency"} and query.what in DRUGS:
        fields += ["frequency", "dosage"]
    return tuple(dict.fromkeys(fields))


def detail_texts(query: Query, row: Row, *, is_single: bool) -> list[str]:
    """Return the facts of a row that belong on its line, then what was asked and is not recorded."""
    fields = [*asked_fields(query), *_ALWAYS_TOLD.get(query.what, ())]
    if is_single:
        fields += _TOLD_OF_A_SINGLE_ROW.get(query.what, ())
    told: list[str] = []
    for field in dict.fromkeys(fields):
        told += _told(row, field, query.returns)
    return [*told, *_missing(query, row)]


def lacks_what_is_asked(query: Query, row: Row) -> bool:
    """Whether a row does not say what the query returns: a reason, a dose, an end, a result."""
    if query.returns == "value" and query.what in MEASURED:
        return row.value is None and not row.text and not row.facts.get("organism")
    return query.returns in _absent_fields(query, row)


def status_text(query: Query, row: Row) -> str:
    """Return the status in words, unless it is the rule; empty without one."""
    status = row_status(row)
    if query.returns == "end_time" and row.end is None and query.what not in STAYS:
        if status in ENDED:
            return f"{status}, on what date is not recorded"
        return f"{status}, no end is recorded" if status else "no end is recorded"
    if status in row_words(query.what).silent and query.returns != "status":
        status = ""
    return ", ".join(filter(None, (status, tentative_status(query.what, row))))


def _told(row: Row, field: str, query_field: str) -> Iterator[str]:
    """Yield one text of a fact; none where another part of the line says it."""
    if field in {"status", "flag", "frequency", "dose"}:
        return
    values = [clean_name(value) for value in row.facts.get(field, ())]
    texts = [value for value in most_specific(values) if value != clean_name(row.name)]
    if field == "place" and query_field != "place":
        texts = texts[:1]
    words = field_words().get(field)
    if texts and words:
        limit = _MAX_ASKED_VALUES if field == query_field else _MAX_VALUES
        more = len(texts) - limit
        rest = f" and {more} more" if more > 0 else ""
        yield words.said.format("; ".join(texts[:limit])) + rest


def most_specific(values: Sequence[str]) -> list[str]:
    """Return values without those whose words another has: "sprain" beside "sprain of ankle"."""
    words = {value: frozenset(value.casefold().split()) for value in values}
    return [
        value for value, own in words.items() if not any(own < other for other in words.values())
    ]


def _missing(query: Query, row: Row) -> Iterator[str]:
    for field in _absent_fields(query, row):
        words = field_words().get(field)
        if words and field != "end_time":
            yield f"{words.absent} is not recorded"


def _absent_fields(query: Query, row: Row) -> Iterator[str]:
    """Yield the facts that are asked for and that the row does not have."""
    for field in asked_fields(query):
        if not row.facts.get(field) and not _is_told_otherwise(query, row, field):
            yield field
    if query.returns == "end_time" and row.end is None:
        yield "end_time"


def _is_told_otherwise(query: Query, row: Row, field: str) -> bool:
    """Whether another part of the line says a fact, or its absence needs no words."""
    if field == "dose":
        return row.value is not None or bool(row.text or strength(row.name))
    if field == "frequency":
        return bool(row.facts.get("dosage"))
    if field == "target":
        return query.what == "goal" and bool(row.name)
    return field in {"flag", "status", "dosage"}


Execute = Callable[[Query], QueryResult]
"""Carries out a further query about the same patient."""


_MAX_REASON_REFS = 6
MAX_LINES = 12
"""Lines of an answer; the rest are counted, and their resources are evidence."""


class Statement(NamedTuple):
    """One line of an answer and the rows it rests on, those that decide first."""

    text: str
    rows: tuple[Row, ...]


class Part(NamedTuple):
    """The answer to one query.

    `topic` is the same for queries that look for one thing in several kinds of rows. `verdict`
    stands before the first statement ("Yes: "). `message` says what there is not; `subject` and
    `searched` are its parts, where absences of one thing can be said together. `rows` are further
    rows that the answer rests on. `limit` is the number of statements that are shown; of a series,
    which stands oldest first, the last ones.
    """

    statements: tuple[Statement, ...] = ()
    status: Status = Status.ANSWERED
    topic: str = ""
    verdict: str = ""
    message: str = ""
    subject: str = ""
    searched: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    remarks: tuple[str, ...] = ()
    limit: int = MAX_LINES
    is_series: bool = False


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


def by_label(rows: Iterable[Row], labels: Callable[[Row], str]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each label, in the order of the first row of each."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(labels(row), []).append(row)
    yield from groups.items()


_MAX_REASONS = 3
_VISITS = frozenset({"encounter", "hospital_visit"})


def with_visit_details(query: Query, rows: Sequence[Row], execute: Execute | None) -> Sequence[Row]:
    """Return visits with their reasons and places, a single one also with who was there.

    Other rows, and visits that are too many to be shown, are returned as they are.
    """
    if execute is None or query.what not in _VISITS or len(rows) > MAX_LINES:
        return rows
    fields: list[ReturnedField] = ["reason", "place"]
    if len(rows) == 1:
        fields.append("practitioner")
    for field in fields:
        if field != query.returns:
            rows = _with_field(query, rows, field, execute)
    return rows


def _with_field(
    query: Query, rows: Sequence[Row], field: ReturnedField, execute: Execute
) -> list[Row]:
    changes = {"returns": field, "summary": "each", "per": None, "unit": None}
    further = query.model_copy(update=changes)
    by_ref = {row.refs[0]: row for row in execute(further).chosen}
    return [_merged(row, by_ref.get(row.refs[0])) for row in rows]


def _merged(row: Row, detailed: Row | None) -> Row:
    """The row with the detail; not with the many diagnoses of a stay, which are no reason for it."""
    if detailed is None or len(detailed.reason_refs) > _MAX_REASONS:
        return row
    facts = {**detailed.facts, **row.facts}
    return replace(row, facts=facts, reason_refs=row.reason_refs or detailed.reason_refs)
