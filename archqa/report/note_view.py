"""A note as it was used: what was cited and rightly so, what wrongly, what was missed, and who held what of it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archqa.core.answer import Claim
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance
from archqa.core.key import CaseKey
from archqa.core.probability import mean_probabilities
from archqa.report.page import shorten
from archqa.runs.record import CaseRecord
from archqa.tasks.archehr_2026.result import ArchehrResult

MARK_LABELS = {
    "right": "cited, essential",
    "aside": "cited, supplementary",
    "wrong": "cited, not relevant",
    "missed": "missed",
    "cited": "cited",
    "plain": "",
}
"""How a mark is said; it is never shown by colour alone."""
MARK_SYMBOLS = {"right": "✓", "aside": "≈", "wrong": "✕", "missed": "○", "cited": "▸", "plain": ""}

_SHORT = {Relevance.ESSENTIAL: "E", Relevance.SUPPLEMENTARY: "s", Relevance.NOT_RELEVANT: "·"}
_REASON, _EXCERPT = 280, 90
_MOST_GRID = 400
"""Sentences of a grid; a longer note is still shown whole above it."""


class Citation(NamedTuple):
    """A citation of a claim; `anchor` is empty if the note has no such sentence."""

    id: str
    anchor: str
    mark: str


class ClaimView(NamedTuple):
    """One line of an answer."""

    anchor: str
    text: str
    citations: tuple[Citation, ...]


class SentenceView(NamedTuple):
    """One sentence. `marks` has one mark for each run; `cited_by` the anchors of the claims that cite it."""

    id: str
    anchor: str
    text: str
    starts_paragraph: bool
    label: str
    marks: tuple[str, ...]
    cited_by: tuple[tuple[str, str], ...]
    probability: float | None


class JudgementCell(NamedTuple):
    """One agent on one sentence: its label in a letter, and the probability it states."""

    label_code: str
    label: str
    probability: float | None


class JudgementGridRow(NamedTuple):
    """One sentence and all agents. `reasons` joins agents who say the same."""

    id: str
    anchor: str
    excerpt: str
    mark: str
    gold: str
    cells: tuple[JudgementCell, ...]
    rationales: tuple[tuple[str, str], ...]


class JudgementGrid(NamedTuple):
    """Sentences by agents, and how many sentences more there are."""

    agents: tuple[str, ...]
    rows: tuple[JudgementGridRow, ...]
    left_out: int


def sentence_marks(case: Case, record: CaseRecord | None, key: CaseKey | None) -> dict[str, str]:
    """Sentence id to mark, one of `MARK_LABELS`. Without a key a citation is neither right nor wrong."""
    cited = cited_ids(record)
    labels = key.labels if key else {}
    return {each: _mark(each in cited, labels.get(each), key is None) for each in case.sentence_ids}


def cited_ids(record: CaseRecord | None) -> frozenset[str]:
    """The ids a record cites, or links; where its task asks for neither, those it hands in as evidence."""
    if record is None:
        return frozenset()
    linked = frozenset(each for link in _result(record).links or () for each in link.evidence_id)
    return linked or (
        record.answer.cited if record.answer and record.answer.cited else frozenset(record.evidence)
    )


def key_for_subtask(record: CaseRecord | None, key: CaseKey | None) -> CaseKey | None:
    """The key as the record's subtask of 2026 takes it: what an answer's sentences rest on; nothing for a question."""
    if record is None or key is None:
        return key
    result = _result(record)
    if result.question is not None:
        return None
    if result.links is None or not key.clinician_answer_sentences:
        return key
    linked = {each for sentence in key.clinician_answer_sentences for each in sentence.citations}
    known = {*key.labels, *linked, *cited_ids(record)}
    labels = {
        each: Relevance.ESSENTIAL if each in linked else Relevance.NOT_RELEVANT for each in known
    }
    return key.model_copy(update={"labels": labels})


def claim_views(
    case: Case, record: CaseRecord | None, prefix: str, number: int, marked: Mapping[str, str]
) -> list[ClaimView]:
    """The lines of an answer; `number` is that of the run, `prefix` the case's anchor."""
    anchors = {each: f"{prefix}-s{at}" for at, each in enumerate(case.sentence_ids)}
    return [
        ClaimView(f"{prefix}-r{number}-a{at}", claim.text, _citations(claim, anchors, marked))
        for at, claim in enumerate(_said(case, record))
    ]


