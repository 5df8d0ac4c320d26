"""From a question to its marks: what each stretch of it means, and which words mean nothing known.

Spans of time, comparisons, concepts, phrases of the tables and the patient's own name compete for
the tokens: the longest wins. What is left is looked up among the names of the record.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.query.model import ValueTest
from archqa.query.questions.everyday.clause import Clause, Mark
from archqa.query.questions.everyday.names import known_names, name_marks
from archqa.query.questions.everyday.times import find_spans
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.query.questions.lexer import (
    SEPARATORS,
    Token,
    phrases_of,
    plain,
    tokenize,
    words_of,
)
from archqa.query.values import Comparison
from archqa.terminology import people
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import concept_named, find_concepts
from archqa.terminology.words import word_list

_MOVING = (
    r"(?:(?:go|goes|going|went|gone|get|gets|got|gotten|rise|rises|rose|risen|climb(?:ed)?"
    r"|jump(?:ed)?|drop(?:ped)?|fall|fell|fallen|dip(?:ped)?|sink|sank) )?"
)
"""Verbs that a comparison may follow: "go above 4", "dropped below 90"."""
_WORDS: dict[Comparison, str] = {
    "at_least": r"at least|>=|≥|no less than|not less than",
    "at_most": r"at most|<=|≤|no more than|not more than|not above|not over",
    "greater": rf"{_MOVING}(?:above|over|past)|greater than|more than|higher than|exceed(?:s|ed|ing)?|>",
    "less": rf"{_MOVING}(?:below|under)|less than|lower than|fewer than|<",
    "equal": r"equal to|exactly|=",
}
_AFTER: dict[Comparison, str] = {
    "at_least": r"or (?:higher|more|above|greater|over)|and (?:above|over|higher)|\+",
    "at_most": r"or (?:lower|less|below|under|fewer)|and (?:below|under|lower)",
}
_NUMBER = r"(?P<number>\d+(?:\.\d+)?)(?: ?(?P<percent>%|percent))?"
_TESTS = [
    *(
        (comparison, re.compile(rf"(?<![a-z<>=])(?:{words}) ?{_NUMBER}(?![\d/-]|\.\d)"))
        for comparison, words in _WORDS.items()
    ),
    *(
        (comparison, re.compile(rf"(?<![\d/.-]){_NUMBER} ?(?:{words})(?![a-z])"))
        for comparison, words in _AFTER.items()
    ),
]
"""Comparisons of a value with a number; dates are no numbers."""

_OF_THE_ASKER = frozenset({"my", "our"})
_OF_THE_PATIENT = frozenset({"her", "his", "their"})
_BEFORE_FAMILY_MEMBERS = _OF_THE_PATIENT | {"patient", "patients", "a", "any", "the"}
_ADJECTIVES = word_list("adjective of a person")


def relatives(tokens: Sequence[Token], vocabulary: Vocabulary) -> Iterator[Mark]:
    """The words that stand for the patient as a relative of who asks.

    None if the patient is of another gender, if the record tells of the patient's own family, or
    if several relatives are named: then somebody else may be meant.
    """
    by_words = _relatives_by_words()
    longest = max(map(len, by_words))
    named: list[tuple[Mark, str]] = []
    start = 0
    while start < len(tokens):
        relative = None
        words: tuple[str, ...] = ()
        for length in range(longest, 0, -1):
            words = tuple(token.text for token in tokens[start : start + length])
            relative = by_words.get(words)
            if relative is not None:
                break
        if relative is None:
            start += 1
            continue
        end = start + len(words)
        place = start
        while place and tokens[place - 1].text in _ADJECTIVES:
            place -= 1
        before = tokens[place - 1].text if place else ""
        is_of_asker = before in _OF_THE_ASKER
        opening = place - 1 if is_of_asker else start
        if is_of_asker or (relative.stands_alone and before not in _OF_THE_PATIENT):
            mark = Mark("person_name", f"relative {words[0]}", opening, end)
            named.append((mark, relative.gender))
        start = end
    values = {mark.value for mark, _ in named}
    if len(values) != 1 or vocabulary.has_family_history:
        return
    for mark, gender in named:
        if gender in {"any", vocabulary.gender}:
            yield mark


def family_members(tokens: Sequence[Token], vocabulary: Vocabulary) -> Iterator[Mark]:
    """The relatives of the patient: "her mother", "any sisters", "a maternal aunt".

    "My mother" may be the patient, unless the patient is a man.
    """
    for place, token in enumerate(tokens):
        name = people.relative_called(token.text)
        if not name:
            continue
        start = place
        gender = people.gender_of(name)
        if place and tokens[place - 1].text in people.SIDES:
            start -= 1
            name = f"{tokens[start].text} {name}"
        before = tokens[start - 1].text if start else ""
        is_other = {gender, vocabulary.gender} == {"male", "female"}
        if before in _BEFORE_FAMILY_MEMBERS or is_other:
            yield Mark("relative", name, start, place + 1)


@cache
def _relatives_by_words() -> dict[tuple[str, ...], people.Relative]:
    """The relatives of the terminology; of two with the same words the one that stands alone."""
    by_words: dict[tuple[str, ...], people.Relative] = {}
    for relative in sorted(people.relatives(), key=lambda each: not each.stands_alone):
        by_words.setdefault(words_of(relative.form), relative)
    return by_words


_AT_END = "$"
_AT_START = "^"
_ENDINGS = frozenset(",;?.!")
_JOINTS = frozenset({"and", "or"})
_INNER_SIGNS = frozenset({"-", "/", "&"})


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
        signs = _INNER_SIGNS
        if number and len(phrase.words[number - 1]) == 1:
            signs = _INNER_SIGNS | {"."}
        while number and place < len(tokens) and tokens[place].text in signs:
            place += 1
        if place == len(tokens) or tokens[place].text != word:
            return None
        place += 1
    if (
        phrase.at_end
        and place < len(tokens)
        and tokens[place].text not in _ENDINGS | _JOINTS
    ):
        return None
    return place


@cache
def all_phrases() -> tuple[Phrase, ...]:
    """The phrases of `phrases.tsv`; of equal ones the first counts."""
    phrases: dict[tuple[tuple[str, ...], bool, bool], Phrase] = {}
    for kind, value, cell in read_rows("query/questions/everyday/data/phrases.tsv", 3):
        for pattern in cell.split("|"):
            at_end, at_start = pattern.endswith(_AT_END), pattern.endswith(_AT_START)
            for words in phrases_of(pattern.rstrip(_AT_END + _AT_START)):
                phrase = Phrase(words, kind, value, at_end, at_start)
                if words:
                    phrases.setdefault((words, at_end, at_start), phrase)
    return tuple(phrases.values())


@cache
def _phrases_by_first_word() -> dict[str, tuple[Phrase, ...]]:
    by_first_word: dict[str, list[Phrase]] = defaultdict(list)
    for phrase in all_phrases():
        by_first_word[phrase.words[0]].append(phrase)
    return {word: tuple(phrases) for word, phrases in by_first_word.items()}


_TITLES = word_list("title")
_KINDS_BY_RANK = (
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

_RANKS = {kind: rank for rank, kind in enumerate(_KINDS_BY_RANK)}


def mark(question: str, vocabulary: Vocabulary, today: date | None = None) -> Clause:
    """Every token of a question under exactly one mark, in its order."""
    text = plain(question)
    tokens = tokenize(text)
    candidates = [*_by_characters(text, tokens, today), *find_phrases(tokens)]
    candidates += _patient_names(tokens, vocabulary)
    if not any(
        each.kind == "row" and each.value == "family_history" for each in candidates
    ):
        candidates += relatives(tokens, vocabulary)
    candidates += family_members(tokens, vocabulary)
    candidates += known_names([token.text for token in tokens])
    marks = _without_overlap(candidates)
    marked = {place for each in marks for place in range(each.start, each.end)}
    for place, token in enumerate(tokens):
        if place not in marked:
            kind = "sign" if token.text in SEPARATORS else "unknown"
            marks.append(Mark(kind, token.text, place, place + 1))
    marks.sort(key=lambda each: each.start)
    named = []
    for each in name_marks(tokens, marks, vocabulary):
        texts = [token.text for token in tokens[each.start : each.end]]
        named.append(each._replace(text=" ".join(texts)))
    return Clause(tokens, tuple(named))


def _by_characters(
    text: str, tokens: Sequence[Token], today: date | None
) -> Iterator[Mark]:
    """Spans, comparisons and concepts."""
    lower = text.lower()
    for span in find_spans(lower, today):
        if place := _tokens_within(tokens, span.start, span.end):
            yield Mark("span", "", *place, spans=span.spans)
    for comparison, pattern in _TESTS:
        for match in pattern.finditer(lower):
            if place := _tokens_within(tokens, *match.span()):
                test = ValueTest(comparison=comparison, number=float(match["number"]))
                yield Mark(
                    "test", "", *place, test=test, unit="%" if match["percent"] else ""
                )
    concepts: dict[tuple[int, int], list[Concept]] = defaultdict(list)
    for concept_match in find_concepts(text):
        if place := _tokens_within(tokens, concept_match.start, concept_match.end):
            concepts[place].append(concept_match.concept)
    for place, at_place in concepts.items():
        yield Mark("concept", "", *place, concepts=tuple(at_place))


def _tokens_within(
    tokens: Sequence[Token], start: int, end: int
) -> tuple[int, int] | None:
    """The first token of a stretch of characters and the one after its last."""
    inside = [
        place
        for place, token in enumerate(tokens)
        if token.start < end and token.end > start
    ]
    return (inside[0], inside[-1] + 1) if inside else None


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


def _without_overlap(candidates: Iterable[Mark]) -> list[Mark]:
    """The longest marks first, then by kind, then the first."""
    marked: set[int] = set()
    marks = []
    in_order = sorted(
        candidates,
        key=lambda each: (
            each.start - each.end,
            _RANKS.get(each.kind, len(_RANKS)),
            each.start,
        ),
    )
    for each in in_order:
        places = range(each.start, each.end)
        if marked.isdisjoint(places):
            marked.update(places)
            marks.append(each)
    return marks
