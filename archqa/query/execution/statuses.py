"""What a row's status and interpretation mean: fact, current or ended; high, low, positive.

Codes of interpretations: http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation; answers
in words and SNOMED CT codes: hl7.org/fhir/R4/valueset-observation-interpretation.html.
"""

import math
import re
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple

from archqa.fhir import Resource
from archqa.query.execution.elements import (
    concept_codes,
    number_at,
    objects_at,
    text_at,
    value_at,
)
from archqa.query.execution.rows import Facts, Row, RowState
from archqa.query.kinds import ERROR, KINDS, Statuses
from archqa.query.values import Value, interval_of
from archqa.terminology.cues import names_by_code

_UNKNOWN_STATUSES = frozenset({"", "unknown"})
_DAY = timedelta(days=1)


_NEGATIVE_ANSWER = re.compile(
    r"^\W*(negative|not detected|none detected|undetected|non-?\s?reactive|absent|no growth)\b",
    re.IGNORECASE,
)
_POSITIVE_ANSWER = re.compile(
    r"^\W*(positive|detected|reactive|present|pos)\b", re.IGNORECASE
)


class ReferenceRange(NamedTuple):
    """The bounds within which a result is normal; None where a side is open."""

    low: float | None
    high: float | None
    unit: str
    text: str


def status_facts(statuses: Statuses, resource: Any) -> Facts:
    """The facts `status` (of the first declared path) and `status_detail` (of the others)."""
    facts = {}
    own_path, *other_paths = statuses.paths
    own = _codes_at(resource, own_path)
    details: dict[str, None] = {}
    for path in other_paths:
        details.update(dict.fromkeys(_codes_at(resource, path)))
    if own:
        facts["status"] = own
    if details:
        facts["status_detail"] = tuple(details)
    return facts


def _codes_at(resource: Any, path: str) -> tuple[str, ...]:
    """The codes at a path. Of a boolean that is true, the name of its element (doNotPerform)."""
    value = value_at(resource, path)
    if value is True:
        return (path,)
    return concept_codes(value)


def _all_codes(row: Row) -> frozenset[str]:
    return frozenset((*row.fact("status"), *row.fact("status_detail")))


def is_error(row: Row) -> bool:
    """Whether the row was recorded by mistake."""
    return ERROR in _all_codes(row)


def is_fact(what: str, row: Row) -> bool:
    """Whether the row states something that is or was so: neither an error, nor planned, nor denied."""
    statuses = _statuses_of(what, row)
    excluded = {ERROR, *statuses.no_fact}
    return excluded.isdisjoint(_all_codes(row))


def tentative_status(what: str, row: Row) -> str:
    """The status of a row that is only provisional; empty if it is established."""
    codes = _all_codes(row) & _statuses_of(what, row).tentative
    return min(codes, default="")


def row_state(what: str, row: Row, now: datetime | None) -> RowState:
    """Whether a row is current or has ended at a local time, by its statuses and its dates.

    A status of having ended decides; else an end before `now` does, and a start after it. Of a
    medicine, its currency comes first.
    """
    if row.currency is not None:
        return row.currency.state
    statuses = _statuses_of(what, row)
    codes = frozenset(row.fact("status"))
    if codes & statuses.ended or _has_passed(row.local_end, now):
        return "ended"
    is_later = now is not None and row.local_time is not None and row.local_time > now
    if is_later and not KINDS[what].ahead:
        return "neither"
    if codes & statuses.current:
        return "current"
    if codes - _UNKNOWN_STATUSES:
        return "neither"
    if now is not None and row.local_end is not None:
        return "current"
    return "unknown"


def _has_passed(end: datetime | None, now: datetime | None) -> bool:
    """Whether an end lies before a time; a bare date lasts until its day is over."""
    if end is None or now is None:
        return False
    if end.time() == time.min:
        # The end may be the last day that Python has.
        return end <= now - _DAY
    return end <= now


def _statuses_of(what: str, row: Row) -> Statuses:
    """The declared meaning of the statuses of the resource that holds the row."""
    sources = KINDS[what].sources
    resource_type = row.refs[0].partition("/")[0]
    for source in sources:
        if source.type == resource_type:
            return source.statuses
    return sources[0].statuses if sources else Statuses()


