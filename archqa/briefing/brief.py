"""`archqa.brief`: the summary of one patient for a visit, as text, HTML, JSON and Markdown."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa.asking.answer import (
    AnsweredBy,
    CitedLine,
    Evidence,
    evidence_html,
    lines_html,
)
from archqa.asking.question import asks_model, parse_time, settings_of_call
from archqa.briefing.summary import RecordSummary, chosen_sections, summarize_record
from archqa.core import html
from archqa.core.usage import Usage
from archqa.core.value import FrozenModel
from archqa.errors import InputError, without_suppressed_causes
from archqa.fhir import FhirError, connect
from archqa.fhir.connection import tolerate_refusals
from archqa.fhir.record import PartialRecord
from archqa.query.wording.words import clock_text
from archqa.runs.destinations import Announce, Announcer, run_destinations
from archqa.safety.arguments import as_text
from archqa.safety.server_urls import check_encrypted, is_server_url
from archqa.settings import Settings

if TYPE_CHECKING:
    from archqa.llm.model import Model


import re
from collections.abc import Iterable
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
from archqa.asking.answer import citation_numbers
from archqa.briefing.notes import NoteLine, newest_first
from archqa.briefing.patient_rows import LineDraft
from archqa.briefing.summary import WrittenSection
from archqa.briefing.verification import stated_counts, text_problem
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.errors import CaseFailed, ServerUnavailable
from archqa.llm.model import Model
from archqa.runs.backends import Backends
from archqa.tasks.pipeline import agents_of_questions

AGENT = "brief_writing"


class BriefLine(CitedLine):
    """One line, the ids of its evidence, and the date of what it says, as in the record."""

    date: str = ""


class BriefSection(FrozenModel):
    """The lines on one subject; `message` says what they are, and how many more there are.

    Where nothing is recorded, `is_absent` is true and `message` says so.
    """

    name: str
    title: str
    lines: tuple[BriefLine, ...] = ()
    message: str = ""
    is_absent: bool = False


class Brief(FrozenModel):
    """What `archqa.brief` returns; `archqa brief --json` prints `as_json`.

    `patient` has `id` and `name`; `now` is the time of the summary. `nothing_recorded` names in a
    sentence or two what the record does not have. Resources are cited as
    `Type/id`, sentences of notes as `DocumentReference/<id>#<n>`, counted from 1 in the document.
    """

    patient: dict[str, str]
    now: str
    sections: tuple[BriefSection, ...]
    nothing_recorded: str = ""
    evidence: tuple[Evidence, ...] = ()
    remarks: tuple[str, ...] = ()
    answered_by: AnsweredBy = AnsweredBy()
    usage: Usage = Usage()

    @property
    def visit_time(self) -> str:
        """The time of the summary as people write it: `2026-11-23`, `2026-11-23 14:30`."""
        return clock_text(datetime.fromisoformat(self.now))

    @property
    def author(self) -> str:
        """Who wrote the lines: queries of the record, or a model and its server."""
        return self.answered_by.model or "queries of the record"

    @property
    def filled_sections(self) -> tuple[BriefSection, ...]:
        """The sections that have lines, or that say why they have none."""
        return tuple(section for section in self.sections if not section.is_absent)

    @property
    def text(self) -> str:
        """The sections as plain text, without citations."""
        parts = []
        for section in self.filled_sections:
            lines = [f"- {line.text}" for line in section.lines]
            parts.append(
                "\n".join(filter(None, [section.title, section.message, *lines]))
            )
        return "\n\n".join(filter(None, [*parts, self.nothing_recorded]))

    def _repr_html_(self) -> str:
        name = self.patient.get("name") or self.patient.get("id", "")
        parts = [html.heading(f"{name}, {self.visit_time}")]
        for section in self.filled_sections:
            parts.append(html.heading(section.title))
            if section.message:
                parts.append(f"<p>{html.text(section.message)}</p>")
            parts.append(lines_html(section.lines))
        parts.append(f"<p>{html.text(self.nothing_recorded)}</p>")
        parts.append(evidence_html(self.evidence))
        parts.append(html.paragraph("Remarks", " ".join(self.remarks)))
        return "".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `archqa brief --json` prints."""
        return {
            **self.model_dump(mode="json", exclude={"usage"}),
            "calls": self.usage.calls,
            "cost_usd": self.usage.cost_usd,
        }


