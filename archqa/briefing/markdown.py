"""A patient's summary as one page of Markdown."""

import re

from archqa.asking.answer import Evidence, citation_numbers
from archqa.briefing.brief import Brief

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
