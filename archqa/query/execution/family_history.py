"""Conditions of relatives: family histories, and problems and results that are named so."""

import re
from collections.abc import Iterator
from dataclasses import replace

from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.declared_rows import declared_row, declared_rows
from archqa.query.execution.elements import objects_at, text_at
from archqa.query.execution.rows import Coding, Row
from archqa.query.execution.statuses import result_flags
from archqa.query.kinds import CONDITION, OBSERVATION
from archqa.query.values import Value
from archqa.terminology.concepts import related
from archqa.terminology.people import relatives_coded, relatives_named

_OF_FAMILY = re.compile(
    r"\b(?:family (?:medical )?(?:history|hx)|fam hx|fhx?)\b(?: of)?\W*", re.IGNORECASE
)
_ANOTHER = "another"
"""A relative that no question names, such as a mother-in-law."""

_AS_RESULT = OBSERVATION._replace(values=("valueCodeableConcept", "valueString"))


def family_history(context: ExecutionContext) -> list[Row]:
    """Rows of conditions of relatives, each with the fact `relative` where it is known."""
    rows = declared_rows(context, "family_history")
    if context.conventions.statuses == "ignored":
        return rows
    chart = context.chart
    return chart.get_or_compute("family history", lambda: list(_all_rows(chart, rows)))


def _all_rows(chart: Chart, rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        relatives = relatives_named(row.text)
        entry = chart.resolver.resolve(row.refs[0])
        for coding in objects_at(entry, "relationship.coding"):
            relatives = (*relatives, *relatives_coded(text_at(coding, "code")))
        yield _of_relatives(row, relatives)
    for condition in chart.search("Condition"):
        yield from _named_after_family(declared_row(chart, CONDITION, condition))
    for result in chart.results_about("family"):
        row = declared_row(chart, _AS_RESULT, result)
        is_denied = result.get("valueBoolean") is False
        if not is_denied and "negative" not in result_flags(
            result, Value(text=row.text)
        ):
            yield from _named_after_family(_with_value_as_name(row))


def _with_value_as_name(row: Row) -> Row:
    """A result "Family history" with its condition, which is the value."""
    match = _OF_FAMILY.search(row.name)
    if match is None or match.end() < len(row.name) or not row.text:
        return replace(row, text="")
    coding = Coding("", "", f"{row.name}: {row.text}")
    return replace(row, codings=(coding, *row.codings))


def _named_after_family(row: Row) -> Iterator[Row]:
    """The row of a condition or a result that a relative has, as its name or code says."""
    for coding in row.codings:
        match = _OF_FAMILY.search(coding.display)
        name = coding.display[match.end() :] if match else ""
        for concept, codes in related("family history code").items():
            if coding.code.replace(".", "").startswith(codes):
                name = concept
        if match or name:
            codings = (Coding("", "", name), *row.codings)
            named = replace(row, codings=codings)
            yield _of_relatives(named, relatives_named(name))
            return


def _of_relatives(row: Row, relatives: tuple[str, ...]) -> Row:
    """The row with its relatives, and the wider words for them: a mother is a parent."""
    groups: list[str] = []
    for relative in relatives:
        groups += related("relative group").get(relative, ())
    names = tuple(dict.fromkeys((*relatives, *groups)))
    if not names and not row.text:
        return row
    return replace(row, facts={**row.facts, "relative": names or (_ANOTHER,)})
