"""The view of one case: its question, its note, and the answer of each run."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.judgement import mean_probabilities
from archqa.core.question import ClinicalTask, Item, RecordQuestion
from archqa.report.note_view import (
    ClaimView,
    JudgementGrid,
    SentenceView,
    judgement_grid,
    judgements_by_agent,
    note_view,
)
from archqa.report.page import MARK_LABELS
from archqa.report.record_view import (
    ClinicalTaskView,
    FhirQuestionView,
    clinical_task_view,
    fhir_question_view,
)
from archqa.report.report_data import ReportData
from archqa.report.trace import Trace, case_trace
from archqa.runs.record import CaseRecord


class CaseRunView(NamedTuple):
    """The result of one run for the case. `score` is None if the key does not have the case."""

    record: CaseRecord | None
    status: str
    score: float | None = None
    claims: tuple[ClaimView, ...] = ()
    submission: str = ""
    grid: JudgementGrid | None = None
    trace: Trace | None = None
    fhir_question: FhirQuestionView | None = None
    clinical_task: ClinicalTaskView | None = None


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
    view = CaseView(
        id=item.id,
        anchor=f"c{case_index + 1}",
        case_index=case_index,
        kind="task" if isinstance(item, ClinicalTask) else "question",
        runs=tuple(_run_view(data, item, text, trace) for data in runs),
        questions=question_texts(item) if text else (),
    )
    if not isinstance(item, Case):
        return view
    key = None
    for data in reversed(runs):
        key = data.keys.get(item.id) or key  # The key of the earliest run that has one.
    records = [run.record for run in view.runs]
    probabilities = mean_probabilities(records[0].judgements) if records[0] else {}
    note = note_view(item, records, key, view.anchor, probabilities)
    run_views = []
    for index, run in enumerate(view.runs):
        grid = judgement_grid(
            item,
            run.record,
            runs[index].run.manifest.backends,
            note.key,
            view.anchor,
            note.marks[index],
            text=text,
        )
        run_views.append(run._replace(claims=note.claims[index], grid=grid))
    mark_counts = dict.fromkeys(MARK_LABELS, 0)
    for mark in note.marks[0].values():
        mark_counts[mark] += 1
    del mark_counts["plain"]
    return view._replace(
        kind="note",
        runs=tuple(run_views),
        specialty=item.clinical_specialty,
        sentences=note.sentences,
        mark_counts=mark_counts,
    )


def _run_view(
    data: ReportData,
    item: Item,
    text: bool,
    with_trace: bool,
) -> CaseRunView:
    record = data.run.get_record(item.id)
    scores = data.per_case.get(item.id, {})
    faults = data.faults.get(item.id, {})
    view = CaseRunView(
        record=record,
        status=record.status.value if record else "not reached",
        score=scores.get(data.case_metric),
    )
    if record and with_trace:
        agents = judgements_by_agent(record, data.run.manifest.backends)
        has_grid = len(agents) > 1
        trace = case_trace(data.run, item.id, text=text, tables=not has_grid)
        view = view._replace(trace=trace)
    if record and record.answer and text:
        view = view._replace(submission=record.answer.submission)
    if isinstance(item, RecordQuestion):
        gold = data.gold_questions.get(item.id)
        view = view._replace(fhir_question=fhir_question_view(record, gold, faults))
    if isinstance(item, ClinicalTask):
        view = view._replace(clinical_task=clinical_task_view(record, scores, faults))
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
    filled = []
    for heading, text in texts.items():
        if text.strip():
            filled.append((heading, text))
    return tuple(filled)
