"""A patient's summary: sections of cited lines, and the evidence they rest on."""

from datetime import datetime
from typing import Any

from archqa.asking.answer import Evidence, evidence_html
from archqa.asking.record_words import clock_text
from archqa.core import html
from archqa.core.usage import Usage
from archqa.core.value import FrozenModel


class BriefLine(FrozenModel):
    """One line, the ids of its evidence, and the date of what it says, as in the record."""

    text: str
    citations: tuple[str, ...]
    date: str = ""


class BriefSection(FrozenModel):
    """The lines on one subject; `message` says that there is nothing, or what the lines are."""

    name: str
    title: str
    lines: tuple[BriefLine, ...] = ()
    message: str = ""


def _section_html(section: BriefSection) -> str:
    lines = []
    for line in section.lines:
        lines.append(f"{html.text(line.text)} {html.citations(line.citations)}")
    message = f"<p>{html.text(section.message)}</p>" if section.message else ""
    return html.heading(section.title) + message + (html.ordered_list(lines) if lines else "")


class Brief(FrozenModel):
    """What `archqa.brief` returns; `archqa brief --json` prints `as_json`.

    `patient` has `id` and `name`; `now` is the time of the summary. Resources are cited as
    `Type/id`, sentences of notes as `DocumentReference/<id>#<n>`, counted from 1 in the document.
    """

    patient: dict[str, str]
    now: str
    sections: tuple[BriefSection, ...]
    evidence: tuple[Evidence, ...] = ()
    remarks: tuple[str, ...] = ()
    performer: str = ""
    usage: Usage = Usage()

    @property
    def visit_time(self) -> str:
        """The time of the summary as people write it: `2026-11-23`, `2026-11-23 14:30`."""
        return clock_text(datetime.fromisoformat(self.now))

    @property
    def text(self) -> str:
        """The sections as plain text, without citations."""
        parts = []
        for section in self.sections:
            lines = [f"- {line.text}" for line in section.lines]
            parts.append("\n".join(filter(None, [section.title, section.message, *lines])))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        name = self.patient.get("name") or self.patient.get("id", "")
        sections = "".join(map(_section_html, self.sections))
        remarks = html.paragraph("Remarks", " ".join(self.remarks))
        heading = html.heading(f"{name}, {self.visit_time}")
        return heading + sections + evidence_html(self.evidence) + remarks

    def as_json(self) -> dict[str, Any]:
        """Return the object that `archqa brief --json` prints."""
        fields = self.model_dump(mode="json")
        return {
            "patient": self.patient,
            "now": self.now,
            "sections": fields["sections"],
            "evidence": fields["evidence"],
            "remarks": fields["remarks"],
            "performer": self.performer,
            "calls": self.usage.calls,
            "cost_usd": self.usage.cost_usd,
        }
