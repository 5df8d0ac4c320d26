"""A summary that a model writes from the lines of the record, every line checked.

A line that is not supported is written again once. What is still not supported is left out, and
the lines that it was written from stand as the record gives them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archqa.agents.agent import RunContext
from archqa.agents.brief_writing import (
    BriefSource,
    BriefWritingAgent,
    BriefWritingTask,
    SectionSources,
    WrittenLine,
)
from archqa.agents.line_check import BriefCheckAgent, LineCheckTask, LineVerdicts
from archqa.asking.answer import AnsweredBy
from archqa.briefing.notes import NoteLine, newest_first
from archqa.briefing.patient_rows import LineDraft
from archqa.briefing.summary import RecordSummary, WrittenSection
from archqa.briefing.verification import stated_counts, text_problem
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import CaseFailed, ServerUnavailable
from archqa.llm.model import Model
from archqa.runs.backends import Backends
from archqa.runs.destinations import Announce
from archqa.settings import Settings
from archqa.tasks.pipeline import agents_of_questions

MAX_NOTE_LINES = 200
"""Lines of notes that a model is shown, the newest ones: a sentence alone may mislead."""

_NOT_SENT = frozenset({"person"})
"""Sections that a model is not given: the date of birth is no help in writing shorter lines."""

FROM_NOTES = "Nothing is coded; notes say:"

NOT_WRITTEN = "The model gave no usable summary: the lines are those of the record."


BRIEF_MODEL = agents_of_questions(
    "brief-model",
    "a patient's summary by a model, each line checked against what it cites",
    BriefWritingAgent,
    BriefCheckAgent,
)


class ModelSummary(NamedTuple):
    """A summary that a model wrote; of the record, where its replies could not be used."""

    summary: RecordSummary
    answered_by: AnsweredBy
    usage: Usage


class _Sources(NamedTuple):
    """What a model may cite: the lines of the record and whole lines of notes, by id."""

    lines: dict[str, LineDraft]
    notes: dict[str, NoteLine]

    def cited(self, ids: Iterable[str]) -> list[LineDraft | NoteLine]:
        """Return the lines behind ids."""
        cited: list[LineDraft | NoteLine] = []
        for source_id in ids:
            line = self.lines.get(source_id)
            cited.append(self.notes[source_id] if line is None else line)
        return cited

    def citations(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Return the evidence that stands behind ids."""
        citations: dict[str, None] = {}
        for source in self.cited(ids):
            citations |= dict.fromkeys(source.citations)
        return tuple(citations)


async def write_lines(
    task: BriefWritingTask, context: RunContext
) -> Sequence[WrittenLine]:
    """Return the lines that the check finds supported; what it rejects is written again once.

    Raises `CaseFailed` where the replies cannot be used, and `ModelError`.
    """
    output = await BriefWritingAgent().run(task, context)
    check = LineCheckTask.of_brief(task, output.lines)
    verdict = await _check(check, context)
    if verdict.problems:
        repair = task.model_copy(
            update={"former": output.lines, "problems": verdict.problems}
        )
        output = await BriefWritingAgent().run(repair, context)
        second = LineCheckTask.of_brief(task, output.lines)
        verdict = await _check(second.repeating(check, verdict), context)
    return verdict.supported(output.lines)


async def _check(task: LineCheckTask, context: RunContext) -> LineVerdicts:
    if not task.lines:
        return LineVerdicts(lines=())
    return await BriefCheckAgent().run(task, context)


async def written_by_model(
    summary: RecordSummary,
    settings: Settings,
    scripted: Model | None,
    announce: Announce | None,
) -> ModelSummary:
    """Return the summary as a model writes it. Raises `ModelError` and `BudgetExceeded`."""
    backends = Backends(
        settings.replace(record=None), BRIEF_MODEL, scripted, announce=announce
    )
    steps: list[Step] = []
    sources = _sources(summary)
    remarks = list(summary.remarks)
    answered_by = AnsweredBy()
    try:
        context = backends.context(steps.append)
        lines = await write_lines(_task(summary, sources), context)
    except (CaseFailed, ServerUnavailable):
        lines = ()
        remarks.append(NOT_WRITTEN)
    finally:
        await backends.close()
    if lines:
        answered_by = AnsweredBy(reader="model", model=backends.answered_by)
    remarks += backends.remarks
    written = _with_lines(summary, sources, lines)._replace(remarks=tuple(remarks))
    return ModelSummary(written, answered_by, sum_usage(step.usage for step in steps))


def _sources(summary: RecordSummary) -> _Sources:
    lines: dict[str, LineDraft] = {}
    for section in summary.sections:
        for draft in section.lines:
            lines[f"L{len(lines) + 1}"] = draft
    notes: dict[str, NoteLine] = {}
    for line in newest_first(summary.note_lines)[:MAX_NOTE_LINES]:
        notes[f"S{len(notes) + 1}"] = line
    return _Sources(lines, notes)


def _task(summary: RecordSummary, sources: _Sources) -> BriefWritingTask:
    ids = iter(sources.lines)
    sections = []
    for section in summary.sections:
        lines = [BriefSource(id=next(ids), text=draft.text) for draft in section.lines]
        may_have_lines = bool(lines or sources.notes)
        if may_have_lines and section.kind.name not in _NOT_SENT:
            sections.append(
                SectionSources(
                    name=section.kind.name,
                    title=section.kind.title,
                    message=section.message,
                    lines=tuple(lines),
                )
            )
    sentences = []
    for source_id, line in sources.notes.items():
        place = line.place or "note"
        if line.heading and not line.text.startswith(line.heading):
            place = f'{place}, under "{line.heading}"'
        sentences.append(BriefSource(id=source_id, text=f"{place}: {line.text}"))
    now = f"{summary.now:%Y-%m-%d}"
    return BriefWritingTask(
        now=now, sections=tuple(sections), sentences=tuple(sentences)
    )


def _with_lines(
    summary: RecordSummary, sources: _Sources, lines: Sequence[WrittenLine]
) -> RecordSummary:
    """The summary with a model's lines; the record's own where none of their section cites them.

    A section that the record leaves empty, and that notes fill, is no longer absent.
    """
    confirmed = [line for line in lines if _is_confirmed(summary, sources, line)]
    ids = iter(sources.lines)
    sections: list[WrittenSection] = []
    for section in summary.sections:
        drafts = []
        cited: set[str] = set()
        for line in confirmed:
            if line.section == section.kind.name:
                cited.update(line.citations)
                citations = sources.citations(line.citations)
                cited_lines = sources.cited(line.citations)
                date = max(source.date for source in cited_lines)
                drafts.append(LineDraft(" ".join(line.text.split()), citations, date))
        drafts += [draft for draft in section.lines if next(ids) not in cited]
        message = section.message
        if section.is_absent and drafts and not section.kind.is_of_notes:
            message = FROM_NOTES
        is_absent = section.is_absent and not drafts
        sections.append(
            section._replace(lines=tuple(drafts), message=message, is_absent=is_absent)
        )
    return summary._replace(sections=tuple(sections))


def _is_confirmed(summary: RecordSummary, sources: _Sources, line: WrittenLine) -> bool:
    """Whether the evidence behind a line's citations confirms it; counts may be those it cites."""
    citations = sources.citations(line.citations)
    counts: set[int] = set()
    for source_id in line.citations:
        if source_id in sources.lines:
            counts |= stated_counts(sources.lines[source_id].text)
    texts = summary.evidence.sources(citations)
    return text_problem(line.text, citations, texts, counts) is None
