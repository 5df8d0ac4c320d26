"""Whether a medicine is taken now, by what its own status does not tell.

A supply lasts for days, an order of long ago may never have been ended, a later order of the same
drug may have stopped, and a patient may have died.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from archqa.fhir import Resource
from archqa.query.execution.chart import reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import (
    local_time_at,
    number_at,
    objects_at,
    text_at,
)
from archqa.query.execution.rows import (
    Currency,
    Row,
    without_timezone,
)
from archqa.query.execution.statuses import is_fact, row_state
from archqa.terminology.drugs import has_form, ingredients_of

OLD_AFTER_YEARS = 5
"""An order that is older and never ended says little of today: prescriptions are renewed yearly."""

_GRACE_SHARE = 0.5
_MAX_GRACE = timedelta(days=30)
"""People refill late: studies of refill data allow half the supply, at most 30 days, beyond its end."""

_MAX_SUPPLY_DAYS = 36_500
"""More than a hundred years of a drug are a mistake of the record."""

_DAYS_PER_UNIT = {"": 1, "d": 1, "w": 7, "m": 30}
_SINGLE_DOSE = frozenset({"once", "once, at once"})
_FORMS = ("oral", "parenteral", "inhaled", "nasal", "topical", "ophthalmic", "rectal")
"""Products of one drug in different forms do not replace each other."""


class _Supply(NamedTuple):
    """What was handed over, when, and for how many days; None if that is not recorded."""

    row: Row
    time: datetime
    days: float | None


def is_single_dose(row: Row) -> bool:
    """Whether a drug was ordered once: nobody is on it."""
    return not _SINGLE_DOSE.isdisjoint(row.fact("frequency"))


def with_currency(
    context: ExecutionContext, rows: Sequence[Row], dispenses: Sequence[Resource]
) -> list[Row]:
    """The rows of medicines with what tells whether they are current.

    The dispense of an order that is among the rows is no row: it tells of the order.
    """
    supplies, repeated = _supplies(rows, dispenses)
    death = _death(context)
    ended_orders = _ended_orders(rows, context.now)
    judged = []
    for row in rows:
        if row.refs[0] in repeated:
            continue
        currency = death or _later_order(context, row, ended_orders)
        if currency is None and row.refs[0] in supplies:
            currency = _by_supply(row, supplies[row.refs[0]], context.now)
        currency = currency or _by_age(row, context.now)
        if currency is death:
            row = replace(row, currency=currency)
        elif currency is not None:
            refs = dict.fromkeys((*row.context_refs, *currency.refs))
            row = replace(row, currency=currency, context_refs=tuple(refs))
        judged.append(row)
    return judged


def _supplies(
    rows: Sequence[Row], dispenses: Sequence[Resource]
) -> tuple[dict[str, _Supply], set[str]]:
    """The last supply of each row, by its reference, and the dispenses that repeat an order."""
    rows_by_reference = {row.refs[0]: row for row in rows}
    supplies: dict[str, _Supply] = {}
    repeated: set[str] = set()
    for dispense in dispenses:
        reference = f"MedicationDispense/{dispense['id']}"
        row = rows_by_reference[reference]
        orders = []
        for prescription in objects_at(dispense, "authorizingPrescription"):
            order = f"MedicationRequest/{reference_id(prescription)}"
            if order in rows_by_reference:
                orders.append(order)
                repeated.add(reference)
        if row.local_time is None or not is_fact("medication", row):
            continue
        supply = _Supply(row, row.local_time, _days(dispense))
        for supplied in orders or [reference]:
            known = supplies.get(supplied)
            if known is None or known.time < supply.time:
                supplies[supplied] = supply
    return supplies, repeated


def _days(dispense: Resource) -> float | None:
    number = number_at(dispense, "daysSupply.value")
    unit = text_at(dispense, "daysSupply.code", "daysSupply.unit")
    days_per_unit = _DAYS_PER_UNIT.get(unit[:1].lower())
    if number is None or days_per_unit is None:
        return None
    days = number * days_per_unit
    return days if 0 <= days <= _MAX_SUPPLY_DAYS else None


def _by_supply(row: Row, supply: _Supply, now: datetime | None) -> Currency | None:
    """How far a supply reaches; of an order with one that is over, its own status tells more."""
    if now is None or supply.time > now or "stopped" in row.fact("status"):
        return None
    is_order = supply.row.refs[0] != row.refs[0]
    if supply.days is None:
        return None if is_order else Currency("supply_unknown", "unknown")
    length = timedelta(days=supply.days)
    end = supply.time + length
    is_current = now <= end + min(length * _GRACE_SHARE, _MAX_GRACE)
    if is_order and not is_current:
        return None
    return Currency(
        reason="supplied" if now <= end else "supply_over",
        state="current" if is_current else "unknown",
        date=end,
        days=supply.days,
        dispensed=supply.time if is_order else None,
        refs=supply.row.refs[:1] if is_order else (),
    )


def _by_age(row: Row, now: datetime | None) -> Currency | None:
    """That an order of long ago was never ended."""
    written = _written(row)
    if now is None or written is None or row.end is not None:
        return None
    years = now.year - written.year - (written.replace(year=4) > now.replace(year=4))
    if years < OLD_AFTER_YEARS or row_state("medication", row, now) != "current":
        return None
    return Currency("never_ended", "current")


def _death(context: ExecutionContext) -> Currency | None:
    """The death of the patient, unless it was after the time of the question."""
    patient = context.chart.patient_resource or {}
    died = local_time_at(patient, "deceasedDateTime")
    if died is None and patient.get("deceasedBoolean") is not True:
        return None
    if died is not None and context.now is not None and died > context.now:
        return None
    return Currency("death", "ended", died, refs=(f"Patient/{context.chart.patient}",))


def _ended_orders(
    rows: Sequence[Row], now: datetime | None
) -> dict[tuple[str, ...], list[Row]]:
    """The orders and statements of each drug that have ended, oldest first."""
    ended: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        written = _written(row)
        is_taken = row.ingredient_count == 1 and not is_single_dose(row)
        is_handed_over = row.refs[0].startswith("MedicationDispense/")
        if written is None or is_handed_over or not is_taken:
            continue
        if (now is not None and written > now) or not is_fact("medication", row):
            continue
        if row_state("medication", row, now) == "ended":
            ended[_drug_key(row)].append(row)
    for orders in ended.values():
        orders.sort(key=lambda row: _written(row) or datetime.min)
    return ended


def _later_order(
    context: ExecutionContext,
    row: Row,
    ended_orders: dict[tuple[str, ...], list[Row]],
) -> Currency | None:
    """The last later order of the same drug that has ended; None for a row that has ended itself."""
    written = _written(row)
    orders = ended_orders.get(_drug_key(row))
    if not orders or written is None or not is_fact("medication", row):
        return None
    if row_state("medication", row, context.now) == "ended":
        return None
    for later in reversed(orders):
        date = _written(later)
        if date is not None and date > written and _replaces(context, later, row):
            statuses = later.fact("status")
            status = next(iter(statuses), "")
            return Currency("later_order", "ended", date, status, refs=later.refs[:1])
    return None


def _replaces(context: ExecutionContext, later: Row, row: Row) -> bool:
    """Whether the end of a later order of the same drug is the end of an earlier one.

    One that was stopped ends each product of the drug in the same form, one that was completed only
    its own. What is ordered during a stay in hospital does not end what is taken at home.
    """
    inpatient = {visit["id"] for visit in context.hospital_visits.all}
    visits = {later.hospital_visit_id, row.hospital_visit_id} & inpatient
    if visits and row.hospital_visit_id not in visits:
        return False
    if _folded(later.name) == _folded(row.name):
        return True
    forms, later_forms = _forms(row), _forms(later)
    is_same_form = not (forms and later_forms) or bool(forms & later_forms)
    return is_same_form and "stopped" in later.fact("status")


def _forms(row: Row) -> set[str]:
    texts = " ".join((row.name, *row.fact("route")))
    return {form for form in _FORMS if has_form(texts, form)}


def _drug_key(row: Row) -> tuple[str, ...]:
    """The ingredients of a drug; its name, where they are not known."""
    for name in row.names:
        ingredients = ingredients_of(name)
        if ingredients:
            return tuple(sorted(ingredients))
    return (_folded(row.name),)


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def _written(row: Row) -> datetime | None:
    return without_timezone(row.time or row.authored_on)
