"""Rows that state a fact, apart from errors and from what was planned, not done or denied."""

from collections.abc import Sequence

from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import is_error, is_fact, tentative_status
from archqa.query.kinds import KINDS

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
