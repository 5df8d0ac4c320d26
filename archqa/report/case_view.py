"""The view of one case: its question, its note, and the answer of each run."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.core.question import ClinicalTask, Item, RecordQuestion
from archqa.report import note_view
from archqa.report.note_view import ClaimView, JudgementGrid, SentenceView
from archqa.report.record_view import FhirQuestionView, fhir_question_view
from archqa.report.report_data import ReportData
from archqa.report.scoreboard import case_metric_name
from archqa.report.task_view import TaskView, task_view
from archqa.report.trace import Trace, case_trace
from archqa.runs.record import CaseRecord


class CaseRunView(NamedTuple):
    """The result of one run for the case. `score` is None if the key does not have the case."""

    name: str
    record: CaseRecord | None
    status: str
    score: float | None = None
    claims: tuple[ClaimView, ...] = ()
    submission: str = ""
    grid: JudgementGrid | None = None
    trace: Trace | None = None
    fhir_question: FhirQuestionView | None = None
    clinical_task: TaskView | None = None


class CaseView(NamedTuple):
    """A case with the results of every run. `kind` is note, question or task."""

    id: str
    anchor: str
    case_index: int
    kind: str
    runs: tuple[CaseRunView, ...]
    specialty: str = ""
    questions: tuple[tuple[str, str], ...] = ()
    sentences: tuple[SentenceView, ...] = ()
    mark_counts: Mapping[str, int] = MappingProxyType({})


def case_view(
    case_index: int,
    item: Item,
    runs: Sequence[ReportData],
    *,
    text: bool = True,
    trace: bool = True,
) -> CaseView:
    """Return the view of a case of the case file.

    Without `text`, it has no text of the record; without `trace`, no steps are read.
    """
    if isinstance(item, Case):
        return _note_case_view(case_index, item, runs, text, trace)
    kind = "task" if isinstance(item, ClinicalTask) else "question"
    run_views = [_run_view(data, item, text, trace) for data in runs]
    return CaseView(
        id=item.id,
        anchor=_anchor(case_index),
        case_index=case_index,
        kind=kind,
        runs=tuple(run_views),
        questions=question_texts(item) if text else (),
    )


def _anchor(case_index: int) -> str:
    return f"c{case_index + 1}"


def _note_case_view(
    case_index: int, case: Case, runs: Sequence[ReportData], text: bool, trace: bool
) -> CaseView:
    anchor = _anchor(case_index)
    records = [data.run.get_record(case.id) for data in runs]
    key = note_view.key_for_subtask(records[0], _find_key(case.id, runs))
    marks_by_run = []
    claims_by_run = []
    run_views = []
    for run_index, data in enumerate(runs):
        record = records[run_index]
        marks = note_view.sentence_marks(case, record, key)
        claims = note_view.claim_views(case, record, anchor, run_index, marks)
        backends = data.run.manifest.backends
        grid = note_view.judgement_grid(case, record, backends, key, anchor, marks, text=text)
        run_view = _run_view(data, case, text, trace)
        run_views.append(run_view._replace(claims=tuple(claims), grid=grid))
        marks_by_run.append(marks)
        claims_by_run.append(claims)
    probabilities = note_view.pooled_probabilities(records[0])
    sentences = note_view.sentence_views(
        case, key, anchor, claims_by_run, marks_by_run, probabilities
    )
    return CaseView(
        id=case.id,
        anchor=anchor,
        case_index=case_index,
        kind="note",
        runs=tuple(run_views),
        specialty=case.clinical_specialty,
        questions=question_texts(case) if text else (),
        sentences=sentences,
        mark_counts=_count_marks(marks_by_run[0]),
    )


def _find_key(case_id: str, runs: Sequence[ReportData]) -> CaseKey | None:
    """Return the key of a case from the earliest run that has one."""
    for data in runs:
        if case_id in data.keys:
            return data.keys[case_id]
    return None


def _count_marks(marks: Mapping[str, str]) -> dict[str, int]:
    counts = {name: 0 for name in note_view.MARK_LABELS if name != "plain"}
    for mark in marks.values():
        if mark in counts:
            counts[mark] += 1
    return counts


def _run_view(data: ReportData, item: Item, text: bool, with_trace: bool) -> CaseRunView:
    record = data.run.get_record(item.id)
    scores = data.per_case.get(item.id, {})
    faults = data.faults.get(item.id, {})
    metric = case_metric_name(data)
    view = CaseRunView(
        name=data.run.manifest.run,
        record=record,
        status=record.status.value if record else "not reached",
        score=scores.get(metric),
    )
    if record and with_trace:
        agents = note_view.judgements_by_agent(record, data.run.manifest.backends)
        trace = case_trace(data.run, item.id, text=text, tables=len(agents) < 2)
        view = view._replace(trace=trace)
    if record and record.answer and text:
        view = view._replace(submission=record.answer.submission)
    if isinstance(item, RecordQuestion):
        gold = data.gold_questions.get(item.id)
        question_view = fhir_question_view(record, gold, faults)
        view = view._replace(fhir_question=question_view)
    if isinstance(item, ClinicalTask):
        view = view._replace(clinical_task=task_view(record, scores, faults))
    return view


def question_texts(item: Item) -> tuple[tuple[str, str], ...]:
    """Return the texts that ask a question, each with its heading."""
    if isinstance(item, Case):
        texts = {"The clinician’s question": item.clinician_question}
        if item.patient_narrative != item.clinician_question:
            texts["The patient’s message"] = item.patient_narrative
    elif isinstance(item, RecordQuestion):
        texts = {"Question": item.question, "Assumption": item.assumption}
    else:
        texts = {"Instruction": item.instruction, "Context": item.context}
    return tuple((heading, text) for heading, text in texts.items() if text.strip())
