"""What an answer says where no row passes the limits: what was searched, and what there is instead.

One limit after the other is left out of the query. Rows that are there without it answer the
question: what was stopped is not taken currently, a negative test is no positive one.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from archqa.asking.answer import Status
from archqa.asking.record_lines import row_statements
from archqa.asking.record_measured import value_text
from archqa.asking.record_names import asserts, noun, row_label, row_words, subject
from archqa.asking.record_numbers import counted, listed
from archqa.asking.record_statements import Execute, Part, Statement, by_label, latest_first
from archqa.asking.record_summaries import span_text
from archqa.asking.record_support import Support
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state
from archqa.query.model import Query
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
    outside = _outside_of_time(query, execute)
    if outside:
        return _nothing(query, outside, ())
    return _nothing(query, "", tuple(_searched(query, execute)))


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
    number = f"{len(rows)} {noun(query, len(rows))}"
    verb = "is" if len(rows) == 1 else "are"
    span = span_text(rows)
    return f"At other times there {verb} {number}{f', {span}' if span else ''}."


def _searched(query: Query, execute: Execute) -> Iterator[str]:
    """Yield how many rows of the kind there are, and how many of them have no name."""
    rows = execute(_without(query, *_NO_LIMITS)).rows
    words = row_words(query.what)
    if not rows:
        yield f"no {words.plural}"
        return
    number = counted(len(rows), words.singular, words.plural)
    unnamed = sum(not row.name for row in rows)
    asks_for_names = bool(query.names or query.concepts)
    if unnamed and asks_for_names:
        yield f"{number} ({unnamed} of them without a name)"
    else:
        yield number


def _instead(query: Query, limit: str, rows: Sequence[Row], support: Support) -> Part:
    if limit == "state":
        return _in_other_state(query, rows, support)
    if limit == "flag":
        return _not_flagged(query, rows)
    if limit == "value":
        return _beyond_value(query, rows, support)
    return _other_results(query, rows, support)


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
    return Part(tuple(statements), verdict=verdict, limit=_SHOWN)


def _not_flagged(query: Query, rows: Sequence[Row]) -> Part:
    """Results of which none is marked so; those without mark and range could not be judged."""
    marked = [row for row in rows if row.facts.get("flag")]
    if not marked:
        return _never_flagged(query, rows)
    statements = []
    for label, group in by_label(rows, lambda row: row_label(query, row)):
        judged = [row for row in group if row.facts.get("flag")]
        others = [row for row in group if not row.facts.get("flag")]
        none = "not" if len(judged) == 1 else "none"
        text = f"{label}, {_results(judged)}, {none} marked {query.flag}: {_range(judged)}"
        if not judged:
            text = (
                f"{label}, {_results(others)} without a mark or reference range: {_range(others)}"
            )
        elif others:
            text += f"; {_results(others)} without a mark or reference range: {_range(others)}"
        statements.append(Statement(text, tuple(latest_first(group))))
    verdict = "No: " if query.summary == "exists" else ""
    return Part(tuple(statements), verdict=verdict)


def _never_flagged(query: Query, rows: Sequence[Row]) -> Part:
    """Results without marks and ranges: whether one is high or low is not known."""
    missing = f"{subject(_without(query, 'flag'))} is marked {query.flag}"
    verb = "was" if len(rows) == 1 else "were"
    text = f"No {missing}: {_results(rows)} {verb} searched, none with a mark or reference range."
    labels = {row_label(query, row) for row in rows}
    if len(labels) == 1:
        text = f"{text[:-1]} ({_range(rows)})."
    return Part(status=Status.NOT_FOUND, message=text, rows=tuple(rows))


def _results(rows: Sequence[Row]) -> str:
    return counted(len(rows), "result", "results")


def _range(rows: Sequence[Row]) -> str:
    """The lowest and highest of the values, and the time that they cover."""
    numbers = sorted((row for row in rows if row.value is not None), key=lambda row: row.value or 0)
    span = span_text(rows)
    if not numbers:
        return span
    low, high = value_text(numbers[0]), value_text(numbers[-1])
    values = low if low == high else f"{low} to {high}"
    return f"{values}, {span}" if span else values


def _beyond_value(query: Query, rows: Sequence[Row], support: Support) -> Part:
    """The values that come nearest to the number that none reaches."""
    test = query.value
    numbers = [row for row in rows if row.value is not None]
    if test is None or not numbers:
        return _nothing(query, "", ())
    is_lower = test.comparison in {"less", "at_most"}
    nearest = (min if is_lower else max)(row.value or 0 for row in numbers)
    if test.comparison == "equal":
        nearest = min(
            (row.value or 0 for row in numbers), key=lambda value: abs(value - test.number)
        )
    decisive = [row for row in numbers if row.value == nearest]
    told = row_statements(_without(query, "value"), decisive[-1:], support)[0].text
    what = counted(len(numbers), "result", "results")
    text = f"None of {what} is {test}; the nearest is {told}"
    verdict = "No: " if query.summary == "exists" else ""
    if verdict:
        text = f"none{text[4:]}"
    return Part((Statement(text, tuple(decisive)),), verdict=verdict)


def _other_results(query: Query, rows: Sequence[Row], support: Support) -> Part:
    """Results in other words than those asked for: a negative one is a no."""
    statements = row_statements(_without(query, "results"), rows, support)
    told = [*row_flags(rows)]
    verdict = "No: " if told and all(each == "negative" for each in told) else ""
    return Part(tuple(reversed(statements)), verdict=verdict, limit=_SHOWN)


def row_flags(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what each result in words asserts: negative, past, positive, or nothing."""
    for row in rows:
        flags = row.facts.get("flag", ())
        if row.facts.get("organism") and not row.text:
            yield "" if asserts(" ".join(row.facts["organism"])) == "negative" else "positive"
        elif "negative" in flags or "positive" in flags:
            yield "negative" if "negative" in flags else "positive"
        else:
            yield asserts(row.text)
