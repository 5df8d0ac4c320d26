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
        from archqa.briefing.model_brief import BRIEF_MODEL
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
        from archqa.briefing.model_brief import written_by_model
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
    from archqa.briefing.model_brief import BRIEF_MODEL

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
