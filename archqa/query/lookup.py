"""Look-ups of words among a patient's rows: the kind to ask for, its name, how many, and when."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

from archqa.fhir.values.text import normalise_text
from archqa.fhir.views.lookup import MATCH_ORDER, match_name
from archqa.query.contents import (
    LIMIT_OF_FACT,
    Dates,
    KindContents,
    NamedRows,
    RecordContents,
    counted,
    quoted_name,
    rows_text,
)
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.named_rows import concepts_called, is_coded
from archqa.query.execution.rows import Coding, Row
from archqa.query.kinds import KINDS, RowKind
from archqa.query.model import Query
from archqa.query.scope import When
from archqa.query.wording.queries import query_text, subject_text
from archqa.terminology.codes import display_rules
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import load_concepts
from archqa.terminology.words import word_list

MAX_HITS = 12
_MAX_CONCEPTS = 3

_BY_CONCEPT = "concept"
_WEAK_MATCHES = ("near", "part")
_ORDER = {match: place for place, match in enumerate(("equal", _BY_CONCEPT, *MATCH_ORDER[1:]))}


class Hit(NamedTuple):
    """One line of a look-up, with how well it matches and how many rows it stands for."""

    match: str
    number: int
    text: str


def look_up(
    contents: RecordContents, words: str, *, limit: int = MAX_HITS, whole_words: bool = False
) -> tuple[str, ...]:
    """Return what is called so, best first: concepts of archqa, names of rows, values of limits.

    A part of a word counts where no whole word matches, a misspelt name where nothing else does;
    with `whole_words` neither counts.
    """
    concepts = concepts_called(words)
    hits = [*row_hits(contents, words, concepts), *_value_hits(contents, words)]
    for weaker in _WEAK_MATCHES:
        stronger = [hit for hit in hits if hit.match != weaker]
        hits = stronger if stronger or whole_words else hits
    ordered = sorted(hits, key=lambda hit: (_ORDER[hit.match], -hit.number, hit.text))
    lines = [_concept_text(concept) for concept in concepts[:_MAX_CONCEPTS]]
    lines += [hit.text for hit in ordered[:limit]]
    return tuple(dict.fromkeys(lines))


def row_hits(
    contents: RecordContents,
    words: str,
    concepts: Iterable[Concept],
    *,
    omitted: frozenset[RowKind] = frozenset(),
) -> Iterator[Hit]:
    """Yield the names of rows that the words, or one of the concepts, mean."""
    text = normalise_text(words)
    concepts = tuple(concepts)
    for kind in contents.kinds.values():
        if kind.what in omitted:
            continue
        for named in kind.names:
            match = _match(text, kind, named, concepts)
            if match:
                yield Hit(match, named.number, _row_text(kind, named))


def _match(text: str, kind: KindContents, named: NamedRows, concepts: Iterable[Concept]) -> str:
    names = [each for coding in named.codings for each in (coding.code, coding.display)]
    match = _match_of_words(text, named.name, names)
    if match != "equal" and any(_codes(concept, kind, named.codings) for concept in concepts):
        return _BY_CONCEPT
    return match


def _match_of_words(text: str, name: str, other_names: Iterable[str] = ()) -> str:
    """As `match_name`, but a word beside a comma or a bracket is a whole word, too."""
    names = (name, *other_names)
    match = match_name(text, name, other_names)
    if match != "part":
        return match
    whole = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
    return "words" if any(whole.search(normalise_text(each)) for each in names) else match


def _codes(concept: Concept, kind: KindContents, codings: Iterable[Coding]) -> bool:
    if concept.kind not in KINDS[kind.what].concepts:
        return False
    return any(is_coded(concept, coding, past=True) for coding in codings)


def _row_text(kind: KindContents, named: NamedRows) -> str:
    units = f", in {' or '.join(named.units)}" if named.units else ""
    rows = f"{rows_text(named.number, named.dates)}{units}"
    text = f"{kind.what} {quoted_name(named.name)} ({rows})"
    concepts = _concepts_of(kind.what, named.codings)
    return f"{text}, concept: {' or '.join(concepts)}" if concepts else text


@lru_cache(maxsize=4096)
def _concepts_of(what: RowKind, codings: tuple[Coding, ...]) -> tuple[str, ...]:
    """The concepts that the codings belong to, the most specific first."""
    matching = [
        concept
        for concept in load_concepts()
        if concept.kind in KINDS[what].concepts
        and any(is_coded(concept, coding, past=True) for coding in codings)
    ]
    return tuple(concept.name for concept in sorted(matching, key=_breadth)[:_MAX_CONCEPTS])


def _breadth(concept: Concept) -> tuple[bool, int]:
    """How much a concept includes; a class of drugs more than a drug."""
    rules = len(concept.codes) + len(concept.ingredients) + len(display_rules(concept))
    return concept.kind == "drug_class", rules


def _concept_text(concept: Concept) -> str:
    return f"concept {quoted_name(concept.name)} ({concept.kind.replace('_', ' ')})"


def _value_hits(contents: RecordContents, words: str) -> Iterator[Hit]:
    """Yield the values of limits, such as routes, that the words mean."""
    text = normalise_text(words)
    for kind in contents.kinds.values():
        for fact, values in kind.facts.items():
            for each in values:
                match = _match_of_words(text, each.value)
                if match:
                    limit = LIMIT_OF_FACT[fact]
                    value = quoted_name(each.value)
                    yield Hit(
                        match, each.number, f"{kind.what} {limit} {value} ({each.number} rows)"
                    )


_WORD = re.compile(r"[A-Za-z][A-Za-z0-9'-]*")
_LEAST_LETTERS = 3
_MAX_NAMES = 5
"""A word that more rows are called after names a kind, as "test" does, and tells nothing."""


class NamedWords(NamedTuple):
    """Words of a question, and what is called so in the record, a line each."""

    words: str
    lines: tuple[str, ...]


def look_up_question(contents: RecordContents, question: str) -> list[NamedWords]:
    """What the question's own words are called in the record, in the order of the question.

    Two adjacent words that name something together are looked up together. Words that nothing, or
    too much, is called after are left out.
    """
    words = _content_words(question)
    named = list(_named(contents, [" ".join(pair) for pair in pairwise(words)]))
    in_pairs = {word for each in named for word in each.words.split()}
    named += _named(contents, [word for word in words if word not in in_pairs])
    return sorted(named, key=lambda each: words.index(each.words.split()[0]))


def _named(contents: RecordContents, phrases: list[str]) -> Iterator[NamedWords]:
    for phrase in dict.fromkeys(phrases):
        lines = look_up(contents, phrase, limit=_MAX_NAMES + 1, whole_words=True)
        if 0 < len(lines) <= _MAX_NAMES:
            yield NamedWords(phrase, lines)


def _content_words(question: str) -> list[str]:
    words = _WORD.findall(question)
    empty = word_list("stop")
    return [word for word in words if len(word) >= _LEAST_LETTERS and word.lower() not in empty]


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
    sentences = [f"Nothing was found: {query_text(query)}"]
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
