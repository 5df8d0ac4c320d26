"""One case of one run, or of several runs side by side, ready to be laid out."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from archqa.core.case import Case
from archqa.core.question import ClinicalTask, Item, RecordQuestion
from archqa.report import note_view
from archqa.report.material import ReportData
from archqa.report.note_view import ClaimView, JudgementGrid, SentenceView
from archqa.report.record_view import FhirQuestionView, fhir_question_view
from archqa.report.scoreboard import case_metric_name
from archqa.report.task_view import TaskView, task_view
from archqa.report.trace import Trace, case_trace
from archqa.runs.record import CaseRecord


class CaseRunView(NamedTuple):
    """What one run made of the case. `score` is None where the key does not know the case."""

    name: str
    record: CaseRecord | None
    status: str
    score: float | None
    claims: tuple[ClaimView, ...]
    submission: str
    grid: JudgementGrid | None
    trace: Trace | None
    on_record: FhirQuestionView | None
    clinical_task: TaskView | None


class CaseView(NamedTuple):
    """A case with what every run made of it. `kind` is note, question or task."""

    id: str
    anchor: str
    place: int
    kind: str
    specialty: str
    questions: tuple[tuple[str, str], ...]
    sentences: tuple[SentenceView, ...]
    tally: dict[str, int]
    runs: tuple[CaseRunView, ...]
    keyed: bool


def case_view(
    place: int, item: Item, materials: Sequence[ReportData], *, text: bool = True
) -> CaseView:
    """The view of the case at this place of the case file. Without `text`, nothing of the record is in it."""
    anchor = f"c{place + 1}"
    records = [material.run.get_record(item.id) for material in materials]
    key = next((each.keys[item.id] for each in materials if item.id in each.keys), None)
    if not isinstance(item, Case):
        sides = tuple(_side(m, r, item, text) for m, r in zip(materials, records, strict=True))
        return CaseView(
            item.id,
            anchor,
            place,
            _kind(item),
            "",
            _questions(item, text),
            (),
            {},
            sides,
            keyed=False,
        )
    key = note_view.key_for_subtask(records[0], key)
    marked = [note_view.sentence_marks(item, record, key) for record in records]
    claims = [
        note_view.claim_views(item, record, anchor, at, marked[at])
        for at, record in enumerate(records)
    ]
    sides = tuple(
        _side(material, record, item, text)._replace(
            claims=tuple(claims[at]),
            grid=note_view.judgement_grid(item, record, key, anchor, marked[at], text=text),
        )
        for at, (material, record) in enumerate(zip(materials, records, strict=True))
    )
    held = note_view.pooled_probabilities(records[0])
    shown = note_view.sentence_views(item, key, anchor, claims, marked, held)
    tally = {
        name: sum(mark == name for mark in marked[0].values())
        for name in note_view.MARK_LABELS
        if name != "plain"
    }
    questions = _questions(item, text)
    specialty = item.clinical_specialty
    return CaseView(
        item.id,
        anchor,
        place,
        "note",
        specialty,
        questions,
        shown,
        tally,
        sides,
        keyed=key is not None,
    )


def answer_view(case: Case, record: CaseRecord) -> CaseView:
    """The view of one answer that is of no run: its page says the question above it."""
    marked = note_view.sentence_marks(case, record, None)
    claims = note_view.claim_views(case, record, "c1", 0, marked)
    held = note_view.pooled_probabilities(record)
    answer = record.answer.submission if record.answer else ""
    grid = note_view.judgement_grid(case, record, None, "c1", marked, text=True)
    side = CaseRunView(
        "", record, record.status.value, None, tuple(claims), answer, grid, None, None, None
    )
    shown = note_view.sentence_views(case, None, "c1", [claims], [marked], held)
    tally = {"cited": sum(mark == "cited" for mark in marked.values())}
    return CaseView("", "c1", 0, "note", "", (), shown, tally, (side,), keyed=False)


def _side(material: ReportData, record: CaseRecord | None, item: Item, text: bool) -> CaseRunView:
    scores: dict[str, Any] = material.per_case.get(item.id, {})
    question, faults = material.questions.get(item.id), material.faults.get(item.id, {})
    return CaseRunView(
        name=material.run.manifest.run,
        record=record,
        status=record.status.value if record else "not reached",
        score=scores.get(case_metric_name(material)),
        claims=(),
        submission=record.answer.submission if record and record.answer and text else "",
        grid=None,
        trace=case_trace(material.run, item.id, text=text) if record else None,
        on_record=fhir_question_view(record, question, faults)
        if isinstance(item, RecordQuestion)
        else None,
        clinical_task=task_view(record, scores, faults) if isinstance(item, ClinicalTask) else None,
    )


def _kind(item: Item) -> str:
    return "task" if isinstance(item, ClinicalTask) else "question"


def _questions(item: Item, text: bool) -> tuple[tuple[str, str], ...]:
    """What was asked, with what each text is."""
    if not text:
        return ()
    if isinstance(item, Case):
        narrative = (
            item.patient_narrative if item.patient_narrative != item.clinician_question else ""
        )
        asked = (
            ("The clinician’s question", item.clinician_question),
            ("The patient’s message", narrative),
        )
    elif isinstance(item, RecordQuestion):
        asked = (("Question", item.question), ("Assumption", item.assumption))
    else:
        asked = (("Instruction", item.instruction), ("Context", item.context))
    return tuple((name, words) for name, words in asked if words.strip())
