"""Rows of drugs: one for each drug of each order or dose, since a mixture contains several.

A drug is resolved through the order's reference and, for a mixture, those of its ingredients. In
MIMIC-IV its name is an identifier of the Medication, whose code is only a product number.

Codes of dosages: http://terminology.hl7.org/CodeSystem/v3-GTSAbbreviation and v3-TimingEvent, and
what hospitals write in their place (Q8H, PRN).
"""

import re
from typing import Any, NamedTuple

from archqa.fhir import Resource
from archqa.fhir.views.resolver import MEDICATION_NAME
from archqa.query.execution.chart import Chart, reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.currency import with_currency
from archqa.query.execution.declared_rows import declared_facts, source_resources
from archqa.query.execution.elements import (
    code_and_names,
    concept_codings,
    concept_name,
    concept_names,
    elements_at,
    number_at,
    objects_at,
    target_of,
    text_at,
    time_at,
    value_at,
)
from archqa.query.execution.rows import Coding, Facts, Row
from archqa.query.kinds import (
    MEDICATION_ADMINISTRATION,
    MEDICATION_DISPENSE,
    MEDICATION_REQUEST,
    MEDICATION_STATEMENT,
    Source,
)
from archqa.terminology.cues import names_by_code

_EVERY_HOURS = re.compile(r"^Q\s?(\d+)\s?H(?:RS?|OURS?)?$", re.IGNORECASE)
_STRENGTH = re.compile(
    r"(?<![\w.])\d[\d,]{0,20}(?:\.\d+)?\s?(?:mg|mcg|ug|g|ml|meq|mmol|unt|units?|iu|%)"
    r"(?:\s?/\s?(?:\d+(?:\.\d+)?\s?)?(?:mg|g|ml|hr|h|actuat|unt))?(?!\w)",
    re.IGNORECASE,
)

_VOLUME = re.compile(r"[\d.,]+\s?ml", re.IGNORECASE)


def dosage_facts(dosages: list[Any]) -> Facts:
    """The facts `frequency` and `dosage` (the instruction as written) of dosage instructions."""
    frequencies: dict[str, None] = {}
    texts: dict[str, None] = {}
    for dosage in dosages:
        frequencies[_frequency(dosage)] = None
        texts[text_at(dosage, "text", "patientInstruction")] = None
        for instruction in objects_at(dosage, "additionalInstruction"):
            texts[concept_name(instruction)] = None
    facts = {"frequency": frequencies, "dosage": texts}
    return {
        name: tuple(filter(None, values))
        for name, values in facts.items()
        if any(values)
    }


def strength(name: str) -> str:
    """The strength that a drug's name states, such as `10 MG` or `0.05 MG/ML`; empty if none.

    A product of several drugs has one strength each; a mere volume is none.
    """
    amounts = [match.group().strip() for match in _STRENGTH.finditer(name)]
    strengths = [amount for amount in amounts if not _VOLUME.fullmatch(amount)]
    return " / ".join(dict.fromkeys(strengths))


def _frequency(dosage: Any) -> str:
    """How often, in words: by the timing, else by its code; with what is as needed."""
    words = _repeat_in_words(value_at(dosage, "timing.repeat"))
    if not words:
        code = concept_name(value_at(dosage, "timing.code"))
        hours = _EVERY_HOURS.match(code)
        words = names_by_code("frequency").get(code.strip().upper(), code.strip())
        if hours:
            words = f"every {hours.group(1)} hours"
    parts = [words]
    if value_at(dosage, "asNeededBoolean") is True:
        parts.append("as needed")
    reason = concept_name(value_at(dosage, "asNeededCodeableConcept"))
    if reason:
        parts.append(f"as needed for {reason}")
    return ", ".join(dict.fromkeys(filter(None, parts)))


def _repeat_in_words(repeat: Any) -> str:
    """`twice a day`, `every 8 hours`, `3 times every 2 weeks, at bedtime`."""
    count = number_at(repeat, "frequency") or 1
    period = number_at(repeat, "period")
    unit = names_by_code("unit of time").get(text_at(repeat, "periodUnit"), "")
    times = {1: "once", 2: "twice"}.get(int(count), f"{count:g} times")
    parts = []
    if period == 1 and unit:
        parts.append(f"{times} {'an' if unit == 'hour' else 'a'} {unit}")
    elif period is not None and unit:
        every = f"every {period:g} {unit}s"
        parts.append(every if count == 1 else f"{times} {every}")
    for code in elements_at(repeat, ("when",)):
        if isinstance(code, str):
            parts.append(names_by_code("event").get(code, ""))
    for day in elements_at(repeat, ("dayOfWeek",)):
        if isinstance(day, str):
            parts.append(f"on {day}")
    return ", ".join(filter(None, parts))


