"""Marks: what a stretch of a question means, and the account of which marks a reading has used."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from archqa.query.model import ValueTest
from archqa.query.questions.everyday.vocabulary import Name, Vocabulary
from archqa.query.questions.lexer import Token
from archqa.query.scope import Span
from archqa.terminology.concept import Concept
from archqa.terminology.cues import names_by_code


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


SILENT_KINDS = frozenset({"filler", "sign", "person_name", "request"})
"""Kinds of marks that need no use: they carry nothing, or only say that something is asked."""


_TENSES = names_by_code("tense")
AUXILIARIES = frozenset(_TENSES)


_OPEN_WORDS = (
    *("wh", "field", "request", "summary", "extreme", "position", "per"),
    *("trend", "newest"),
)
"""Kinds of marks of a question that expects more than yes or no."""


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
    def is_yes_no(self) -> bool:
        """Whether it expects yes or no."""
        if self.has("form", "yes_no") or self._asks_without_verb:
            return True
        for mark in self.marks:
            if mark.kind in {"sign", "person_name"} or mark.value == "polite":
                continue
            return mark.kind == "exists" or self.tokens[mark.start].text in AUXILIARIES
        return False

    @property
    def _asks_without_verb(self) -> bool:
        """Whether it is short for a yes/no question: "still on insulin?", "potassium ever > 6?"."""
        if self.has_any(*_OPEN_WORDS):
            return False
        first = next((mark for mark in self.marks if mark.kind != "filler"), None)
        opens_with_on = bool(self.marks) and self.marks[0].text == "on"
        if opens_with_on and first is not None:
            return first.kind in {"concept", "name"}
        return self.has("still") or (self.has("ever") and self.has("test"))

    @property
    def tense(self) -> str:
        """The tense of its first auxiliary: `present`, `past`, `perfect`; empty without one.

        "On warfarin?" is short for "Is she on warfarin?".
        """
        for mark in self.marks:
            if mark.value in {"polite", "yes_no"}:
                continue
            for token in self.tokens[mark.start : mark.end]:
                if token.text in _TENSES:
                    return _TENSES[token.text]
        is_present = self._asks_without_verb and not self.has("ever")
        return "present" if is_present else ""

    @property
    def words(self) -> frozenset[str]:
        """The words of the marks."""
        text = " ".join(mark.text for mark in self.marks)
        return frozenset(text.split())

    def words_of(self, kind: str, *values: str) -> frozenset[str]:
        """The words of the marks of a kind, with one of the values if there are any."""
        text = " ".join(mark.text for mark in self.of(kind, *values))
        return frozenset(text.split())

    def has_any(self, *kinds: str) -> bool:
        """Whether there is a mark of one of the kinds."""
        return any(mark.kind in kinds for mark in self.marks)

    @property
    def concepts(self) -> Iterator[Concept]:
        """All concepts that are named."""
        for mark in self.of("concept"):
            yield from mark.concepts


@dataclass
class ConsumedWords:
    """Which marks of a clause a reading has used: those it never asked for are not understood."""

    clause: Clause
    vocabulary: Vocabulary
    used: set[Mark] = field(default_factory=set)

    def use(self, kind: str, *values: str) -> tuple[Mark, ...]:
        """The marks of a kind, with one of the values if there are any; they are used now."""
        marks = self.clause.of(kind, *values)
        self.used.update(marks)
        return marks

    def unused(self, kind: str, *values: str) -> tuple[Mark, ...]:
        """The marks of a kind that nothing has used."""
        marks = self.clause.of(kind, *values)
        return tuple(mark for mark in marks if mark not in self.used)

    def use_spans(self) -> tuple[Span, ...]:
        """The spans of time that nothing has used, such as a stay; they are used now.

        All spans limit the rows at once. Two dates, as in 2019 and 2020, would leave nothing: then
        only the first is used.
        """
        marks = self.unused("span")
        if len(marks) > 1 and not all(_is_open(mark) for mark in marks):
            marks = marks[:1]
        self.used.update(marks)
        return tuple(span for mark in marks for span in mark.spans)


def _is_open(mark: Mark) -> bool:
    """Whether a mark only says since or until when."""
    return all(span.relation != "in" for span in mark.spans)
