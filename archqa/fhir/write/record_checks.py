"""What a record says against a resource that is to be written: only warnings, they never refuse.

An order beside an active one of the same medication or service, a unit that the record does not
have for the code, and a dose far from the record's other orders of the medication or above the
highest of a day. A finding tells nothing of other patients but that their orders differ.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from archqa.errors import ArchqaError
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Resource
from archqa.fhir.request_budget import RequestBudget, RequestLimits, check_budget, use_budget
from archqa.fhir.search.units_of_codes import units_of_codes
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.urls import escape
from archqa.fhir.write.orders import (
    OPEN_STATUSES,
    Dose,
    OrderedItem,
    concept_codes,
    daily_maximum,
    doses,
    objects,
    ordered_item,
)
from archqa.fhir.write.validation import Finding
from archqa.terminology.units import find_unit

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
        if resource.get("resourceType") in _ORDERS and resource.get("status") in OPEN_STATUSES:
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
            for number, component in enumerate(objects(resource.get("component"))):
                yield from self._unusual_units(component, f"component[{number}].")
        elif resource_type in _ORDERS:
            item = ordered_item(resource, self._medication)
            yield from self._double_order(resource, item)
            if resource_type == "MedicationRequest":
                yield from self._unusual_doses(resource, item)
                yield from _above_daily_maximum(resource, item)

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
        other = self._open_order(order, item, patient)
        if other is not None:
            yield _warning(path, f"{problem}, {resource_type}/{other}.")
            return
        with self._lock:
            accepted = [known for known in self._accepted if known.patient == patient]
        if any(known.item.is_same(item) for known in accepted):
            yield _warning(path, f"{problem}, accepted here before (nothing is stored).")

    def _open_order(self, order: Resource, item: OrderedItem, patient: str) -> str | None:
        """Return the id of an open order of the same for the same patient."""
        query = {
            "patient": escape(patient),
            "status": ",".join(OPEN_STATUSES),
            "_count": _MAX_ORDERS,
            "_total": "none",
        }
        for other in self._record.search(order["resourceType"], query, lenient=False).resources:
            is_itself = other.get("id") == order.get("id")
            if not is_itself and item.is_same(ordered_item(other, self._medication)):
                return str(other.get("id"))
        return None

    def _unusual_units(self, result: Resource, path: str) -> Iterator[Finding]:
        quantity = result.get("valueQuantity")
        if not isinstance(quantity, dict):
            return
        names = (quantity.get("code"), quantity.get("unit"))
        units = [name for name in names if isinstance(name, str) and name]
        with self._record.read_session() as session:
            codes = list(concept_codes(result.get("code")))
            known = units_of_codes(session.connection, self._record.schemas, codes)
        if not units or not known or {*map(_normal, units)} & {*map(_normal, known)}:
            return
        if _measures(units) and _measures(known) and not _measures(units) & _measures(known):
            problem = "the unit measures something else than the record's for this code:"
        else:
            problem = "no result of this code in the record has this unit, but"
        yield _warning(f"{path}valueQuantity", f"{problem} {_list_units(known)}.")

    def _unusual_doses(self, order: Resource, item: OrderedItem) -> Iterator[Finding]:
        ordered = list(doses(order))
        if not ordered:
            return
        usual: dict[str, list[float]] = {}
        for other in self._orders_of(item):
            if other.get("id") != order.get("id"):
                for dose in doses(other):
                    quantity, value = dose.in_quantity()
                    usual.setdefault(quantity, []).append(value)
        for dose in ordered:
            yield from _compare(dose, usual)

    def _orders_of(self, item: OrderedItem) -> list[Resource]:
        """Return orders of the same medication in the record, of any patient."""
        queries = [{"code": f"{escape(system)}|{escape(code)}"} for system, code in item.codes]
        if item.reference:
            queries.append({"medication": escape(item.reference)})
        orders: dict[str, Resource] = {}
        for query in queries:
            limited = {**query, "_count": _MAX_DOSES, "_total": "none"}
            page = self._record.search("MedicationRequest", limited, lenient=False)
            orders.update((str(order.get("id")), order) for order in page.resources)
        return list(orders.values())


def _compare(dose: Dose, usual: dict[str, list[float]]) -> Iterator[Finding]:
    """Yield what the other doses of the record say about a dose."""
    others = "the record's other orders of this medication"
    quantity, value = dose.in_quantity()
    values = [number for number in usual.get(quantity, []) if number > 0]
    if not values and sum(map(len, usual.values())) >= _MIN_DOSES:
        yield _warning(dose.path, f"{others} have doses in other units.")
    elif len(values) >= _MIN_DOSES and value > _TIMES_HIGHEST * max(values):
        yield _warning(dose.path, f"is more than {_TIMES_HIGHEST} times the highest of {others}.")
    elif len(values) >= _MIN_DOSES and value * _TIMES_LOWEST < min(values):
        lower = f"is less than a {_TIMES_LOWEST}th of the lowest of {others}."
        yield _warning(dose.path, lower)


def _above_daily_maximum(order: Resource, item: OrderedItem) -> Iterator[Finding]:
    maximum = daily_maximum(order, item)
    if maximum is None or not maximum.drug:
        return
    for dose in doses(order):
        quantity, value = dose.in_quantity()
        if quantity == maximum.quantity and value * dose.per_day > maximum.dose * 1.000001:
            yield _warning(
                dose.path,
                f"is above {maximum.text} a day, the most that its US label or monograph names"
                " for adults.",
            )


def _patient(order: Resource) -> str:
    subject = order.get("subject")
    reference = subject.get("reference") if isinstance(subject, dict) else None
    target = parse_reference(reference) if isinstance(reference, str) else None
    return target.id if target is not None and target.type == "Patient" else ""


def _normal(unit: str) -> str:
    known = find_unit(unit)
    return known.ucum if known else unit.strip().lower()


def _measures(units: Iterable[str]) -> set[str]:
    """Return what the known ones of these units measure."""
    return {unit.quantity for unit in map(find_unit, units) if unit is not None}


def _list_units(units: Iterable[str]) -> str:
    """Return a few short units, each once."""
    short = {_normal(unit): unit for unit in sorted(units) if len(unit) <= _MAX_UNIT_LENGTH}
    return ", ".join(list(short.values())[:_MAX_UNITS_NAMED]) or "another one"


def _warning(path: str, message: str) -> Finding:
    return Finding(level="warn", path=path, message=message)
