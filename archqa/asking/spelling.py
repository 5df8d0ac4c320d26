"""Words of a question about a note that are misspelt ("siezures") or cut short ("fent")."""

import re

from archqa.core.case import Case
from archqa.engine.windows import tokenize_text
from archqa.terminology.concepts import named_things, words_of_names

_SHORT_WORD = re.compile(r"\b[A-Za-z]{4,8}\b")
_LONG_WORD = re.compile(r"\b[A-Za-z]{6,}\b")
_SWAPPED_LETTERS = 2


def _common_length(first: str, second: str) -> int:
    """Return how many letters two words have in common from the first on."""
    length = 0
    while first[length : length + 1] == second[length : length + 1] != "":
        length += 1
    return length


def _is_misspelling(word: str, known: str) -> bool:
    """Whether a word differs from a known one by a vowel, a doubled letter or two swapped ones."""
    start = _common_length(word, known)
    end = _common_length(word[start:][::-1], known[start:][::-1])
    old, new = word[start : len(word) - end], known[start : len(known) - end]
    if len(old) > 1 or len(new) > 1:
        return len(old) == _SWAPPED_LETTERS and old == new[::-1]
    neighbours = word[start - 1 : start] + word[start + len(old) :][:1]
    return all(letter in f"aeiou{neighbours}" for letter in old + new)


def spelling_corrections(question: str, case: Case) -> dict[str, str]:
    """Return what words of a question that are misspelt or cut short are read as, by the words.

    That is a word that a table or the note has, or the one drug or test of the note that begins so
    ("fent"). A word that the network's vocabulary has whole is right.
    """
    known = set(words_of_names())
    for sentence in case.sentences:
        known.update(map(str.lower, _LONG_WORD.findall(sentence.text)))
    corrections: dict[str, str] = {}
    for written in _LONG_WORD.findall(question):
        word = written.lower()
        if word in known or len(tokenize_text(word)) == 1:
            continue
        for other in sorted(known):
            if other[0] == word[0] and _is_misspelling(word, other):
                corrections[written] = other
    for written in _SHORT_WORD.findall(question):
        word = written.lower()
        if len(tokenize_text(word)) == 1 or named_things(word):
            continue
        beginning = {name for name in _named(case) if name.startswith(word)} - {word}
        if len(beginning) == 1:
            corrections[written] = beginning.pop()
    return corrections


def _named(case: Case) -> set[str]:
    """Return the drugs and tests that a note names in one word."""
    names = set()
    for sentence in case.sentences:
        for thing in named_things(sentence.text):
            if thing.concept.kind in {"drug", "measurement"}:
                names.add(sentence.text[thing.start : thing.end].lower())
    return set(filter(str.isalpha, names))
