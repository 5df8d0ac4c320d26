"""Answers a person's question from one note in cited lines, or says why the note gives no answer."""

from typing import Literal, Self

from archqa.agents.agent import Agent, CaseTask, Rejected
from archqa.agents.grounding import line_problems, names_words_of
from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues, SentenceId
from archqa.notes.non_evidence import (
    headings_of_sentences,
    non_evidence_indices,
    non_evidence_reasons,
)
from archqa.notes.yes_no import YesNo

MAX_LISTED_IDS = 250
"""Ids that a schema lists. OpenAI's "Structured outputs" limits the length of longer lists."""

AnswerStatus = Literal["answered", "not_found", "not_understood", "declined"]


YesNoVerdict = Literal["yes", "no", "uncertain", "none"]
"""What answers a yes/no question; the note itself may leave it uncertain."""


class NoteText(FrozenModel):
    """A piece of the note as a model is shown it; a heading or separator has no id."""

    text: str
    id: str = ""


class NoteLine(FrozenModel):
    """One line of an answer and the ids of the sentences that state it."""

    text: str
    citations: tuple[SentenceId, ...]


class NoteAnswer(FrozenModel):
    """The answer; the reason comes first, so that it is thought of first."""

    rationale: str
    status: AnswerStatus
    lines: tuple[NoteLine, ...]
    missing: str
    """What the note does not state, or the judgement that is not made."""
    not_understood: tuple[str, ...]
    """Words of the question."""
    opening: YesNoVerdict = "none"
    nearest: tuple[NoteLine, ...] = ()
    """What the note states of something similar where it does not state what was asked."""

    @property
    def opened_lines(self) -> tuple[NoteLine, ...]:
        """The lines, the first one with its opening."""
        if not self.lines or self.opening == "none":
            return self.lines
        first, *others = self.lines
        words = YesNo(self.opening.capitalize()).opening
        if not first.text.lower().startswith(words.lower().rstrip(" .:")):
            first = first.model_copy(update={"text": f"{words}{first.text}"})
        return (first, *others)


class NoteAnswerTask(CaseTask):
    """A question and its note. After a failed check, `former` lines and what was found on them."""

    question: str
    note: tuple[NoteText, ...]
    former: tuple[NoteLine, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def from_case(cls, case: Case) -> Self:
        """Return the task of a case; instructions to models and misfiled text are left out."""
        hidden = non_evidence_reasons(case)
        uncitable = non_evidence_indices(case)
        note = []
        for index, sentence in enumerate(case.sentences):
            if index not in hidden:
                sentence_id = "" if index in uncitable else sentence.id
                note.append(NoteText(text=sentence.text, id=sentence_id))
        return cls(case=case, question=case.clinician_question, note=tuple(note))

    @property
    def citable_ids(self) -> tuple[str, ...]:
        """The ids of the sentences that may be evidence, in note order."""
        return tuple(piece.id for piece in self.note if piece.id)


class NoteAnswerAgent(Agent[NoteAnswerTask, NoteAnswer]):
    """Answers from the fewest sentences that state what was asked, or not at all."""

    name = "note_answer"
    prompt = "note_answer/v2"
    task_type = NoteAnswerTask
    output_type = NoteAnswer

    def choices(self, task: NoteAnswerTask) -> AllowedValues:
        """The sentences that may be evidence, unless they are too many to list."""
        ids = task.citable_ids
        return {"sentence": ids} if len(ids) <= MAX_LISTED_IDS else {}

    def check(self, task: NoteAnswerTask, output: NoteAnswer) -> None:
        """An answer has cited lines with the numbers and drugs of what they cite, else a reason."""
        if output.status == "answered":
            if not output.lines:
                raise Rejected(
                    '"answered" needs lines. Without any, the status is another one.'
                )
        elif output.lines:
            raise Rejected(f'With the status "{output.status}" leave "lines" empty.')
        elif output.status == "not_understood":
            if not names_words_of(task.question, output.not_understood):
                raise Rejected(
                    'Copy into "not_understood" the words of the question that you mean.'
                )
        elif not output.missing.strip():
            raise Rejected(
                'Name in "missing" what the note does not state, or is not judged.'
            )
        headings = headings_of_sentences(task.case)
        citable = set(task.citable_ids)
        texts = {}
        for index, sentence in enumerate(task.case.sentences):
            if sentence.id in citable:
                texts[sentence.id] = f"{headings.get(index, '')}\n{sentence.text}"
        nearest = output.nearest if output.status == "not_found" else ()
        problems = []
        for number, line in enumerate((*output.lines, *nearest), start=1):
            problems += line_problems(
                line.text, number, line.citations, texts, noun="sentence"
            )
        if problems:
            raise Rejected(" ".join(problems))

    def call_label(self, task: NoteAnswerTask) -> str:
        """Whether the call repairs an earlier answer."""
        return "repair" if task.problems else ""
