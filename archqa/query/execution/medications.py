"""Rows of what was prescribed: one for each drug of each order, since a mix in one bag holds several.

The drug is found by following the order's reference and, for a mix, those of its ingredients; its name is an
identifier of the Medication in MIMIC-IV, where the code is only a number of the product.
"""

from typing import Any

from archqa.fhir import Resource
from archqa.fhir.views.resolver import MEDICATION_NAME
from archqa.query.execution.chart import Chart, reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import number_at, objects_at, text_at, value_at
from archqa.query.execution.names import concept_code, concept_names
from archqa.query.execution.rows import Row, parse_datetime


def medications(inquiry: ExecutionContext) -> list[Row]:
    """Rows of all orders of the patient."""
    return inquiry.chart.get_or_compute("medications", lambda: _rows(inquiry.chart))


def _rows(chart: Chart) -> list[Row]:
    orders = list(chart.record.search_all("MedicationRequest", {"patient": chart.patient}))
    named = {
        reference_id(order.get("medicationReference")): order.get("medicationReference")
        for order in orders
    }
    chart.resolver.fetch(reference for name, reference in named.items() if name)
    mixes = [
        found
        for reference in named.values()
        if (found := chart.resolver.resolve(reference)) is not None
    ]
    chart.resolver.fetch(
        part for mix in mixes for part in objects_at(mix, "ingredient.itemReference")
    )
    drugs = {
        name: chart.resolver.medications({"medicationReference": each})
        for name, each in named.items()
        if name
    }
    return [row for order in orders for row in _of_order(chart, order, drugs)]


def _of_order(chart: Chart, order: Resource, drugs: dict[str, list[Resource]]) -> list[Row]:
    named = reference_id(order.get("medicationReference"))
    found = drugs.get(named, [])
    if not found:
        return [
            _row(chart, order, concept_names(order.get("medicationCodeableConcept")), (), "", 1)
        ]
    is_mix = found[0]["id"] != named
    whole = f"Medication/{named}" if is_mix else ""
    return [
        _row(chart, order, _names(drug), (f"Medication/{drug['id']}",), whole, len(found))
        for drug in found
    ]


def _row(
    chart: Chart,
    order: Resource,
    names: tuple[str, ...],
    drug: tuple[str, ...],
    whole: str,
    count: int,
) -> Row:
    stay = chart.stays.get(reference_id(order.get("encounter")))
    dosage = value_at(order, "dosageInstruction")
    value, told, unit = _dose(dosage)
    route = value_at(dosage, "route")
    return Row(
        refs=(f"MedicationRequest/{order['id']}", *drug),
        name=names[0] if names else "",
        names=names,
        time=parse_datetime(text_at(order, "dispenseRequest.validityPeriod.start")),
        end=parse_datetime(text_at(order, "dispenseRequest.validityPeriod.end")),
        authored_on=parse_datetime(text_at(order, "authoredOn")),
        value=value,
        text=told,
        unit=unit,
        visit=stay.visit if stay else "",
        icu_stay_id=stay.icu if stay else "",
        whole=whole,
        parts=count,
        facts={"route": tuple(filter(None, (concept_code(route), *concept_names(route))))},
    )


def _dose(dosage: Any) -> tuple[float | None, str, str]:
    """The first dose as a number and as text; of a range, the number is its lower end."""
    rate = value_at(dosage, "doseAndRate")
    dose, low, high = (
        number_at(rate, f"{end}.value")
        for end in ("doseQuantity", "doseRange.low", "doseRange.high")
    )
    if dose is not None:
        return dose, f"{dose}", text_at(rate, "doseQuantity.unit")
    if low is not None:
        return (
            low,
            f"{low}" if high is None else f"{low}-{high}",
            text_at(rate, "doseRange.low.unit"),
        )
    return None, "", ""


def _names(drug: Resource) -> tuple[str, ...]:
    """As written: `Vancomycin ` with a blank is another text than without."""
    for identifier in objects_at(drug, "identifier"):
        if text_at(identifier, "system").endswith(MEDICATION_NAME) and text_at(identifier, "value"):
            return (text_at(identifier, "value"),)
    return concept_names(value_at(drug, "code"))
