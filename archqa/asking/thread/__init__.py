"""A thread of questions: follow-up questions are understood by what was asked and answered before.

thread = archqa.Thread()
archqa.ask("Is she on metformin?", patient="1b7c7", record="mimic.db", session=thread)
archqa.ask("What dose?", session=thread).understood  # "What is the dose of metformin?"
"""

from typing import Self

from archqa.asking.answer import Answer, AnswerLine, Evidence, Status, cited_evidence
from archqa.core.value import FrozenModel

MOST_TURNS = 20
"""The turns that a thread keeps; the oldest are dropped."""


class Turn(FrozenModel):
    """One question and its answer. `understood` is the question that stands by itself.

    `without_limit` is the same without the date that "before that?" has set, which is not meant of
    another subject.
    """

    question: str
    understood: str
    without_limit: str = ""
    status: Status
    lines: tuple[AnswerLine, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    message: str = ""

    @classmethod
    def of_answer(cls, answer: Answer, without_limit: str = "") -> Self:
        """Return the turn of an answer, with the evidence that its lines cite."""
        return cls(
            question=answer.question,
            understood=answer.understood or answer.question,
            without_limit=without_limit,
            status=answer.status,
            lines=answer.lines,
            evidence=cited_evidence(answer.lines, answer.evidence),
            message=answer.message,
        )


class Place(FrozenModel):
    """What a thread asks: a note, or a patient of a record, or both.

    `patient` is as it was named, `patient_id` as the record has it, once that is known. `now` is
    the time of the questions as it was given.
    """

    note: str | None = None
    patient: str | None = None
    patient_id: str = ""
    record: str | None = None
    now: str | None = None


class Thread:
    """The latest turns about one patient or one note, oldest first; `place` is set by the first."""

    def __init__(
        self, place: Place | None = None, turns: tuple[Turn, ...] = ()
    ) -> None:
        self.place = place
        self.turns = turns[-MOST_TURNS:]

    @property
    def last(self) -> Turn | None:
        """The latest turn; None before the first question."""
        return self.turns[-1] if self.turns else None

    def add(self, turn: Turn) -> None:
        """Add a turn; of more than twenty the oldest is dropped."""
        self.turns = (*self.turns, turn)[-MOST_TURNS:]

    def copy(self) -> "Thread":
        """Return a thread that goes on from here by itself."""
        return Thread(self.place, self.turns)
