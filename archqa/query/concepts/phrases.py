"""Concepts that a question names in everyday words."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.query.concepts.concept import Concept, ConceptMatch
from archqa.query.concepts.tables import load_concepts
from archqa.query.concepts.words import Word, read_words, stems

_GAP = re.compile(r"[\s\-‐–./&+'’()]*")
"""What may stand between the words of one phrase: `c. diff`, `blood-pressure`, `h&h`."""
_EXACT = "="
_UNITS = frozenset({"hr", "k", "mg", "bpm", "g", "pt"})
"""Abbreviations that are units after a number: `24 hr` is no heart rate."""

Concepts = tuple[Concept, ...]


class _PhraseIndex(NamedTuple):
    """Concepts by phrase: by common forms, by exact words in lower case, and as written."""

    by_stems: dict[str, Concepts]
    in_lower_case: dict[str, Concepts]
    as_written: dict[str, Concepts]
    longest: int


@lru_cache(maxsize=1024)
def find_concepts(text: str) -> tuple[ConceptMatch, ...]:
    """Return the concepts that `text` names, in its order, the longest phrases first.

    Whole words in any number (`statin`, `statins`); no spelling is corrected. A phrase that the
    tables write with a capital is found only so (`MS`). Of an ambiguous phrase all concepts
    are returned, with one span.
    """
    words = read_words(text)
    matches: list[ConceptMatch] = []
    place = 0
    while place < len(words):
        length, concepts = _longest_phrase(text, words, place)
        start, end = words[place].start, words[place + length - 1].end
        matches.extend(ConceptMatch(start, end, concept) for concept in concepts)
        place += length
    return tuple(matches)


def _longest_phrase(text: str, words: list[Word], place: int) -> tuple[int, Concepts]:
    """Return the number of words of the longest phrase at `place`, at least 1, and its concepts."""
    longest = _joined_words(text, words, place)
    for length in range(longest, 0, -1):
        concepts = _named_by(words[place : place + length])
        if concepts and not (length == 1 and _is_unit(words, place)):
            return length, concepts
    return 1, ()


def _joined_words(text: str, words: list[Word], place: int) -> int:
    """Return how many words from `place` on could be one phrase."""
    last = min(place + _phrase_index().longest, len(words))
    for following in range(place + 1, last):
        if not _GAP.fullmatch(text, words[following - 1].end, words[following].start):
            return following - place
    return last - place


def _named_by(words: list[Word]) -> Concepts:
    index = _phrase_index()
    written = " ".join(word.written for word in words)
    by_stems = index.by_stems.get(" ".join(word.stem for word in words), ())
    exact = index.in_lower_case.get(written.lower(), ())
    as_written = index.as_written.get(written, ())
    return tuple(dict.fromkeys((*by_stems, *exact, *as_written)))


def _is_unit(words: list[Word], place: int) -> bool:
    after_number = place > 0 and words[place - 1].written[-1].isdigit()
    return after_number and words[place].stem in _UNITS


@cache
def _phrase_index() -> _PhraseIndex:
    index = _PhraseIndex({}, {}, {}, 0)
    for concept, phrases in load_concepts():
        alone = (concept,)
        for phrase in phrases:
            _add(index, phrase, alone)
    longest = max(phrase.count(" ") for phrase in index.by_stems) + 1
    return index._replace(longest=longest)


def _add(index: _PhraseIndex, phrase: str, concepts: Concepts) -> None:
    if phrase.startswith(_EXACT):
        words, known = phrase[1:], index.in_lower_case
    elif phrase != phrase.lower():
        words, known = " ".join(word.written for word in read_words(phrase)), index.as_written
    else:
        words, known = " ".join(stems(phrase)), index.by_stems
    others = known.get(words)
    known[words] = tuple(dict.fromkeys((*others, *concepts))) if others else concepts
