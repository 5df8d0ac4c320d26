"""Answers a person's question from one note in cited lines, or says why the note gives no answer."""

from typing import Literal, Self

from archqa.agents.agent import Agent, CaseTask, Rejected, join_ids
from archqa.agents.grounding import ungrounded_drugs, ungrounded_numbers
from archqa.core.case import Case
from archqa.core.id_lists import list_ids
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues, SentenceId
from archqa.notes.non_evidence import (
    headings_of_sentences,
    non_evidence_indices,
    non_evidence_reasons,
)

MAX_LISTED_IDS = 250
"""Ids that a schema lists. OpenAI's "Structured outputs" limits the length of longer lists."""

NoteStatus = Literal["answered", "not_found", "not_understood", "declined"]


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
    status: NoteStatus
    lines: tuple[NoteLine, ...]
    missing: str
    """What the note does not state, or the judgement that is not made."""
    not_understood: tuple[str, ...]
    """Words of the question."""


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
    prompt = "note_answer/v1"
    task_type = NoteAnswerTask
    output_type = NoteAnswer

    def choices(self, task: NoteAnswerTask) -> AllowedValues:
        """The sentences that may be evidence, unless they are too many to list."""
        ids = task.citable_ids
        return {"sentence": ids} if len(ids) <= MAX_LISTED_IDS else {}

    def check(self, task: NoteAnswerTask, output: NoteAnswer) -> None:
        """An answer has cited lines with the numbers and drugs of what they cite, else a reason."""
        if output.status != "answered":
            _check_reason(task, output)
            return
        if not output.lines:
            raise Rejected('"answered" needs lines. Without any, the status is another one.')
        headings = _headings(task.case)
        for number, line in enumerate(output.lines, start=1):
            _check_citations(task, line, number)
            _check_grounding(line, number, _sources(task.case, headings, line))

    def call_label(self, task: NoteAnswerTask) -> str:
        """Whether the call repairs an earlier answer."""
        return "repair" if task.problems else ""


def _check_reason(task: NoteAnswerTask, output: NoteAnswer) -> None:
    if output.lines:
        raise Rejected(f'With the status "{output.status}" leave "lines" empty.')
    if output.status != "not_understood":
        if not output.missing.strip():
            raise Rejected('Name in "missing" what the note does not state, or is not judged.')
        return
    question = _plain(task.question)
    words = [word for word in output.not_understood if _plain(word)]
    if not words or any(_plain(word) not in question for word in words):
        raise Rejected('Copy into "not_understood" the words of the question that you mean.')


def _check_citations(task: NoteAnswerTask, line: NoteLine, number: int) -> None:
    if not line.text.strip():
        raise Rejected(f"Line {number} is empty.")
    if "|" in line.text:
        raise Rejected(f'Line {number}: leave pipes out of the text; ids go into "citations".')
    if not line.citations:
        raise Rejected(f"Line {number} cites nothing. Name the sentence that states it.")
    unknown = sorted(set(line.citations) - set(task.citable_ids))
    if unknown:
        raise Rejected(
            f"Line {number} cites {list_ids(unknown)}, which is no numbered sentence of the note."
        )


def _check_grounding(line: NoteLine, number: int, sources: str) -> None:
    cited = join_ids(line.citations)
    numbers = ungrounded_numbers(line.text, sources)
    if numbers:
        raise Rejected(
            f"Line {number}: {join_ids(numbers)} does not stand in {cited}. Write numbers as the "
            "cited sentences do, or cite the sentence that has them."
        )
    drugs = ungrounded_drugs(line.text, sources)
    if drugs:
        raise Rejected(
            f"Line {number}: {join_ids(drugs)} does not stand in {cited}. Call a drug as the cited "
            "sentences do, or cite the sentence that names it."
        )


def _headings(case: Case) -> dict[str, str]:
    """Return the heading of each sentence that has one, by sentence id."""
    headings = headings_of_sentences(case)
    return {case.sentences[index].id: heading for index, heading in headings.items()}


def _sources(case: Case, headings: dict[str, str], line: NoteLine) -> str:
    """Return the cited sentences with their headings."""
    texts = []
    for sentence_id in line.citations:
        texts += [headings.get(sentence_id, ""), case.text_of[sentence_id]]
    return "\n".join(texts)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