class Drug(NamedTuple):
    """One drug of an order, its strength, and the mixture it is part of."""

    names: tuple[str, ...]
    codings: tuple[Coding, ...] = ()
    refs: tuple[str, ...] = ()
    mixture_ref: str = ""
    ingredient_count: int = 1
    strength: str = ""


class Dose(NamedTuple):
    """The first dose as a number and as text; of a range, the number is its lower end."""

    number: float | None = None
    text: str = ""
    unit: str = ""


def medications(context: ExecutionContext) -> list[Row]:
    """Rows of all orders of the patient; by the conventions, of statements and dispenses, too."""
    chart = context.chart
    rows = _drug_rows(chart, MEDICATION_REQUEST)
    if context.conventions.medications == "orders":
        return rows
    for source in (MEDICATION_STATEMENT, MEDICATION_DISPENSE):
        rows = [*rows, *_drug_rows(chart, source)]
    return with_currency(context, rows, source_resources(chart, MEDICATION_DISPENSE))


def dispenses(context: ExecutionContext) -> list[Row]:
    """Rows of all that was handed over, with how long it lasts."""
    resources = source_resources(context.chart, MEDICATION_DISPENSE)
    return with_currency(
        context, _drug_rows(context.chart, MEDICATION_DISPENSE), resources
    )


def administrations(context: ExecutionContext) -> list[Row]:
    """Rows of all doses that the patient was given."""
    return _drug_rows(context.chart, MEDICATION_ADMINISTRATION)


def _drug_rows(chart: Chart, source: Source) -> list[Row]:
    return chart.get_or_compute(
        f"drugs of {source.type}", lambda: _rows_of_source(chart, source)
    )


def _rows_of_source(chart: Chart, source: Source) -> list[Row]:
    resources = source_resources(chart, source)
    _fetch_medications(chart, resources)
    rows = []
    for resource in resources:
        for drug in _drugs_of_order(chart, resource):
            rows.append(_drug_row(chart, source, resource, drug))
    return rows


def _fetch_medications(chart: Chart, orders: list[Resource]) -> None:
    """Fetch products and ingredients in two batches, far cheaper than one by one."""
    references: dict[str, Any] = {}
    for order in orders:
        reference = order.get("medicationReference")
        medication_id = reference_id(reference)
        if medication_id:
            references[medication_id] = _typed(reference)
    chart.resolver.fetch(references.values())
    ingredients: list[Resource] = []
    for reference in references.values():
        medication = chart.resolver.resolve(reference)
        ingredients += objects_at(medication, "ingredient.itemReference")
    chart.resolver.fetch(ingredients)


def _typed(reference: Any) -> Any:
    """The reference to a Medication; that of a loaded transaction names no type."""
    if text_at(reference, "reference").startswith("urn:uuid:"):
        return {"reference": f"Medication/{reference_id(reference)}"}
    return reference


def _drugs_of_order(chart: Chart, order: Resource) -> list[Drug]:
    """The drugs of an order: those of the Medication it refers to, else its concept."""
    reference = order.get("medicationReference")
    medication = target_of(chart, _typed(reference), order)
    drugs = [] if medication is None else _drugs(chart, medication, order)
    if drugs:
        return drugs
    concept = order.get("medicationCodeableConcept")
    concept = concept or text_at(reference, "display")
    return [Drug(concept_names(concept), concept_codings(concept))]


def _drugs(chart: Chart, medication: Resource, order: Resource) -> list[Drug]:
    """The Medications that a mixture contains, else the Medication itself as one drug.

    What a product contains is among its names; without a name of its own, it is the name.
    """
    drug = _drug(medication)
    contained: list[Drug] = []
    substances: list[Drug] = []
    for ingredient in objects_at(medication, "ingredient"):
        if value_at(ingredient, "isActive") is False:
            continue
        reference = ingredient.get("itemReference")
        target = target_of(chart, reference, medication, order)
        concept = ingredient.get("itemCodeableConcept")
        concept = concept or text_at(reference, "display")
        substance = Drug(concept_names(concept), concept_codings(concept))
        if target is not None:
            substance = _drug(target)
        substance = substance._replace(strength=_ratio_text(ingredient.get("strength")))
        is_medication = text_at(target, "resourceType") == "Medication"
        (contained if is_medication else substances).append(substance)
    if contained:
        mixture_ref = next(iter(drug.refs), "")
        return [
            component._replace(
                mixture_ref=mixture_ref,
                ingredient_count=len(contained),
            )
            for component in contained
        ]
    return _product(drug, [drug for drug in substances if drug.names])


