"""Which measurements a label of a laboratory or of a monitor names: `GLUCOSE, POCT`, `SGPT (ALT)`.

A label names a measurement if names of that measurement make up all of its words. Words that do
not tell what was measured (blood as the specimen, the method, units) need no name; any other word
makes it another test: `Creatinine, Urine` is no creatinine of the blood.
"""

import re
import unicodedata
from collections import defaultdict
from functools import cache, lru_cache

from archqa.core.tables import read_mapping, split_cell
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import load_concepts
from archqa.terminology.words import (
    common_forms,
    display_words,
    single_display_words,
    word_sets,
)

Words = frozenset[str]

_PROPERTY = re.compile(r"\[[^\]]*\]")
"""The property in a long name of LOINC, `[Mass/volume]`, or a unit."""

_UNIT = re.compile(
    r"(?:10\s*[*^]\s*\d+|\b(?:[mµunpf]?(?:g|mol|eq|iu|u)|k|mill|thou|x10e\d))"
    r"\s*/\s*(?:[dmuµ]?l|kg|hr?|min|m2|1\.73\s*m2)\b",
    re.IGNORECASE,
)
_REFLEX = re.compile(r"\b(?:w/?|with)?\s*reflex\b.*", re.IGNORECASE)
"""What may be measured after it: `TSH with reflex to free T4`."""

_SPELLINGS = {
    "[partial pressure]": " partial pressure ",
    "i-stat": "istat",
    "i. s.": "serum",
    "i.s.": "serum",
    "i.u.": "urine",
    "#": " absolute ",
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
}


@lru_cache(maxsize=16384)
def measurements_named(label: str) -> frozenset[Concept]:
    """Return the measurements that a label names; several where it leaves open which.

    The label as it is goes first: `Fasting glucose` is narrower than `Glucose`.
    """
    words = _label_words(label) - single_display_words("test")
    without_specimen = words - single_display_words("specimen")
    without_method = without_specimen - single_display_words("method")
    for candidate in dict.fromkeys((words, without_specimen, without_method)):
        if concepts := _made_up_of(candidate):
            return concepts
    return frozenset()


@lru_cache(maxsize=16384)
def measurements_near(label: str) -> frozenset[Concept]:
    """Return the measurements that a label mentions along with words that make it another test."""
    words = _label_words(label)
    concepts = set()
    for word in words:
        for concept, name in _names_by_word().get(word, ()):
            if name <= words:
                concepts.add(concept)
    return frozenset(concepts) - measurements_named(label)


@lru_cache(maxsize=16384)
def specimens_named(name: str) -> frozenset[str]:
    """Return the specimens other than blood that a label or a kind of specimen names: `CSF`."""
    words = _label_words(name)
    return frozenset(
        specimen for specimen, its_words in _specimens().items() if its_words & words
    )


@lru_cache(maxsize=16384)
def without_specimen(label: str) -> str:
    """Return the words of a label but those of specimens: `leukocyte` of `Leukocytes, Urine`."""
    words = _label_words(label) - single_display_words("fluid")
    return " ".join(sorted(words.difference(*_specimens().values())))


@cache
def _specimens() -> dict[str, Words]:
    specimens = {}
    for use in read_mapping("terminology/data/display_words.tsv"):
        kind, _, name = use.partition(" ")
        if kind == "fluid" and name:
            specimens[name] = single_display_words(use)
    return specimens


def _made_up_of(words: Words) -> frozenset[Concept]:
    """Return the measurements of which names make up all of the words."""
    covered: dict[Concept, set[str]] = defaultdict(set)
    for word in words:
        for concept, name in _names_by_word().get(word, ()):
            if name <= words:
                covered[concept] |= name
    return frozenset(concept for concept, names in covered.items() if names == words)


@cache
def _names_by_word() -> dict[str, tuple[tuple[Concept, Words], ...]]:
    """Return the names of all measurements by each of their words.

    What is a display of one measurement is no name of another that questions call so, too.
    """
    displays: dict[Words, list[Concept]] = defaultdict(list)
    forms: dict[Words, list[Concept]] = defaultdict(list)
    for concept in load_concepts():
        if concept.kind != "measurement":
            continue
        for cell, _ in concept.displays:
            for name in split_cell(cell):
                displays[_name_words(name)].append(concept)
        for name in concept.forms:
            forms[_name_words(name)].append(concept)
    for lay_term in word_sets(
        read_mapping("terminology/data/display_words.tsv")["lay"]
    ):
        forms.pop(lay_term, None)
    by_word: dict[str, dict[tuple[Concept, Words], None]] = defaultdict(dict)
    for words, concepts in ({**forms, **displays}).items():
        for word in words:
            by_word[word].update(
                dict.fromkeys((concept, words) for concept in concepts)
            )
    return {word: tuple(names) for word, names in by_word.items()}


def _name_words(name: str) -> Words:
    return _label_words(name) - single_display_words("test")


@lru_cache(maxsize=16384)
def _label_words(label: str) -> Words:
    """Return the words of a label in one spelling: `hgb` and `Hb` are "hemoglobin"."""
    text = label.lower()
    for spelling, plain in _SPELLINGS.items():
        text = text.replace(spelling, plain)
    for pattern in (_PROPERTY, _UNIT, _REFLEX):
        text = pattern.sub(" ", text)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    abbreviations = _abbreviations()
    return frozenset(abbreviations.get(word, word) for word in display_words(text))


@cache
def _abbreviations() -> dict[str, str]:
    """Return the word that stands for each abbreviation and for each other spelling."""
    words = {}
    for use, cell in read_mapping("terminology/data/display_words.tsv").items():
        kind, _, word = use.partition(" ")
        if kind == "means":
            for spelling in split_cell(cell):
                words[common_forms(spelling)[0]] = common_forms(word)[0]
    return words
