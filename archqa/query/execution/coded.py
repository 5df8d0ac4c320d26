"""Rows of diagnoses and procedures, and the one row of the patient."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from archqa.fhir import Resource
from archqa.query.execution.chart import reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.declared_rows import declared_facts
from archqa.query.execution.element_names import names_at
from archqa.query.execution.elements import objects_at, text_at, value_at
from archqa.query.execution.names import (
    concept_code,
    concept_codings,
    concept_name,
    concept_names,
)
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.kinds import CONDITION, PROCEDURE, Source

_ICU_ITEMS = "mimic-d-items"
_MIMIC_SEX = {"male": "M", "female": "F"}
_MARITAL_STATUS = {
    "M": "married",
    "S": "never married",
    "D": "divorced",
    "W": "widowed",
}
_MIMIC_MARITAL_STATUS = {
    "M": "MARRIED",
    "S": "SINGLE",
    "D": "DIVORCED",
    "W": "WIDOWED",
}


class Period(NamedTuple):
    """Start and end; None where unknown."""

    start: datetime | None
    end: datetime | None


def diagnoses(context: ExecutionContext) -> list[Row]:
    """Rows of diagnoses. Those without a date have the start of their visit."""
    conditions = context.chart.search("Condition")
    onsets = [_onset(condition) for condition in conditions]
    if _depends_on_time(context) and None in onsets:
        context.warn(
            "Diagnoses have no date of their own here: the start of their visit stands in."
        )
    rows = []
    for condition, onset in zip(conditions, onsets, strict=True):
        rows.append(_coded_row(context, CONDITION, condition, onset))
    return rows


def procedures(context: ExecutionContext) -> list[Row]:
    """Rows of procedures; those done in the ICU only if the conventions include them."""
    resources = context.chart.search("Procedure")
    counted = resources
    if not context.conventions.include_icu_procedures:
        counted = [procedure for procedure in resources if not _is_icu_procedure(procedure)]
    omitted = len(resources) - len(counted)
    if omitted:
        context.warn(
            f"{omitted} of {len(resources)} procedures were done in the ICU and are left out."
        )
    return [
        _coded_row(context, PROCEDURE, procedure, _performed(procedure)) for procedure in counted
    ]


def _depends_on_time(context: ExecutionContext) -> bool:
    when = context.query.when
    return bool(when.spans or when.position or context.query.returns == "time")


def _coded_row(
    context: ExecutionContext, source: Source, resource: Resource, period: Period | None
) -> Row:
    encounter_id = reference_id(resource.get("encounter"))
    stay = context.chart.find_stay(resource.get("encounter"))
    context_refs: tuple[str, ...] = ()
    if period is None:
        abatement = parse_datetime(text_at(resource, *source.ends))
        period = Period(_encounter_start(context, encounter_id), abatement)
        if encounter_id:
            context_refs = (f"Encounter/{encounter_id}",)
    names = concept_names(resource.get("code"))
    return Row(
        refs=(f"{resource['resourceType']}/{resource['id']}",),
        name=next(iter(names), ""),
        names=names,
        codings=concept_codings(resource.get("code")),
        time=period.start,
        end=period.end,
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        context_refs=context_refs,
        facts=declared_facts(context.chart, source, resource),
    )


def _encounter_start(context: ExecutionContext, encounter_id: str) -> datetime | None:
    if not encounter_id:
        return None
    encounter = context.chart.resolver.resolve(f"Encounter/{encounter_id}")
    return parse_datetime(text_at(encounter, "period.start"))


def _onset(condition: Resource) -> Period | None:
    onset = text_at(condition, *CONDITION.times)
    if not onset:
        return None
    abatement = text_at(condition, *CONDITION.ends)
    return Period(parse_datetime(onset), parse_datetime(abatement))


def _performed(procedure: Resource) -> Period:
    start = text_at(procedure, *PROCEDURE.times)
    end = text_at(procedure, *PROCEDURE.ends)
    return Period(parse_datetime(start), parse_datetime(end))


def _is_icu_procedure(procedure: Resource) -> bool:
    for coding in objects_at(procedure, "code.coding"):
        system = text_at(coding, "system")
        if system.rstrip("/").endswith(_ICU_ITEMS):
            return True
    return False


def patient_rows(context: ExecutionContext) -> list[Row]:
    """The one row of the patient; no row if the record has no such patient."""
    patient = context.chart.patient_resource
    if patient is None:
        return []
    row = Row(
        refs=(f"Patient/{patient['id']}", *_marital_status_refs(context)),
        name="patient",
        time=parse_datetime(text_at(patient, "birthDate")),
        facts=_demographics(context, patient),
    )
    return [row]


def _demographics(context: ExecutionContext, patient: Resource) -> dict[str, tuple[str, ...]]:
    return {
        "sex": _as_tuple(_sex(context, patient)),
        "birth_date": _as_tuple(text_at(patient, "birthDate")),
        "marital_status": _as_tuple(_marital_status(context, patient)),
        "ethnicity": tuple(dict.fromkeys(_ethnicity(patient))),
        "language": tuple(_languages(patient)),
        "death_time": _as_tuple(_death_time(patient)),
        "alive": ("no",) if _death_time(patient) else ("yes",),
        "patient_name": names_at(context.chart, patient, ("name",)),
        "address": tuple(_addresses(patient)),
        "phone": tuple(_contacts(patient, "phone")),
        "email": tuple(_contacts(patient, "email")),
        "identifier": tuple(_identifiers(patient)),
        "contact": tuple(_contact_persons(context, patient)),
    }


def _marital_status_refs(context: ExecutionContext) -> tuple[str, ...]:
    """The admission from which the marital status was taken, if the conventions say so."""
    if context.query.returns != "marital_status":
        return ()
    if context.conventions.marital_status_source != "last_admission":
        return ()
    admission = context.chart.encounters.hospital.last
    if not admission:
        return ()
    return (f"Encounter/{admission['id']}",)


def _sex(context: ExecutionContext, patient: Resource) -> str:
    gender = text_at(patient, "gender")
    if context.conventions.demographic_coding == "mimic":
        return _MIMIC_SEX.get(gender, gender)
    return gender


def _marital_status(context: ExecutionContext, patient: Resource) -> str:
    concept = value_at(patient, "maritalStatus")
    code = concept_code(concept)
    labels = _MARITAL_STATUS
    if context.conventions.demographic_coding == "mimic":
        labels = _MIMIC_MARITAL_STATUS
    return labels.get(code) or concept_name(concept) or code


def _death_time(patient: Resource) -> str:
    time = text_at(patient, "deceasedDateTime")
    if not time and patient.get("deceasedBoolean") is True:
        return "yes, at an unknown time"
    return time


def _languages(patient: Resource) -> Iterator[str]:
    for language in objects_at(patient, "communication.language"):
        yield from concept_names(language)


def _addresses(patient: Resource) -> Iterator[str]:
    """The addresses that are not marked as old, each in one line."""
    for address in objects_at(patient, "address"):
        if address.get("use") == "old" or _has_ended(address):
            continue
        parts = [*_lines(address), text_at(address, "city"), text_at(address, "state")]
        parts += [text_at(address, "postalCode"), text_at(address, "country")]
        text = ", ".join(filter(None, parts)) or text_at(address, "text")
        if text:
            yield text


def _lines(address: Resource) -> list[str]:
    """The lines of an address."""
    lines = address.get("line")
    return [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []


def _contacts(patient: Resource, system: str) -> Iterator[str]:
    """The numbers or addresses of one system that are not marked as old."""
    for contact in objects_at(patient, "telecom"):
        is_current = contact.get("use") != "old" and not _has_ended(contact)
        value = text_at(contact, "value")
        if text_at(contact, "system") == system and is_current and value:
            yield value


def _identifiers(patient: Resource) -> Iterator[str]:
    """The identifiers, each with its type if that is recorded, the MRN first."""
    identifiers = objects_at(patient, "identifier")
    is_mrn = [text_at(each, "type.coding.0.code") == "MR" for each in identifiers]
    ordered = sorted(zip(is_mrn, identifiers, strict=True), key=lambda pair: not pair[0])
    for _, identifier in ordered:
        value = text_at(identifier, "value")
        kind = next(iter(concept_names(identifier.get("type"))), "")
        if value:
            yield f"{value} ({kind})" if kind else value


def _contact_persons(context: ExecutionContext, patient: Resource) -> Iterator[str]:
    """Who is to be contacted, with relationship and telephone number."""
    for contact in objects_at(patient, "contact"):
        names = names_at(context.chart, contact, ("name",))
        relationships = [
            name
            for relationship in objects_at(contact, "relationship")
            for name in concept_names(relationship)
        ]
        parts = [*names, *relationships[:1], *_contacts(contact, "phone")]
        if parts:
            yield ", ".join(parts)


def _has_ended(element: Resource) -> bool:
    return bool(text_at(element, "period.end"))


def _ethnicity(patient: Resource) -> Iterator[str]:
    """Race and ethnicity (US Core: us-core-race, us-core-ethnicity at hl7.org/fhir/us/core)."""
    for extension in objects_at(patient, "extension"):
        if not text_at(extension, "url").endswith(("us-core-race", "us-core-ethnicity")):
            continue
        for part in objects_at(extension, "extension"):
            if part.get("url") == "text" and text_at(part, "valueString"):
                yield text_at(part, "valueString")


def _as_tuple(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    return (text,)
