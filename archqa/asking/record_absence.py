"""What an answer says where no row passes the limits: what was searched, and what there is instead.

One limit after the other is left out of the query. Rows that are there without it answer the
question: what was stopped is not taken currently, a negative test is no positive one.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from archqa.asking.answer import Status
from archqa.asking.record_details import lacks_what_is_asked
from archqa.asking.record_lines import row_statements
from archqa.asking.record_names import MEASURED, field_words, row_words
from archqa.asking.record_negatives import negative_part
from archqa.asking.record_numbers import counted, listed
from archqa.asking.record_other_kinds import queries_under_other_kinds
from archqa.asking.record_statements import Execute, Part
from archqa.asking.record_subjects import counted_rows, subject
from archqa.asking.record_summaries import span_text
from archqa.asking.record_support import Support
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state
from archqa.query.model import Query, ReturnedField
from archqa.query.scope import When

_NO_LIMITS: dict[str, Any] = {
    "names": (),
    "concepts": (),
    "state": None,
    "flag": None,
    "classes": (),
    "reasons": (),
    "specimens": (),
    "organisms": (),
    "routes": (),
    "admission_sources": (),
    "results": (),
    "value": None,
    "grew": None,
    "extreme": None,
    "companion": None,
    "when": When(),
    "against": None,
}
_LIMITS_THAT_ANSWER = ("state", "flag", "results", "value")
_UNRECORDED_LIMITS: dict[str, tuple[ReturnedField, str]] = {
    "reasons": ("reason", "For what is not recorded: "),
    "routes": ("route", "By which route is not recorded: "),
}
"""Limits on facts that rows often lack, the fact, and how rows that lack it are introduced."""

_LIMITS_TO_LEAVE_OUT = (
    "reasons",
    "routes",
    "specimens",
    "organisms",
    "admission_sources",
    "grew",
    "companion",
    "classes",
)
"""Limits that are left out one by one to tell after which of them no row was left."""

_SHOWN = 5


def absent_part(
    query: Query, result: QueryResult, support: Support, execute: Execute | None
) -> Part:
    """Return what there is instead of rows that pass all limits; else that there are none."""
    if execute is None:
        searched = "; ".join(result.searched)
        return _nothing(query, f"Searched: {searched}." if searched else "", ())
    for limit in _LIMITS_THAT_ANSWER:
        if getattr(query, limit) not in {None, ()}:
            rows = execute(_without(query, limit)).chosen
            if rows:
                return _instead(query, limit, rows, support)
    unknown = _unrecorded(query, support, execute) or _ungrown(query, support, execute)
    unknown = unknown or _at_other_visits(query, support, execute)
    if unknown is not None:
        return unknown
    plain = _without(query, *_LIMITS_THAT_ANSWER)
    if plain != query and not execute(plain).chosen:
        query = plain  # There is nothing of it, current or not, high or low.
    outside = _outside_of_time(query, execute)
    if outside:
        return _nothing(query, outside, ())
    nothing = _nothing(query, "", tuple(_searched(query, execute)))
    return _under_other_kinds(query, nothing, support, execute) or nothing


def _unrecorded(query: Query, support: Support, execute: Execute) -> Part | None:
    """Rows of which the record does not say whether they pass a limit: no reason, no route."""
    for limit, (fact, verdict) in _UNRECORDED_LIMITS.items():
        if not getattr(query, limit) or not (query.names or query.concepts):
            continue
        wider = _without(query, limit).model_copy(update={"returns": fact, "summary": "each"})
        rows = execute(wider).chosen
        if rows and not any(row.facts.get(fact) for row in rows):
            statements = row_statements(_without(query, limit), rows, support)
            return Part(tuple(statements), verdict=verdict, limit=_SHOWN)
    return None


def _ungrown(query: Query, support: Support, execute: Execute) -> Part | None:
    """Cultures in which nothing grew, where one in which something did is asked for."""
    if not query.grew and query.what != "organism":
        return None
    changes = {"what": "microbiology_test", "grew": None, "returns": "value", "summary": "each"}
    rows = execute(query.model_copy(update=changes)).chosen
    if not rows:
        return None
    tests = _without(query, "grew").model_copy(update=changes)
    verdict = "No, nothing grew: " if query.summary == "exists" else "Nothing grew: "
    return Part(tuple(row_statements(tests, rows, support)), verdict=verdict, limit=_SHOWN)


def _at_other_visits(query: Query, support: Support, execute: Execute) -> Part | None:
    """The last result, where none is of the visit that is asked for."""
    if query.companion is None or query.companion.what != "encounter" or query.what not in MEASURED:
        return None
    last = _without(query, "companion").model_copy(update={"when": When(position="last")})
    rows = execute(last).chosen
    if not rows or query.when.spans:
        return None
    statements = tuple(row_statements(last, rows, support))
    return Part(statements, verdict="Not at that visit; the last result: ")


def _under_other_kinds(
    query: Query, nothing: Part, support: Support, execute: Execute
) -> Part | None:
    """Rows of another kind that tell of it: results on a condition, a diagnosis of smoking."""
    for other in queries_under_other_kinds(query):
        rows = execute(other).chosen
        if rows:
            verdict = _verdict_of_other_kind(other, nothing)
            statements = tuple(row_statements(other, rows, support))
            return Part(statements, verdict=verdict, limit=_SHOWN, is_series=True)
    return None


def _verdict_of_other_kind(other: Query, nothing: Part) -> str:
    """How rows of another kind are introduced: they may say yes, results may say either."""
    words = row_words(other.what).plural
    if other.what in {"diagnosis", "medication"}:
        return f"By {words}: "
    return f"{nothing.message.rstrip('.')}, but there are {words} on it: "


def nothing_text(subject_text: str, searched: Sequence[str]) -> str:
    """Return `No warfarin is recorded: 38 medication orders and 12 doses given were searched.`"""
    text = f"No {subject_text} is recorded"
    counts = [number for number in searched if not number.startswith("no ")]
    empty = [number for number in searched if number.startswith("no ")]
    parts = []
    if counts:
        verb = "was" if len(counts) == 1 and counts[0].startswith("1 ") else "were"
        parts.append(f"{listed(counts)} {verb} searched")
    if empty:
        parts.append(f"the record has {listed(empty)}")
    return f"{text}: {'; '.join(parts)}." if parts else f"{text}."


def _without(query: Query, *limits: str) -> Query:
    return query.model_copy(update={limit: _NO_LIMITS[limit] for limit in limits})


def _nothing(query: Query, explanation: str, searched: tuple[str, ...]) -> Part:
    when = str(query.when)
    subject_text = f"{subject(query)} {when}".strip()
    message = nothing_text(subject_text, searched)
    if explanation:
        message = f"{message} {explanation}"
    return Part(
        status=Status.NOT_FOUND,
        message=message,
        subject="" if explanation else subject_text,
        searched=searched,
    )


def _outside_of_time(query: Query, execute: Execute) -> str:
    """What there is at other times than the one that is asked for; empty if there is nothing."""
    if not query.when.spans and query.when.visit is None:
        return ""
    rows = execute(_without(query, "when")).chosen
    if not rows:
        return ""
    number = counted_rows(query, len(rows))
    verb = "is" if len(rows) == 1 else "are"
    span = span_text(rows)
    return f"At other times there {verb} {number}{f', {span}' if span else ''}."


def _searched(query: Query, execute: Execute) -> Iterator[str]:
    """Yield how many rows pass all limits but one, else how many there are of the kind."""
    for limit in _LIMITS_TO_LEAVE_OUT:
        if getattr(query, limit) not in {None, ()}:
            wider = _without(query, limit)
            count = len(execute(wider).rows)
            if count:
                yield counted_rows(wider, count)
                return
    yield _all_rows(query, execute)


def _all_rows(query: Query, execute: Execute) -> str:
    """How many rows of the kind there are, and how many of them have no name."""
    rows = execute(_without(query, *_NO_LIMITS)).rows
    words = row_words(query.what)
    if not rows:
        return f"no {words.plural}"
    number = counted(len(rows), words.singular, words.plural)
    unnamed = sum(not row.name for row in rows)
    asks_for_names = bool(query.names or query.concepts)
    if unnamed and asks_for_names:
        return f"{number} ({unnamed} of them without a name)"
    return number


def _instead(query: Query, limit: str, rows: Sequence[Row], support: Support) -> Part:
    if limit == "state":
        return _in_other_state(query, rows, support)
    return negative_part(query, _without(query, limit), rows, support)


def _in_other_state(query: Query, rows: Sequence[Row], support: Support) -> Part:
    """Rows that have ended where current ones are asked for, or the other way round."""
    now = datetime.fromisoformat(query.now) if query.now else None
    states = {row_state(query.what, row, now) for row in rows}
    stateless = _without(query, "state")
    verdict = "The record does not say whether this is still so: "
    if "unknown" not in states:
        verdict = "No, not currently: " if query.state == "current" else "No, not ended: "
        if query.summary != "exists":
            verdict = "None currently: " if query.state == "current" else "None has ended: "
    statements = row_statements(stateless, rows, support)
    part = Part(tuple(statements), verdict=verdict, limit=_SHOWN)
    words = field_words().get(query.returns)
    if words is None or not all(lacks_what_is_asked(stateless, row) for row in rows):
        return part
    message = f"{verdict.rstrip(': ')}; {words.absent} is not recorded."
    return part._replace(status=Status.NOT_FOUND, message=message, verdict="")
