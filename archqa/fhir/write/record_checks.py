"""What a record says against a resource that is to be written: only warnings, they never refuse.

An order beside an active one of the same medication or service, a unit that the record does not
have for the code, and a dose far from the record's other orders of the medication or above the
highest of a day. A finding tells nothing of other patients but that their orders differ.
Sources: hl7.org/fhir/R4/medicationrequest.html, servicerequest.html, dosage.html, and
datatypes.html#timing.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from archqa.core.tables import read_rows
from archqa.errors import ArchqaError
from archqa.fhir.record import FhirError, Resource, member_of, objects_of
from archqa.fhir.request_budget import (
    RequestBudget,
    RequestLimits,
    check_budget,
    use_budget,
)
from archqa.fhir.search.statistics import units_of_codes
from archqa.fhir.store import LocalRecord
from archqa.fhir.values.references import parse_reference, parse_reference_element
from archqa.fhir.values.urls import escape
from archqa.fhir.write.validation import Finding
from archqa.terminology.concepts import related
from archqa.terminology.units import find_unit
from archqa.terminology.words import word_list

_LIMITS = RequestLimits(seconds=2.0, resources=3000)
"""What the checks of one resource may read, apart from what the reply to a request may hold."""

_MAX_ORDERS = "1000"
"""Active orders of a patient that are compared."""

_MAX_DOSES = "500"
"""Orders of a medication whose doses are compared."""

_MIN_DOSES = 5
"""Doses that a record must have before it says what is usual."""

_TIMES_HIGHEST = 5
_TIMES_LOWEST = 10
"""A dose is warned of if it is so many times the highest, or the lowest is so many times the dose.

