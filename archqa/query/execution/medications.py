"""Rows of prescriptions: one for each drug of each order, since a mixture contains several.

A drug is resolved through the order's reference and, for a mixture, those of its ingredients. In
MIMIC-IV its name is an identifier of the Medication, whose code is only a product number.
"""

from typing import Any, NamedTuple

from archqa.fhir import Resource
from archqa.fhir.views.resolver import MEDICATION_NAME
from archqa.query.execution.chart import Chart, reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import number_at, objects_at, text_at, value_at
from archqa.query.execution.names import code_and_names, concept_names
from archqa.query.execution.rows import Row, parse_datetime


class Drug(NamedTuple):
    """One drug of an order, and the mixture it is part of."""

    names: tuple[str, ...]
    refs: tuple[str, ...] = ()
    mixture_ref: str = ""
    ingredient_count: int = 1


class Dose(NamedTuple):
    """The first dose as a number and as text; of a range, the number is its lower end."""

    number: float | None = None
    text: str = ""
    unit: str = ""


def medications(context: ExecutionContext) -> list[Row]:
    """Rows of all orders of the patient."""
    chart = context.chart
    return chart.get_or_compute("medications", lambda: _medication_rows(chart))


def _medication_rows(chart: Chart) -> list[Row]:
    orders = list(chart.record.search_all("MedicationRequest", {"patient": chart.patient}))
    medications_by_id = _resolve_medications(chart, orders)
    rows = []
    for order in orders:
        for drug in _drugs_of_order(order, medications_by_id):
            rows.append(_order_row(chart, order, drug))
    return rows


def _resolve_medications(chart: Chart, orders: list[Resource]) -> dict[str, list[Resource]]:
    """The Medications of each referenced one: itself, or the ingredients of a mixture."""
    references: dict[str, Any] = {}
    for order in orders:
        reference = order.get("medicationReference")
        references[reference_id(reference)] = reference
    # Two batches, products and ingredients, are far cheaper than fetching one by one.
    chart.resolver.fetch(reference for name, reference in references.items() if name)
    ingredients: list[Resource] = []
    for reference in references.values():
        medication = chart.resolver.resolve(reference)
        ingredients += objects_at(medication, "ingredient.itemReference")
    chart.resolver.fetch(ingredients)
    medications_by_id = {}
    for medication_id, reference in references.items():
        if medication_id:
            order = {"medicationReference": reference}
            medications_by_id[medication_id] = chart.resolver.medications(order)
    return medications_by_id


def _drugs_of_order(order: Resource, medications_by_id: dict[str, list[Resource]]) -> list[Drug]:
    medication_id = reference_id(order.get("medicationReference"))
    ingredients = medications_by_id.get(medication_id, [])
    if not ingredients:
        return [Drug(concept_names(order.get("medicationCodeableConcept")))]
    mixture_ref = ""
    if ingredients[0]["id"] != medication_id:
        mixture_ref = f"Medication/{medication_id}"
    drugs = []
    for medication in ingredients:
        drug = Drug(
            names=_medication_names(medication),
            refs=(f"Medication/{medication['id']}",),
            mixture_ref=mixture_ref,
            ingredient_count=len(ingredients),
        )
        drugs.append(drug)
    return drugs


def _order_row(chart: Chart, order: Resource, drug: Drug) -> Row:
    stay = chart.find_stay(order.get("encounter"))
    dosage = value_at(order, "dosageInstruction")
    dose = _first_dose(dosage)
    route = value_at(dosage, "route")
    start = text_at(order, "dispenseRequest.validityPeriod.start")
    end = text_at(order, "dispenseRequest.validityPeriod.end")
    return Row(
        refs=(f"MedicationRequest/{order['id']}", *drug.refs),
        name=next(iter(drug.names), ""),
        names=drug.names,
        time=parse_datetime(start),
        end=parse_datetime(end),
        authored_on=parse_datetime(text_at(order, "authoredOn")),
        value=dose.number,
        text=dose.text,
        unit=dose.unit,
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        mixture_ref=drug.mixture_ref,
        ingredient_count=drug.ingredient_count,
        facts={"route": code_and_names(route)},
    )


def _first_dose(dosage: Any) -> Dose:
    dose_and_rate = value_at(dosage, "doseAndRate")
    quantity = number_at(dose_and_rate, "doseQuantity.value")
    if quantity is not None:
        unit = text_at(dose_and_rate, "doseQuantity.unit")
        return Dose(quantity, f"{quantity}", unit)
    low = number_at(dose_and_rate, "doseRange.low.value")
    if low is None:
        return Dose()
    high = number_at(dose_and_rate, "doseRange.high.value")
    text = f"{low}"
    if high is not None:
        text = f"{low}-{high}"
    unit = text_at(dose_and_rate, "doseRange.low.unit")
    return Dose(low, text, unit)


def _medication_names(medication: Resource) -> tuple[str, ...]:
    """The names as written: `Vancomycin ` with a trailing blank differs from `Vancomycin`."""
    for identifier in objects_at(medication, "identifier"):
        name = text_at(identifier, "value")
        if name and text_at(identifier, "system").endswith(MEDICATION_NAME):
            return (name,)
    return concept_names(value_at(medication, "code"))