def sentence_views(
    case: Case,
    key: CaseKey | None,
    prefix: str,
    answers: Sequence[list[ClaimView]],
    marked: Sequence[Mapping[str, str]],
    held: Mapping[str, float],
) -> tuple[SentenceView, ...]:
    """The note, sentence by sentence; `marked` and `answers` have one entry for each run."""
    citing: dict[str, list[tuple[str, str]]] = {}
    for answer in answers:
        for at, claim in enumerate(answer, start=1):
            for citation in claim.citations:
                citing.setdefault(citation.id, []).append((claim.anchor, str(at)))
    paragraphs = [None, *(each.paragraph_id for each in case.sentences)]
    return tuple(
        SentenceView(
            id=each.id,
            anchor=f"{prefix}-s{at}",
            text=each.text,
            starts_paragraph=at > 0 and paragraphs[at] != each.paragraph_id,
            label=_label(key, each.id),
            marks=tuple(mark[each.id] for mark in marked),
            cited_by=tuple(citing.get(each.id, ())),
            probability=held.get(each.id),
        )
        for at, each in enumerate(case.sentences)
    )


def judgement_grid(
    case: Case,
    record: CaseRecord | None,
    key: CaseKey | None,
    prefix: str,
    marked: Mapping[str, str],
    *,
    text: bool,
) -> JudgementGrid | None:
    """Who held what; None where no agent judged."""
    if record is None or not record.judgements:
        return None
    judged = {
        name: {each.sentence_id: each for each in found}
        for name, found in record.judgements.items()
    }
    rows = tuple(
        JudgementGridRow(
            id=each.id,
            anchor=f"{prefix}-s{at}",
            excerpt=shorten(each.text, _EXCERPT) if text else "",
            mark=marked[each.id],
            gold=_label(key, each.id),
            cells=tuple(_cell(found.get(each.id)) for found in judged.values()),
            rationales=_reasons(judged, each.id) if text else (),
        )
        for at, each in enumerate(case.sentences[:_MOST_GRID])
    )
    return JudgementGrid(tuple(judged), rows, max(0, len(case.sentences) - _MOST_GRID))


def pooled_probabilities(record: CaseRecord | None) -> dict[str, float]:
    """What the agents of a record hold of each sentence, taken together."""
    return mean_probabilities(record.judgements) if record else {}


def _said(case: Case, record: CaseRecord | None) -> tuple[Claim, ...]:
    """The lines of what was handed in: an answer, the given answer's sentences with their links, or a question."""
    if record is None or record.answer:
        return record.answer.claims if record and record.answer else ()
    texts = {each.id: each.text for each in case.answer_sentences}
    linked = tuple(
        Claim(
            text=texts.get(link.answer_id, link.answer_id),
            citations=link.evidence_id,
        )
        for link in _result(record).links or ()
    )
    question = _result(record).question
    return (Claim(text=str(question), citations=()),) if question else linked


def _result(record: CaseRecord) -> ArchehrResult:
    return record.result if isinstance(record.result, ArchehrResult) else ArchehrResult()


def _mark(cited: bool, label: Relevance | None, keyless: bool) -> str:
    if keyless or (cited and label is None):
        return "cited" if cited else "plain"
    if cited:
        return {Relevance.ESSENTIAL: "right", Relevance.SUPPLEMENTARY: "aside"}.get(label, "wrong")  # type: ignore[arg-type]
    return "missed" if label is Relevance.ESSENTIAL else "plain"


def _citations(
    claim: Claim, anchors: Mapping[str, str], marked: Mapping[str, str]
) -> tuple[Citation, ...]:
    return tuple(
        Citation(each, anchors.get(each, ""), marked.get(each, "wrong")) for each in claim.citations
    )


def _label(key: CaseKey | None, sentence: str) -> str:
    return key.labels[sentence].value if key and sentence in key.labels else ""


def _cell(judgement: Judgement | None) -> JudgementCell:
    if judgement is None:
        return JudgementCell("", "not judged", None)
    return JudgementCell(_SHORT[judgement.label], judgement.label.value, judgement.probability)


def _reasons(
    judged: Mapping[str, Mapping[str, Judgement]], sentence: str
) -> tuple[tuple[str, str], ...]:
    said: dict[str, list[str]] = {}
    for name, found in judged.items():
        if sentence in found and found[sentence].rationale:
            said.setdefault(shorten(found[sentence].rationale, _REASON), []).append(name)
    everybody = len(judged) > 1 and any(len(names) == len(judged) for names in said.values())
    return tuple(
        ("all agents" if everybody else ", ".join(names), reason) for reason, names in said.items()
    )
