"""One agent that checks lines against nothing but what they cite.

Answers from a note or a chart and summaries of a record are checked so before they are shown, and
lines of a submission when a judge scores them. Each of the four uses has its own prompt, with its
own name in the settings, since what may stand around a cited text differs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field

from archqa.agents.agent import Agent, Rejected, RunContext, join_ids
from archqa.agents.brief_writing import BriefWritingTask, WrittenLine
from archqa.agents.chart_answer import ChartLine, CitedText, ShownSource
from archqa.agents.grounding import find_conflict
from archqa.agents.note_answer import NoteLine
from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues
from archqa.notes.assertion import Passage
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices

LineNumber = Annotated[str, Field(json_schema_extra={"choices": "line"})]
Support = Literal["supported", "partly", "not"]


class LineToCheck(FrozenModel):
    """A line with what it cites; numbered from 1. `section` is the heading it stands under.

    `doubt` is why a former check rejected it, if its writer gives it again all the same.
    """

    number: str
    text: str
    sources: tuple[CitedText, ...]
    section: str = ""
    doubt: str = ""


class LineCheckTask(FrozenModel):
    """The lines, each with what it cites, and the question if they answer one.

    Unless `status` is "answered", the lines are facts next to an answer that the chart does not
    give; `missing` is what the answer says is not stated or not judged. `doubt` is why a former
    check found that the same lines miss the question.
    """

    lines: tuple[LineToCheck, ...]
    question: str = ""
    now: str = ""
    status: str = "answered"
    missing: str = ""
    doubt: str = ""

    @classmethod
    def of_note(cls, case: Case, lines: Iterable[NoteLine]) -> Self:
        """Return the task of checking lines that cite sentences of a note; the rest is not shown."""
        headings = headings_of_sentences(case)
        uncitable = non_evidence_indices(case)
        cited_texts = {}
        previous = None
        for index, sentence in enumerate(case.sentences):
            before = ""
            if previous is not None and previous.paragraph_id == sentence.paragraph_id:
                before = previous.text
            heading = headings.get(index, "")
            cited_texts[sentence.id] = CitedText(
                id=sentence.id, text=sentence.text, heading=heading, before=before
            )
            previous = None if index in uncitable else sentence
        return cls(
            lines=_numbered(lines, cited_texts), question=case.clinician_question
        )

    @classmethod
    def of_chart(
        cls,
        question: str,
        now: str,
        lines: Iterable[ChartLine],
        source_of_mark: Mapping[str, ShownSource],
        *,
        status: str = "answered",
        missing: str = "",
    ) -> Self:
        """Return the task of checking lines whose citations were all shown."""
        return cls(
            lines=_numbered(lines, source_of_mark),
            question=question,
            now=now,
            status=status,
            missing=missing,
        )

    @classmethod
    def of_brief(cls, task: BriefWritingTask, lines: Sequence[WrittenLine]) -> Self:
        """Return the task of checking lines that were written from a task's sources."""
        titles = {section.name: section.title for section in task.sections}
        cited_texts = {}
        for name, text in task.sources.items():
            cited_texts[name] = CitedText(id=name, text=text)
        to_check = []
        for checked, line in zip(_numbered(lines, cited_texts), lines, strict=True):
            section = titles[line.section]
            to_check.append(checked.model_copy(update={"section": section}))
        return cls(lines=tuple(to_check))

    def repeating(self, former: Self, verdict: "LineVerdicts") -> Self:
        """Return the task with what a former check found wrong with lines that are given again.

        Without it a repeated line would be the same request, and get the same verdict.
        """
        former_doubts = {}
        for line in former.lines:
            rejection = verdict.rejected.get(line.number)
            doubt = rejection.rationale if rejection else ""
            former_doubts[line.text, line.sources] = doubt
        lines = []
        are_repeated = True
        for line in self.lines:
            repeated = former_doubts.get((line.text, line.sources))
            are_repeated = are_repeated and repeated is not None
            lines.append(line.model_copy(update={"doubt": repeated or ""}))
        doubt = verdict.missed if are_repeated else ""
        return self.model_copy(update={"lines": tuple(lines), "doubt": doubt})

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of the lines, in order."""
        return tuple(line.number for line in self.lines)


def _numbered(
    lines: Iterable[NoteLine | ChartLine | WrittenLine],
    cited_texts: Mapping[str, CitedText],
) -> tuple[LineToCheck, ...]:
    """Return the lines with what they cite, each source once."""
    numbered = []
    for number, line in enumerate(lines, start=1):
        cited = dict.fromkeys(line.citations)
        sources = tuple(cited_texts[citation] for citation in cited)
        numbered.append(
            LineToCheck(number=str(number), text=line.text, sources=sources)
        )
    return tuple(numbered)


class LineVerdict(FrozenModel):
    """Whether what a line cites states it; the reason comes first, so that it is thought of first."""

    line: LineNumber
    rationale: str
    verdict: Support


_SHORTCOMINGS = {
    "partly": "supported only in part by what it cites",
    "not": "not supported by what it cites",
}

Line = TypeVar("Line")


class LineVerdicts(FrozenModel):
    """A verdict on each line."""

    lines: tuple[LineVerdict, ...]

    @property
    def rejected(self) -> dict[str, LineVerdict]:
        """The verdicts on the lines that are not supported, by number."""
        return {line.line: line for line in self.lines if line.verdict != "supported"}

    def supported(self, lines: Iterable[Line]) -> list[Line]:
        """Return the lines that were checked, in this order, without those that are rejected."""
        supported = []
        for number, line in enumerate(lines, start=1):
            if str(number) not in self.rejected:
                supported.append(line)
        return supported

    @property
    def missed(self) -> str:
        """Why the lines miss the question; empty if they answer it, or answer none."""
        return ""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, for the model that writes the lines again; empty if nothing is."""
        problems = []
        for line in self.rejected.values():
            shortcoming = _SHORTCOMINGS[line.verdict]
            problems.append(f"Line {line.line} is {shortcoming}: {line.rationale}")
        if self.missed:
            problems.append(
                f"The lines do not answer the question as asked: {self.missed}"
            )
        return tuple(problems)


