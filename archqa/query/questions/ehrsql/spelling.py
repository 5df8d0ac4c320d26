"""Correction of misspelt words by the nearest word of the grammar or the record."""

import re
from collections.abc import Collection
from functools import lru_cache

from rapidfuzz import process
from rapidfuzz.distance import OSA

from archqa.query.questions.ehrsql.lexicon import lexicon_words, stop_words
from archqa.query.questions.ehrsql.vocabulary import synonyms

_WORD = re.compile(r"(?<![a-z\d/&])[a-z]{4,}(?![a-z\d/&])")
_TIME = """
    january february march april june july august september october november december jan feb sept second seconds
    third penultimate today yesterday month months year years since hospital emergency intensive critical recent latest
    earliest initial final most between route inpatient hospitalization hospitalisation encounter admission than greater
    one two three four five six seven eight nine ten eleven twelve couple half past preceding trailing until till prior
    onwards throughout calendar yesterday tonight penultimate antepenultimate firstly lastly initially recently newest
    oldest closing ongoing episode episodes trip trips course courses beginning starting exceeds beneath beyond
    minute minutes hour hours week weeks day days kilograms percent celsius
    hosp itu enc adm admits higher lower exceeding exceeded above below under unit units care number
"""


@lru_cache
def _grammar_words() -> frozenset[str]:
    words = set(_TIME.split())
    words.update(filter(str.isalpha, lexicon_words() | stop_words()))
    for synonym in synonyms():
        words.update(synonym.phrase.split())
    return frozenset(word for word in words if len(word) > 2)


@lru_cache
def _long_grammar_words() -> tuple[str, ...]:
    words = [word for word in _grammar_words() if len(word) > 3]
    return tuple(sorted(words))


def correct_spelling(text: str, vocabulary: Collection[str], names: Collection[str] = ()) -> str:
    """The text with misspelt words corrected: one edit in names, two in a long plain word."""

    def correct(match: re.Match[str]) -> str:
        return _correct_word(match.group(), vocabulary, names)

    return _WORD.sub(correct, text)


def _correct_word(word: str, vocabulary: Collection[str], names: Collection[str]) -> str:
    if word in _grammar_words():
        return word
    if word in vocabulary or word.rstrip("s") in vocabulary:
        return word
    name = None
    if len(word) > 6:
        name = _nearest(word, names, 1)
    return (
        name
        or _nearest(word, _long_grammar_words(), 1)
        or _nearest(word, vocabulary, 1)
        or _nearest(word, _long_grammar_words(), 2)
        or word
    )


def _nearest(word: str, candidates: Collection[str], max_edits: int) -> str | None:
    """The candidate within so many edits.

    In four letters only a swap counts: `life` is no misspelling of `like`.
    """
    min_length = 7
    if max_edits == 1:
        min_length = 4
    if len(word) < min_length:
        return None
    match = process.extractOne(word, candidates, scorer=OSA.distance, score_cutoff=max_edits)
    if match is None:
        return None
    nearest = str(match[0])
    if nearest[0] != word[0] and nearest[1:2] != word[1:2]:
        return None
    if len(word) == 4 and sorted(nearest) != sorted(word):
        return None
    return nearest
