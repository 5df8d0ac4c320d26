"""Why a query found nothing: after which limit no row was left, and what there is instead."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from archqa.query.called_concepts import concepts_called
from archqa.query.contents.counted_values import Dates, counted, rows_text
from archqa.query.contents.inventory import LIMIT_OF_FACT, RecordContents
from archqa.query.contents.name_lookup import Hit, look_up, row_hits
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.kinds import KINDS
from archqa.query.model import Query
from archqa.query.query_text import subject_text
from archqa.query.scope import When

Execute = Callable[[Query], QueryResult]

_LIMITS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("name", ("names", "concepts")),
    ("route", ("routes",)),
    ("specimen", ("specimens",)),
    ("organism", ("organisms",)),
    ("admission source", ("admission_sources",)),
    ("result", ("results",)),
    ("value", ("value",)),
    ("growth", ("grew",)),
    ("state", ("state",)),
    ("flag", ("flag",)),
    ("class", ("classes",)),
    ("reason", ("reasons",)),
    ("companion", ("companion",)),
)
"""What each limit is called, and its fields, in the order in which they are applied."""

_LIMITS_OF_TIME = frozenset({"span", "position"})

_FACT_OF_LIMIT = {
    "route": "route",
    "specimen": "specimen",
    "organism": "organism",
    "admission source": "admission_source",
    "result": "result",
    "class": "class",
    "state": "status",
    "flag": "flag",
}
"""The attribute that tells what the rows have instead of what a limit asks for."""

_MAX_VALUES = 8
_MAX_HITS = 6


class _Step(NamedTuple):
    """A limit, the query up to it, and how many rows it left."""

    limit: str
    query: Query
    rows: Sequence[Row]
    number: int


def explain_empty(result: QueryResult, contents: RecordContents, execute: Execute) -> list[str]:
    """Return sentences for whoever wrote a query without rows.

    After which limit no row was left, what the rows before it have instead, how many rows of other
    kinds have the name, and which names are similar. Raises as the record does.
    """
    query = result.query
    steps = _steps(query, contents, execute)
    sentences = [f"Nothing was found: {query.sentence}"]
    sentences.append(f"Rows left after each limit: {'; '.join(map(_step_text, steps))}.")
    sentences += _ending(steps)
    if len(steps) < 2 or (steps[1].limit == "name" and not steps[1].number):
        sentences += _names_instead(query, contents)
    return sentences


def may_be_asked_otherwise(result: QueryResult, contents: RecordContents, execute: Execute) -> bool:
    """Whether another query may find what this one without rows was meant to find.

    Not where the last limit is one of time, as there are rows of other times only, nor where nothing
    of the name, or called similarly, is in the record.
    """
    last = _steps(result.query, contents, execute)[-1]
    if last.limit in _LIMITS_OF_TIME:
        return False
    if last.limit == "name":
        return any(_rows_instead(result.query, contents))
    return True


def _steps(query: Query, contents: RecordContents, execute: Execute) -> list[_Step]:
    """The query limit by limit, until no row is left."""
    kind = contents.kinds.get(query.what)
    plain = Query(what=query.what, summary="count", now=query.now)
    steps = [_Step("kind", plain, (), kind.number if kind else 0)]
    for limit, limited in _limited(plain, query):
        if not steps[-1].number:
            break
        rows = execute(limited).chosen
        steps.append(_Step(limit, limited, rows, len(rows)))
    return steps


def _limited(plain: Query, query: Query) -> Iterator[tuple[str, Query]]:
    """Yield the query with one limit more at a time."""
    fields: dict[str, Any] = {}
    for limit, names in _LIMITS:
        own = {name: getattr(query, name) for name in names}
        if any(value not in ((), None) for value in own.values()):
            fields |= own
            yield limit, plain.model_copy(update=fields)
    when = query.when
    for limit, part in (
        ("visit", When(visit=when.visit)),
        ("span", When(visit=when.visit, spans=when.spans)),
        ("position", when),
    ):
        if part != fields.get("when", When()):
            fields["when"] = part
            yield limit, plain.model_copy(update=fields)


def _step_text(step: _Step) -> str:
    rows = subject_text(step.query)
    if step.limit == "position":
        rows = f"{rows} at the {str(step.query.when.position).replace('_', ' ')} time"
    return f"{step.number} {rows}"


def _ending(steps: Sequence[_Step]) -> Iterator[str]:
    """Yield which limit left no row, and what the rows before it have."""
    last = steps[-1]
    if last.number or len(steps) == 1:
        return
    yield f"No row is left after the {last.limit}."
    rows = steps[-2].rows
    if not rows:
        return
    before = subject_text(steps[-2].query)
    yield f"There are {rows_text(len(rows), _dates(rows))}: {before}."
    fact = _FACT_OF_LIMIT.get(last.limit, "")
    values = Counter(chain.from_iterable(set(row.facts.get(fact, ())) for row in rows))
    if values:
        shown = ", ".join(map(str, counted(values)[:_MAX_VALUES]))
        yield f"Of these, by {LIMIT_OF_FACT.get(fact, fact)}: {shown}."


def _dates(rows: Sequence[Row]) -> Dates:
    days = [f"{row.local_time:%Y-%m-%d}" for row in rows if row.local_time is not None]
    return Dates(min(days, default=""), max(days, default=""))


def _names_instead(query: Query, contents: RecordContents) -> Iterator[str]:
    """Yield what has the name under other kinds, else what is called similarly."""
    kind = contents.kinds.get(query.what)
    if kind is not None:
        yield f"All {KINDS[query.what].plural}: {rows_text(kind.number, kind.dates)}."
    hits = list(_other_kinds(query, contents))
    if hits:
        total = sum(hit.number for hit in hits)
        yield f"Rows of that name under other kinds: {total}."
        yield from (hit.text for hit in hits[:_MAX_HITS])
        return
    similar = _similar_names(query, contents)
    if similar:
        yield "Called so, or similarly:"
        yield from similar[:_MAX_HITS]


def _rows_instead(query: Query, contents: RecordContents) -> Iterator[str]:
    """Yield the names of rows under other kinds, and similar ones; concepts are no rows."""
    yield from (hit.text for hit in _other_kinds(query, contents))
    for line in _similar_names(query, contents):
        if not line.startswith("concept "):
            yield line


def _similar_names(query: Query, contents: RecordContents) -> list[str]:
    lines = [line for name in _wanted(query) for line in look_up(contents, name)]
    return list(dict.fromkeys(lines))


def _wanted(query: Query) -> tuple[str, ...]:
    return (*query.concepts, *query.names)


def _other_kinds(query: Query, contents: RecordContents) -> Iterator[Hit]:
    """Yield names of other kinds that hold a wanted name whole, the most frequent first."""
    omitted = frozenset({query.what})
    hits = {
        hit.text: hit
        for name in _wanted(query)
        for hit in row_hits(contents, name, concepts_called(name), omitted=omitted)
        if hit.match in {"equal", "concept", "words"}
    }
    yield from sorted(hits.values(), key=lambda hit: -hit.number)
