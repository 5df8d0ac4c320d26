"""A question to a FHIR record: the query in words, the rows it found, and the resources the answer rests on."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from archqa.report.timeline import TimelinePanel, timeline_panels
from archqa.runs.record import CaseRecord
from archqa.tasks.fhir_agentbench.cases import FhirQuestion
from archqa.tasks.fhir_agentbench.result import RecordResult

_MOST_ROWS = 200
_SIGNS = {"right": "✓", "wrong": "✕", "missed": "○", "cited": "▸"}


class Reference(NamedTuple):
    """A resource that was cited, or should have been."""

    name: str
    mark: str
    sign: str


class RowView(NamedTuple):
    """One row of the record that the query found."""

    time: str
    name: str
    value: str
    unit: str
    references: tuple[str, ...]
    chosen: bool


class FhirQuestionView(NamedTuple):
    """What became of one question with one run. `left_out` rows are in the run's folder only."""

    sentence: str
    answer: str
    gold: str
    rows: tuple[RowView, ...]
    left_out: int
    chosen: int
    timelines: tuple[TimelinePanel, ...]
    references: tuple[Reference, ...]
    warnings: tuple[str, ...]
    faults: tuple[str, ...]
    query: Any


def fhir_question_view(
    record: CaseRecord | None, gold: FhirQuestion | None, faults: Mapping[str, Any]
) -> FhirQuestionView:
    """The view of a record's `result`; what a pipeline does not write is empty. `faults` has the scorer's `tags`."""
    result = record.result if record else None
    if not isinstance(result, RecordResult):
        result = RecordResult(answer=None)
    rows = result.rows
    shown = sorted(enumerate(rows), key=lambda each: (not each[1].get("chosen"), each[0]))[
        :_MOST_ROWS
    ]
    return FhirQuestionView(
        sentence=result.sentence,
        answer=_answer(result, record),
        gold=gold.true_answer if gold else "",
        rows=tuple(_row(row) for _, row in sorted(shown, key=lambda each: each[0])),
        left_out=len(rows) - len(shown),
        chosen=sum(bool(each.get("chosen")) for each in rows),
        timelines=timeline_panels(rows),
        references=_references(result, gold),
        warnings=result.warnings,
        faults=tuple(str(each).replace("_", " ") for each in faults.get("tags") or ()),
        query=result.query,
    )


def _answer(result: RecordResult, record: CaseRecord | None) -> str:
    if result.answer is not None:
        return result.answer
    return record.error if record else ""


def _row(row: Mapping[str, Any]) -> RowView:
    names = row.get("references") or ()
    return RowView(
        time=str(row.get("time") or "").replace("T", " ")[:16],
        name=_text(row.get("name")),
        value=_text(row.get("value")) or _text(row.get("text")),
        unit=_text(row.get("unit")),
        references=(names,) if isinstance(names, str) else tuple(map(str, names)),
        chosen=bool(row.get("chosen")),
    )


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def _references(result: RecordResult, gold: FhirQuestion | None) -> tuple[Reference, ...]:
    cited = _names(result.cited or result.retrieved)
    true = _names(gold.true_fhir_ids) if gold else set()
    found = []
    for name in sorted(cited | true):
        mark = (
            "cited"
            if gold is None
            else "missed"
            if name not in cited
            else "right"
            if name in true
            else "wrong"
        )
        found.append(Reference(name, mark, _SIGNS[mark]))
    return tuple(found)


def _names(by_type: Any) -> set[str]:
    if not isinstance(by_type, Mapping):
        return set()
    return {
        f"{kind}/{each}"
        for kind, ids in by_type.items()
        if not isinstance(ids, str)
        for each in ids
    }