class AnswerVerdict(LineVerdicts):
    """A verdict on each line, and whether they answer the question as it was asked."""

    rationale: str
    answers: Literal["yes", "partly", "no"]

    @property
    def missed(self) -> str:
        """Why the lines miss the question; empty if they answer it."""
        if self.answers != "no":
            return ""
        return self.rationale or "No reason is given."


class SupportVerdicts(FrozenModel):
    """A verdict on each line."""

    class LineVerdict(FrozenModel):
        """Whether what a line cites carries it, and in few words why not."""

        line: LineNumber
        verdict: Support
        reason: str

    lines: tuple[LineVerdict, ...]

    @property
    def by_number(self) -> dict[str, LineVerdict]:
        """The number of each judged line, and its verdict."""
        return {line.line: line for line in self.lines}


Verdicts = TypeVar("Verdicts", bound=LineVerdicts | SupportVerdicts)


class LineCheckAgent(Agent[LineCheckTask, Verdicts]):
    """Judges each line by what it cites."""

    task_type = LineCheckTask

    def choices(self, task: LineCheckTask) -> AllowedValues:
        """The numbers of the lines."""
        return {"line": task.numbers}

    def check(self, task: LineCheckTask, output: Verdicts) -> None:
        """Each line is judged once, and no other."""
        judged = sorted(line.line for line in output.lines)
        if judged != sorted(task.numbers):
            raise Rejected(
                f"Judge each of the lines {join_ids(task.numbers)} exactly once."
            )

    async def run(self, task: LineCheckTask, context: RunContext) -> Verdicts:
        """Run the check; lines in conflict with what they cite are rejected whatever the reply."""
        output = await super().run(task, context)
        if not isinstance(output, LineVerdicts):
            return output
        lines = {line.number: line for line in task.lines}
        verdicts = []
        for verdict in output.lines:
            line = lines[verdict.line]
            sources = [Passage(one.text, one.heading) for one in line.sources]
            if conflict := find_conflict(line.text, sources, task.question):
                changes = {"rationale": f"{conflict}.", "verdict": "not"}
                verdict = verdict.model_copy(update=changes)
            verdicts.append(verdict)
        return output.model_copy(update={"lines": tuple(verdicts)})


class NoteAnswerCheckAgent(LineCheckAgent[AnswerVerdict]):
    """Checks an answer from a note, also by the question."""

    name = "note_answer_check"
    prompt = "note_answer_check/v2"
    output_type = AnswerVerdict


class ChartAnswerCheckAgent(LineCheckAgent[AnswerVerdict]):
    """Checks an answer from a patient's chart, also by the question."""

    name = "chart_answer_check"
    prompt = "chart_answer_check/v2"
    output_type = AnswerVerdict


class BriefCheckAgent(LineCheckAgent[LineVerdicts]):
    """Checks a patient's summary; the heading of a line's section is a claim too."""

    name = "brief_check"
    prompt = "brief_check/v2"
    output_type = LineVerdicts


class LineSupportAgent(LineCheckAgent[SupportVerdicts]):
    """The judge of `line_support_judged`. It serves scoring alone, so that no pipeline has it."""

    name = "line_support"
    prompt = "line_support/v1"
    output_type = SupportVerdicts

    def salvage(
        self, task: LineCheckTask, output: SupportVerdicts
    ) -> SupportVerdicts | None:
        """The verdicts on lines of the task that were judged once."""
        judged = [line.line for line in output.lines]
        usable = []
        for line in output.lines:
            if line.line in task.numbers and judged.count(line.line) == 1:
                usable.append(line)
        return SupportVerdicts(lines=tuple(usable)) if usable else None
