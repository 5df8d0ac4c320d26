"""Limits on the attributes of a row: facts, results, values, flags, classes, reasons, state."""

import operator
from collections.abc import Callable, Sequence

from archqa.query.execution.concept_limit import (
    REASON_KINDS,
    ConceptMatcher,
    concepts_named,
)
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.details import with_reasons
from archqa.query.execution.flags import matches_flag
from archqa.query.execution.names import NameMatcher
from archqa.query.execution.problems import CannotExecute
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state
from archqa.query.kinds import KINDS
from archqa.query.model import Query

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "greater": operator.gt,
    "less": operator.lt,
    "at_least": operator.ge,
    "at_most": operator.le,
    "equal": operator.eq,
}


def filter_by_attributes(context: ExecutionContext, rows: Sequence[Row]) -> list[Row]:
    """The rows that pass the limits that depend on nothing but the row as it was read."""
    return [row for row in rows if _passes_limits(context, row)]


def filter_by_state(context: ExecutionContext, rows: Sequence[Row]) -> list[Row]:
    """The rows that are current, or have ended, at the time of the question."""
    query = context.query
    if query.state is None:
        return list(rows)
    states = [row_state(query.what, row, context.now) for row in rows]
    unknown = states.count("unknown")
    if unknown:
        context.warn(
            f"{unknown} of {len(rows)} {KINDS[query.what].plural} do not say whether they are "
            "current or have ended, and are left out."
        )
    return [row for row, state in zip(rows, states, strict=True) if state == query.state]


def filter_by_flag(context: ExecutionContext, rows: Sequence[Row]) -> list[Row]:
    """The results that are marked so, or lie so to their reference range."""
    if context.query.flag is None:
        return list(rows)
    measured = [row for row in rows if row.value is not None]
    unmarked = [row for row in measured if not row.facts.get("flag")]
    if unmarked:
        context.warn(
            f"{len(unmarked)} of {len(measured)} {KINDS[context.query.what].plural} with a number "
            "have neither an interpretation nor a reference range, and are left out."
        )
    return [row for row in rows if matches_flag(context.query.flag, row.facts.get("flag", ()))]


def filter_by_class(context: ExecutionContext, rows: Sequence[Row]) -> list[Row]:
    """The encounters of one of the classes."""
    classes = context.query.classes
    if not classes:
        return list(rows)
    return [row for row in rows if not set(classes).isdisjoint(row.facts.get("class", ()))]


def filter_by_reason(context: ExecutionContext, rows: Sequence[Row]) -> list[Row]:
    """The rows with one of the reasons, by name or by concept. Their resources are cited."""
    reasons = context.query.reasons
    if not reasons:
        return list(rows)
    tests = [_reason_test(context, reason) for reason in reasons]
    return [
        row
        for row in with_reasons(context, rows, context.query.what)
        if any(test(row) for test in tests)
    ]


def _reason_test(context: ExecutionContext, reason: str) -> Callable[[Row], bool]:
    matches_name = NameMatcher((reason,), (), context.conventions)
    try:
        matcher = ConceptMatcher(concepts_named((reason,), REASON_KINDS), past=True)
    except CannotExecute:
        matcher = ConceptMatcher(())

    def matches(row: Row) -> bool:
        names = row.facts.get("reason", ())
        return matches_name(*names) or matcher.matches(row.reason_codings)

    return matches


def _passes_limits(context: ExecutionContext, row: Row) -> bool:
    query = context.query
    requested_facts = {
        "specimen": query.specimens,
        "organism": query.organisms,
        "route": query.routes,
        "admission_source": query.admission_sources,
    }
    for fact, names in requested_facts.items():
        if names and not _matches_any(context, names, row.facts.get(fact, ())):
            return False
    results = (*row.facts.get("result", ()), row.text)
    if query.results and not _matches_any(context, query.results, results):
        return False
    has_organism = bool(row.facts.get("organism"))
    if query.grew is not None and has_organism != query.grew:
        return False
    return _passes_value_test(query, row)


def _matches_any(
    context: ExecutionContext, names: tuple[str, ...], row_names: tuple[str, ...]
) -> bool:
    matches = NameMatcher(names, row_names, context.conventions)
    return matches(*row_names)


def _passes_value_test(query: Query, row: Row) -> bool:
    if query.value is None:
        return True
    if row.value is None:
        return False
    passes = _COMPARISONS[query.value.comparison]
    return passes(row.value, query.value.number)
