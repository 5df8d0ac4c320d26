"""Execution of a query on a record: rows, then the answer, then the supporting resources."""

import operator
from collections.abc import Callable
from dataclasses import replace

from archqa.core.id_lists import list_ids
from archqa.fhir import Record
from archqa.query.conventions import CLINICAL, Conventions, get_conventions
from archqa.query.execution.aggregation import aggregate_rows, comparison_value
from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.findings import Answer, AnswerKind, QueryResult, collect_evidence
from archqa.query.execution.named_rows import Wanted
from archqa.query.execution.problems import CannotExecute
from archqa.query.execution.row_selection import RowSelection, row_matcher, select_rows
from archqa.query.execution.rows import Row, Side
from archqa.query.model import Against, Query

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "greater": operator.gt,
    "less": operator.lt,
    "equal": operator.eq,
}


def execute(
    query: Query,
    record: Record,
    patient: str,
    conventions: str | Conventions = CLINICAL,
    *,
    chart: Chart | None = None,
) -> QueryResult:
    """The answer to a query about one patient (a FHIR id), with its rows and supporting resources.

    `conventions` may be a name. Give `chart` to ask several questions about the same patient.
    Raises `CannotExecute` for a query that has no meaning here, `CallerError` for unknown
    conventions, and `FhirError` and `ServerUnavailable` as the record does.
    """
    chart = chart or Chart(record, patient)
    context = ExecutionContext(query, chart, get_conventions(conventions))
    with chart.lock:
        if chart.patient_resource is None:
            context.warn("The record has no such patient.")
        wanted = Wanted(query.names, query.concepts)
        selection = select_rows(context, wanted, query.when)
        if query.against is None:
            matcher = row_matcher(context, wanted)
            answer = aggregate_rows(context, selection.chosen, matcher)
            return _query_result(context, answer, _mark_chosen(selection, "own"))
        return _execute_comparison(context, query.against, selection)


def _execute_comparison(
    context: ExecutionContext, against: Against, own: RowSelection
) -> QueryResult:
    _check_comparable(context, Wanted((), context.query.concepts))
    wanted = Wanted(against.names, against.concepts)
    if wanted.is_everything:
        wanted = Wanted(context.query.names, context.query.concepts)
    _check_comparable(context, wanted)
    opposite = select_rows(context, wanted, against.when)
    answer = _compare(context, against, own, opposite)
    rows = [*_mark_chosen(own, "own"), *_mark_chosen(opposite, "other")]
    return _query_result(context, answer, rows)


def _check_comparable(context: ExecutionContext, wanted: Wanted) -> None:
    """Raise `CannotExecute` for a measurement of several parts, unless rows are only counted."""
    parts = row_matcher(context, wanted).parts
    if parts and context.query.summary != "count":
        names = list_ids(part.name for part in parts)
        raise CannotExecute(
            f"A comparison needs one number, but {wanted} has several parts.\n"
            f"Compare one of them: {names}."
        )


def _compare(
    context: ExecutionContext, against: Against, own: RowSelection, opposite: RowSelection
) -> Answer:
    """The difference, or whether the relation is true; None if one side has no number."""
    own_value = comparison_value(context, own.chosen)
    opposite_value = comparison_value(context, opposite.chosen)
    is_difference = against.relation == "difference"
    kind: AnswerKind = "yes_no"
    if is_difference:
        kind = "number"
    if own_value is None or opposite_value is None:
        _warn_of_missing_sides(context, own_value, opposite_value)
        return Answer(kind=kind, values=(None,))
    if is_difference:
        difference = own_value - opposite_value
        unit = _common_unit([*own.chosen, *opposite.chosen])
        return Answer(kind=kind, values=(difference,), unit=unit)
    is_true = _RELATIONS[against.relation](own_value, opposite_value)
    return Answer(kind=kind, values=(is_true,))


def _common_unit(rows: list[Row]) -> str:
    """The unit of all rows; empty if they differ."""
    units = {row.unit for row in rows}
    if len(units) != 1:
        return ""
    return units.pop()


def _warn_of_missing_sides(
    context: ExecutionContext, own_value: float | None, opposite_value: float | None
) -> None:
    sides = []
    if own_value is None:
        sides.append("first")
    if opposite_value is None:
        sides.append("second")
    missing = " and ".join(sides)
    context.warn(f"There is no number for the {missing} of the two that are compared.")


def _mark_chosen(selection: RowSelection, side: Side) -> list[Row]:
    chosen_ids = {id(row) for row in selection.chosen}
    rows = []
    for row in selection.rows:
        is_chosen = id(row) in chosen_ids
        rows.append(replace(row, chosen=is_chosen, side=side))
    return rows


def _query_result(context: ExecutionContext, answer: Answer, rows: list[Row]) -> QueryResult:
    chosen = [row for row in rows if row.chosen]
    return QueryResult(
        query=context.query,
        patient=context.chart.patient,
        conventions=context.conventions.name,
        answer=answer,
        rows=tuple(rows),
        evidence=collect_evidence(chosen),
        warnings=tuple(context.warnings),
        unit_warning=context.unit_warning,
        searched=tuple(context.searched),
        steps=tuple(context.steps),
        left_out=tuple(context.left_out),
    )
