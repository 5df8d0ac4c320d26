"""From a question to its marks: what each stretch of it means, and which words mean nothing known.

Spans of time, comparisons, concepts, phrases of the tables and the patient's own name compete for
the tokens: the longest wins. What is left is looked up among the names of the record.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from archqa.query.questions.everyday.comparisons import find_tests
from archqa.query.questions.everyday.marks import Clause, Mark
from archqa.query.questions.everyday.names import name_marks
from archqa.query.questions.everyday.phrases import find_phrases
from archqa.query.questions.everyday.relatives import relatives
from archqa.query.questions.everyday.special_names import known_names
from archqa.query.questions.everyday.times import find_spans
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.query.questions.lexer import Token, plain, tokenize
from archqa.terminology.concepts import find_concepts

_TITLES = frozenset({"mr", "mrs", "ms", "miss"})
_ORDER = (
    "judgement",
    "person_name",
    "span",
    "test",
    "person",
    "row",
    "field",
    "category",
    "noun",
    "concept",
)
"""Which of two marks of one length wins: the first kinds first, all others last."""


class _Found(NamedTuple):
    """The tokens of a question and its text, to place what is found by characters."""

    text: str
    tokens: tuple[Token, ...]

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """The tokens of a stretch of characters."""
        inside = [
            number
            for number, token in enumerate(self.tokens)
            if token.start < end and token.end > start
        ]
        return (inside[0], inside[-1] + 1) if inside else None


def mark(question: str, vocabulary: Vocabulary, today: date | None = None) -> Clause:
    """Every token of a question under exactly one mark, in its order."""
    text = plain(question)
    found = _Found(text, tokenize(text))
    candidates = [*_by_characters(found, today), *find_phrases(found.tokens)]
    candidates += _patient_names(found.tokens, vocabulary)
    if not any(each.kind == "row" and each.value == "family_history" for each in candidates):
        candidates += relatives(found.tokens, vocabulary)
    candidates += known_names([token.text for token in found.tokens])
    marks = list(_chosen(candidates))
    marks += _rest(found.tokens, marks)
    marks.sort(key=lambda each: each.start)
    named = name_marks(found.tokens, marks, vocabulary)
    return Clause(found.tokens, tuple(_with_text(found.tokens, each) for each in named))


def _by_characters(found: _Found, today: date | None) -> Iterator[Mark]:
    """Spans, comparisons and concepts."""
    lower = found.text.lower()
    for span in find_spans(lower, today):
        if place := found.place(span.start, span.end):
            yield Mark("span", "", *place, spans=span.spans)
    for test in find_tests(lower):
        if place := found.place(test.start, test.end):
            yield Mark("test", "", *place, test=test.test, unit=test.unit)
    yield from _concepts(found)


def _concepts(found: _Found) -> Iterator[Mark]:
    by_place: dict[tuple[int, int], list[Mark]] = {}
    for match in find_concepts(found.text):
        place = found.place(match.start, match.end)
        if place:
            by_place.setdefault(place, []).append(
                Mark("concept", "", *place, concepts=(match.concept,))
            )
    for place, marks in by_place.items():
        concepts = tuple(concept for each in marks for concept in each.concepts)
        yield Mark("concept", "", *place, concepts=concepts)


def _patient_names(tokens: Sequence[Token], vocabulary: Vocabulary) -> Iterator[Mark]:
    """The patient's own name, with or without a title."""
    start = 0
    while start < len(tokens):
        end = start
        if tokens[start].text in _TITLES:
            end += 1
            if end < len(tokens) and tokens[end].text == ".":
                end += 1
        first = end
        while end < len(tokens) and tokens[end].text in vocabulary.patient_names:
            end += 1
        if end > first:
            yield Mark("person_name", "", start, end)
        start = max(end, start + 1)


def _chosen(candidates: Iterable[Mark]) -> Iterator[Mark]:
    """Marks without overlap: the longest first, then by kind, then the first."""
    taken: set[int] = set()
    for each in sorted(candidates, key=_preference):
        places = range(each.start, each.end)
        if taken.isdisjoint(places):
            taken.update(places)
            yield each


def _preference(each: Mark) -> tuple[int, int, int]:
    order = _ORDER.index(each.kind) if each.kind in _ORDER else len(_ORDER)
    return -each.length, order, each.start


def _rest(tokens: Sequence[Token], marks: Iterable[Mark]) -> Iterator[Mark]:
    """Signs that only separate, and tokens that no table knows."""
    taken = {place for each in marks for place in range(each.start, each.end)}
    for number, token in enumerate(tokens):
        if number not in taken:
            kind = "sign" if token.is_sign else "unknown"
            yield Mark(kind, token.text, number, number + 1)


def _with_text(tokens: Sequence[Token], each: Mark) -> Mark:
    words = (token.text for token in tokens[each.start : each.end])
    return each._replace(text=" ".join(words))
