"""What an answer tells of a row besides its name and date: for what, where, with whom, how often."""

from collections.abc import Iterator, Sequence

from archqa.asking.record_displays import clean_name
from archqa.asking.record_names import (
    DRUGS,
    ENDED,
    MEASURED,
    STAYS,
    field_words,
    row_status,
    row_words,
)
from archqa.query.execution.medications import strength
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import tentative_status
from archqa.query.model import Query

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
