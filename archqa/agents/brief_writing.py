"""Writes a patient's summary shorter, from lines and sentences that each have an id, citing them."""

from typing import Annotated

from pydantic import Field

from archqa.agents.agent import Agent, Rejected
from archqa.agents.grounding import line_problems
from archqa.agents.note_answer import MAX_LISTED_IDS
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues

SectionName = Annotated[str, Field(json_schema_extra={"choices": "section"})]
SourceId = Annotated[str, Field(json_schema_extra={"choices": "source"})]


class BriefSource(FrozenModel):
    """A line of the summary as the record gives it (`L1`), or a sentence of a note (`S1`)."""

    id: str
    text: str


class SectionSources(FrozenModel):
    """The lines of one section; without any, only sentences of notes can fill it."""

    name: str
    title: str
    message: str = ""
    lines: tuple[BriefSource, ...] = ()


class WrittenLine(FrozenModel):
    """One line of the summary as a model writes it, and the ids of what it rests on."""

    section: SectionName
    text: str
    citations: tuple[SourceId, ...]


class WrittenBrief(FrozenModel):
    """The lines of the summary, in order."""

    lines: tuple[WrittenLine, ...]


class BriefWritingTask(FrozenModel):
    """What a summary is written from. After a failed check, `former` lines and what was found."""

    now: str
    sections: tuple[SectionSources, ...]
    sentences: tuple[BriefSource, ...] = ()
    former: tuple[WrittenLine, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def sources(self) -> dict[str, str]:
        """The text of each source, by its id."""
        texts: dict[str, str] = {}
        for section in self.sections:
            for line in section.lines:
                texts[line.id] = line.text
        for sentence in self.sentences:
            texts[sentence.id] = sentence.text
        return texts


class BriefWritingAgent(Agent[BriefWritingTask, WrittenBrief]):
    """Merges and shortens lines; says nothing that they do not."""

    name = "brief_writing"
    prompt = "brief_writing/v2"
    task_type = BriefWritingTask
    output_type = WrittenBrief

    def choices(self, task: BriefWritingTask) -> AllowedValues:
        """The sections, and the ids of the sources unless they are too many to list."""
        sections = [section.name for section in task.sections]
        ids = list(task.sources)
        if len(ids) > MAX_LISTED_IDS:
            return {"section": sections}
        return {"section": sections, "source": ids}

    def check(self, task: BriefWritingTask, output: WrittenBrief) -> None:
        """Each line cites sources that have its numbers and drugs."""
        problems = []
        for number, line in enumerate(output.lines, start=1):
            problems += _line_problems(task, line, number)
        if problems:
            raise Rejected("\n".join(problems))

    def salvage(self, task: BriefWritingTask, output: WrittenBrief) -> WrittenBrief:
        """The lines that pass the check: the others are replaced by what they were written from."""
        lines = [line for line in output.lines if not _line_problems(task, line, 0)]
        return WrittenBrief(lines=tuple(lines))

    def call_label(self, task: BriefWritingTask) -> str:
        """Whether the call repairs an earlier summary."""
        return "repair" if task.problems else ""


def _line_problems(task: BriefWritingTask, line: WrittenLine, number: int) -> list[str]:
    """What is wrong with a line, for the model that wrote it."""
    if all(section.name != line.section for section in task.sections):
        return [f"Line {number} is of no section that was given."]
    return line_problems(line.text, number, line.citations, task.sources, noun="source")
