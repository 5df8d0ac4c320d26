"""Concepts that a query calls by a phrase instead of their name: `A1c` for `hemoglobin a1c`."""

import re
from collections.abc import Iterable
from functools import cache

from archqa.query.execution.concept_limit import ALL_CONCEPT_KINDS
from archqa.query.kinds import KINDS
from archqa.query.model import Query
from archqa.terminology.concept import Concept, ConceptKind
from archqa.terminology.concepts import find_concepts, load_concepts

_WORD = re.compile(r"\w")


def concepts_called(words: str) -> list[Concept]:
    """The concepts that the words as a whole name."""
    return [
        match.concept
        for match in find_concepts(words)
        if not _WORD.search(words[: match.start]) and not _WORD.search(words[match.end :])
    ]


def with_concept_names(query: Query) -> Query:
    """The query with the names of concepts in place of other phrases for them.

    A phrase for no concept is a name of rows: archqa has no concept of most brands.
    """
    changes = _named(query.concepts, query.names, query.what)
    if query.against is not None:
        against = _named(query.against.concepts, query.against.names, query.what)
        changes["against"] = query.against.model_copy(update=against)
    if query.companion is not None:
        other = query.companion
        companion = _named(other.concepts, other.names, other.what)
        changes["companion"] = other.model_copy(update=companion)
    return query.model_copy(update=changes)


def _named(phrases: Iterable[str], names: Iterable[str], what: str) -> dict[str, object]:
    """The fields `concepts` and `names` of a limit whose concepts are called by these phrases."""
    called = dict.fromkeys(_name(phrase, KINDS[what].concepts) for phrase in phrases)
    concepts = [name for name in called if name in _all_names()]
    others = [name for name in called if name not in _all_names()]
    return {"concepts": tuple(concepts), "names": tuple(dict.fromkeys((*names, *others)))}


def _name(phrase: str, kinds: tuple[ConceptKind, ...]) -> str:
    """The name of the concept that a phrase means: its own, else of the first kind that has one."""
    own_name = " ".join(phrase.lower().split())
    if own_name in _all_names():
        return own_name
    called = concepts_called(phrase)
    for kind in dict.fromkeys((*kinds, *ALL_CONCEPT_KINDS)):
        for concept in called:
            if concept.kind == kind:
                return concept.name
    return phrase


@cache
def _all_names() -> frozenset[str]:
    return frozenset(concept.name for concept in load_concepts())