@without_suppressed_causes
def brief(
    *,
    patient: str,
    record: str | Path,
    now: datetime | str | None = None,
    sections: Sequence[str] | None = None,
    settings: Settings | None = None,
    announce: Announce | None = None,
    scripted: "Model | None" = None,
    **typed: Any,
) -> Brief:
    """Return the summary of a patient for a visit, each line with what it rests on.

    `patient` is a FHIR id, an identifier (MRN) or a name in `record`, a store or a server. `now` is
    the time of the visit, by default the present; of a dead patient and of a record whose dates
    were shifted, its end. `sections` chooses some by name. `typed` are settings by short or full
    name, such as `model="gpt-4.1"`, instead of `settings`: then a model writes the lines, shorter,
    and each is checked against what it cites.

    Raises `CallerError` for a wrong call, also `PatientNotFound` and `SeveralPatients`,
    `InputError` if `record` is not a record, and `ModelError`.
    """
    settings = settings_of_call(settings, typed)
    kinds = chosen_sections(sections)
    name = as_text(patient, "The patient")
    model_writes = asks_model(settings, AGENT, scripted)
    if settings.typed_names:
        from archqa.briefing.brief import BRIEF_MODEL
        from archqa.runs.settings_check import check_settings_used

        check_settings_used(settings, BRIEF_MODEL)
    if is_server_url(str(record)):
        check_encrypted(str(record), allow_plain_http=settings.allow_plain_http)
        announce = announce or Announcer()
        _announce_destinations(announce, settings, record, model_writes=model_writes)
    with connect(record, allow_plain_http=settings.allow_plain_http) as opened:
        try:
            readable = tolerate_refusals(opened)
            summary = summarize_record(readable, name, parse_time(now), kinds)
        except FhirError as error:
            raise InputError(record, [f": {error}"]) from None
        if isinstance(readable, PartialRecord):
            readable.check_any_type_read()
        if not model_writes:
            return _brief_of(summary)
        # Seldom needed.
        from archqa.briefing.brief import written_by_model
        from archqa.runs.event_loop import run_sync

        writing = written_by_model(summary, settings, scripted, announce)
        written = run_sync(writing)
        brief_of_model = _brief_of(written.summary)
        return brief_of_model.model_copy(
            update={"answered_by": written.answered_by, "usage": written.usage}
        )


def _announce_destinations(
    announce: Announce, settings: Settings, record: str | Path, *, model_writes: bool
) -> None:
    """Say where a summary sends queries and, with a model, the text of the record."""
    from archqa.briefing.brief import BRIEF_MODEL

    destinations = []
    for destination in run_destinations(
        settings.replace(record=str(record)), BRIEF_MODEL
    ):
        if model_writes or destination.gets_queries:
            destinations.append(destination)
    announce(tuple(destinations))


def _brief_of(summary: RecordSummary) -> Brief:
    """Return the summary with its evidence, in the order of the lines."""
    sections = []
    cited: dict[str, None] = {}
    for section in summary.sections:
        lines = []
        for draft in section.lines:
            lines.append(
                BriefLine(text=draft.text, citations=draft.citations, date=draft.date)
            )
            cited |= dict.fromkeys(draft.citations)
        message = section.message
        if section.is_absent:
            message = f"Nothing recorded: {section.kind.subject}."
        written = BriefSection(
            name=section.kind.name,
            title=section.kind.title,
            lines=tuple(lines),
            message=message,
            is_absent=section.is_absent,
        )
        sections.append(written)
    return Brief(
        patient=summary.patient,
        now=summary.now.replace(tzinfo=None).isoformat(timespec="seconds"),
        sections=tuple(sections),
        nothing_recorded=_nothing_recorded(summary),
        evidence=tuple(map(summary.evidence.evidence, cited)),
        remarks=summary.remarks,
    )


def _nothing_recorded(summary: RecordSummary) -> str:
    """What the record does not have, in one line; of notes only where there are some."""
    absent = []
    absent_in_notes = []
    for section in summary.sections:
        if section.is_absent and section.kind.is_of_notes:
            absent_in_notes.append(section.kind.subject)
        elif section.is_absent:
            absent.append(section.kind.subject)
    texts = []
    if absent_in_notes and not summary.has_notes:
        absent.append("notes")
    elif absent_in_notes:
        names = ", ".join(absent_in_notes)
        texts.append(f"Not in the notes of the last 24 months: {names}.")
    if absent:
        texts.insert(0, f"Nothing recorded: {', '.join(absent)}.")
    return " ".join(texts)


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


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")
_LIST_MARK = re.compile(r"^(\d+)([.)])|^([-+])(?= )")


def brief_markdown(brief: Brief, *, evidence: bool = False) -> str:
    """Return the summary as one page, on request with the numbered evidence below it."""
    lines = [
        f"# {escaped(brief.patient['name'] or 'Patient without a name')}",
        f"Patient {escaped(brief.patient['id'])}, as of {brief.visit_time}.",
        *(f"> {escaped(remark)}" for remark in brief.remarks),
    ]
    for section in brief.filled_sections:
        if section.name != "person":  # The patient needs no heading.
            lines.append(f"## {escaped(section.title)}")
        if section.message:
            lines.append(escaped(section.message))
        for line in section.lines:
            lines.append(
                f"- {escaped(line.text)} \\[{citation_numbers(line.citations, brief.evidence)}\\]"
            )
    closing = f"Written by {escaped(brief.author)}."
    if brief.evidence and not evidence:
        closing += " The numbers are those of the evidence (archqa brief --evidence)."
    lines += ["", f"{escaped(brief.nothing_recorded)} {closing}".strip()]
    if evidence and brief.evidence:
        lines += ["", "## Evidence", ""]
        for number, piece in enumerate(brief.evidence, start=1):
            text = escaped(evidence_text(piece))
            lines.append(f"{number}. {escaped(piece.id)}: {text}")
    return "\n".join(lines) + "\n"


def evidence_text(piece: Evidence) -> str:
    """Return what a piece of evidence says on one line; of a sentence, after where it stands."""
    # Lines stay apart: a list of a note is none of its items.
    text = " / ".join(filter(None, map(str.strip, piece.text.splitlines())))
    return f"({piece.source}) {text}" if piece.kind == "sentence" else text


def escaped(text: str) -> str:
    """Return a text of a record on one line, without a meaning in Markdown."""
    plain = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _LIST_MARK.sub(lambda mark: f"{mark[1] or ''}\\{mark[2] or mark[3]}", plain)
