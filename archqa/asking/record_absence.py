"""What an answer says where no row passes the limits: what was searched, and what there is instead.

One limit after the other is left out of the query. Rows that are there without it answer the
question: what was stopped is not taken currently, a negative test is no positive one.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from archqa.asking.answer import Status
from archqa.asking.record_details import (
    Execute,
    Part,
    Statement,
    by_label,
    lacks_what_is_asked,
    latest_first,
)
from archqa.asking.record_lines import row_statements, value_text
from archqa.asking.record_summaries import span_text
from archqa.asking.record_support import Support
from archqa.asking.record_words import (
    MEASURED,
    asserts,
    counted,
    counted_rows,
    field_words,
    listed,
    row_label,
    row_words,
    subject,
    without_marks,
)
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state
from archqa.query.model import Query, ReturnedField, RowKind
from archqa.query.scope import When
from archqa.terminology.concepts import related

_SHOWN = 5


def negative_part(query: Query, plain: Query, rows: Sequence[Row], support: Support) -> Part:
    """Return what results say that do not pass a flag, a value test or words of a query.

    `plain` is the query without that limit, `rows` are what it finds.
    """
    if query.flag != plain.flag:
        return _not_flagged(query, plain, rows)
    if query.value != plain.value:
        return _beyond_value(query, plain, rows, support)
    return _other_results(plain, rows, support)


def _not_flagged(query: Query, plain: Query, rows: Sequence[Row]) -> Part:
    """Results of which none is marked so; those without mark and range could not be judged."""
    marked = [row for row in rows if row.facts.get("flag")]
    if not marked:
        return _never_flagged(query, plain, rows)
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


def _never_flagged(query: Query, plain: Query, rows: Sequence[Row]) -> Part:
    """Results without marks and ranges: whether one is high or low is not known."""
    missing = f"{subject(plain)} is marked {query.flag}"
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


def _beyond_value(query: Query, plain: Query, rows: Sequence[Row], support: Support) -> Part:
    """The values that come nearest to the number that none reaches."""
    test = query.value
    numbers = [row for row in rows if row.value is not None]
    if test is None or not numbers:
        return Part(status=Status.NOT_FOUND, message=f"No number is recorded for {subject(plain)}.")
    is_lower = test.comparison in {"less", "at_most"}
    nearest = (min if is_lower else max)(row.value or 0 for row in numbers)
    if test.comparison == "equal":
        nearest = min(
            (row.value or 0 for row in numbers), key=lambda value: abs(value - test.number)
        )
    decisive = [row for row in numbers if row.value == nearest]
    told = row_statements(plain, decisive[-1:], support)[0].text
    what = counted(len(numbers), "result", "results")
    text = f"None of {what} is {test}; the nearest is {told}"
    verdict = "No: " if query.summary == "exists" else ""
    if verdict:
        text = f"none{text[4:]}"
    return Part((Statement(text, tuple(decisive)),), verdict=verdict)


def _other_results(plain: Query, rows: Sequence[Row], support: Support) -> Part:
    """Results in other words than those asked for: a negative one is a no."""
    statements = row_statements(plain, rows, support)
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


_OTHER_KINDS: dict[str, tuple[RowKind, ...]] = {
    "diagnosis": ("observation",),
    "observation": ("diagnosis", "microbiology_test", "procedure", "report"),
    "lab": ("procedure", "report"),
    "procedure": ("diagnosis", "observation", "report"),
    "device": ("diagnosis",),
    "imaging": ("report",),
    "immunization": ("medication",),
    "medication": ("procedure",),
    "allergy": ("diagnosis",),
}
"""Kinds of rows under which the same thing may stand."""

_RESULTS = frozenset({"observation", "microbiology_test"})
_GENERIC = frozenset({"result", "test", "vaccine"})
"""Words at the end of a concept's name that rows of another kind need not have."""


class _Wanted(NamedTuple):
    """The names and concepts of rows of another kind."""

    names: tuple[str, ...]
    concepts: tuple[str, ...]


def queries_under_other_kinds(query: Query) -> Iterator[Query]:
    """Yield queries for what a query names, among rows of other kinds, in the same spans of time."""
    if query.summary not in {"exists", "each"}:
        return
    for what in _OTHER_KINDS.get(query.what, ()):
        wanted = _wanted(query, what)
        if wanted.names or wanted.concepts:
            yield Query(
                what=what,
                names=wanted.names,
                concepts=wanted.concepts,
                when=query.when.model_copy(update={"position": None}),
                returns="value" if what in _RESULTS else "time",
                now=query.now,
            )


def _wanted(query: Query, what: RowKind) -> _Wanted:
    """What rows of the other kind must be named, or which concepts they must be of."""
    names = (*map(_plain, query.concepts), *map(without_marks, query.names))
    concepts_by_name = related(f"{query.what} by {what}")
    concepts = tuple(concept for name in names for concept in concepts_by_name.get(name, ()))
    if query.what == "allergy":
        return _Wanted(tuple(f"allergy {name}" for name in names) or ("allergy",), ())
    if query.what == "medication":
        return _Wanted((), concepts)
    if what != "diagnosis":
        return _Wanted(names, concepts)
    if query.what in {"procedure", "device"}:
        return _Wanted((), query.concepts)
    return _Wanted((), concepts)


def _plain(concept: str) -> str:
    """The name of a concept without the word that tells its kind."""
    words = concept.split()
    return " ".join(words[:-1]) if len(words) > 1 and words[-1] in _GENERIC else concept


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
