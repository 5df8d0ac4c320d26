"""Judges whether the sentences that a line cites carry the line: `line_support` by a model.

It knows neither the question nor the rest of the note. All lines of an answer are judged in one
call. Like the judge of FHIR-AgentBench it serves scoring alone, so that no pipeline has it.
"""

from typing import Annotated, Literal

from pydantic import Field

from archqa.agents.agent import Agent, Rejected, join_ids
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues

Verdict = Literal["supported", "partly", "not"]


class CitedText(FrozenModel):
    """A sentence that a line cites."""

    id: str
    text: str


class LineToJudge(FrozenModel):
    """A line of an answer with what it cites; numbered from 1."""

    number: str
    text: str
    sources: tuple[CitedText, ...]


class LineSupportTask(FrozenModel):
    """The lines of one answer, each with what it cites."""

    lines: tuple[LineToJudge, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of the lines, in order."""
        return tuple(line.number for line in self.lines)


class LineVerdict(FrozenModel):
    """Whether what a line cites carries it, and in few words why not."""

    line: Annotated[str, Field(json_schema_extra={"choices": "line"})]
    verdict: Verdict
    reason: str


class LineSupportVerdicts(FrozenModel):
    """A verdict on each line."""

    lines: tuple[LineVerdict, ...]

    @property
    def by_number(self) -> dict[str, LineVerdict]:
        """The number of each judged line, and its verdict."""
        return {line.line: line for line in self.lines}


class LineSupportAgent(Agent[LineSupportTask, LineSupportVerdicts]):
    """Judges each line by what it cites."""

    name = "line_support"
    prompt = "line_support/v1"
    task_type = LineSupportTask
    output_type = LineSupportVerdicts

    def choices(self, task: LineSupportTask) -> AllowedValues:
        """The numbers of the lines."""
        return {"line": task.numbers}

    def check(self, task: LineSupportTask, output: LineSupportVerdicts) -> None:
        """Each line is judged once, and no other."""
        judged = sorted(line.line for line in output.lines)
        if judged != sorted(task.numbers):
            raise Rejected(f"Judge each of the lines {join_ids(task.numbers)} exactly once.")

    def salvage(
        self, task: LineSupportTask, output: LineSupportVerdicts
    ) -> LineSupportVerdicts | None:
        """The verdicts on lines of the task that were judged once."""
        judged = [line.line for line in output.lines]
        usable = [
            line
            for line in output.lines
            if line.line in task.numbers and judged.count(line.line) == 1
        ]
        if not usable:
            return None
        return LineSupportVerdicts(lines=tuple(usable))
