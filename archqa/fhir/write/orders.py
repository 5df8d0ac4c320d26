"""What an order is for, its doses and how often a day they are given.

Sources: hl7.org/fhir/R4/medicationrequest.html, servicerequest.html, dosage.html, and
datatypes.html#timing.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from archqa.core.tables import read_rows
from archqa.fhir.record import Resource
from archqa.terminology.concepts import related
from archqa.terminology.units import find_unit
from archqa.terminology.words import word_list

_EVERY_HOURS = re.compile(r"q ?(\d{1,2}) ?(?:h|hr|hrs|hours)(?![a-z])")
_DAYS = {"s": 1 / 86400, "min": 1 / 1440, "h": 1 / 24, "d": 1, "wk": 7, "mo": 30, "a": 365}
"""The days of a unit of time (hl7.org/fhir/R4/valueset-units-of-time.html)."""

_MAX_NUMBER = 1e100
"""Numbers above are no doses and no periods; an integer of JSON may exceed every float."""

OPEN_STATUSES = ("active", "on-hold", "draft")
"""The statuses of an order that is in force, or may come into force."""

GetMedication = Callable[[str], Resource | None]
"""Return the resource that a reference such as `Medication/id` names."""


class OrderedItem(NamedTuple):
    """A medication or service: its codes (system, code), its names in lower case, its reference."""

    codes: frozenset[tuple[str, str]]
    names: frozenset[str]
    reference: str = ""

    def is_same(self, other: "OrderedItem") -> bool:
        """Whether both share a reference, a code or a whole name."""
        if self.reference and self.reference == other.reference:
            return True
        return bool(self.codes & other.codes or self.names & other.names)


class Dose(NamedTuple):
    """A dose of an order, where it is in the resource, and how often a day it is given."""

    path: str
    value: float
    unit: str
    per_day: float

    def in_quantity(self) -> tuple[str, float]:
        """Return what the unit measures and the dose in its base unit; else the unit as written."""
        unit = find_unit(self.unit)
        if unit is None:
            return self.unit.strip().lower(), self.value
        return unit.quantity, self.value * unit.size


def ordered_item(order: Resource, get_medication: GetMedication) -> OrderedItem:
    """Return what an order is for; an item without code, name and reference equals no other."""
    concept = order.get("medicationCodeableConcept") or order.get("code")
    codes = {*concept_codes(concept)}
    names = {*_concept_names(concept)}
    reference = _reference(order)
    medication = _contained(order, reference) or (get_medication(reference) if reference else None)
    if medication is not None:
        codes.update(concept_codes(medication.get("code")))
        names.update(_concept_names(medication.get("code")))
        identifiers = list(_pairs(medication.get("identifier"), "value"))
        codes.update(identifiers)
        names.update(value.lower() for _, value in identifiers)
    if reference.startswith("#"):
        reference = ""
    return OrderedItem(frozenset(codes), frozenset(names), reference)


def concept_codes(concept: Any) -> Iterator[tuple[str, str]]:
    """Yield system and code of the codings of a CodeableConcept; "0" stands for no code."""
    if isinstance(concept, dict):
        yield from _pairs(concept.get("coding"), "code")


def _pairs(values: Any, member: str) -> Iterator[tuple[str, str]]:
    for value in objects(values):
        code = value.get(member)
        if isinstance(code, str) and code.strip("0 "):
            yield str(value.get("system") or ""), code


def _concept_names(concept: Any) -> Iterator[str]:
    if not isinstance(concept, dict):
        return
    texts = [concept.get("text")]
    texts += [coding.get("display") for coding in objects(concept.get("coding"))]
    for text in texts:
        if isinstance(text, str) and text.strip():
            yield " ".join(text.lower().split())


def _reference(order: Resource) -> str:
    reference = order.get("medicationReference")
    target = reference.get("reference") if isinstance(reference, dict) else None
    return target if isinstance(target, str) else ""


def _contained(order: Resource, reference: str) -> Resource | None:
    if not reference.startswith("#"):
        return None
    for resource in objects(order.get("contained")):
        if resource.get("id") == reference[1:]:
            return resource
    return None


def objects(values: Any) -> list[dict[str, Any]]:
    """Return the JSON objects of a list; none if the value is no list."""
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


def doses(order: Resource) -> Iterator[Dose]:
    """Yield the doses of an order that have a positive number and a unit."""
    for number, instruction in enumerate(objects(order.get("dosageInstruction"))):
        per_day = _doses_a_day(instruction.get("timing"))
        for part, dose_and_rate in enumerate(objects(instruction.get("doseAndRate"))):
            for path, quantity in _quantities(dose_and_rate):
                value = _positive(quantity.get("value"), 0)
                unit = quantity.get("code") or quantity.get("unit")
                if value and isinstance(unit, str):
                    place = f"dosageInstruction[{number}].doseAndRate[{part}].{path}"
                    yield Dose(place, value, unit, per_day)


def _quantities(dose_and_rate: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    dose_range = dose_and_rate.get("doseRange")
    high = dose_range.get("high") if isinstance(dose_range, dict) else None
    for path, quantity in (
        ("doseQuantity", dose_and_rate.get("doseQuantity")),
        ("doseRange.high", high),
    ):
        if isinstance(quantity, dict):
            yield path, quantity


def _doses_a_day(timing: Any) -> float:
    """Return how often a day a dose is given; 1 if it is rarer, or not known."""
    if not isinstance(timing, dict):
        return 1
    return max(1, _repeated(timing.get("repeat")), _abbreviated(timing.get("code")))


def _repeated(repeat: Any) -> float:
    if not isinstance(repeat, dict):
        return 1
    frequency = _positive(repeat.get("frequencyMax") or repeat.get("frequency"), 1)
    period = _positive(repeat.get("period"), 0)
    days = _DAYS.get(str(repeat.get("periodUnit")), 0)
    return frequency / (period * days) if period and days else 1


def _positive(value: Any, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < _MAX_NUMBER else default


def _abbreviated(concept: Any) -> float:
    known = _timing_codes()
    texts = [*_concept_names(concept), *(code.lower() for _, code in concept_codes(concept))]
    numbers = [known[text] for text in texts if text in known]
    for text in texts:
        every = _EVERY_HOURS.match(text)
        if every and int(every[1]):
            numbers.append(24 / int(every[1]))
    return max(numbers, default=1)


@cache
def _timing_codes() -> dict[str, float]:
    names_by_number = related("doses a day").items()
    return {name.lower(): float(number) for number, names in names_by_number for name in names}


class DailyMaximum(NamedTuple):
    """The highest dose of a day: the drug, what its unit measures, the dose in the base unit."""

    drug: str
    quantity: str
    dose: float
    text: str


def daily_maximum(order: Resource, item: OrderedItem) -> DailyMaximum | None:
    """Return the highest daily dose of a drug by itself that acts in the whole body, if known."""
    route_names = [
        name
        for instruction in objects(order.get("dosageInstruction"))
        for name in (*_concept_names(instruction.get("route")), *_route_codes(instruction))
    ]
    if _local_forms().search(" ; ".join([*item.names, *route_names])):
        return None
    matches = {maximum for name in item.names for maximum in _maxima_of(name)}
    return matches.pop() if len(matches) == 1 else None


def _route_codes(instruction: dict[str, Any]) -> Iterator[str]:
    for _, code in concept_codes(instruction.get("route")):
        yield code.lower()


def _maxima_of(name: str) -> Iterator[DailyMaximum]:
    for pattern, maximum in _daily_maxima():
        match = pattern.search(name)
        if match and not match["before"] and not match["after"]:
            yield maximum
        elif match:  # A combination: the dose may be that of the other part.
            yield DailyMaximum("", "", 0, "")


@cache
def _daily_maxima() -> tuple[tuple[re.Pattern[str], DailyMaximum], ...]:
    joint = r"\s*(?:[-/+]+|\band\b|\bwith\b|\bw/)\s*"
    maxima = []
    for cell, dose, unit_name, _ in read_rows("fhir/write/data/daily_maxima.tsv", 4):
        names = cell.split("|")
        unit = find_unit(unit_name)
        assert unit is not None
        drug = "|".join(map(re.escape, names))
        before, after = rf"(?P<before>[a-z]{{4,}}{joint})?", rf"(?P<after>{joint}[a-z]{{4,}})?"
        pattern = re.compile(rf"{before}\b(?:{drug})\b{after}")
        text = f"{dose} {unit_name} of {names[0]}"
        maxima.append(
            (pattern, DailyMaximum(names[0], unit.quantity, float(dose) * unit.size, text))
        )
    return tuple(maxima)


@cache
def _local_forms() -> re.Pattern[str]:
    words = "|".join(map(re.escape, sorted(word_list("local"))))
    return re.compile(rf"\b(?:{words})\b")
