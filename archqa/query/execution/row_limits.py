"""Limits on the attributes of a row: facts, results, values, flags, classes, reasons, state."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.declared_rows import with_reasons
from archqa.query.execution.named_rows import (
    REASON_KINDS,
    ConceptMatcher,
    NameMatcher,
    concepts_named,
)
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import (
    is_error,
    is_fact,
    matches_flag,
    row_state,
    tentative_status,
)
from archqa.query.execution.time_windows import Window
from archqa.query.kinds import KINDS
from archqa.query.model import CannotExecute, Query
from archqa.query.scope import When

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


NO_KNOWN_ALLERGY_CODES = frozenset(
    {
        "716186003",
        "409137002",
        "429625007",
        "428607008",
        "428197003",
        "716184000",
        "716220001",
        "1003774007",
        "160244002",
        "260176001",
    }
)
"""SNOMED CT: no known (drug, food, environmental, latex, ...) allergy."""


def keep_facts(
    context: ExecutionContext, rows: Sequence[Row], what: str = ""
) -> tuple[list[Row], list[Row]]:
    """The facts, and the other rows that are no errors; by the conventions, all rows are facts."""
    what = what or context.query.what
    if context.conventions.statuses == "ignored":
        return list(rows), []
    facts = [row for row in rows if is_fact(what, row) and not _denies_allergy(what, row)]
    if len(facts) == len(rows):
        _warn_of_tentative(context, what, facts)
        return facts, []
    errors = sum(map(is_error, rows))
    fact_ids = set(map(id, facts))
    others = [row for row in rows if id(row) not in fact_ids and not is_error(row)]
    if errors:
        context.warn(f"{errors} {KINDS[what].plural} were entered in error and do not count.")
    context.note_step("that are facts, not cancelled, planned, denied or errors", facts)
    _warn_of_tentative(context, what, facts)
    return facts, others


def _denies_allergy(what: str, row: Row) -> bool:
    """Whether an allergy says that there is none."""
    if what != "allergy":
        return False
    if any(coding.code in NO_KNOWN_ALLERGY_CODES for coding in row.codings):
        return True
    return row.name.lower().startswith(("no known", "nka", "nkda", "no allerg"))


def _warn_of_tentative(context: ExecutionContext, what: str, rows: Sequence[Row]) -> None:
    statuses = [tentative_status(what, row) for row in rows]
    tentative = [status for status in statuses if status]
    if tentative:
        named = " or ".join(sorted(set(tentative)))
        context.warn(f"{len(tentative)} of {len(rows)} {KINDS[what].plural} are only {named}.")


_ENCOUNTER_KINDS = frozenset({"lab", "microbiology_test", "organism", "susceptibility"})
"""Kinds that may lack an encounter, which conventions can require."""


def filter_by_scope(
    context: ExecutionContext,
    rows: list[Row],
    what: str,
    when: When,
    scope: Scope,
    *,
    by_end: bool = False,
) -> list[Row]:
    """Rows within the visit and the window; `by_end` compares their end with the window."""
    if context.conventions.requires_encounter and what in _ENCOUNTER_KINDS:
        rows = _with_encounter(context, rows, what)
    if what == "medication":
        rows = _resolve_missing_starts(context, rows, when)
    rows = [row for row in rows if scope.contains(row)]
    if not when.spans:
        return rows
    return _in_window(context, rows, what, scope.window, by_end=by_end)


def _in_window(
    context: ExecutionContext, rows: list[Row], what: str, window: Window, *, by_end: bool
) -> list[Row]:
    undated = 0
    rows_in_window = []
    for row in rows:
        time = row.local_time
        if by_end:
            time = row.local_end
        if time is None:
            undated += 1
        elif window.contains(time):
            rows_in_window.append(row)
    if undated:
        context.warn(
            f"{undated} of {len(rows)} {KINDS[what].plural} have no time and are left out."
        )
    return rows_in_window


def _with_encounter(context: ExecutionContext, rows: list[Row], what: str) -> list[Row]:
    rows_with_encounter = [row for row in rows if row.hospital_visit_id]
    omitted = len(rows) - len(rows_with_encounter)
    if omitted:
        percent = 100 * omitted / len(rows)
        context.warn(
            f"{omitted} of {len(rows)} {KINDS[what].plural} ({percent:.0f} %) have no encounter "
            "and are left out."
        )
    return rows_with_encounter


def _resolve_missing_starts(context: ExecutionContext, rows: list[Row], when: When) -> list[Row]:
    """Orders without a start, by the conventions."""
    rows_with_start = [row for row in rows if row.time is not None]
    without_start = len(rows) - len(rows_with_start)
    if without_start == 0:
        return rows
    fact = f"{without_start} of {len(rows)} prescriptions have no start"
    policy = context.conventions.missing_start_policy
    if policy == "authored_unless_ordered" and when.position:
        context.warn(f"{fact} and are left out of the order.")
        return rows_with_start
    if when.spans or when.position:
        context.warn(f"{fact}: the time of writing stands in.")
    return list(map(_with_start, rows))


def _with_start(row: Row) -> Row:
    if row.time is not None:
        return row
    return replace(row, time=row.authored_on)
