"""Marks: what a stretch of a question means, and the account of which marks a reading has used."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from archqa.query.model import ValueTest
from archqa.query.questions.everyday.vocabulary import Name, Vocabulary
from archqa.query.questions.lexer import Token
from archqa.query.scope import Span
from archqa.terminology.concept import Concept


class Mark(NamedTuple):
    """A stretch of tokens and its meaning.

    kind and value are those of `data/phrases.tsv`; besides, `span` (of time), `test` (of a value),
    `concept`, `name` (of the record), `person_name`, `judgement`, `filler`, `sign` and `unknown`.
    """

    kind: str
    value: str
    start: int
    end: int
    text: str = ""
    spans: tuple[Span, ...] = ()
    test: ValueTest | None = None
    unit: str = ""
    concepts: tuple[Concept, ...] = ()
    names: tuple[Name, ...] = ()

    @property
    def length(self) -> int:
        """The number of its tokens."""
        return self.end - self.start


def words_of_marks(marks: Iterable[Mark]) -> frozenset[str]:
    """The words of some marks."""
    return frozenset(word for mark in marks for word in mark.text.split())


_SILENT = frozenset({"filler", "sign", "person_name", "request"})
"""Kinds of marks that need no use: they carry nothing, or only say that something is asked."""


_PRESENT = frozenset({"is", "are", "am", "do", "does"})
_PAST = frozenset({"was", "were", "did", "had"})
_PERFECT = frozenset({"has", "have"})
AUXILIARIES = _PRESENT | _PAST | _PERFECT


class QuestionForm(NamedTuple):
    """The form of a clause: whether it expects yes or no, and the tense of its first auxiliary."""

    is_yes_no: bool
    tense: str

    @property
    def is_present(self) -> bool:
        """Whether it asks of the state at the time of the question."""
        return self.tense == "present"

    @property
    def asks_now(self) -> bool:
        """Whether it asks, yes or no, of the state at the time of the question."""
        return self.is_yes_no and self.is_present


class Clause(NamedTuple):
    """The marks of a question, or of a part of it, in its order."""

    tokens: tuple[Token, ...]
    marks: tuple[Mark, ...]

    def of(self, kind: str, *values: str) -> tuple[Mark, ...]:
        """The marks of a kind, with one of the values if there are any."""
        return tuple(
            mark
            for mark in self.marks
            if mark.kind == kind and (not values or mark.value in values)
        )

    def has(self, kind: str, *values: str) -> bool:
        """Whether there is such a mark."""
        return bool(self.of(kind, *values))

    @property
    def form(self) -> QuestionForm:
        """The form of the question."""
        return QuestionForm(_is_yes_no(self), _tense(self))

    @property
    def words(self) -> frozenset[str]:
        """The words of the marks."""
        return words_of_marks(self.marks)

    def words_of(self, kind: str, *values: str) -> frozenset[str]:
        """The words of the marks of a kind, with one of the values if there are any."""
        return words_of_marks(self.of(kind, *values))

    def has_any(self, *kinds: str) -> bool:
        """Whether there is a mark of one of the kinds."""
        return any(mark.kind in kinds for mark in self.marks)

    @property
    def concepts(self) -> Iterator[Concept]:
        """All concepts that are named."""
        for mark in self.of("concept"):
            yield from mark.concepts


def _is_yes_no(clause: Clause) -> bool:
    if clause.has("form", "yes_no"):
        return True
    for mark in clause.marks:
        if mark.kind in {"sign", "person_name"} or mark.value == "polite":
            continue
        return mark.kind == "exists" or clause.tokens[mark.start].text in AUXILIARIES
    return False


def _tense(clause: Clause) -> str:
    polite = {
        place for mark in clause.marks if mark.value in {"polite", "yes_no"}
        for place in range(mark.start, mark.end)
    }  # fmt: skip
    if not clause.marks:
        return ""
    for place in range(clause.marks[0].start, clause.marks[-1].end):
        word = clause.tokens[place].text
        if place in polite:
            continue
        for tense, words in (("present", _PRESENT), ("past", _PAST), ("perfect", _PERFECT)):
            if word in words:
                return tense
    return ""


class ConsumedWords:
    """Which marks of a clause a reading has used: those it never asked for are not understood."""

    def __init__(self, clause: Clause, vocabulary: Vocabulary) -> None:
        self.clause = clause
        self.vocabulary = vocabulary
        self.form = clause.form
        self._used: set[Mark] = set()

    def of(self, kind: str, *values: str) -> tuple[Mark, ...]:
        """The marks of a kind, with one of the values if there are any."""
        return self.clause.of(kind, *values)

    def has(self, kind: str, *values: str) -> bool:
        """Whether there is such a mark."""
        return self.clause.has(kind, *values)

    def use(self, kind: str, *values: str) -> tuple[Mark, ...]:
        """The marks of a kind, with one of the values if there are any; they are used now."""
        marks = self.clause.of(kind, *values)
        self._used.update(marks)
        return marks

    def unused(self, kind: str, *values: str) -> tuple[Mark, ...]:
        """The marks of a kind that nothing has used."""
        marks = self.clause.of(kind, *values)
        return tuple(mark for mark in marks if mark not in self._used)

    def use_spans(self) -> tuple[Span, ...]:
        """The spans of time that nothing has used, such as a stay; they are used now.

        All spans limit the rows at once. Two dates, as in 2019 and 2020, would leave nothing: then
        only the first is used.
        """
        marks = self.unused("span")
        if len(marks) > 1 and not all(_is_open(mark) for mark in marks):
            marks = marks[:1]
        self._used.update(marks)
        return tuple(span for mark in marks for span in mark.spans)

    def use_marks(self, marks: Iterable[Mark]) -> None:
        """Note marks as used."""
        self._used.update(marks)

    @property
    def unconsumed(self) -> tuple[Mark, ...]:
        """The marks that carry something and were not used."""
        return tuple(
            mark
            for mark in self.clause.marks
            if mark.kind not in _SILENT and mark not in self._used
        )


def _is_open(mark: Mark) -> bool:
    """Whether a mark only says since or until when."""
    return all(span.relation != "in" for span in mark.spans)
