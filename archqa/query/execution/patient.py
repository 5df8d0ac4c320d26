"""Rows of the patient and of the visits: hospital visits, ICU stays, contacts of any class."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from archqa.fhir import Resource
from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext, visit_classes
from archqa.query.execution.declared_rows import declared_facts, declared_row
from archqa.query.execution.elements import (
    code_and_names,
    concept_code,
    concept_name,
    concept_names,
    elements_at,
    names_at,
    objects_at,
    text_at,
    time_at,
    value_at,
)
from archqa.query.execution.rows import Facts, Row, parse_datetime
from archqa.query.kinds import ENCOUNTER
from archqa.terminology.cues import names_by_code

_EMERGENCY_DEPARTMENT = "emergency department"
_DIRECT_SOURCES = ("PHYSICIAN", "CLINIC REFERRAL")


def patient_rows(context: ExecutionContext) -> list[Row]:
    """The one row of the patient; no row if the record has no such patient."""
    patient = context.chart.patient_resource
    if patient is None:
        return []
    refs = [f"Patient/{patient['id']}"]
    is_mimic_marital_status = (
        context.conventions.marital_status_source == "last_admission"
    )
    if context.query.returns == "marital_status" and is_mimic_marital_status:
        admission = context.chart.encounters.hospital.last
        if admission:
            refs.append(f"Encounter/{admission['id']}")
    row = Row(
        refs=tuple(refs),
        name="patient",
        time=time_at(patient, "birthDate"),
        facts=_demographics(context, patient),
    )
    return [row]


def _demographics(context: ExecutionContext, patient: Resource) -> Facts:
    sex = text_at(patient, "gender")
    marital_labels = "marital status"
    if context.conventions.demographic_coding == "mimic":
        sex = names_by_code("sex in MIMIC").get(sex, sex)
        marital_labels = "marital status in MIMIC"
    marital_concept = value_at(patient, "maritalStatus")
    marital_code = concept_code(marital_concept)
    marital_status = names_by_code(marital_labels).get(marital_code) or concept_name(
        marital_concept
    )
    death_time = text_at(patient, "deceasedDateTime")
    is_dead = bool(death_time) or patient.get("deceasedBoolean") is True
    languages: list[str] = []
    for language in objects_at(patient, "communication.language"):
        languages += concept_names(language)
    return {
        "sex": _as_tuple(sex),
        "birth_date": _as_tuple(text_at(patient, "birthDate")),
        "marital_status": _as_tuple(marital_status or marital_code),
        "ethnicity": tuple(dict.fromkeys(_ethnicity(patient))),
        "language": tuple(languages),
        "death_time": _as_tuple(death_time),
        "alive": ("no",) if is_dead else ("yes",),
        "patient_name": names_at(context.chart, patient, ("name",)),
        "address": tuple(_addresses(patient)),
        "phone": tuple(_contacts(patient, "phone")),
        "email": tuple(_contacts(patient, "email")),
        "identifier": tuple(_identifiers(patient)),
        "contact": tuple(_contact_persons(context, patient)),
    }


def _addresses(patient: Resource) -> Iterator[str]:
    """The addresses that are not marked as old, each in one line."""
    for address in objects_at(patient, "address"):
        if address.get("use") == "old" or _has_ended(address):
            continue
        lines = elements_at(address, ("line",))
        parts = [line for line in lines if isinstance(line, str)]
        parts += [text_at(address, "city"), text_at(address, "state")]
        parts += [text_at(address, "postalCode"), text_at(address, "country")]
        text = ", ".join(filter(None, parts)) or text_at(address, "text")
        if text:
            yield text


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
    identifiers.sort(
        key=lambda identifier: text_at(identifier, "type.coding.0.code") != "MR"
    )
    for identifier in identifiers:
        value = text_at(identifier, "value")
        kind = concept_name(identifier.get("type"))
        if value:
            yield f"{value} ({kind})" if kind else value


def _contact_persons(context: ExecutionContext, patient: Resource) -> Iterator[str]:
    """Who is to be contacted, with relationship and telephone number."""
    for contact in objects_at(patient, "contact"):
        names = names_at(context.chart, contact, ("name",))
        relationships: list[str] = []
        for relationship in objects_at(contact, "relationship"):
            relationships += concept_names(relationship)
        parts = [*names, *relationships[:1], *_contacts(contact, "phone")]
        if parts:
            yield ", ".join(parts)


def _has_ended(element: Resource) -> bool:
    return bool(text_at(element, "period.end"))


def _ethnicity(patient: Resource) -> Iterator[str]:
    """Race and ethnicity (US Core: us-core-race, us-core-ethnicity at hl7.org/fhir/us/core)."""
    for extension in objects_at(patient, "extension"):
        if not text_at(extension, "url").endswith(
            ("us-core-race", "us-core-ethnicity")
        ):
            continue
        for part in objects_at(extension, "extension"):
            if part.get("url") == "text" and text_at(part, "valueString"):
                yield text_at(part, "valueString")


def _as_tuple(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def hospital_visits(context: ExecutionContext) -> list[Row]:
    """Rows of hospital visits."""
    visits = context.hospital_visits.all
    return [_visit_row(context, visit) for visit in visits]


def icu_stays(context: ExecutionContext) -> list[Row]:
    """Rows of ICU stays."""
    stays = context.chart.encounters.icu.all
    return [_visit_row(context, stay) for stay in stays]


def encounters(context: ExecutionContext) -> list[Row]:
    """Rows of all encounters of the patient, of whatever class."""
    chart = context.chart
    rows = chart.get_or_compute("rows of encounter", lambda: _encounter_rows(chart))
    if context.query.returns != "care_unit":
        return rows
    rows_with_units = []
    for row in rows:
        encounter = chart.resolver.resolve(row.refs[0])
        if encounter is not None:
            facts = {**row.facts, "care_unit": _care_unit_names(context, encounter)}
            row = replace(row, facts=facts)
        rows_with_units.append(row)
    return rows_with_units


def _encounter_rows(chart: Chart) -> list[Row]:
    rows = []
    for encounter in chart.encounters.all:
        row = declared_row(chart, ENCOUNTER, encounter)
        stay = chart.stays[str(encounter["id"])]
        classes = visit_classes(chart, encounter)
        class_names = (*classes, text_at(encounter, "class.display"))
        row = replace(
            row,
            name=row.name or "encounter",
            names=(*row.names, *filter(None, class_names)),
            hospital_visit_id=stay.hospital_visit_id or str(encounter["id"]),
            icu_stay_id=stay.icu_stay_id,
            facts={**row.facts, "class": classes},
        )
        rows.append(row)
    return rows


def care_units(context: ExecutionContext) -> list[Row]:
    """Rows of the stays of each hospital visit in a care unit. The evidence is the Location."""
    rows = []
    for visit in context.hospital_visits.all:
        for stay in context.chart.resolver.stays(visit):
            name = text_at(stay.location, "name")
            row = Row(
                refs=(f"Location/{stay.location['id']}",),
                name=name,
                names=(name,),
                time=_parse(stay.start),
                end=_parse(stay.end),
                hospital_visit_id=str(visit["id"]),
                context_refs=(f"Encounter/{visit['id']}",),
                facts={"care_unit": (name,)},
            )
            rows.append(row)
    return rows


def _parse(time: object) -> datetime | None:
    return parse_datetime(time) if isinstance(time, str) else None


def _visit_row(context: ExecutionContext, encounter: Resource) -> Row:
    stay = context.chart.stays[str(encounter["id"])]
    row = Row(
        refs=(f"Encounter/{encounter['id']}",),
        name="ICU stay" if stay.icu_stay_id else "hospital visit",
        time=time_at(encounter, "period.start"),
        end=time_at(encounter, "period.end"),
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        facts=declared_facts(context.chart, ENCOUNTER, encounter),
    )
    row.facts["class"] = visit_classes(context.chart, encounter)
    row.facts["admission_source"] = _labels(encounter, "hospitalization.admitSource")
    row.facts["discharge_destination"] = _labels(
        encounter, "hospitalization.dischargeDisposition"
    )
    if context.query.returns == "care_unit":
        row.facts["care_unit"] = _care_unit_names(context, encounter)
    if context.query.returns == "admission_type":
        row.facts["admission_type"] = (_admission_type(context, encounter, row),)
    return row


def _labels(encounter: Resource, path: str) -> tuple[str, ...]:
    labels = code_and_names(value_at(encounter, path))
    return tuple(dict.fromkeys(labels))


def _care_unit_names(context: ExecutionContext, encounter: Resource) -> tuple[str, ...]:
    stays = context.chart.resolver.stays(encounter)
    names = [text_at(stay.location, "name") for stay in stays]
    return tuple(dict.fromkeys(names))


def _admission_type(context: ExecutionContext, encounter: Resource, row: Row) -> str:
    """The class as text, or MIMIC-IV's admission type inferred from class, priority and wards."""
    if context.conventions.admission_types == "mimic":
        mimic_type = _mimic_admission_type(context, encounter, row)
        if mimic_type:
            return mimic_type
    return text_at(encounter, "class.display") or text_at(encounter, "class.code")


