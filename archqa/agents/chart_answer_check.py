"""Checks an answer from a chart against nothing but the sentences and resources that it cites."""

from collections.abc import Iterable, Mapping
from typing import Self

from archqa.agents.agent import Agent, Rejected, join_ids
from archqa.agents.chart_answer import ChartLine, ChartStatus, ShownSource
from archqa.agents.note_answer_check import NoteAnswerVerdict
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues


class CitedSource(FrozenModel):
    """A cited sentence or resource.

    Its fields are those of `ShownSource`.
    """

    title: str
    text: str
    date: str = ""
    heading: str = ""
    before: str = ""
    first_date: str = ""
    label: str = ""
    opening: str = ""
    details: str = ""


class CitingLine(FrozenModel):
    """A line of an answer with what it cites; numbered from 1."""

    number: str
    text: str
    sources: tuple[CitedSource, ...]


class ChartAnswerCheckTask(FrozenModel):
    """A question, the lines that answer it, and what they cite.

    Unless `status` is "answered", the lines are facts beside an answer that the chart does not give;
    `missing` is what the answer says is not stated or not judged.
    """

    question: str
    now: str
    lines: tuple[CitingLine, ...]
    status: ChartStatus = "answered"
    missing: str = ""

    @classmethod
    def from_lines(
        cls,
        question: str,
        now: str,
        lines: Iterable[ChartLine],
        shown: Mapping[str, ShownSource],
        *,
        status: ChartStatus = "answered",
        missing: str = "",
    ) -> Self:
        """Return the task of checking lines whose citations were all shown."""
        to_check = []
        for number, line in enumerate(lines, start=1):
            cited = tuple(_cited(shown[mark]) for mark in dict.fromkeys(line.citations))
            to_check.append(CitingLine(number=str(number), text=line.text, sources=cited))
        return cls(
            question=question, now=now, lines=tuple(to_check), status=status, missing=missing
        )

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of the lines, in order."""
        return tuple(line.number for line in self.lines)


class ChartAnswerCheckAgent(Agent[ChartAnswerCheckTask, NoteAnswerVerdict]):
    """Judges each line by what it cites, and all lines by the question."""

    name = "chart_answer_check"
    prompt = "chart_answer_check/v1"
    task_type = ChartAnswerCheckTask
    output_type = NoteAnswerVerdict

    def choices(self, task: ChartAnswerCheckTask) -> AllowedValues:
        """The numbers of the lines."""
        return {"line": task.numbers}

    def check(self, task: ChartAnswerCheckTask, output: NoteAnswerVerdict) -> None:
        """Each line is judged once, and no other."""
        judged = sorted(line.line for line in output.lines)
        if judged != sorted(task.numbers):
            raise Rejected(f"Judge each of the lines {join_ids(task.numbers)} exactly once.")


def _cited(source: ShownSource) -> CitedSource:
    return CitedSource(
        title=source.title,
        text=source.text,
        date=source.date,
        heading=source.heading,
        before=source.before,
        first_date=source.first_date,
        label=source.label,
        opening=source.opening,
        details=source.details,
    )
