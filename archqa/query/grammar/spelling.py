"""Misspelt words, put right by the nearest word that the grammar or the record knows."""

import re
from collections.abc import Collection
from functools import lru_cache

from rapidfuzz import process
from rapidfuzz.distance import OSA

from archqa.query.grammar.lexicon import lexicon_words, stop_words
from archqa.query.grammar.vocabulary import synonyms

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
def _grammar() -> frozenset[str]:
    spoken = {word for each in synonyms() for word in each.said.split()}
    letters = {word for word in lexicon_words() | stop_words() if word.isalpha()}
    return frozenset({word for word in letters | spoken | set(_TIME.split()) if len(word) > 2})


@lru_cache
def _long_grammar() -> tuple[str, ...]:
    return tuple(sorted(word for word in _grammar() if len(word) > 3))


def correct_spelling(text: str, vocabulary: Collection[str], names: Collection[str] = ()) -> str:
    """The text with misspelt words put right: one slip in names of the record, two in a long plain word."""

    def nearest(match: re.Match[str]) -> str:
        word = match.group()
        if word in _grammar() or word in vocabulary or word.rstrip("s") in vocabulary:
            return word
        whole = _near(word, names, 1) if len(word) > 6 else None
        return (
            whole
            or _near(word, _long_grammar(), 1)
            or _near(word, vocabulary, 1)
            or _near(word, _long_grammar(), 2)
            or word
        )

    return _WORD.sub(nearest, text)


def _near(word: str, known: Collection[str], slips: int) -> str | None:
    """The known word that is so many slips away. In four letters only a swap counts: `life` is no slip of `like`."""
    if len(word) < (4 if slips == 1 else 7):
        return None
    found = process.extractOne(word, known, scorer=OSA.distance, score_cutoff=slips)
    if found is None or (found[0][0] != word[0] and found[0][1:2] != word[1:2]):
        return None
    if len(word) == 4 and sorted(found[0]) != sorted(word):
        return None
    return str(found[0])
