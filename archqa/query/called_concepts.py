"""Concepts that a query calls by a phrase instead of their name: `A1c` for `hemoglobin a1c`."""

import re
from collections.abc import Iterable
from functools import cache

from archqa.query.concepts import Concept, find_concepts, load_concepts
from archqa.query.execution.concept_limit import ALL_CONCEPT_KINDS
from archqa.query.kinds import KINDS, ConceptKind
from archqa.query.model import Query

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

    What names no concept stays: the executor says that there is none of that name.
    """
    changes: dict[str, object] = {"concepts": _names(query.concepts, query.what)}
    if query.against is not None:
        names = _names(query.against.concepts, query.what)
        changes["against"] = query.against.model_copy(update={"concepts": names})
    if query.companion is not None:
        names = _names(query.companion.concepts, query.companion.what)
        changes["companion"] = query.companion.model_copy(update={"concepts": names})
    return query.model_copy(update=changes)


def _names(phrases: Iterable[str], what: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(phrase, KINDS[what].concepts) for phrase in phrases))


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
    return frozenset(named.concept.name for named in load_concepts())
