"""The terms of a question: its words of content and what the tables know of, under all their names."""

import re
from collections.abc import Iterator
from functools import cache
from math import log
from typing import NamedTuple

from archqa.core.tables import read_rows, split_cell
from archqa.terminology.concept import DRUG_KINDS, Concept
from archqa.terminology.concepts import find_concepts, load_concepts
from archqa.terminology.cues import cue_pattern
from archqa.terminology.people import relative_pattern
from archqa.terminology.words import stems, word_list

_WORD = re.compile(r"[^\W_]+")
_MAX_NAMES = 60
_MAX_OTHER_NAMES = 4

Name = tuple[str, ...]
"""The words of a name, in lower case."""


class SearchTerm(NamedTuple):
    """One thing that a question names, under each of its names."""

    names: tuple[Name, ...]

    def is_in(self, stemmed: frozenset[str]) -> bool:
        """Whether a set of stems has all words of one of the names."""
        for name in self.names:
            words = stems(" ".join(name))
            if words and stemmed.issuperset(words):
                return True
        return False


def search_terms(question: str) -> tuple[SearchTerm, ...]:
    """Return the terms of a question: its words of content, and what the tables know of."""
    terms: dict[SearchTerm, None] = {}
    for word in content_words(question):
        terms[SearchTerm(_synonyms_of_words().get(word, ((word,),)))] = None
    words = f" {' '.join(_split(question))} "
    for names in _synonym_groups():
        if any(len(name) > 1 and f" {' '.join(name)} " in words for name in names):
            terms[SearchTerm(names)] = None
    for match in find_concepts(question):
        terms[concept_term(match.concept)] = None
    return tuple(terms)


def concept_term(concept: Concept) -> SearchTerm:
    """Return a concept under all its names, a class of drugs also under those of its members."""
    names = dict.fromkeys(_split(name) for name in _names(concept))
    return SearchTerm(tuple(names)[:_MAX_NAMES])


def content_words(text: str) -> tuple[str, ...]:
    """Return the words of a text that tell one thing from another, each once; also relatives."""
    words: dict[str, None] = {}
    for word in _split(text):
        if word in word_list("stop"):
            has_content = relative_pattern().fullmatch(word) is not None
        else:
            has_content = len(word) > 1 or word.isdigit()
        if has_content:
            words[word] = None
    return tuple(words)


def without_carrying_words(question: str) -> str:
    """Return a question without words that carry nothing of their own ("result", "last")."""
    return cue_pattern("chart", "carries nothing").sub(" ", question)


def names_in(question: str, folded_text: str) -> tuple[str, ...]:
    """Return other names of what a question asks about, as far as a text in lower case has them."""
    folded_question = question.casefold()
    names: dict[str, None] = {}
    for match in find_concepts(question):
        new: dict[str, None] = {}
        for name in map(str.casefold, _names(match.concept)):
            if (
                len(name) > 1
                and name not in folded_question
                and f" {name}" in folded_text
            ):
                new[name] = None
        names.update(dict.fromkeys(list(new)[:_MAX_OTHER_NAMES]))
    return tuple(names)


def _split(name: str) -> Name:
    return tuple(word.lower() for word in _WORD.findall(name))


def _names(concept: Concept) -> Iterator[str]:
    """Yield what a concept is called, of a class of drugs also what its members are."""
    for form in _forms().get(concept.name, ()):
        yield form.removeprefix("=")
    if concept.kind in DRUG_KINDS:
        for ingredient in concept.ingredients:
            name = ingredient.partition("@")[0]
            yield name
            yield from _forms().get(name, ())
    for part in concept.parts:
        yield from _forms().get(part, ())


@cache
def _synonyms_of_words() -> dict[str, tuple[Name, ...]]:
    """Return for each single word of the groups all names of its groups, its own at the front."""
    synonyms: dict[str, tuple[Name, ...]] = {}
    for names in _synonym_groups():
        for name in names:
            if len(name) == 1:
                known = synonyms.get(name[0], (name,))
                synonyms[name[0]] = tuple(dict.fromkeys((*known, *names)))
    return synonyms


@cache
def _synonym_groups() -> tuple[tuple[Name, ...], ...]:
    groups = []
    for (names,) in read_rows("terminology/data/search_groups.tsv", 1):
        groups.append(tuple(map(_split, split_cell(names))))
    return tuple(groups)


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    return {concept.name: concept.forms for concept in load_concepts()}


def rarity(texts: int, with_term: int) -> float:
    """Return how much a term counts that so many of the texts have (BM25's idf)."""
    return log(1 + (texts - with_term + 0.5) / (with_term + 0.5))
