"""The view of an answer to a question from the form: its lines, its evidence, and the note."""

from collections.abc import Mapping
from typing import NamedTuple

from archqa.asking.answer import Answer, AnswerLine, AnswerSpan, Evidence
from archqa.asking.status_words import STATUS_WORDS
from archqa.core.case import Case
from archqa.report import note_view
from archqa.report.case_view import CaseView
from archqa.report.note_view import Citation, ClaimView

_ANCHOR = "c1"


class AskedLine(NamedTuple):
    """A line of an answer in three parts, the middle one of which answers; often all of it."""

    anchor: str
    before: str
    answering: str
    after: str
    citations: tuple[Citation, ...]


class AskedView(NamedTuple):
    """What a page shows of an answer. `note` is None for a patient, whose notes are many."""

    status: str
    lines: tuple[AskedLine, ...]
    evidence: tuple[Evidence, ...]
    note: CaseView | None
    copied_text: str


def asked_view(answer: Answer, case: Case | None) -> AskedView:
    """Return the view of an answer; `case` is of the notes that were searched."""
    cited = frozenset(citation for line in answer.lines for citation in line.citations)
    is_of_note = case is not None and answer.patient is None
    anchors = _note_anchors(case) if case is not None and is_of_note else {}
    lines = [_line(number, line, anchors) for number, line in enumerate(answer.lines)]
    note = None
    if case is not None and is_of_note:
        note = _note(case, answer, cited, lines)
    return AskedView(
        status=STATUS_WORDS[answer.status],
        lines=tuple(lines),
        evidence=answer.evidence,
        note=note,
        copied_text=_copied_text(answer),
    )


def _note_anchors(case: Case) -> dict[str, str]:
    return {name: f"{_ANCHOR}-s{index}" for index, name in enumerate(case.sentence_ids)}


def _line(number: int, line: AnswerLine, anchors: Mapping[str, str]) -> AskedLine:
    """Return a line; it cites sentences of the note, or rows of the table of evidence."""
    citations = []
    for name in line.citations:
        citations.append(Citation(name, anchors.get(name, f"e-{name}"), "cited"))
    span = line.answering or AnswerSpan(0, 0)
    return AskedLine(
        anchor=f"{_ANCHOR}-r0-a{number}",
        before=line.text[: span.start],
        answering=line.text[span.start : span.end],
        after=line.text[span.end :],
        citations=tuple(citations),
    )


def _note(case: Case, answer: Answer, cited: frozenset[str], lines: list[AskedLine]) -> CaseView:
    marks = {name: "cited" if name in cited else "plain" for name in case.sentence_ids}
    probabilities = {}
    for evidence in answer.evidence:
        if evidence.probability is not None:
            probabilities[evidence.id] = evidence.probability
    claims = [ClaimView(line.anchor, "", line.citations) for line in lines]
    sentences = note_view.sentence_views(case, None, _ANCHOR, [claims], [marks], probabilities)
    return CaseView(
        id="",
        anchor=_ANCHOR,
        case_index=0,
        kind="note",
        runs=(),
        sentences=sentences,
        mark_counts={"cited": len(cited)},
    )


def _copied_text(answer: Answer) -> str:
    """Return the answer as it is copied: the lines with their citations, then the evidence."""
    lines = [answer.message] if answer.message else []
    lines += [f"{line.text} |{','.join(line.citations)}|" for line in answer.lines]
    evidence = [f"[{piece.id}] {piece.text}" for piece in answer.evidence]
    return "\n".join([*lines, "", *evidence])