def result_flags(result: Resource, value: Value) -> tuple[str, ...]:
    """What a result, or a component of one, is: high, low, abnormal, normal, positive, negative.

    The interpretation decides. Where it only says abnormal, or nothing, the reference range tells
    which; an answer in words tells positive from negative.
    """
    flags = dict.fromkeys(_interpreted(result) or _marked(value.mark))
    if not flags.keys() & {"high", "low", "normal"}:
        by_range = _flag_by_range(result, value)
        if by_range and not (by_range == "normal" and flags):
            flags[by_range] = None
    if not flags.keys() & {"positive", "negative"}:
        answer = _answer(result, value.text)
        if answer:
            flags[answer] = None
    return tuple(flags)


def _flag_by_range(result: Resource, value: Value) -> str:
    """High, low or normal by the range, where value and range have one unit; else empty.

    Of a bound or a range, only what is certain.
    """
    reference = reference_range(result)
    if reference is None:
        return ""
    units = {value.unit, text_at(result, "valueQuantity.code")}
    if reference.unit and reference.unit not in units and any(units):
        return ""
    interval = interval_of(value.number, value.comparator, value.text)
    if interval is None:
        return ""
    low, high, _, _ = reference
    if low is not None and interval.satisfies("less", low):
        return "low"
    if high is not None and interval.satisfies("greater", high):
        return "high"
    # What is below a bound is not below zero.
    from_zero = low is not None and low <= 0 and interval.low == -math.inf
    is_not_low = low is None or from_zero or interval.satisfies("at_least", low)
    is_not_high = high is None or interval.satisfies("at_most", high)
    return "normal" if is_not_low and is_not_high else ""


def reference_range(result: Resource) -> ReferenceRange | None:
    """The normal range; None without one, or where it depends on age, sex or other conditions."""
    ranges = []
    for element in objects_at(result, "referenceRange"):
        kind = text_at(element, "type.coding.code")
        if kind in {"", "normal"}:
            ranges.append(element)
    if len(ranges) > 1:
        ranges = [
            each for each in ranges if "appliesTo" not in each and "age" not in each
        ]
    if len(ranges) != 1:
        return None
    element = ranges[0]
    low = number_at(element, "low.value")
    high = number_at(element, "high.value")
    unit = text_at(element, "low.unit", "high.unit", "low.code", "high.code")
    if low is not None and high is not None:
        bounds = f"{low:g}-{high:g}"
    elif high is not None:
        bounds = f"up to {high:g}"
    elif low is not None:
        bounds = f"from {low:g}"
    else:
        return None
    return ReferenceRange(
        low, high, unit, text_at(element, "text") or f"{bounds} {unit}".strip()
    )


def _interpreted(result: Resource) -> list[str]:
    flags = []
    for coding in objects_at(result, "interpretation.coding"):
        flag = names_by_code("flag").get(text_at(coding, "code").upper())
        if flag:
            flags.append(flag)
    if not flags:
        for concept in objects_at(result, "interpretation"):
            text = text_at(concept, "text").lower()
            if text in names_by_code("flag").values():
                flags.append(text)
    return flags


def _marked(mark: str) -> list[str]:
    """The flag that is written behind a number: HH, critical."""
    flags = ("high", "low")
    named = [flag for flag in flags if flag in mark.lower()]
    if named:
        return named
    flag = names_by_code("flag").get(mark)
    if flag:
        return [flag]
    return ["abnormal"] if mark in {"CRITICAL", "ABNORMAL"} else []


def _answer(result: Resource, text: str) -> str:
    """Positive or negative by the coded answer or a boolean, else by its first words."""
    boolean = result.get("valueBoolean")
    if isinstance(boolean, bool):
        return "positive" if boolean else "negative"
    for coding in objects_at(result, "valueCodeableConcept.coding"):
        flag = names_by_code("answer").get(text_at(coding, "code"))
        if flag:
            return flag
    if _NEGATIVE_ANSWER.search(text):
        return "negative"
    if _POSITIVE_ANSWER.search(text):
        return "positive"
    return ""


def matches_flag(requested: Any, flags: tuple[str, ...]) -> bool:
    """Whether the flags of a result are what a query asks for; high and low are abnormal, too."""
    if requested == "abnormal":
        return not {"high", "low", "abnormal"}.isdisjoint(flags)
    if requested == "normal":
        return "normal" in flags and {"high", "low", "abnormal"}.isdisjoint(flags)
    return requested in flags
