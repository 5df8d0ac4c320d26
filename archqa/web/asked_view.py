"""The view of an answer to a question from the form: its lines, its evidence, and the note."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from archqa.asking.answer import Answer, AnswerLine, AnswerSpan
from archqa.asking.shown_status import ShownStatus, shown_status
from archqa.core.case import Case
from archqa.report import note_view
from archqa.report.case_view import CaseView
from archqa.report.note_view import Citation, ClaimView
from archqa.web.evidence_labels import evidence_label, shown_date

_ANCHOR = "c1"


class EvidenceLink(NamedTuple):
    """A citation of a line: a short label, the whole id, and where the evidence stands."""

    label: str
    id: str
    anchor: str


class AskedLine(NamedTuple):
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
    document: str
    probability: float | None
    cited_by: tuple[tuple[str, int], ...]


class AskedView(NamedTuple):
    """What a page shows of an answer. `note` is None for a patient, whose notes are many."""

    status: ShownStatus
    lines: tuple[AskedLine, ...]
    evidence: tuple[EvidenceView, ...]
    note: CaseView | None
    copied_text: str


def asked_view(answer: Answer, case: Case | None) -> AskedView:
    """Return the view of an answer; `case` is of the notes that were searched."""
    cited = frozenset(citation for line in answer.lines for citation in line.citations)
    of_note = case if answer.patient is None else None
    lines = [_line(number, line, _links(answer, of_note)) for number, line in _numbered(answer)]
    note = None if of_note is None else _note(of_note, answer, cited, lines)
    return AskedView(
        status=shown_status(answer),
        lines=tuple(lines),
        evidence=tuple(_evidence_views(answer)),
        note=note,
        copied_text=_copied_text(answer),
    )


def _numbered(answer: Answer) -> Iterator[tuple[int, AnswerLine]]:
    yield from enumerate(answer.lines)


def _links(answer: Answer, case: Case | None) -> dict[str, EvidenceLink]:
    """Return the links by id: to sentences of the note, else to the list of evidence."""
    links = {}
    for index, piece in enumerate(answer.evidence):
        label = evidence_label(piece.id, piece.source)
        links[piece.id] = EvidenceLink(label, piece.id, _evidence_anchor(index))
    for index, name in enumerate(case.sentence_ids if case else ()):
        links[name] = EvidenceLink(name, name, f"{_ANCHOR}-s{index}")
    return links


def _evidence_anchor(index: int) -> str:
    return f"e{index}"


def _line_anchor(number: int) -> str:
    return f"{_ANCHOR}-r0-a{number}"


def _line(number: int, line: AnswerLine, links: Mapping[str, EvidenceLink]) -> AskedLine:
    span = line.answering or AnswerSpan(0, 0)
    unknown = [EvidenceLink(evidence_label(name, ""), name, "") for name in line.citations]
    return AskedLine(
        anchor=_line_anchor(number),
        before=line.text[: span.start],
        answering=line.text[span.start : span.end],
        after=line.text[span.end :],
        citations=tuple(links.get(link.id, link) for link in unknown),
    )


def _evidence_views(answer: Answer) -> Iterator[EvidenceView]:
    citing: dict[str, list[tuple[str, int]]] = {}
    for number, line in _numbered(answer):
        for name in line.citations:
            citing.setdefault(name, []).append((_line_anchor(number), number + 1))
    for index, piece in enumerate(answer.evidence):
        yield EvidenceView(
            anchor=_evidence_anchor(index),
            id=piece.id,
            label=evidence_label(piece.id, piece.source),
            text=piece.text,
            heading=piece.heading,
            date=shown_date(piece.date),
            document=piece.source if piece.kind == "sentence" else "",
            probability=piece.probability,
            cited_by=tuple(citing.get(piece.id, ())),
        )


def _note(case: Case, answer: Answer, cited: frozenset[str], lines: list[AskedLine]) -> CaseView:
    marks = {name: "cited" if name in cited else "plain" for name in case.sentence_ids}
    probabilities = {}
    for evidence in answer.evidence:
        if evidence.probability is not None:
            probabilities[evidence.id] = evidence.probability
    claims = []
    for line in lines:
        citations = tuple(Citation(link.id, link.anchor, "cited") for link in line.citations)
        claims.append(ClaimView(line.anchor, "", citations))
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
