"""Sentences of notes that say nothing of their own: lists of what the resources hold, repetitions."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from archqa.core.case import Case, Sentence

_BULLET = re.compile(r"^[\s\-–•*#\d.)]+")
_SEPARATORS = re.compile(r"[,;]| and ")
_LETTER = re.compile(r"[^\W\d_]")


def own_sentences(case: Case, displays: AbstractSet[str]) -> Case:
    """The case with the sentences that say something of their own.

    Left out are sentences without words, such as a date; leads to a list; list items that only
    name resources, whose `displays` are in lower case: the resources have been asked, and say what
    the item is. What several notes repeat word by word is kept in the last of them.
    """
    latest: dict[str, Sentence] = {}
    for sentence in case.sentences:
        if not _is_restated(sentence.text, displays):
            latest[_folded(sentence.text)] = sentence
    kept = {sentence.id for sentence in latest.values()}
    sentences = tuple(sentence for sentence in case.sentences if sentence.id in kept)
    return case.model_copy(update={"sentences": sentences})


def _is_restated(text: str, displays: AbstractSet[str]) -> bool:
    folded = _folded(text)
    if not _LETTER.search(folded) or folded.endswith(":"):
        return True
    if folded in displays or folded.partition(":")[0].strip() in displays:
        return True
    parts = list(_parts(folded))
    return bool(parts) and all(part in displays for part in parts)


def _parts(text: str) -> Iterator[str]:
    for part in _SEPARATORS.split(text):
        if part.strip():
            yield part.strip()


def _folded(text: str) -> str:
    """A text without bullet, capitals and final full stop."""
    return " ".join(_BULLET.sub("", text).casefold().split()).rstrip(".")
