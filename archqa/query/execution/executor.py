"""A query is carried out on a record: rows, then the answer, then the resources it rests on."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from archqa.fhir import Record
from archqa.query.conventions import CLINICAL, Conventions, get_conventions
from archqa.query.execution.aggregation import aggregate_rows, comparison_value
from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.findings import Answer, QueryResult, collect_evidence
from archqa.query.execution.row_selection import RowSelection, select_rows
from archqa.query.execution.rows import Row
from archqa.query.model import Against, Query


def execute(
    query: Query,
    record: Record,
    patient: str,
    ways: str | Conventions = CLINICAL,
    *,
    chart: Chart | None = None,
) -> QueryResult:
    """The answer to a query about one patient (a FHIR id), with the rows and resources it rests on.

    `ways` are conventions or their name. Give `chart` to ask several questions about the same patient.
    Raises `CannotExecute` for a query that means nothing here, `CallerError` for unknown conventions, `FhirError` and
    `ServerUnavailable` as the record does.
    """
    chart = chart or Chart(record, patient)
    inquiry = ExecutionContext(query, chart, get_conventions(ways))
    with chart.lock:
        if chart.patient_resource is None:
            inquiry.warn("The record has no such patient.")
        own = select_rows(inquiry, query.names, query.when)
        if query.against is None:
            return _findings(inquiry, aggregate_rows(inquiry, own.chosen), _marked(own, "own"))
        against = query.against
        other = select_rows(inquiry, against.names or query.names, against.when)
        answer = _compared(inquiry, against, own, other)
        return _findings(inquiry, answer, [*_marked(own, "own"), *_marked(other, "other")])


def _compared(
    inquiry: ExecutionContext, against: Against, own: RowSelection, other: RowSelection
) -> Answer:
    """The difference, or whether the own side is greater; a None if one side has no number."""
    one, two = comparison_value(inquiry, own.chosen), comparison_value(inquiry, other.chosen)
    is_difference = against.relation == "difference"
    if one is None or two is None:
        missing = " and ".join(
            side for side, value in (("first", one), ("second", two)) if value is None
        )
        inquiry.warn(f"There is no number for the {missing} of the two that are compared.")
        return Answer(kind="number" if is_difference else "yes_no", values=(None,))
    if is_difference:
        units = {row.unit for row in (*own.chosen, *other.chosen)}
        return Answer(
            kind="number", values=(one - two,), unit=units.pop() if len(units) == 1 else ""
        )
    holds = {"greater": one > two, "less": one < two, "equal": one == two}[against.relation]
    return Answer(kind="yes_no", values=(holds,))


def _marked(selected: RowSelection, side: Literal["own", "other"]) -> list[Row]:
    chosen = {id(row) for row in selected.chosen}
    return [replace(row, chosen=id(row) in chosen, side=side) for row in selected.rows]


def _findings(inquiry: ExecutionContext, answer: Answer, rows: Iterable[Row]) -> QueryResult:
    kept = tuple(rows)
    return QueryResult(
        query=inquiry.query,
        patient=inquiry.chart.patient,
        conventions=inquiry.ways.name,
        answer=answer,
        rows=kept,
        evidence=collect_evidence(row for row in kept if row.chosen),
        warnings=tuple(inquiry.warnings),
        searched=tuple(inquiry.searched),
    )
