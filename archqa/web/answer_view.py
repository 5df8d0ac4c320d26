"""The view of an answer to a question from the form: its lines, its evidence, and the note."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from archqa.asking.answer import Answer, AnswerLine, AnswerSpan, ShownStatus, shown_status
from archqa.asking.chart import GIVEN_NOTE
from archqa.core.case import Case
from archqa.report.case_view import CaseView
from archqa.report.note_view import Citation, ClaimView, SentenceView, sentence_views

_ANCHOR = "c1"
_REVIEW_ANCHOR = "review"

_SHORT_ID = 4
_LONGEST_WHOLE_ID = 8

_KINDS = {"DocumentReference": "Note"}
"""What types are called that do not speak for themselves."""

_WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class EvidenceLink(NamedTuple):
    """A citation of a line: a short label, the whole id, and the anchor of the evidence."""

    label: str
    id: str
    anchor: str


class LineView(NamedTuple):
    """A line of an answer in three parts, the middle one of which answers; often all of it."""

    anchor: str
    before: str
    answering: str
    after: str
    citations: tuple[EvidenceLink, ...]


class EvidenceView(NamedTuple):
    """A piece of evidence; `cited_by` has the anchor and the number of each line that cites it."""

    anchor: str
    id: str
    label: str
    text: str
    heading: str
    date: str
    probability: float | None
    cited_by: tuple[tuple[str, int], ...]


class AnswerView(NamedTuple):
    """What a page shows of an answer. `note` is None for a patient, whose notes are many."""

    status: ShownStatus
    lines: tuple[LineView, ...]
    evidence: tuple[EvidenceView, ...]
    note: CaseView | None
    copied_text: str


def answer_view(answer: Answer, case: Case | None) -> AnswerView:
    """Return the view of an answer; `case` is of the notes that were searched."""
    note_case = case if answer.patient is None else None
    lines = _line_views(answer, note_case)
    citing: dict[str, list[tuple[str, int]]] = {}
    for number, line in enumerate(lines, start=1):
        for link in line.citations:
            citing_lines = citing.setdefault(link.id, [])
            citing_lines.append((line.anchor, number))
    evidence = []
    for index, piece in enumerate(answer.evidence):
        evidence.append(
            EvidenceView(
                anchor=f"e{index}",
                id=piece.id,
                label=evidence_label(piece.id),
                text=piece.text,
                heading=piece.heading,
                date=piece.date[:16].replace("T", " "),
                probability=piece.probability,
                cited_by=tuple(citing.get(piece.id, ())),
            )
        )
    # The answer as it is copied: the lines with their citations, then the evidence.
    copied = [answer.message] if answer.message else []
    copied += [f"{line.text} |{','.join(line.citations)}|" for line in answer.lines]
    copied.append("")
    copied += [f"[{piece.id}] {piece.text}" for piece in answer.evidence]
    return AnswerView(
        status=shown_status(answer),
        lines=lines,
        evidence=tuple(evidence),
        note=_note_view(note_case, answer, lines) if note_case else None,
        copied_text="\n".join(copied),
    )


def review_rows(
    case: Case | None, lines: Sequence[AnswerLine]
) -> tuple[list[ClaimView], tuple[SentenceView, ...]]:
    """Return the lines of an answer for its review, and the sentences of the note, if there is one."""
    case = case or Case(id="")
    anchors = {}
    marks = dict.fromkeys(case.sentence_ids, "plain")
    for index, sentence_id in enumerate(case.sentence_ids):
        anchors[sentence_id] = f"{_REVIEW_ANCHOR}-s{index}"
    claims = []
    for number, line in enumerate(lines):
        citations = []
        for name in line.citations:
            citations.append(Citation(name, anchors.get(name, f"e-{name}"), "cited"))
            if name in marks:
                marks[name] = "cited"
        anchor = f"{_REVIEW_ANCHOR}-a{number}"
        claims.append(ClaimView(anchor, line.text, tuple(citations)))
    return claims, sentence_views(case, None, _REVIEW_ANCHOR, [claims], [marks], {})


def evidence_label(evidence_id: str) -> str:
    """Return a label such as `4`, `Observation · 1f3a…` or `Note · d1 · 4`.

    A sentence of a patient's note is named by its document and its number.
    """
    document, mark, number = evidence_id.partition("#")
    if document == GIVEN_NOTE:
        return f"Pasted note · {number}"
    if mark:
        return f"{_resource_label(document)} · {number}"
    return _resource_label(evidence_id)


def _resource_label(reference: str) -> str:
    """Return a reference as words and a short id; any other text stays as it is."""
    kind, slash, resource_id = reference.partition("/")
    if not slash:
        return reference
    if len(resource_id) > _LONGEST_WHOLE_ID:
        resource_id = f"{resource_id[:_SHORT_ID]}…"
    words = _KINDS.get(kind) or _WORD_BEGINS.sub(" ", kind).capitalize()
    return f"{words} · {resource_id}"


def _line_views(answer: Answer, case: Case | None) -> tuple[LineView, ...]:
    """Return the lines, with links to sentences of the note, else to the list of evidence."""
    links = {}
    for index, piece in enumerate(answer.evidence):
        label = evidence_label(piece.id)
        links[piece.id] = EvidenceLink(label, piece.id, f"e{index}")
    for index, sentence_id in enumerate(case.sentence_ids if case else ()):
        links[sentence_id] = EvidenceLink(sentence_id, sentence_id, f"{_ANCHOR}-s{index}")
    views = []
    for number, line in enumerate(answer.lines):
        span = line.answering or AnswerSpan(0, 0)
        citations = []
        for name in line.citations:
            unknown = EvidenceLink(evidence_label(name), name, "")
            citations.append(links.get(name, unknown))
        views.append(
            LineView(
                anchor=f"{_ANCHOR}-r0-a{number}",
                before=line.text[: span.start],
                answering=line.text[span.start : span.end],
                after=line.text[span.end :],
                citations=tuple(citations),
            )
        )
    return tuple(views)


def _note_view(
    case: Case,
    answer: Answer,
    lines: Sequence[LineView],
) -> CaseView:
    marks = dict.fromkeys(case.sentence_ids, "plain")
    cited_ids = set()
    claims = []
    for line in lines:
        citations = []
        for link in line.citations:
            cited_ids.add(link.id)
            citations.append(Citation(link.id, link.anchor, "cited"))
        claims.append(ClaimView(line.anchor, "", tuple(citations)))
    marks.update((name, "cited") for name in marks if name in cited_ids)
    probabilities = {}
    for piece in answer.evidence:
        if piece.probability is not None:
            probabilities[piece.id] = piece.probability
    return CaseView(
        id="",
        anchor=_ANCHOR,
        case_index=0,
        kind="note",
        runs=(),
        sentences=sentence_views(case, None, _ANCHOR, [claims], [marks], probabilities),
        mark_counts={"cited": len(cited_ids)},
    )