def _mimic_admission_type(
    context: ExecutionContext, encounter: Resource, row: Row
) -> str:
    """MIMIC-IV's admission type; empty for a class without one."""
    code = text_at(encounter, "class.code")
    if code == "AMB":
        priority = concept_code(value_at(encounter, "priority"))
        return names_by_code("ambulatory admission in MIMIC").get(
            priority, "AMBULATORY OBSERVATION"
        )
    if code == "SS":
        return "SURGICAL SAME DAY ADMISSION"
    if code == "EMER":
        sources = map(str.upper, row.facts["admission_source"])
        is_direct = any(source.startswith(_DIRECT_SOURCES) for source in sources)
        return "DIRECT EMER." if is_direct else "EW EMER."
    if code == "OBSENC":
        is_only_observed = _is_only_observed(context, encounter, row)
        return "EU OBSERVATION" if is_only_observed else "OBSERVATION ADMIT"
    return ""


def _is_only_observed(context: ExecutionContext, encounter: Resource, row: Row) -> bool:
    """Whether the patient never left the emergency department, or stayed under a day."""
    units = _care_unit_names(context, encounter)
    if units and all(unit.lower().startswith(_EMERGENCY_DEPARTMENT) for unit in units):
        return True
    if row.time is None or row.end is None:
        return False
    return row.end - row.time < timedelta(days=1)
