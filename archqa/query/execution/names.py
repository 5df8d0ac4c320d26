"""Matching of names in a query with names in the record."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from archqa.fhir.values.text import normalise_text
from archqa.query.conventions import Conventions
from archqa.query.execution.elements import objects_at, text_at
from archqa.query.execution.rows import Coding

_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_FULL_NAME_FIRST = frozenset(
    {"lab", "vital", "output", "microbiology_test", "organism", "susceptibility", "care_unit"}
)


class NameMatcher:
    """Which names of the record the names in a query mean. Without query names: all of them."""

    def __init__(
        self,
        query_names: Iterable[str],
        record_names: Iterable[str],
        conventions: Conventions,
        what: str = "",
    ) -> None:
        self._query_names = {_folded(name) for name in query_names}
        self._word_sets: list[frozenset[str]] = []
        if conventions.name_matching == "words":
            names_by_words = self._query_names
            if what in _FULL_NAME_FIRST:
                names_by_words = names_by_words.difference(map(_folded, record_names))
            self._word_sets = list(map(_words, names_by_words))

    def __call__(self, *names: str) -> bool:
        """Whether the query means one of a row's names."""
        if not self._query_names:
            return True
        return any(self._matches(_folded(name)) for name in names)

    def _matches(self, name: str) -> bool:
        if name in self._query_names:
            return True
        if not self._word_sets:
            return False
        name_words = _words(name)
        return any(words and words <= name_words for words in self._word_sets)


def concept_names(concept: Any) -> tuple[str, ...]:
    """The text and displays of a CodeableConcept; its first code if it has none of them."""
    if isinstance(concept, str) and concept:
        return (concept,)
    if not isinstance(concept, dict):
        return ()
    codings = objects_at(concept, "coding")
    labels = [concept.get("text")]
    for coding in codings:
        labels.append(coding.get("display"))
    names = _distinct_texts(labels)
    if names:
        return names
    for coding in codings:
        code = coding.get("code")
        if isinstance(code, str):
            return (code,)
    return ()


def _distinct_texts(labels: Iterable[Any]) -> tuple[str, ...]:
    """The labels that are texts and not empty, each once."""
    texts: dict[str, None] = {}
    for label in labels:
        if isinstance(label, str) and label:
            texts[label] = None
    return tuple(texts)


def concept_codings(concept: Any) -> tuple[Coding, ...]:
    """The codings of a CodeableConcept or of a Coding, then its text as one without code."""
    if isinstance(concept, str):
        return (Coding("", "", concept),) if concept else ()
    if not isinstance(concept, dict):
        return ()
    codings = [_coding(coding) for coding in objects_at(concept, "coding")]
    if "code" in concept and not codings:
        codings = [_coding(concept)]
    text = text_at(concept, "text")
    if text:
        codings.append(Coding("", "", text))
    return tuple(codings)


def _coding(coding: dict[str, Any]) -> Coding:
    return Coding(text_at(coding, "system"), text_at(coding, "code"), text_at(coding, "display"))


def concept_name(concept: Any) -> str:
    """The first name of a CodeableConcept; empty if it has none."""
    return next(iter(concept_names(concept)), "")


def concept_code(concept: Any) -> str:
    """The first code of a CodeableConcept, else its first name."""
    return text_at(concept, "coding.code") or concept_name(concept)


def concept_codes(concept: Any) -> tuple[str, ...]:
    """Every code of a CodeableConcept or of a code; its text if it has none."""
    codings = concept_codings(concept)
    codes = tuple(coding.code for coding in codings if coding.code)
    return codes or tuple(coding.display for coding in codings)


def code_and_names(concept: Any) -> tuple[str, ...]:
    """The first code and all names of a CodeableConcept; a name may repeat the code."""
    names = concept_names(concept)
    code = concept_code(concept)
    if not code:
        return names
    return (code, *names)


@lru_cache(maxsize=16384)
def _folded(name: str) -> str:
    return name.strip().lower()


@lru_cache(maxsize=16384)
def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(normalise_text(name)))
