"""Checks an answer from a note against nothing but the sentences that it cites."""

from typing import Annotated, Literal, Self

from pydantic import Field

from archqa.agents.agent import Agent, CaseTask, Rejected, join_ids
from archqa.agents.note_answer import NoteLine
from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices


class CitedSentence(FrozenModel):
    """A cited sentence, its heading, and the sentence before it, to which a pronoun may point."""

    id: str
    text: str
    heading: str = ""
    before: str = ""


class LineToCheck(FrozenModel):
    """A line of an answer with what it cites; numbered from 1."""

    number: str
    text: str
    sentences: tuple[CitedSentence, ...]


class NoteAnswerCheckTask(CaseTask):
    """A question, the lines that answer it, and what they cite; the rest of the note is not shown."""

    question: str
    lines: tuple[LineToCheck, ...]

    @classmethod
    def from_lines(cls, case: Case, lines: tuple[NoteLine, ...]) -> Self:
        """Return the task of checking these lines, which cite sentences of the note."""
        sentences = _sentences(case)
        to_check = []
        for number, line in enumerate(lines, start=1):
            cited = tuple(sentences[sentence_id] for sentence_id in line.citations)
            to_check.append(LineToCheck(number=str(number), text=line.text, sentences=cited))
        return cls(case=case, question=case.clinician_question, lines=tuple(to_check))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of the lines, in order."""
        return tuple(line.number for line in self.lines)


class LineVerdict(FrozenModel):
    """Whether what a line cites states it; the reason comes first, so that it is thought of first."""

    line: Annotated[str, Field(json_schema_extra={"choices": "line"})]
    rationale: str
    verdict: Literal["supported", "partly", "not"]


class NoteAnswerVerdict(FrozenModel):
    """A verdict on each line, and whether they answer the question as it was asked."""

    lines: tuple[LineVerdict, ...]
    rationale: str
    answers: Literal["yes", "partly", "no"]

    @property
    def supported(self) -> frozenset[str]:
        """The numbers of the supported lines."""
        return frozenset(line.line for line in self.lines if line.verdict == "supported")

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the answer, for whoever repairs it; empty if nothing is."""
        problems = []
        for line in self.lines:
            if line.verdict != "supported":
                problems.append(
                    f"Line {line.line} is {_SHORTCOMING[line.verdict]}: {line.rationale}"
                )
        if self.answers == "no":
            problems.append(f"The lines do not answer the question as asked: {self.rationale}")
        return tuple(problems)


_SHORTCOMING = {
    "partly": "supported only in part by what it cites",
    "not": "not supported by what it cites",
}


class NoteAnswerCheckAgent(Agent[NoteAnswerCheckTask, NoteAnswerVerdict]):
    """Judges each line by what it cites, and all lines by the question."""

    name = "note_answer_check"
    prompt = "note_answer_check/v1"
    task_type = NoteAnswerCheckTask
    output_type = NoteAnswerVerdict

    def choices(self, task: NoteAnswerCheckTask) -> AllowedValues:
        """The numbers of the lines."""
        return {"line": task.numbers}

    def check(self, task: NoteAnswerCheckTask, output: NoteAnswerVerdict) -> None:
        """Each line is judged once, and no other."""
        judged = sorted(line.line for line in output.lines)
        if judged != sorted(task.numbers):
            raise Rejected(f"Judge each of the lines {join_ids(task.numbers)} exactly once.")


def _sentences(case: Case) -> dict[str, CitedSentence]:
    """Return every sentence with its heading and its predecessor in the paragraph, by id."""
    headings = headings_of_sentences(case)
    uncitable = non_evidence_indices(case)
    sentences = {}
    for index, sentence in enumerate(case.sentences):
        previous = case.sentences[index - 1] if index > 0 and index - 1 not in uncitable else None
        follows = previous is not None and previous.paragraph_id == sentence.paragraph_id
        sentences[sentence.id] = CitedSentence(
            id=sentence.id,
            text=sentence.text,
            heading=headings.get(index, ""),
            before=previous.text if previous is not None and follows else "",
        )
    return sentences
