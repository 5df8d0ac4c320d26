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
    WrittenBrief,
    WrittenLine,
)
from archqa.agents.line_check import BriefCheckAgent, LineCheckTask, LineVerdicts
from archqa.briefing.brief_values import Brief
from archqa.briefing.drafts import LineDraft
from archqa.briefing.note_lines import citations_of, newest_first
from archqa.briefing.notes import NoteLine
from archqa.briefing.summary import PERFORMER, RecordSummary, WrittenSection, brief_of
from archqa.briefing.verification import text_problem, told_counts
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.errors import CaseFailed
from archqa.llm.model import Model
from archqa.runs.backends import Backends
from archqa.runs.destinations import Announce
from archqa.runs.event_loop import run_sync
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline, PipelineResult
from archqa.tasks.settings import PipelineSettings

MAX_NOTE_LINES = 200
"""Lines of notes that a model is shown, the newest ones: a sentence alone may mislead."""

_NOT_SENT = frozenset({"person"})
"""Sections that a model is not given: the date of birth is no help in writing shorter lines."""

NOT_WRITTEN = "The model gave no usable summary: the lines are those of the record."


class BriefModelSettings(PipelineSettings):
    """The settings of a summary by a model: there are none but those of its agents."""


async def run_brief_model(
    task: BriefWritingTask, context: RunContext, _: BriefModelSettings
) -> PipelineResult:
    """Run the agents; `write_lines` returns their lines."""
    await write_lines(task, context)
    return PipelineResult()


BRIEF_MODEL = Pipeline(
    name="brief-model",
    summary="a patient's summary by a model, each line checked against what it cites",
    backend="model",
    run=run_brief_model,
    prompts=(BriefWritingAgent.prompt, BriefCheckAgent.prompt),
    agents=(BriefWritingAgent.name, BriefCheckAgent.name),
    settings_type=BriefModelSettings,
)


class _Sources(NamedTuple):
    """What a model may cite: the lines of the record and whole lines of notes, by id."""

    lines: dict[str, LineDraft]
    notes: dict[str, NoteLine]

    def citations(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Return the evidence that stands behind ids."""
        cited: list[str] = []
        for source_id in ids:
            if source_id in self.lines:
                cited += self.lines[source_id].citations
            else:
                cited += citations_of(self.notes[source_id])
        return tuple(dict.fromkeys(cited))


def written_by_model(
    summary: RecordSummary, settings: Settings, scripted: Model | None, announce: Announce | None
) -> Brief:
    """Return the summary as a model writes it. Raises `ModelError` and `BudgetExceeded`."""
    return run_sync(_written(summary, settings, scripted, announce))


async def write_lines(task: BriefWritingTask, context: RunContext) -> tuple[WrittenLine, ...]:
    """Return the lines that the check finds supported; what it rejects is written again once.

    Raises `CaseFailed` where the replies cannot be used, and `ModelError`.
    """
    output = await BriefWritingAgent().run(task, context)
    verdict = await _check(task, output, context)
    if verdict.problems:
        repair = task.model_copy(update={"former": output.lines, "problems": verdict.problems})
        output = await BriefWritingAgent().run(repair, context)
        verdict = await _check(task, output, context)
    numbered = enumerate(output.lines, start=1)
    return tuple(line for number, line in numbered if str(number) in verdict.supported)


async def _check(task: BriefWritingTask, output: WrittenBrief, context: RunContext) -> LineVerdicts:
    if not output.lines:
        return LineVerdicts(lines=())
    return await BriefCheckAgent().run(LineCheckTask.of_brief(task, output.lines), context)


async def _written(
    summary: RecordSummary, settings: Settings, scripted: Model | None, announce: Announce | None
) -> Brief:
    backends = Backends(settings.replace(record=None), BRIEF_MODEL, scripted, announce=announce)
    steps: list[Step] = []
    sources = _sources(summary)
    remarks: list[str] = []
    try:
        context = backends.context(steps.append)
        lines = await write_lines(_task(summary, sources), context)
    except CaseFailed:
        lines = ()
        remarks.append(NOT_WRITTEN)
    finally:
        await backends.close()
    written = _with_lines(summary, sources, lines)
    performer = backends.answered_by if lines else PERFORMER
    brief = brief_of(written, performer)
    changes = {
        "usage": sum_usage(step.usage for step in steps),
        "remarks": (*brief.remarks, *remarks, *backends.remarks),
    }
    return brief.model_copy(update=changes)


def _sources(summary: RecordSummary) -> _Sources:
    drafts = [draft for section in summary.sections for draft in section.lines]
    lines = {f"L{number}": draft for number, draft in enumerate(drafts, start=1)}
    newest = newest_first(summary.note_lines)[:MAX_NOTE_LINES]
    notes = {f"S{number}": line for number, line in enumerate(newest, start=1)}
    return _Sources(lines, notes)


def _task(summary: RecordSummary, sources: _Sources) -> BriefWritingTask:
    ids = iter(sources.lines)
    sections = []
    for section in summary.sections:
        lines = [BriefSource(id=next(ids), text=draft.text) for draft in section.lines]
        if lines and section.kind.name not in _NOT_SENT:
            sections.append(
                SectionSources(
                    name=section.kind.name,
                    title=section.kind.title,
                    message=section.message,
                    lines=tuple(lines),
                )
            )
    sentences = [
        BriefSource(id=source_id, text=f"{_place(line)}: {line.text}")
        for source_id, line in sources.notes.items()
    ]
    now = f"{summary.now:%Y-%m-%d}"
    return BriefWritingTask(now=now, sections=tuple(sections), sentences=tuple(sentences))


def _place(line: NoteLine) -> str:
    return ", ".join(filter(None, (line.parts[0].source, line.date[:10]))) or "note"


def _with_lines(
    summary: RecordSummary, sources: _Sources, lines: Sequence[WrittenLine]
) -> RecordSummary:
    """The summary with a model's lines; the record's own where none cites them."""
    kept = [line for line in lines if not _problem(summary, sources, line)]
    cited = {source_id for line in kept for source_id in line.citations}
    ids = iter(sources.lines)
    sections: list[WrittenSection] = []
    for section in summary.sections:
        written = [_draft(line, sources) for line in kept if line.section == section.kind.name]
        own_ids = [next(ids) for _ in section.lines]
        rest = [sources.lines[own_id] for own_id in own_ids if own_id not in cited]
        sections.append(section._replace(lines=(*written, *rest)))
    return summary._replace(sections=tuple(sections))


def _problem(summary: RecordSummary, sources: _Sources, line: WrittenLine) -> str:
    """What the evidence behind a line's citations does not confirm; empty if nothing."""
    citations = sources.citations(line.citations)
    texts = [sources.lines[each].text for each in line.citations if each in sources.lines]
    counts = {count for text in texts for count in told_counts(text)}
    return text_problem(line.text, citations, summary.evidence.sources(citations), counts)


def _draft(line: WrittenLine, sources: _Sources) -> LineDraft:
    text = " ".join(line.text.split())
    citations = sources.citations(line.citations)
    dates = [sources.lines[each].date for each in line.citations if each in sources.lines]
    dates += [sources.notes[each].date for each in line.citations if each in sources.notes]
    return LineDraft(text, citations, max(dates, default=""))