def _product(drug: Drug, substances: list[Drug]) -> list[Drug]:
    """A product with the names of its substances; none without any name."""
    names = list(drug.names)
    codings = list(drug.codings)
    refs = list(drug.refs)
    if not names and len(substances) > 1:
        names.append(" / ".join(substance.names[0] for substance in substances))
    for substance in substances:
        names += substance.names
        codings += substance.codings
        refs += substance.refs
    if not names:
        return []
    strengths = [substance.strength for substance in substances]
    return [
        Drug(
            tuple(dict.fromkeys(names)),
            tuple(codings),
            tuple(refs),
            strength=" / ".join(strengths) if all(strengths) else "",
        )
    ]


def _ratio_text(strength: Any) -> str:
    """A strength as text: `50 mg`, `5 mg/1 mL`; of one tablet, the numerator alone."""
    amounts = []
    for part in ("numerator", "denominator"):
        number = number_at(strength, f"{part}.value")
        unit = text_at(strength, f"{part}.unit", f"{part}.code")
        if number is not None and unit:
            amounts.append(f"{number:g} {unit}")
        elif part == "numerator":
            return ""
    return "/".join(amounts)


def _drug(medication: Resource) -> Drug:
    """The names as written: `Vancomycin ` with a trailing blank differs from `Vancomycin`.

    The codings are those of its code, and its names, if the code lacks them.
    """
    names = concept_names(value_at(medication, "code"))
    for identifier in objects_at(medication, "identifier"):
        name = text_at(identifier, "value")
        if name and text_at(identifier, "system").endswith(MEDICATION_NAME):
            names = (name,)
            break
    codings = concept_codings(value_at(medication, "code"))
    displays = {coding.display for coding in codings}
    named = [Coding("", "", name.strip()) for name in names if name not in displays]
    resource_id = text_at(medication, "id")
    refs = (f"{medication['resourceType']}/{resource_id}",) if resource_id else ()
    return Drug(names, (*codings, *named), refs)


def _drug_row(chart: Chart, source: Source, resource: Resource, drug: Drug) -> Row:
    stay = chart.find_stay(resource.get(source.encounter))
    dosages = objects_at(resource, "dosageInstruction") or objects_at(
        resource, "dosage"
    )
    dose = _first_dose(next(iter(dosages), None))
    name = next(iter(drug.names), "")
    route = next((value_at(dosage, "route") for dosage in dosages), None)
    facts = {"route": code_and_names(route)}
    facts.update(declared_facts(chart, source, resource))
    facts.update(dosage_facts(dosages))
    refills = number_at(resource, "dispenseRequest.numberOfRepeatsAllowed")
    if refills is not None:
        facts["refills"] = (f"{refills:g}",)
    drug_strength = strength(name) or drug.strength
    if drug_strength:
        facts["strength"] = (drug_strength,)
    return Row(
        refs=(f"{source.type}/{resource['id']}", *drug.refs),
        name=name,
        names=drug.names,
        codings=drug.codings,
        time=time_at(resource, *source.times),
        end=time_at(resource, *source.ends),
        authored_on=time_at(resource, "authoredOn"),
        value=dose.number,
        text=dose.text,
        unit=dose.unit,
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        mixture_ref=drug.mixture_ref,
        ingredient_count=drug.ingredient_count,
        facts=facts,
    )


def _first_dose(dosage: Any) -> Dose:
    dose_and_rate = value_at(dosage, "doseAndRate")
    quantity = number_at(dose_and_rate, "doseQuantity.value")
    if quantity is not None:
        return Dose(
            quantity, f"{quantity}", text_at(dose_and_rate, "doseQuantity.unit")
        )
    low = number_at(dose_and_rate, "doseRange.low.value")
    if low is not None:
        high = number_at(dose_and_rate, "doseRange.high.value")
        text = f"{low}" if high is None else f"{low}-{high}"
        return Dose(low, text, text_at(dose_and_rate, "doseRange.low.unit"))
    # The dose of an administration has no range.
    quantity = number_at(dosage, "dose.value")
    if quantity is None:
        return Dose()
    return Dose(quantity, f"{quantity}", text_at(dosage, "dose.unit", "dose.code"))
