"""The parts of a question to a chart: "Why was it stopped, and what has her A1c done since?"

Each part is made to stand by itself: what "it" or a bare "why" means is taken from what comes before.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from archqa.chart.search_terms import content_words
from archqa.core.tables import read_rows
from archqa.notes.question_form import asking_sentences
from archqa.terminology.concepts import find_concepts

_MAX_SUBJECT_WORDS = 6
_SENTENCE_END = re.compile(r"(?<=[?!;])\s+|(?<=\.)\s+(?=[A-Z\"'(])")


class QuestionParts(NamedTuple):
    """The parts of a question, and the sentences beside it that ask nothing."""

    parts: tuple[str, ...]
    background: tuple[str, ...]


def question_parts(question: str) -> QuestionParts:
    """Return what is asked, part by part, each with the subject that it needs."""
    asking, background = asking_sentences(question, _SENTENCE_END, _pattern("opens"))
    subject = " ".join(map(_subject, background)).strip()
    is_context = bool(subject)
    parts: dict[str, None] = {}
    for sentence in asking:
        for part in _split(sentence):
            parts[_standing_alone(part, subject, is_context=is_context)] = None
            subject = _subject(part) or subject
            is_context = False
    return QuestionParts(tuple(parts), tuple(background))


def asks(question: str, what: str) -> bool:
    """Whether a question has words of a pattern.

    `present`: it is about how things are now, so that newer notes count more. `all`: it asks for
    all of something, or for its course. `reports`: it asks what somebody wants, thinks or advises,
    which a note may tell. `advice`: it asks what should be done. `allowed`: it asks what is allowed
    or true of the patient, which a note may state.
    """
    return _pattern(what).search(question) is not None


def is_bare(part: str) -> bool:
    """Whether a part has no word of its own: "and which one?"."""
    return not _own_words(part.partition("(")[0])


def _split(sentence: str) -> Iterator[str]:
    """Yield the parts of a sentence: each begins with a word that asks."""
    start = 0
    for match in _pattern("joins").finditer(sentence):
        part = sentence[start : match.start()].strip(" ,;:")
        has_subject = content_words(part) or _pattern("refers").search(part)
        if has_subject and _pattern("opens").match(part):
            yield part
            start = match.end()
    yield sentence[start:].strip(" ,;:")


def _standing_alone(part: str, subject: str, *, is_context: bool) -> str:
    """Return a part with the subject that it leaves out, or that the sentences before it set."""
    if not subject or subject.casefold() in part.casefold():
        return part
    refers = _pattern("refers").search(part) and not find_concepts(part)
    if is_context or refers or not _own_words(part):
        return f"{part.rstrip('?. ')} ({subject})?"
    return part


def _own_words(part: str) -> list[str]:
    return [
        word for word in content_words(part) if not _pattern("bare").fullmatch(word)
    ]


def _subject(text: str) -> str:
    """Return what a text speaks of: the concepts that it names, else its words of content."""
    spans = dict.fromkeys((match.start, match.end) for match in find_concepts(text))
    named = " ".join(text[start:end] for start, end in spans)
    return named or " ".join(_own_words(text)[:_MAX_SUBJECT_WORDS])


@cache
def _pattern(name: str) -> re.Pattern[str]:
    rows = read_rows("notes/data/question_patterns.tsv", 3)
    (pattern,) = (
        pattern for group, part, pattern in rows if (group, part) == ("part", name)
    )
    return re.compile(pattern, re.IGNORECASE)
