"""From a question to its marks: what each stretch of it means, and which words mean nothing known.

Spans of time, comparisons, concepts, phrases of the tables and the patient's own name compete for
the tokens: the longest wins. What is left is looked up among the names of the record.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cache
from typing import Literal, NamedTuple

from archqa.core.tables import read_rows
from archqa.query.model import ValueTest
from archqa.query.questions.everyday.clause import Clause, Mark
from archqa.query.questions.everyday.names import known_names, name_marks
from archqa.query.questions.everyday.times import find_spans
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.query.questions.lexer import Token, phrases_of, plain, tokenize, words_of
from archqa.terminology import people
from archqa.terminology.concepts import concept_named, find_concepts

Comparison = Literal["greater", "less", "at_least", "at_most", "equal"]

_WORDS: dict[Comparison, str] = {
    "at_least": r"at least|>=|≥|no less than|not less than",
    "at_most": r"at most|<=|≤|no more than|not more than|not above|not over",
    "greater": r"above|over|greater than|more than|higher than|exceed(?:s|ed|ing)?|>|past",
    "less": r"below|under|less than|lower than|fewer than|<",
    "equal": r"equal to|exactly|=",
}
_AFTER: dict[Comparison, str] = {
    "at_least": r"or (?:higher|more|above|greater|over)|and (?:above|over|higher)|\+",
    "at_most": r"or (?:lower|less|below|under|fewer)|and (?:below|under|lower)",
}
_NUMBER = r"(?P<number>\d+(?:\.\d+)?)"
_PERCENT = r"(?: ?(?P<percent>%|percent))?"
_NO_DATE = r"(?![\d/-]|\.\d)"


class FoundTest(NamedTuple):
    """A comparison and the offsets of its words; a unit after them is not included."""

    test: ValueTest
    start: int
    end: int
    unit: str


def find_tests(text: str) -> Iterator[FoundTest]:
    """The comparisons of a plain text in lower case."""
    for comparison, words in _WORDS.items():
        for match in _before(words).finditer(text):
            yield _found_test(comparison, match)
    for comparison, words in _AFTER.items():
        for match in _after(words).finditer(text):
            yield _found_test(comparison, match)


def _found_test(comparison: Comparison, match: re.Match[str]) -> FoundTest:
    test = ValueTest(comparison=comparison, number=float(match["number"]))
    unit = "%" if match["percent"] else ""
    return FoundTest(test, match.start(), match.end(), unit)


@cache
def _before(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z<>=])(?:{words}) ?{_NUMBER}{_PERCENT}{_NO_DATE}")


@cache
def _after(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\d/.-]){_NUMBER}{_PERCENT} ?(?:{words})(?![a-z])")


_OF_THE_ASKER = frozenset({"my", "our"})
_OF_THE_PATIENT = frozenset({"her", "his", "their"})
_ADJECTIVES = frozenset({"little", "elderly", "late", "dear", "poor", "old"})


class _Relative(NamedTuple):
    """The words for a relative, the gender that they tell, and whether they need no "my"."""

    words: tuple[str, ...]
    gender: str
    stands_alone: bool


def relatives(tokens: Sequence[Token], vocabulary: Vocabulary) -> Iterator[Mark]:
    """The words that stand for the patient as a relative of who asks.

    None if the patient is of another gender, if the record tells of the patient's own family, or
    if several relatives are named: then somebody else may be meant.
    """
    found = list(_relatives_of(tokens))
    if not found or len({mark.value for mark, _ in found}) > 1:
        return
    if vocabulary.has_family_history:
        return
    for mark, gender in found:
        if gender in {"any", vocabulary.gender}:
            yield mark


def _relatives_of(tokens: Sequence[Token]) -> Iterator[tuple[Mark, str]]:
    """Each relative, with the gender."""
    start = 0
    while start < len(tokens):
        relative = _relative_at(tokens, start)
        if relative is None:
            start += 1
            continue
        end = start + len(relative.words)
        place = start
        while place and tokens[place - 1].text in _ADJECTIVES:
            place -= 1
        before = tokens[place - 1].text if place else ""
        is_of_asker = before in _OF_THE_ASKER
        opening = place - 1 if is_of_asker else start
        if is_of_asker or (relative.stands_alone and before not in _OF_THE_PATIENT):
            value = f"relative {relative.words[0]}"
            yield Mark("person_name", value, opening, end), relative.gender
        start = end


def _relative_at(tokens: Sequence[Token], start: int) -> _Relative | None:
    for relative in _relatives():
        texts = tuple(token.text for token in tokens[start : start + len(relative.words)])
        if texts == relative.words:
            return relative
    return None


@cache
def _relatives() -> tuple[_Relative, ...]:
    """The relatives of the terminology, those of several words first."""
    named = [
        _Relative(words_of(relative.form), relative.gender, relative.stands_alone)
        for relative in people.relatives()
    ]
    return tuple(sorted(named, key=lambda each: (-len(each.words), not each.stands_alone)))


_AT_END = "$"
_AT_START = "^"
_ENDINGS = frozenset(",;?.!")
_JOINTS = frozenset({"and", "or"})


class Phrase(NamedTuple):
    """Words of a table and what they mean; at the end or the start of a part of the question only."""

    words: tuple[str, ...]
    kind: str
    value: str
    at_end: bool = False
    at_start: bool = False


def find_phrases(tokens: Sequence[Token]) -> Iterator[Mark]:
    """Every phrase of the tables at every place, also those that overlap."""
    for start, token in enumerate(tokens):
        for phrase in _phrases_by_first_word().get(token.text, ()):
            end = _end_of(phrase, tokens, start)
            if end is not None:
                if phrase.kind == "measurement":
                    concept = concept_named("measurement", phrase.value)
                    yield Mark("concept", "", start, end, concepts=(concept,))
                else:
                    yield Mark(phrase.kind, phrase.value, start, end)


def _end_of(phrase: Phrase, tokens: Sequence[Token], start: int) -> int | None:
    """Where a phrase ends; a hyphen, a slash or the dot of "E. coli" may stand between its words."""
    if phrase.at_start and start and tokens[start - 1].text not in _ENDINGS:
        return None
    place = start
    for number, word in enumerate(phrase.words):
        while number and _joins(tokens, place, phrase.words[number - 1]):
            place += 1
        if place == len(tokens) or tokens[place].text != word:
            return None
        place += 1
    if phrase.at_end and not _is_end(tokens, place):
        return None
    return place


def _is_end(tokens: Sequence[Token], place: int) -> bool:
    if place == len(tokens):
        return True
    return tokens[place].text in _ENDINGS | _JOINTS


def _joins(tokens: Sequence[Token], place: int, before: str) -> bool:
    if place == len(tokens):
        return False
    return tokens[place].text in {"-", "/", "&"} or (tokens[place].text == "." and len(before) == 1)


@cache
def all_phrases() -> tuple[Phrase, ...]:
    """The phrases of `phrases.tsv`; of equal ones the first counts."""
    phrases: dict[tuple[tuple[str, ...], bool, bool], Phrase] = {}
    for kind, value, cell in read_rows("query/questions/everyday/data/phrases.tsv", 3):
        for phrase in _phrases(kind, value, cell):
            phrases.setdefault((phrase.words, phrase.at_end, phrase.at_start), phrase)
    return tuple(phrases.values())


def _phrases(kind: str, value: str, cell: str) -> Iterator[Phrase]:
    for pattern in cell.split("|"):
        at_end, at_start = pattern.endswith(_AT_END), pattern.endswith(_AT_START)
        for words in phrases_of(pattern.rstrip(_AT_END + _AT_START)):
            if words:
                yield Phrase(words, kind, value, at_end, at_start)


@cache
def _phrases_by_first_word() -> dict[str, tuple[Phrase, ...]]:
    by_first_word: dict[str, list[Phrase]] = defaultdict(list)
    for phrase in all_phrases():
        by_first_word[phrase.words[0]].append(phrase)
    return {word: tuple(phrases) for word, phrases in by_first_word.items()}


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
