"""A summary as Markdown: sections of lines whose numbers lead to the evidence below."""

import re
from collections.abc import Iterable, Iterator, Sequence

from archqa.briefing.brief_values import Brief, BriefLine, BriefSection

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")
_LIST_MARK = re.compile(r"^(\d+)([.)])|^([-+])(?= )")


def brief_markdown(brief: Brief) -> str:
    """Return the summary as one Markdown document."""
    numbers = evidence_numbers(brief)
    name = brief.patient["name"] or "Patient without a name"
    parts = [
        f"# {escaped(name)}",
        f"Patient {escaped(brief.patient['id'])}, as of {brief.visit_time}.",
    ]
    parts += [f"> {escaped(remark)}" for remark in brief.remarks]
    for section in brief.sections:
        parts += _section(section, numbers)
    if brief.evidence:
        parts += ["## Evidence", "\n".join(_evidence(brief))]
    parts.append(f"Written by {escaped(brief.performer)}.")
    return "\n\n".join(parts) + "\n"


def evidence_numbers(brief: Brief) -> dict[str, int]:
    """Return the number of each piece of evidence, from 1."""
    return {evidence.id: number for number, evidence in enumerate(brief.evidence, start=1)}


def number_ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each unbroken run of numbers, in order."""
    run: list[int] = []
    for number in sorted(set(numbers)):
        if run and number != run[-1] + 1:
            yield run[0], run[-1]
            run = []
        run.append(number)
    if run:
        yield run[0], run[-1]


def citation_text(line: BriefLine, numbers: dict[str, int]) -> str:
    """Return the numbers of a line's evidence: `1, 4-9`."""
    ranges = number_ranges(numbers[citation] for citation in line.citations)
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def escaped(text: str) -> str:
    """Return a text of a record on one line, without a meaning in Markdown."""
    plain = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _LIST_MARK.sub(lambda mark: f"{mark[1] or ''}\\{mark[2] or mark[3]}", plain)


def _section(section: BriefSection, numbers: dict[str, int]) -> list[str]:
    parts = [f"## {escaped(section.title)}"]
    if section.message:
        parts.append(escaped(section.message))
    if section.lines:
        parts.append("\n".join(_lines(section.lines, numbers)))
    return parts


def _lines(lines: Sequence[BriefLine], numbers: dict[str, int]) -> Iterator[str]:
    for line in lines:
        yield f"- {escaped(line.text)} \\[{citation_text(line, numbers)}\\]"


def _evidence(brief: Brief) -> Iterator[str]:
    for number, evidence in enumerate(brief.evidence, start=1):
        place = f" ({escaped(evidence.source)})" if evidence.kind == "sentence" else ""
        yield f"{number}. {escaped(evidence.id)}{place}: {_on_one_line(evidence.text)}"


def _on_one_line(text: str) -> str:
    """A text whose lines stay apart: a list of a note is none of its items."""
    return escaped(" / ".join(filter(None, map(str.strip, text.splitlines()))))
