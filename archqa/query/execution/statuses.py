"""What a row's status and interpretation mean: fact, current or ended; high, low, positive.

Codes of interpretations: http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation; answers
in words and SNOMED CT codes: hl7.org/fhir/R4/valueset-observation-interpretation.html."""

import re
from datetime import datetime, time, timedelta
from typing import Any, Literal, NamedTuple

from archqa.fhir import Resource
from archqa.query.execution.elements import concept_codes, number_at, objects_at, text_at, value_at
from archqa.query.execution.rows import Row
from archqa.query.kinds import ERROR, KINDS, Source, Statuses

RowState = Literal["current", "ended", "neither", "unknown"]
"""neither: on hold, or not begun; unknown: the record does not say."""

_UNKNOWN_STATUSES = frozenset({"", "unknown"})
_DAY = timedelta(days=1)


def status_facts(statuses: Statuses, resource: Any) -> dict[str, tuple[str, ...]]:
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
    return frozenset((*row.facts.get("status", ()), *row.facts.get("status_detail", ())))


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

    A status of having ended decides; else an end before `now` does, and a start after it.
    """
    statuses = _statuses_of(what, row)
    codes = frozenset(row.facts.get("status", ()))
    if codes & statuses.ended or _has_passed(row.local_end, now):
        return "ended"
    if now is not None and row.local_time is not None and row.local_time > now:
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
        return end + _DAY <= now
    return end <= now


def _statuses_of(what: str, row: Row) -> Statuses:
    """The declared meaning of the statuses of the resource that holds the row."""
    sources = KINDS[what].sources
    return _source_of(sources, row).statuses if sources else Statuses()


def _source_of(sources: tuple[Source, ...], row: Row) -> Source:
    resource_type = row.refs[0].partition("/")[0]
    for source in sources:
        if source.type == resource_type:
            return source
    return sources[0]


_FLAGS_BY_CODE = {
    "H": "high",
    "HH": "high",
    "HU": "high",
    "HX": "high",
    ">": "high",
    "L": "low",
    "LL": "low",
    "LU": "low",
    "LX": "low",
    "<": "low",
    "A": "abnormal",
    "AA": "abnormal",
    "N": "normal",
    "POS": "positive",
    "DET": "positive",
    "RR": "positive",
    "NEG": "negative",
    "ND": "negative",
    "NR": "negative",
}
_FLAGS_BY_SNOMED_CODE = {
    "10828004": "positive",
    "260373001": "positive",
    "11214006": "positive",
    "52101004": "positive",
    "260385009": "negative",
    "260415000": "negative",
    "131194007": "negative",
    "2667000": "negative",
}
_NEGATIVE_ANSWER = re.compile(
    r"^\W*(negative|not detected|none detected|undetected|non-?\s?reactive|absent|no growth)\b",
    re.IGNORECASE,
)
_POSITIVE_ANSWER = re.compile(r"^\W*(positive|detected|reactive|present|pos)\b", re.IGNORECASE)


class ReferenceRange(NamedTuple):
    """The bounds within which a result is normal; None where a side is open."""

    low: float | None
    high: float | None
    unit: str
    text: str


def result_flags(result: Resource, number: float | None, text: str) -> tuple[str, ...]:
    """What a result, or a component of one, is: high, low, abnormal, normal, positive, negative.

    The interpretation decides. Where it only says abnormal, or nothing, the reference range tells
    which; an answer in words tells positive from negative.
    """
    flags = dict.fromkeys(_interpreted(result))
    if not flags.keys() & {"high", "low", "normal"}:
        # High, low or normal by the range, where value and range have one unit; else empty.
        reference = reference_range(result)
        if number is None or reference is None or not _same_unit(result, reference.unit):
            by_range = ""
        else:
            comparator = text_at(result, "valueQuantity.comparator")
            if comparator:
                by_range = _bound_by_range(comparator, number, reference)
            elif reference.low is not None and number < reference.low:
                by_range = "low"
            elif reference.high is not None and number > reference.high:
                by_range = "high"
            else:
                by_range = "normal"
        if by_range and not (by_range == "normal" and flags):
            flags[by_range] = None
    if not flags.keys() & {"positive", "negative"}:
        answer = _answer(result, text)
        if answer:
            flags[answer] = None
    return tuple(flags)


def range_text(result: Resource) -> str:
    """The reference range as text, such as `3.5-5.1 mmol/L`; empty if there is none."""
    reference = reference_range(result)
    if reference is None:
        return ""
    return reference.text


def reference_range(result: Resource) -> ReferenceRange | None:
    """The normal range; None without one, or where it depends on age, sex or other conditions."""
    ranges = []
    for element in objects_at(result, "referenceRange"):
        kind = text_at(element, "type.coding.code")
        if kind in {"", "normal"}:
            ranges.append(element)
    if len(ranges) > 1:
        ranges = [each for each in ranges if "appliesTo" not in each and "age" not in each]
    if len(ranges) != 1:
        return None
    ranges_element = ranges[0]
    low = number_at(ranges_element, "low.value")
    high = number_at(ranges_element, "high.value")
    unit = text_at(ranges_element, "low.unit", "high.unit", "low.code", "high.code")
    if low is None and high is None:
        return None
    return ReferenceRange(
        low, high, unit, text_at(ranges_element, "text") or _bounds(low, high, unit)
    )


def _bounds(low: float | None, high: float | None, unit: str) -> str:
    text = f"{low:g}-{high:g}" if low is not None and high is not None else ""
    if low is None:
        text = f"up to {high:g}"
    if high is None:
        text = f"from {low:g}"
    return f"{text} {unit}".strip()


def _interpreted(result: Resource) -> list[str]:
    flags = []
    for coding in objects_at(result, "interpretation.coding"):
        flag = _FLAGS_BY_CODE.get(text_at(coding, "code").upper())
        if flag:
            flags.append(flag)
    if not flags:
        texts = [text_at(concept, "text") for concept in objects_at(result, "interpretation")]
        flags = [text.lower() for text in texts if text.lower() in _FLAGS_BY_CODE.values()]
    return flags


def _bound_by_range(comparator: str, number: float, reference: ReferenceRange) -> str:
    """What `< 5` or `> 5` is, where that is certain."""
    is_upper_bound = comparator.startswith("<")
    if is_upper_bound and reference.low is not None and number <= reference.low:
        return "low"
    if not is_upper_bound and reference.high is not None and number >= reference.high:
        return "high"
    has_no_low = reference.low is None or reference.low <= 0
    if is_upper_bound and has_no_low and reference.high is not None and number <= reference.high:
        return "normal"
    return ""


def _same_unit(result: Resource, range_unit: str) -> bool:
    units = {text_at(result, "valueQuantity.unit"), text_at(result, "valueQuantity.code")}
    return not range_unit or range_unit in units or units == {""}


def _answer(result: Resource, text: str) -> str:
    """Positive or negative by the coded answer, else by its first words."""
    for coding in objects_at(result, "valueCodeableConcept.coding"):
        flag = _FLAGS_BY_SNOMED_CODE.get(text_at(coding, "code"))
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
