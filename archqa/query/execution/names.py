"""When a name in a question and a name in the record are the same."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from archqa.fhir.values.tokens import normalise_text
from archqa.query.conventions import Conventions
from archqa.query.execution.elements import objects_at, text_at

_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_WHOLE_FIRST = frozenset(
    {"lab", "vital", "output", "microbiology_test", "organism", "susceptibility", "care_unit"}
)


class NameMatcher:
    """Which of a record's names an asked-for name means. No names asked for: all of them."""

    def __init__(
        self, wanted: Iterable[str], known: Iterable[str], ways: Conventions, what: str = ""
    ) -> None:
        self._wanted = {_plain(each) for each in wanted}
        self._equal = ways.names == "equal"
        self._words: list[frozenset[str]] = []
        if not self._equal:
            whole = {_plain(each) for each in known} if what in _WHOLE_FIRST else set()
            self._words = [_words(each) for each in self._wanted if each not in whole]

    def __call__(self, *names: str) -> bool:
        """Whether one of a row's names is meant."""
        return not self._wanted or any(self._means(_plain(name)) for name in names)

    def _means(self, name: str) -> bool:
        if name in self._wanted:
            return True
        return not self._equal and any(words and words <= _words(name) for words in self._words)


def concept_names(concept: Any) -> tuple[str, ...]:
    """The names a CodeableConcept has: its text and displays; a code where there is nothing else."""
    if not isinstance(concept, dict):
        return (concept,) if isinstance(concept, str) and concept else ()
    codings = objects_at(concept, "coding")
    found = [concept.get("text"), *(each.get("display") for each in codings)]
    names = tuple(dict.fromkeys(each for each in found if isinstance(each, str) and each))
    return names or tuple(each["code"] for each in codings if isinstance(each.get("code"), str))[:1]


def concept_code(concept: Any) -> str:
    """The first code of a CodeableConcept, else its words."""
    code = text_at(concept, "coding.code")
    return code or next(iter(concept_names(concept)), "")


@lru_cache(maxsize=16384)
def _plain(name: str) -> str:
    return name.strip().lower()


@lru_cache(maxsize=16384)
def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(normalise_text(name)))
