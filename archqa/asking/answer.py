"""The answer to a person's question: a status, cited lines and the evidence they rest on."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import Field

from archqa.core import html
from archqa.core.usage import Usage
from archqa.core.value import FrozenModel
from archqa.errors import CallerError

if TYPE_CHECKING:
    from archqa.core.case import Case, Sentence


class Status(StrEnum):
    """How a question ended. None of these is an error."""

    ANSWERED = "answered"
    """Every line is supported by what it cites."""
    NOT_FOUND = "not_found"
    """Understood and searched: the note or record holds nothing on it."""
    NOT_UNDERSTOOD = "not_understood"
    """Words of the question that decide could not be taken into account."""
    DECLINED = "declined"
    """The question asks for a judgement or a prediction, which is not made."""


class AnswerSpan(NamedTuple):
    """Characters of a line's text; `end` is exclusive."""

    start: int
    end: int


class Opening(NamedTuple):
    """The words at the beginning of a line that answer yes or no ("No, not currently: ").

    `says` is "yes", "no", "uncertain" or "not stated".
    """

    words: str
    says: str


class CitedLine(FrozenModel):
    """One line and the ids of its evidence."""

    text: str
    citations: tuple[str, ...]


class AnswerLine(CitedLine):
    """One line of an answer and the ids of its evidence.

    `answering` is the part of a long line that answers, to be marked where it is shown.
    """

    answering: AnswerSpan | None = None
    opening: Opening | None = Field(default=None, exclude=True)

    @property
    def fact(self) -> str:
        """The text without its opening."""
        return self.text.removeprefix(self.opening.words) if self.opening else self.text


class Evidence(FrozenModel):
    """A sentence of a note or a resource of the record that a line cites.

    `probability` that it belongs to the answer, None if none was stated. `source` names the
    document, `date` is the document's or the resource's as in the record, `start_char_index`
    counts characters from the beginning of the note. `heading` is the one the sentence stands under.
    """

    id: str
    kind: str
    text: str
    source: str = ""
    date: str = ""
    start_char_index: int | None = None
    probability: float | None = None
    heading: str = ""

    @classmethod
    def of_sentence(cls, sentence: "Sentence", heading: str, **fields: Any) -> Self:
        """Return a sentence of a note as evidence."""
        return cls(
            id=sentence.id,
            kind="sentence",
            text=sentence.text,
            start_char_index=sentence.start_char_index,
            heading=heading,
            **fields,
        )

    @classmethod
    def of_resource(cls, reference: str, text: str, date: str) -> Self:
        """Return a resource of the record (`Type/id`) as evidence."""
        source = reference.partition("/")[0]
        return cls(id=reference, kind="resource", text=text, source=source, date=date)


class AnsweredBy(FrozenModel):
    """Who read the question: the grammar of queries, the embedded engine, or a model.

    `model` names the model and its server, `confirmed_by` the model that confirmed the grammar's
    reading. `engine` is the digest of the network that searched notes, None if none was searched.
    """

    reader: Literal["grammar", "engine", "model"] = "grammar"
    model: str | None = None
    confirmed_by: str | None = None
    engine: str | None = None

    def __str__(self) -> str:
        if self.reader == "model":
            return self.model or "a model"
        names = ["a query of the record"] if self.reader == "grammar" else []
        if self.confirmed_by is not None:
            names = [f"a query read by the grammar, confirmed by {self.confirmed_by}"]
        if self.engine is not None:
            names.append(f"the embedded engine ({self.engine})")
        return " and ".join(names) or "the embedded engine"


NEAREST_PASSAGES = "Nearest passages:"


def evidence_html(evidence: Sequence[Evidence], title: str = "Evidence") -> str:
    """Return the evidence as a table below a line that opens it; empty for none."""
    if not evidence:
        return ""
    rows = []
    for piece in evidence:
        where = ", ".join(filter(None, (piece.source, piece.heading, piece.date)))
        rows.append(
            (html.citations((piece.id,)), html.text(piece.text), html.text(where))
        )
    return html.folded(
        f"{title} ({len(evidence)})", html.table(("id", "text", "from"), rows)
    )


def lines_html(lines: Iterable[CitedLine]) -> str:
    """Return lines with their citations as a list; empty for none."""
    items = []
    for line in lines:
        items.append(f"{html.text(line.text)} {html.citations(line.citations)}")
    return html.ordered_list(items) if items else ""


def citation_ranges(
    citations: Iterable[str], evidence: Sequence[Evidence]
) -> list[tuple[int, int]]:
    """Return the numbers of cited evidence, from 1: the first and last of each unbroken run."""
    ids = [piece.id for piece in evidence]
    ranges: list[tuple[int, int]] = []
    for number in sorted({ids.index(citation) + 1 for citation in citations}):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def citation_numbers(citations: Iterable[str], evidence: Sequence[Evidence]) -> str:
    """Return the numbers of cited evidence as people read them: `1, 4-9`."""
    numbers = []
    for first, last in citation_ranges(citations, evidence):
        numbers.append(str(first) if first == last else f"{first}-{last}")
    return ", ".join(numbers)


def cited_evidence(
    lines: Iterable[AnswerLine], evidence: Iterable[Evidence]
) -> tuple[Evidence, ...]:
    """Return the evidence that lines cite, in its order."""
    cited = set(chain.from_iterable(line.citations for line in lines))
    return tuple(piece for piece in evidence if piece.id in cited)


