"""Look-ups of words among a patient's rows, and what there is instead of what was not found."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from archqa.fhir.values.text import normalise_text
from archqa.fhir.views.lookup import MATCH_ORDER, match_name
from archqa.query.contents import (
    LIMIT_OF_FACT,
    KindContents,
    NamedRows,
    RecordContents,
    counted,
    dates_of,
    quoted_name,
    rows_text,
)
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.named_rows import concepts_called
from archqa.query.execution.rows import Coding, Row
from archqa.query.kinds import KINDS, RowKind
from archqa.query.model import Query
from archqa.query.scope import When
from archqa.query.wording.details import Execute
from archqa.query.wording.queries import query_text, subject_text
from archqa.terminology.codes import display_rules, matches_code
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import find_concepts, load_concepts
from archqa.terminology.words import common_forms, word_list

MAX_HITS = 12
_MAX_CONCEPTS = 3

_BY_CONCEPT = "concept"
_WEAK_MATCHES = ("near", "part")
_ORDER = {
    match: place
    for place, match in enumerate(("equal", "words", _BY_CONCEPT, *MATCH_ORDER[2:]))
}
"""The words of the record come before what a concept means."""

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9'-]*")
_LEAST_LETTERS = 3
_MAX_NAMES = 5
"""A word that more rows are called after names a kind, as "test" does, unless it is a concept."""

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

_MAX_RELEVANT_CONCEPTS = 20
_MAX_VALUES = 8
_MAX_LINES = 6


class Hit(NamedTuple):
    """One line of a look-up, with how well it matches and how many rows of a kind it stands for."""

    match: str
    number: int
    text: str
    what: RowKind


def look_up(
    contents: RecordContents,
    words: str,
    *,
    limit: int = MAX_HITS,
    whole_words: bool = False,
) -> tuple[str, ...]:
    """Return what is called so, best first: names of rows, values of limits, concepts of archqa.

    Words such as "her" and "the" do not count. A part of a word counts where no whole word matches, a
    misspelt name where nothing else does; with `whole_words` neither counts. Of several words
    that no name has together, what is called after one of them counts.
    """
    stop_words = word_list("stop")
    content = [word for word in words.split() if word.lower() not in stop_words]
    phrase = " ".join(content) or words
    concepts = concepts_called(phrase)
    hits = _hits(contents, phrase, concepts, whole_words=whole_words)
    if not hits and not concepts and not whole_words:
        for word in content:
            hits += _hits(contents, word, concepts_called(word), whole_words=True)
    lines = [hit.text for hit in hits[:limit]]
    for concept in concepts[:_MAX_CONCEPTS]:
        kind = concept.kind.replace("_", " ")
        lines.append(f"concept {quoted_name(concept.name)} ({kind})")
    return tuple(dict.fromkeys(lines))


def _content_words(text: str) -> list[str]:
    stop_words = word_list("stop")
    return [
        word
        for word in _WORD.findall(text)
        if len(word) >= _LEAST_LETTERS and word.lower() not in stop_words
    ]


def _hits(
    contents: RecordContents,
    words: str,
    concepts: Iterable[Concept],
    *,
    whole_words: bool = False,
) -> list[Hit]:
    """The names of rows and the values of limits that are called so, best first."""
    hits = [*_row_hits(contents, words, concepts), *_value_hits(contents, words)]
    for weaker in _WEAK_MATCHES:
        stronger = [hit for hit in hits if hit.match != weaker]
        hits = stronger if stronger or whole_words else hits
    return sorted(hits, key=lambda hit: (_ORDER[hit.match], -hit.number, hit.text))


def _row_hits(
    contents: RecordContents,
    words: str,
    concepts: Iterable[Concept],
    *,
    omitted: RowKind | None = None,
) -> Iterator[Hit]:
    """Yield the names of rows that the words, or one of the concepts, mean."""
    text = normalise_text(words)
    for kind in contents.kinds.values():
        if kind.what == omitted:
            continue
        kind_concepts = [
            each for each in concepts if each.kind in KINDS[kind.what].concepts
        ]
        for named in kind.names:
            other_names: list[str] = []
            for coding in named.codings:
                other_names += (coding.code, coding.display)
            match = _match_of_words(text, named.name, other_names)
            if match != "equal" and _is_any(kind_concepts, named.codings):
                match = _BY_CONCEPT
            if match:
                yield Hit(match, named.number, _row_text(kind, named), kind.what)


def _is_any(concepts: Iterable[Concept], codings: Iterable[Coding]) -> bool:
    """Whether the codings code one of the concepts."""
    codings = tuple(codings)
    return any(
        matches_code(each, *code, past=True) for each in concepts for code in codings
    )


def _match_of_words(text: str, name: str, other_names: Iterable[str] = ()) -> str:
    """As `match_name`, but a word next to a comma or a bracket is a whole word, too."""
    names = (name, *other_names)
    match = match_name(text, name, other_names)
    if match != "part":
        return match
    whole = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
    return "words" if any(map(whole.search, map(normalise_text, names))) else match


def _row_text(kind: KindContents, named: NamedRows) -> str:
    units = f", in {' or '.join(named.units)}" if named.units else ""
    rows = f"{rows_text(named.number, named.dates)}{units}"
    text = f"{kind.what} {quoted_name(named.name)} ({rows})"
    concepts = _concepts_of(kind.what, named.codings)
    return f"{text}, concept: {' or '.join(concepts)}" if concepts else text


@lru_cache(maxsize=4096)
def _concepts_of(what: RowKind, codings: tuple[Coding, ...]) -> tuple[str, ...]:
    """The concepts that the codings belong to, the most specific first."""
    matching = []
    for concept in load_concepts():
        if concept.kind in KINDS[what].concepts and _is_any((concept,), codings):
            matching.append(concept)
    return tuple(
        concept.name for concept in sorted(matching, key=_breadth)[:_MAX_CONCEPTS]
    )


def _breadth(concept: Concept) -> tuple[bool, int]:
    """How much a concept includes; a class of drugs more than a drug."""
    rules = len(concept.codes) + len(concept.ingredients) + len(display_rules(concept))
    return concept.kind == "drug_class", rules


def _value_hits(contents: RecordContents, words: str) -> Iterator[Hit]:
    """Yield the values of limits, such as routes, that the words mean."""
    text = normalise_text(words)
    for kind in contents.kinds.values():
        for fact, values in kind.facts.items():
            for value, number in values:
                match = _match_of_words(text, value)
                if match:
                    limit = LIMIT_OF_FACT[fact]
                    line = f"{kind.what} {limit} {quoted_name(value)} ({number} rows)"
                    yield Hit(match, number, line, kind.what)


class NamedWords(NamedTuple):
    """Words of a question, and what is called so in the record: a line each, and the kinds of rows."""

    words: str
    lines: tuple[str, ...]
    kinds: frozenset[RowKind]


def look_up_question(contents: RecordContents, question: str) -> list[NamedWords]:
    """What the question's own words are called in the record, in the order of the question.

    Two adjacent words that name something together are looked up together. Words that nothing, or
    too much, is called after are left out.
    """
    words = _content_words(question)
    named = _named_phrases(contents, map(" ".join, pairwise(words)))
    in_pairs = set(" ".join(phrase.words for phrase in named).split())
    named += _named_phrases(contents, (word for word in words if word not in in_pairs))
    return sorted(named, key=lambda phrase: words.index(phrase.words.split()[0]))


def _named_phrases(
    contents: RecordContents, phrases: Iterable[str]
) -> list[NamedWords]:
    named = []
    for phrase in dict.fromkeys(phrases):
        concepts = concepts_called(phrase)
        hits = _hits(contents, phrase, concepts, whole_words=True)
        if concepts:
            hits = hits[:_MAX_NAMES]
        if 0 < len(hits) <= _MAX_NAMES:
            lines = dict.fromkeys(hit.text for hit in hits)
            kinds = frozenset(hit.what for hit in hits)
            named.append(NamedWords(phrase, tuple(lines), kinds))
    return named


def relevant_concepts(
    contents: RecordContents, question: str, kinds: Collection[RowKind]
) -> tuple[str, ...]:
    """Names of concepts by kind, a line each: those that a question is about, then those of its rows.

    A question is about what it names and what is called after one of its words. Of the rows of
    `kinds`, the most frequent come first.
    """
    concepts: dict[Concept, None] = {}
    for match in find_concepts(question):
        concepts[match.concept] = None
    words = set(common_forms(" ".join(_content_words(question))))
    allowed = {kind for what in kinds for kind in KINDS[what].concepts}
    for concept in load_concepts():
        if concept.kind in allowed and not words.isdisjoint(common_forms(concept.name)):
            concepts[concept] = None
    names_by_kind: dict[str, dict[str, None]] = defaultdict(dict)
    for concept in list(concepts)[:_MAX_RELEVANT_CONCEPTS]:
        names_by_kind[concept.kind][concept.name] = None
    for what in kinds:
        named = contents.kinds[what].names if what in contents.kinds else ()
        for named_rows in named[:_MAX_RELEVANT_CONCEPTS]:
            for name in _concepts_of(what, named_rows.codings)[:1]:
                names_by_kind[f"of {what} rows"][name] = None
    return tuple(
        f"{kind.replace('_', ' ')}: {', '.join(list(names)[:_MAX_RELEVANT_CONCEPTS])}"
        for kind, names in names_by_kind.items()
    )


class _Step(NamedTuple):
    """A limit, the query up to it, and how many rows it left."""

    limit: str
    query: Query
    rows: Sequence[Row]
    number: int


def explain_empty(
    result: QueryResult, contents: RecordContents, execute: Execute
) -> list[str]:
    """Return sentences for whoever wrote a query without rows.

    After which limit no row was left, what the rows before it have instead, how many rows of other
    kinds have the name, and which names are similar. Raises as the record does.
    """
    query = result.query
    steps = _steps(query, contents, execute)
    sentences = [f"Nothing was found: {query_text(query)}"]
    sentences.append(
        f"Rows left after each limit: {'; '.join(map(_step_text, steps))}."
    )
    sentences += _ending(steps)
    if len(steps) < 2 or (steps[1].limit == "name" and not steps[1].number):
        sentences += _names_instead(query, contents)
    return sentences


def may_be_asked_otherwise(
    result: QueryResult, contents: RecordContents, execute: Execute
) -> bool:
    """Whether another query may find what this one without rows was meant to find.

    Not where the last limit is one of time, as there are rows of other times only, nor where nothing
    of the name, or called similarly, is in the record.
    """
    last = _steps(result.query, contents, execute)[-1]
    if last.limit in _LIMITS_OF_TIME:
        return False
    if last.limit != "name" or _hits_in_other_kinds(result.query, contents):
        return True
    query = result.query
    names = (*query.concepts, *query.names)
    return any(_hits(contents, name, concepts_called(name)) for name in names)


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
        values = [getattr(query, name) for name in names]
        if any(value not in ((), None) for value in values):
            fields |= zip(names, values, strict=True)
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
    yield f"There are {rows_text(len(rows), dates_of(rows))}: {before}."
    fact = _FACT_OF_LIMIT.get(last.limit, "")
    values: Counter[str] = Counter()
    for row in rows:
        values.update(set(row.facts.get(fact, ())))
    if values:
        listed = ", ".join(map(str, counted(values)[:_MAX_VALUES]))
        yield f"Of these, by {LIMIT_OF_FACT.get(fact, fact)}: {listed}."


def _names_instead(query: Query, contents: RecordContents) -> Iterator[str]:
    """Yield what has the name under other kinds, else what is called similarly."""
    kind = contents.kinds.get(query.what)
    if kind is not None:
        yield f"All {KINDS[query.what].plural}: {rows_text(kind.number, kind.dates)}."
    hits = _hits_in_other_kinds(query, contents)
    if hits:
        total = sum(hit.number for hit in hits)
        yield f"Rows of that name under other kinds: {total}."
        yield from (hit.text for hit in hits[:_MAX_LINES])
        return
    similar: dict[str, None] = {}
    for name in (*query.concepts, *query.names):
        similar.update(dict.fromkeys(look_up(contents, name)))
    if similar:
        yield "Called so, or similarly:"
        yield from list(similar)[:_MAX_LINES]


def _hits_in_other_kinds(query: Query, contents: RecordContents) -> list[Hit]:
    """The names of other kinds that hold a wanted name whole, the most frequent first."""
    hits = {}
    for name in (*query.concepts, *query.names):
        for hit in _row_hits(contents, name, concepts_called(name), omitted=query.what):
            if hit.match in {"equal", _BY_CONCEPT, "words"}:
                hits[hit.text] = hit
    return sorted(hits.values(), key=lambda hit: -hit.number)