On the MIMIC-IV demo, each dose against the others of its product: 0 and 4 of 12,226.
"""

_MAX_UNITS_NAMED = 3
_MAX_UNIT_LENGTH = 20
_ORDERS = ("MedicationRequest", "ServiceRequest")
_NAMES = {"MedicationRequest": "medication", "ServiceRequest": "service"}

_EVERY_HOURS = re.compile(r"q ?(\d{1,2}) ?(?:h|hr|hrs|hours)(?![a-z])")
_DAYS = {
    "s": 1 / 86400,
    "min": 1 / 1440,
    "h": 1 / 24,
    "d": 1,
    "wk": 7,
    "mo": 30,
    "a": 365,
}
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
    codes = {*_concept_codes(concept)}
    names = {*_concept_names(concept)}
    text = member_of(order.get("medicationReference"), "reference")
    reference = text if isinstance(text, str) else ""
    medication = None
    if reference.startswith("#"):
        for contained in objects_of(order, "contained"):
            if contained.get("id") == reference[1:]:
                medication = contained
                break
    if medication is None and reference:
        medication = get_medication(reference)
    if medication is not None:
        codes.update(_concept_codes(medication.get("code")))
        names.update(_concept_names(medication.get("code")))
        for system, value in _pairs(medication, "identifier", "value"):
            codes.add((system, value))
            names.add(value.lower())
    return OrderedItem(
        codes=frozenset(codes),
        names=frozenset(names),
        reference="" if reference.startswith("#") else reference,
    )


def _concept_codes(concept: Any) -> Iterator[tuple[str, str]]:
    """Yield system and code of the codings of a CodeableConcept; "0" stands for no code."""
    yield from _pairs(concept, "coding", "code")


def _pairs(parent: Any, values: str, member: str) -> Iterator[tuple[str, str]]:
    for value in objects_of(parent, values):
        code = value.get(member)
        if isinstance(code, str) and code.strip("0 "):
            yield str(value.get("system") or ""), code


def _concept_names(concept: Any) -> Iterator[str]:
    if not isinstance(concept, dict):
        return
    texts = [concept.get("text")]
    for coding in objects_of(concept, "coding"):
        texts.append(coding.get("display"))
    for text in texts:
        if isinstance(text, str) and text.strip():
            yield " ".join(text.lower().split())


def doses(order: Resource) -> Iterator[Dose]:
    """Yield the doses of an order that have a positive number and a unit."""
    for number, instruction in enumerate(objects_of(order, "dosageInstruction")):
        per_day = _doses_a_day(instruction.get("timing"))
        for part, dose_and_rate in enumerate(objects_of(instruction, "doseAndRate")):
            high = member_of(dose_and_rate.get("doseRange"), "high")
            quantities = {
                "doseQuantity": dose_and_rate.get("doseQuantity"),
                "doseRange.high": high,
            }
            for path, quantity in quantities.items():
                if not isinstance(quantity, dict):
                    continue
                value = _positive(quantity.get("value"), 0)
                unit = quantity.get("code") or quantity.get("unit")
                if value and isinstance(unit, str):
                    yield Dose(
                        f"dosageInstruction[{number}].doseAndRate[{part}].{path}",
                        value,
                        unit,
                        per_day,
                    )


def _doses_a_day(timing: Any) -> float:
    """Return how often a day a dose is given; 1 if it is rarer, or not known."""
    if not isinstance(timing, dict):
        return 1
    numbers = [1.0]
    repeat = timing.get("repeat")
    if isinstance(repeat, dict):
        frequency = _positive(repeat.get("frequencyMax") or repeat.get("frequency"), 1)
        period = _positive(repeat.get("period"), 0)
        days = _DAYS.get(str(repeat.get("periodUnit")), 0)
        if period and days:
            numbers.append(frequency / (period * days))
    concept = timing.get("code")
    texts = [
        *_concept_names(concept),
        *(code.lower() for _, code in _concept_codes(concept)),
    ]
    for text in texts:
        if text in _timing_codes():
            numbers.append(_timing_codes()[text])
        every = _EVERY_HOURS.match(text)
        if every and int(every[1]):
            numbers.append(24 / int(every[1]))
    return max(numbers)


def _positive(value: Any, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < _MAX_NUMBER else default


@cache
def _timing_codes() -> dict[str, float]:
    codes = {}
    for number, names in related("doses a day").items():
        codes.update({name.lower(): float(number) for name in names})
    return codes


class DailyMaximum(NamedTuple):
    """The highest dose of a day: the drug, what its unit measures, the dose in the base unit."""

    drug: str
    quantity: str
    dose: float
    text: str


def daily_maximum(order: Resource, item: OrderedItem) -> DailyMaximum | None:
    """Return the highest daily dose of a drug by itself that acts in the whole body, if known."""
    words = list(item.names)
    for instruction in objects_of(order, "dosageInstruction"):
        route = instruction.get("route")
        words += _concept_names(route)
        words += [code.lower() for _, code in _concept_codes(route)]
    if _local_forms().search(" ; ".join(words)):
        return None
    matches: set[DailyMaximum | None] = set()
    for name in item.names:
        for pattern, maximum in _daily_maxima():
            match = pattern.search(name)
            if match:
                # In a combination, the dose may be that of the other part.
                is_combined = match["before"] or match["after"]
                matches.add(None if is_combined else maximum)
    return matches.pop() if len(matches) == 1 else None


@cache
def _daily_maxima() -> tuple[tuple[re.Pattern[str], DailyMaximum], ...]:
    joint = r"\s*(?:[-/+]+|\band\b|\bwith\b|\bw/)\s*"
    maxima = []
    for cell, dose, unit_name, _ in read_rows("fhir/write/data/daily_maxima.tsv", 4):
        names = cell.split("|")
        unit = find_unit(unit_name)
        assert unit is not None
        drug = "|".join(map(re.escape, names))
        before, after = (
            rf"(?P<before>(?<![a-z])[a-z]{{4,}}+{joint})?",
            rf"(?P<after>{joint}[a-z]{{4,}})?",
        )
        pattern = re.compile(rf"{before}\b(?:{drug})\b{after}")
        maxima.append(
            (
                pattern,
                DailyMaximum(
                    names[0],
                    unit.quantity,
                    float(dose) * unit.size,
                    f"{dose} {unit_name} of {names[0]}",
                ),
            )
        )
    return tuple(maxima)


@cache
def _local_forms() -> re.Pattern[str]:
    words = "|".join(map(re.escape, sorted(word_list("local"))))
    return re.compile(rf"\b(?:{words})\b")


class _Order(NamedTuple):
    """An order that was accepted, but is not in the record."""

    patient: str
    item: OrderedItem


class RecordChecks:
    """Check resources against one record. `remember` keeps orders that the record does not get."""

    def __init__(self, record: LocalRecord) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._accepted: deque[_Order] = deque(maxlen=200)

    def remember(self, resource: Resource) -> None:
        """Let later orders of the same be warned of, though this one is not stored."""
        if (
            resource.get("resourceType") in _ORDERS
            and resource.get("status") in OPEN_STATUSES
        ):
            item = ordered_item(resource, self._medication)
            with self._lock:
                self._accepted.append(_Order(_patient(resource), item))

    def findings(self, resource: Any) -> list[Finding]:
        """Return the warnings about a resource; whatever its shape, none raises."""
        check_budget()
        try:
            with use_budget(RequestBudget(_LIMITS)):
                return list(self._findings(resource))
        except (FhirError, ArchqaError):
            message = "was not compared with the record: that took too long, or failed."
            return [Finding(level="info", path="", message=f"the resource {message}")]

    def _findings(self, resource: Any) -> Iterator[Finding]:
        if not isinstance(resource, dict):
            return
        resource_type = resource.get("resourceType")
        if resource_type == "Observation":
            yield from self._unusual_units(resource, "")
            for number, component in enumerate(objects_of(resource, "component")):
                yield from self._unusual_units(component, f"component[{number}].")
        elif resource_type in _ORDERS:
            item = ordered_item(resource, self._medication)
            yield from self._double_order(resource, item)
            if resource_type == "MedicationRequest":
                yield from self._unusual_doses(resource, item)

    def _medication(self, reference: str) -> Resource | None:
        target = parse_reference(reference)
        if target is None or target.type != "Medication":
            return None
        return self._record.get("Medication", target.id)

    def _double_order(self, order: Resource, item: OrderedItem) -> Iterator[Finding]:
        patient = _patient(order)
        resource_type = order["resourceType"]
        if not patient or order.get("status") not in OPEN_STATUSES:
            return
        path = "code" if resource_type == "ServiceRequest" else "medication[x]"
        problem = f"the patient has an open order of the same {_NAMES[resource_type]}"
        query = {
            "patient": escape(patient),
            "status": ",".join(OPEN_STATUSES),
            "_count": _MAX_ORDERS,
            "_total": "none",
        }
        for other in self._record.search(resource_type, query, lenient=False).resources:
            is_itself = other.get("id") == order.get("id")
            if not is_itself and item.is_same(ordered_item(other, self._medication)):
                yield _warning(path, f"{problem}, {resource_type}/{other.get('id')}.")
                return
        with self._lock:
            accepted = [known for known in self._accepted if known.patient == patient]
        if any(known.item.is_same(item) for known in accepted):
            yield _warning(
                path, f"{problem}, accepted here before (nothing is stored)."
            )

    def _unusual_units(self, result: Resource, path: str) -> Iterator[Finding]:
        quantity = result.get("valueQuantity")
        if not isinstance(quantity, dict):
            return
        names = (quantity.get("code"), quantity.get("unit"))
        units = [name for name in names if isinstance(name, str) and name]
        with self._record.read_session() as session:
            codes = list(_concept_codes(result.get("code")))
            known = units_of_codes(session.connection, self._record.schemas, codes)
        if not units or not known or {*map(_normal, units)} & {*map(_normal, known)}:
            return
        if (
            _measures(units)
            and _measures(known)
            and not _measures(units) & _measures(known)
        ):
            problem = (
                "the unit measures something else than the record's for this code:"
            )
        else:
            problem = "no result of this code in the record has this unit, but"
        # A few short units, each once.
        short = {
            _normal(unit): unit
            for unit in sorted(known)
            if len(unit) <= _MAX_UNIT_LENGTH
        }
        named = ", ".join(list(short.values())[:_MAX_UNITS_NAMED]) or "another one"
        yield _warning(f"{path}valueQuantity", f"{problem} {named}.")

    def _unusual_doses(self, order: Resource, item: OrderedItem) -> Iterator[Finding]:
        """Yield what the record's other orders, and a drug's highest dose, say about the doses."""
        ordered = list(doses(order))
        usual = self._usual_doses(order, item) if ordered else {}
        others = "the record's other orders of this medication"
        for dose in ordered:
            quantity, value = dose.in_quantity()
            values = [number for number in usual.get(quantity, []) if number > 0]
            if not values and sum(map(len, usual.values())) >= _MIN_DOSES:
                yield _warning(dose.path, f"{others} have doses in other units.")
            elif len(values) >= _MIN_DOSES and value > _TIMES_HIGHEST * max(values):
                yield _warning(
                    dose.path,
                    f"is more than {_TIMES_HIGHEST} times the highest of {others}.",
                )
            elif len(values) >= _MIN_DOSES and value * _TIMES_LOWEST < min(values):
                yield _warning(
                    dose.path,
                    f"is less than a {_TIMES_LOWEST}th of the lowest of {others}.",
                )
        maximum = daily_maximum(order, item)
        for dose in ordered if maximum is not None else ():
            quantity, value = dose.in_quantity()
            assert maximum is not None
            if (
                quantity == maximum.quantity
                and value * dose.per_day > maximum.dose * 1.000001
            ):
                source = "the most that its US label or monograph names for adults"
                yield _warning(dose.path, f"is above {maximum.text} a day, {source}.")

    def _usual_doses(
        self, order: Resource, item: OrderedItem
    ) -> dict[str, list[float]]:
        """Return the doses of other orders of the same medication, of any patient, by quantity."""
        queries = [
            {"code": f"{escape(system)}|{escape(code)}"} for system, code in item.codes
        ]
        if item.reference:
            queries.append({"medication": escape(item.reference)})
        others: dict[str, Resource] = {}
        for query in queries:
            limited = {
                **query,
                "_count": _MAX_DOSES,
                "_total": "none",
            }
            page = self._record.search("MedicationRequest", limited, lenient=False)
            others.update((str(other.get("id")), other) for other in page.resources)
        usual: dict[str, list[float]] = {}
        for other in others.values():
            if other.get("id") != order.get("id"):
                for dose in doses(other):
                    quantity, value = dose.in_quantity()
                    usual.setdefault(quantity, []).append(value)
        return usual


def _patient(order: Resource) -> str:
    target = parse_reference_element(order.get("subject"))
    return target.id if target is not None and target.type == "Patient" else ""


def _normal(unit: str) -> str:
    known = find_unit(unit)
    return known.ucum if known else unit.strip().lower()


def _measures(units: Iterable[str]) -> set[str]:
    """Return what the known ones of these units measure."""
    return {unit.quantity for unit in map(find_unit, units) if unit is not None}


def _warning(path: str, message: str) -> Finding:
    return Finding(level="warn", path=path, message=message)
