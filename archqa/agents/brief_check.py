"""Checks the lines of a patient's summary against nothing but what they cite."""

from archqa.agents.agent import Agent, Rejected, join_ids
from archqa.agents.brief_writing import BriefSource, BriefWritingTask, WrittenLine
from archqa.agents.note_answer_check import LineVerdict
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues


class CheckedLine(FrozenModel):
    """A line with what it cites; numbered from 1."""

    number: str
    section: str
    text: str
    sources: tuple[BriefSource, ...]


class BriefCheckTask(FrozenModel):
    """The lines of a summary, each with what it cites."""

    lines: tuple[CheckedLine, ...]

    @classmethod
    def from_lines(cls, task: BriefWritingTask, lines: tuple[WrittenLine, ...]) -> "BriefCheckTask":
        """Return the task of checking lines that were written from a task's sources."""
        titles = {section.name: section.title for section in task.sections}
        checked = []
        for number, line in enumerate(lines, start=1):
            sources = [BriefSource(id=name, text=task.sources[name]) for name in line.citations]
            checked.append(
                CheckedLine(
                    number=str(number),
                    section=titles[line.section],
                    text=line.text,
                    sources=tuple(sources),
                )
            )
        return cls(lines=tuple(checked))


class BriefVerdict(FrozenModel):
    """A verdict on each line."""

    lines: tuple[LineVerdict, ...]

    @property
    def supported(self) -> frozenset[str]:
        """The numbers of the supported lines."""
        return frozenset(line.line for line in self.lines if line.verdict == "supported")

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the lines, for whoever repairs them."""
        wrong = [line for line in self.lines if line.verdict != "supported"]
        return tuple(f"Line {line.line} is not supported: {line.rationale}" for line in wrong)


class BriefCheckAgent(Agent[BriefCheckTask, BriefVerdict]):
    """Judges each line by what it cites."""

    name = "brief_check"
    prompt = "brief_check/v1"
    task_type = BriefCheckTask
    output_type = BriefVerdict

    def choices(self, task: BriefCheckTask) -> AllowedValues:
        """The numbers of the lines."""
        return {"line": [line.number for line in task.lines]}

    def check(self, task: BriefCheckTask, output: BriefVerdict) -> None:
        """Each line is judged once, and no other."""
        numbers = [line.number for line in task.lines]
        if sorted(line.line for line in output.lines) != sorted(numbers):
            raise Rejected(f"Judge each of the lines {join_ids(numbers)} exactly once.")
