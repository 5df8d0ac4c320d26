"""Words of questions and displays in one form: American spelling, singular, lower case."""

import re
from functools import lru_cache
from typing import NamedTuple

_WORD = re.compile(r"([a-z0-9]+)(?:['’]s\b|(?<=s)['’](?!\w))?", re.IGNORECASE)
"""A word, and the possessive ending that is no part of it."""
_AMERICAN = {
    "aemi": "emi",
    "apnoea": "apnea",
    "caesar": "cesar",
    "coeliac": "celiac",
    "goitre": "goiter",
    "faec": "fec",
    "foet": "fet",
    "gynaec": "gynec",
    "haem": "hem",
    "ionised": "ionized",
    "isation": "ization",
    "leuco": "leuko",
    "leucaemi": "leukemi",
    "litre": "liter",
    "oedem": "edem",
    "oesoph": "esoph",
    "oestr": "estr",
    "paediatr": "pediatr",
    "rrhoea": "rrhea",
    "sulph": "sulf",
    "tumour": "tumor",
}
"""Parts of words in British spelling, and in American."""
_BRITISH = re.compile("|".join(sorted(_AMERICAN, key=len, reverse=True)))
_SINGULAR_ENDINGS = ("ss", "us", "is")
_ES_ENDINGS = ("xes", "ches", "shes", "sses", "zes")
_SHORTEST_PLURAL = 4


class Word(NamedTuple):
    """A word as written, with its place in the text and its common form."""

    written: str
    start: int
    end: int
    stem: str


def read_words(text: str) -> list[Word]:
    """Return the words of `text`; a possessive ending belongs to the place of its word."""
    return [
        Word(found[1], found.start(), found.end(), stem(found[1])) for found in _WORD.finditer(text)
    ]


def stems(text: str) -> tuple[str, ...]:
    """Return the common forms of the words of `text`."""
    return tuple(map(stem, _WORD.findall(text)))


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Return a word in lower case, American and singular: `Haemorrhoids` as `hemorrhoid`."""
    american = _BRITISH.sub(lambda british: _AMERICAN[british[0]], word.lower())
    return _singular(american)


def _singular(word: str) -> str:
    if len(word) < _SHORTEST_PLURAL or word[-1] != "s" or word.endswith(_SINGULAR_ENDINGS):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(_ES_ENDINGS):
        return word[:-2]
    return word[:-1]
