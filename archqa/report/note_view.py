"""The view of a note: its sentences with their marks, the answers to it, the agents' judgements."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archqa.core.answer import Claim
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance
from archqa.core.key import CaseKey
from archqa.report.page import shorten
from archqa.runs.record import AgentBackend, CaseRecord
from archqa.tasks.archehr_2025.task import ArchehrResult

_MARKS_OF_CITED = {
    Relevance.ESSENTIAL: "right",
    Relevance.SUPPLEMENTARY: "aside",
    Relevance.NOT_RELEVANT: "wrong",
}
LABEL_CODES = {
    Relevance.ESSENTIAL: "E",
    Relevance.SUPPLEMENTARY: "s",
    Relevance.NOT_RELEVANT: "·",
}
_MAX_RATIONALE_LENGTH = 280
_MAX_EXCERPT_LENGTH = 90
_MAX_GRID_ROWS = 400
"""Sentences of a grid; the note above it always has all sentences."""

_ENGINE = "embedded engine"

JudgementsByAgent = Mapping[str, Mapping[str, Judgement]]
"""Agent, then sentence id, to a judgement."""


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
    """One sentence. `marks` has a mark for each run.

    `cited_by` has the anchor and the line number of each claim that cites the sentence.
    """

    id: str
    anchor: str
    text: str
    starts_paragraph: bool
    label: str
    marks: tuple[str, ...]
    cited_by: tuple[tuple[str, str], ...]
    probability: float | None


class NoteView(NamedTuple):
    """A note and the answers of several runs: for each run its lines, and the mark of each sentence.

    `key` is the key by the rules of the task.
    """

    key: CaseKey | None
    claims: tuple[tuple[ClaimView, ...], ...]
    marks: tuple[Mapping[str, str], ...]
    sentences: tuple[SentenceView, ...]


class JudgementCell(NamedTuple):
    """The judgement of one agent on one sentence. `label_code` is its label as one letter."""

    label_code: str
    label: str
    probability: float | None


class JudgementGridRow(NamedTuple):
    """One sentence and all agents. `rationales` joins agents that gave the same rationale."""

    id: str
    anchor: str
    excerpt: str
    mark: str
    gold: str
    cells: tuple[JudgementCell, ...]
    rationales: tuple[tuple[str, str], ...]


class JudgementGrid(NamedTuple):
    """Sentences by agents; `omitted` sentences are not in `rows`."""

    agents: tuple[str, ...]
    rows: tuple[JudgementGridRow, ...]
    omitted: int


def note_view(
    case: Case,
    records: Sequence[CaseRecord | None],
    key: CaseKey | None,
    prefix: str,
    probabilities: Mapping[str, float],
) -> NoteView:
    """Return the note with the answers of these records; `prefix` begins all anchors.

    Without a key, citations are marked neither right nor wrong.
    """
    key = _key_for_subtask(records[0], key)
    claims_by_run = []
    marks_by_run = []
    for run_index, record in enumerate(records):
        # The mark of each sentence id, one of `MARK_LABELS`.
        cited_ids = _cited_ids(record)
        marks = {}
        for sentence_id in case.sentence_ids:
            label = key.labels.get(sentence_id) if key else None
            mark = "missed" if label is Relevance.ESSENTIAL else "plain"
            if sentence_id in cited_ids:
                mark = "cited" if label is None else _MARKS_OF_CITED[label]
            marks[sentence_id] = mark
        claims = _claim_views(case, record, prefix, run_index, marks)
        claims_by_run.append(claims)
        marks_by_run.append(marks)
    sentences = sentence_views(
        case, key, prefix, claims_by_run, marks_by_run, probabilities
    )
    return NoteView(key, tuple(claims_by_run), tuple(marks_by_run), sentences)


def sentence_views(
    case: Case,
    key: CaseKey | None,
    prefix: str,
    claims_by_run: Sequence[Sequence[ClaimView]],
    marks_by_run: Sequence[Mapping[str, str]],
    probabilities: Mapping[str, float],
) -> tuple[SentenceView, ...]:
    """Return the sentences of the note, with the marks and citations of each run."""
    citing_claims: dict[str, list[tuple[str, str]]] = {}
    for claims in claims_by_run:
        for line, claim in enumerate(claims, start=1):
            for citation in claim.citations:
                citing = citing_claims.setdefault(citation.id, [])
                citing.append((claim.anchor, str(line)))
    views = []
    paragraph_id = case.sentences[0].paragraph_id if case.sentences else ""
    for index, sentence in enumerate(case.sentences):
        views.append(
            SentenceView(
                id=sentence.id,
                anchor=f"{prefix}-s{index}",
                text=sentence.text,
                starts_paragraph=sentence.paragraph_id != paragraph_id,
                label=_gold_label(key, sentence.id),
                marks=tuple(marks[sentence.id] for marks in marks_by_run),
                cited_by=tuple(citing_claims.get(sentence.id, ())),
                probability=probabilities.get(sentence.id),
            )
        )
        paragraph_id = sentence.paragraph_id
    return tuple(views)


def judgement_grid(
    case: Case,
    record: CaseRecord | None,
    backends: Mapping[str, AgentBackend],
    key: CaseKey | None,
    prefix: str,
    marks: Mapping[str, str],
    *,
    text: bool,
) -> JudgementGrid | None:
    """Return the judgements of all agents side by side; None with fewer than two.

    `backends` is as in `judgements_by_agent`.
    """
    if record is None or not record.judgements:
        return None
    by_agent = judgements_by_agent(record, backends)
    if len(by_agent) < 2:
        return None
    rows = []
    for index, sentence in enumerate(case.sentences[:_MAX_GRID_ROWS]):
        cells = []
        for judgements in by_agent.values():
            cell = JudgementCell("", "not judged", None)
            judgement = judgements.get(sentence.id)
            if judgement is not None:
                code = LABEL_CODES[judgement.label]
                cell = JudgementCell(code, judgement.label.value, judgement.probability)
            cells.append(cell)
        rows.append(
            JudgementGridRow(
                id=sentence.id,
                anchor=f"{prefix}-s{index}",
                excerpt=shorten(sentence.text, _MAX_EXCERPT_LENGTH) if text else "",
                mark=marks[sentence.id],
                gold=_gold_label(key, sentence.id),
                cells=tuple(cells),
                rationales=_rationales(by_agent, sentence.id) if text else (),
            )
        )
    omitted = len(case.sentences) - len(rows)
    return JudgementGrid(tuple(by_agent), tuple(rows), omitted)


def judgements_by_agent(
    record: CaseRecord, backends: Mapping[str, AgentBackend]
) -> JudgementsByAgent:
    """Return the judgements of each agent; of the embedded engine's, the first on each sentence.

    The engine is one agent in all its roles, since it agrees with itself. `backends` maps agents to
    what runs them, as in the manifest of the run.
    """
    by_agent: dict[str, dict[str, Judgement]] = {}
    for name, judgements in record.judgements.items():
        # Specialists are stored under their specialty.
        backend = backends.get(name.replace(" ", "_"))
        backend = backend or backends.get("specialist")
        is_engine = backend is not None and backend.kind == "embedded"
        by_id = by_agent.setdefault(_ENGINE if is_engine else name, {})
        for judgement in judgements:
            by_id.setdefault(judgement.sentence_id, judgement)
    return by_agent


def _result(record: CaseRecord) -> ArchehrResult:
    """Return the result of a subtask of 2026; an empty one for other tasks."""
    if isinstance(record.result, ArchehrResult):
        return record.result
    return ArchehrResult()


def _key_for_subtask(record: CaseRecord | None, key: CaseKey | None) -> CaseKey | None:
    """Return the key by the rules of the record's subtask of 2026.

    A rewritten question (subtask 1) has no gold sentences; for links (subtask 4), the gold is what
    the clinician's answer cites.
    """
    if record is None or key is None:
        return key
    result = _result(record)
    if result.question is not None:
        return None
    if result.links is None or not key.clinician_answer_sentences:
        return key
    linked: set[str] = set()
    for sentence in key.clinician_answer_sentences:
        linked.update(sentence.citations)
    sentence_ids = {*key.labels, *linked, *_cited_ids(record)}
    labels = dict.fromkeys(sentence_ids, Relevance.NOT_RELEVANT)
    labels.update(dict.fromkeys(linked, Relevance.ESSENTIAL))
    return key.model_copy(update={"labels": labels})


def _cited_ids(record: CaseRecord | None) -> frozenset[str]:
    """Return the sentence ids that a record cites or links, else those it submits as evidence."""
    if record is None:
        return frozenset()
    linked: set[str] = set()
    for link in _result(record).links or ():
        linked.update(link.evidence_id)
    if linked:
        return frozenset(linked)
    if record.answer and record.answer.cited:
        return record.answer.cited
    return frozenset(record.evidence)


def _claim_views(
    case: Case,
    record: CaseRecord | None,
    prefix: str,
    run_index: int,
    marks: Mapping[str, str],
) -> tuple[ClaimView, ...]:
    """Return the lines of what was submitted: an answer, a question, or a linked answer."""
    if record is None:
        return ()
    result = _result(record)
    claims: list[Claim] = []
    if record.answer:
        claims += record.answer.claims
    elif result.question:
        claims.append(Claim(text=result.question, citations=()))
    else:
        texts = {sentence.id: sentence.text for sentence in case.answer_sentences}
        for link in result.links or ():
            text = texts.get(link.answer_id, link.answer_id)
            claims.append(Claim(text=text, citations=link.evidence_id))
    anchors = {}
    for index, sentence_id in enumerate(case.sentence_ids):
        anchors[sentence_id] = f"{prefix}-s{index}"
    views = []
    for line, claim in enumerate(claims):
        citations = []
        for sentence_id in claim.citations:
            mark = marks.get(sentence_id, "wrong")
            # A line that states nothing cannot be right.
            if claim.is_pointer and mark in _MARKS_OF_CITED.values():
                mark = "cited"
            citations.append(Citation(sentence_id, anchors.get(sentence_id, ""), mark))
        views.append(
            ClaimView(f"{prefix}-r{run_index}-a{line}", claim.text, tuple(citations))
        )
    return tuple(views)


def _gold_label(key: CaseKey | None, sentence_id: str) -> str:
    if key is None or sentence_id not in key.labels:
        return ""
    return key.labels[sentence_id].value


def _rationales(
    by_agent: JudgementsByAgent, sentence_id: str
) -> tuple[tuple[str, str], ...]:
    """Return agents and rationale, agents with the same rationale together."""
    agents_by_rationale: dict[str, list[str]] = {}
    for agent, judgements in by_agent.items():
        if sentence_id in judgements and judgements[sentence_id].rationale:
            rationale = shorten(
                judgements[sentence_id].rationale, _MAX_RATIONALE_LENGTH
            )
            agents_by_rationale.setdefault(rationale, []).append(agent)
    rationales = []
    for rationale, agents in agents_by_rationale.items():
        is_shared = 1 < len(agents) == len(by_agent)
        rationales.append(("all agents" if is_shared else ", ".join(agents), rationale))
    return tuple(rationales)