class Answer(FrozenModel):
    """What `archqa.ask` returns; `archqa ask --json` prints `as_json`.

    `ground` says why a question was declined: for a judgement, because only notes may say it, or
    because no query expresses it; or that the check of a model's answer did not confirm it.
    `message` is the answer in words where there are no lines: of what there is no record, and what
    was searched; `reason` is that of a declined question, without the lead to the lines.
    `query` is the query of a record in words. `is_partial` says that the lines leave a
    part of the question open, which a remark names. `related` are the nearest passages where nothing
    answers. `understood` is the question that was answered, where a thread of questions made another
    one of what was typed.
    """

    question: str
    status: Status
    ground: Literal["judgement", "notes", "language", "unconfirmed"] | None = None
    lines: tuple[AnswerLine, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    message: str = ""
    reason: str = ""
    query: str | None = None
    not_understood: tuple[str, ...] = ()
    patient: dict[str, str] | None = None
    remarks: tuple[str, ...] = ()
    is_partial: bool = False
    related: tuple[Evidence, ...] = ()
    answered_by: AnsweredBy = AnsweredBy()
    usage: Usage = Usage()
    understood: str | None = None

    @property
    def text(self) -> str:
        """The message, then the lines, each on its own line, without citations."""
        lines = [line.text for line in self.lines]
        return "\n".join([self.message, *lines] if self.message else lines)

    def _repr_html_(self) -> str:
        models = self.answered_by.model, self.answered_by.confirmed_by
        parts = [
            html.heading(f"{self.question} ({self.status.value.replace('_', ' ')})")
        ]
        if self.message:
            parts.append(f"<p>{html.text(self.message)}</p>")
        parts += [
            lines_html(self.lines),
            html.paragraph("Not understood", ", ".join(self.not_understood)),
            html.paragraph("Asked of the record", self.query or ""),
            html.paragraph("Answered by", str(self.answered_by) if any(models) else ""),
            evidence_html(self.evidence),
            evidence_html(self.related, NEAREST_PASSAGES),
            html.paragraph("Remarks", " ".join(self.remarks)),
        ]
        return "".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `archqa ask --json` prints."""
        internal = {"ground", "message", "reason", "is_partial", "usage", "understood"}
        return {
            "question": self.question,
            "status": self.status.value,
            "answer": self.text,
            **self.model_dump(mode="json", exclude=internal),
            "calls": self.usage.calls,
            "cached_calls": self.usage.cached_calls,
            "cost_usd": self.usage.cost_usd,
            "understood": self.understood,
        }


NOT_SUPPORTED = "What it cites does not state it."
MISSES_QUESTION = "It does not answer the question as it was asked."


def unconfirmed_answer(
    question: str, lines: Iterable[str], cited: Iterable[Evidence], *, misses: bool
) -> Answer:
    """Return that a check did not confirm the lines of an answer, which are shown all the same.

    They are true but miss the question, or what they cite does not state them.
    """
    text = " ".join(" ".join(lines).split())
    return Answer(
        question=question,
        status=Status.NOT_FOUND,
        ground="unconfirmed",
        message=f"An answer was found but not confirmed: {text}",
        related=tuple(cited),
        remarks=(MISSES_QUESTION if misses else NOT_SUPPORTED,),
    )


class AnsweredQuestion(NamedTuple):
    """An answer, and the case that a note was split into; None unless a note alone was asked."""

    answer: Answer
    case: "Case | None" = None


def within_words(answer: Answer, max_words: int) -> Answer:
    """Return the answer with as many of its lines, from the first, as have at most `max_words`.

    The first line always stays, since half of it could mean something else. A remark says what was
    left out. Raises `CallerError` for a limit below 1.
    """
    if max_words < 1:
        raise CallerError(
            "An answer has at least one word.\nName a larger number of words."
        )
    lines = list(answer.lines)
    while len(lines) > 1 and _word_count(lines) > max_words:
        lines.pop()
    remarks = [*answer.remarks]
    left_out = answer.lines[len(lines) :]
    if left_out:
        what = "1 line" if len(left_out) == 1 else f"{len(left_out)} lines"
        words = f"{what} with {_word_count(left_out)} words"
        remarks.append(f"Left out to stay within {max_words} words: {words}.")
    count = _word_count(lines)
    if count > max_words:
        remarks.append(f"The first line has {count} words; it is not cut.")
    changes = {
        "lines": tuple(lines),
        "evidence": cited_evidence(lines, answer.evidence),
        "remarks": tuple(remarks),
    }
    return answer.model_copy(update=changes)


def _word_count(lines: Sequence[AnswerLine]) -> int:
    return sum(len(line.text.split()) for line in lines)


_NOT_CONFIRMED = "Found but not confirmed"
_JUDGEMENT = "Declined: a judgement or a prediction is not made"
_SHOWN_STATUS = {
    "answered": ("✓", "Answered", "Answered"),
    "partly_answered": ("≈", "Partly answered", "Partly answered"),
    "not_found": (
        "○",
        "No answer found in this note",
        "No answer found in this record",
    ),
    "not_understood": ("?", "Not understood", "Not understood"),
    "declined": ("✕", _JUDGEMENT, _JUDGEMENT),
}
"""The sign of each status, and its words about a note and about a record."""


class ShownStatus(NamedTuple):
    """`kind` is the status, or `partly_answered`; `sign` is one character that repeats it."""

    kind: str
    sign: str
    words: str


def shown_status(answer: Answer) -> ShownStatus:
    """Return how the status of an answer about a note or a patient is said."""
    kind = answer.status.value
    if answer.status is Status.ANSWERED and (
        answer.is_partial or answer.not_understood
    ):
        kind = "partly_answered"
    sign, of_note, of_record = _SHOWN_STATUS[kind]
    if answer.ground == "unconfirmed":
        of_note = of_record = _NOT_CONFIRMED
    return ShownStatus(kind, sign, of_record if answer.patient else of_note)
