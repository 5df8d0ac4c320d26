"""The view of a question on a FHIR record: the query, its rows, and the cited resources."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from archqa.report.answer_text import answer_text
from archqa.report.timeline import TimelinePanel, timeline_panels
from archqa.runs.record import CaseRecord
from archqa.tasks.fhir_agentbench.task import FhirQuestion, RecordResult

_MAX_ROWS = 200
_MARK_SYMBOLS = {"right": "✓", "wrong": "✕", "missed": "○", "cited": "▸"}


class Reference(NamedTuple):
    """A resource that was cited, or should have been."""

    name: str
    mark: str
    symbol: str


class RowView(NamedTuple):
    """One row of the query's result; the answer rests on those that are `chosen`."""

    time: str
    name: str
    value: str
    unit: str
    references: tuple[str, ...]
    chosen: bool


class FhirQuestionView(NamedTuple):
    """The result of one run for a question. `omitted` rows are in the run folder only."""

    query_text: str
    answer: str
    gold: str
    rows: tuple[RowView, ...]
    omitted: int
    chosen: int
    timelines: tuple[TimelinePanel, ...]
    references: tuple[Reference, ...]
    warnings: tuple[str, ...]
    faults: tuple[str, ...]
    query: Any


def fhir_question_view(
    record: CaseRecord | None, gold: FhirQuestion | None, faults: Mapping[str, Any]
) -> FhirQuestionView:
    """Return the view of a record's `result`; fields that a pipeline does not write are empty.

    `faults` has the scorer's `tags`.
    """
    result = RecordResult(answer=None)
    if record and isinstance(record.result, RecordResult):
        result = record.result
    rows = result.rows
    shown_rows = [_row_view(row) for row in _select_rows(rows)]
    chosen_rows = [row for row in rows if row.get("chosen")]
    fault_names = []
    for tag in faults.get("tags") or ():
        fault_names.append(str(tag).replace("_", " "))
    return FhirQuestionView(
        query_text=result.sentence,
        answer=answer_text(_answer(result, record)),
        gold=answer_text(gold.true_answer) if gold else "",
        rows=tuple(shown_rows),
        omitted=len(rows) - len(shown_rows),
        chosen=len(chosen_rows),
        timelines=timeline_panels(rows),
        references=_references(result, gold),
        warnings=result.warnings,
        faults=tuple(fault_names),
        query=result.query,
    )


def _select_rows(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return at most `_MAX_ROWS` rows in their order, preferring those that are chosen."""
    chosen_indices = []
    further_indices = []
    for index, row in enumerate(rows):
        if row.get("chosen"):
            chosen_indices.append(index)
        else:
            further_indices.append(index)
    shown_indices = (chosen_indices + further_indices)[:_MAX_ROWS]
    return [rows[index] for index in sorted(shown_indices)]


def _answer(result: RecordResult, record: CaseRecord | None) -> str:
    if result.answer is not None:
        return result.answer
    return record.error if record else ""


def _row_view(row: Mapping[str, Any]) -> RowView:
    references = row.get("references") or ()
    if isinstance(references, str):
        references = (references,)
    time = str(row.get("time") or "")
    return RowView(
        time=time.replace("T", " ")[:16],
        name=_text(row.get("name")),
        value=_text(row.get("value")) or _text(row.get("text")),
        unit=_text(row.get("unit")),
        references=tuple(map(str, references)),
        chosen=bool(row.get("chosen")),
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _references(result: RecordResult, gold: FhirQuestion | None) -> tuple[Reference, ...]:
    cited = _resource_names(result.cited or result.retrieved)
    expected = _resource_names(gold.true_fhir_ids) if gold else set()
    references = []
    for name in sorted(cited | expected):
        mark = "cited"
        if gold is not None:
            mark = _mark(is_cited=name in cited, is_expected=name in expected)
        references.append(Reference(name, mark, _MARK_SYMBOLS[mark]))
    return tuple(references)


def _mark(*, is_cited: bool, is_expected: bool) -> str:
    if not is_cited:
        return "missed"
    return "right" if is_expected else "wrong"


def _resource_names(ids_by_type: Mapping[str, Iterable[str]]) -> set[str]:
    """Return `Type/id` of each resource."""
    names = set()
    for resource_type, ids in ids_by_type.items():
        for resource_id in ids:
            names.add(f"{resource_type}/{resource_id}")
    return names
