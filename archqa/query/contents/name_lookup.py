"""Look-ups of words among a patient's rows: the kind to ask for, its name, how many, and when."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from archqa.fhir.values.text import normalise_text
from archqa.fhir.views.lookup import MATCH_ORDER, match_name
from archqa.query.called_concepts import concepts_called
from archqa.query.contents.counted_values import quoted_name, rows_text
from archqa.query.contents.inventory import (
    LIMIT_OF_FACT,
    KindContents,
    NamedRows,
    RecordContents,
)
from archqa.query.execution.concept_limit import is_coded
from archqa.query.execution.rows import Coding
from archqa.query.kinds import KINDS, RowKind
from archqa.terminology.codes import display_rules
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import load_concepts

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
