"""Rows of encounters: hospital visits, ICU stays, contacts of any class, stays in care units."""

from dataclasses import replace
from datetime import datetime, timedelta

from archqa.fhir import Resource
from archqa.fhir.views.resolver import Stay as LocationStay
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.declared_rows import declared_facts, declared_row
from archqa.query.execution.elements import text_at, value_at
from archqa.query.execution.names import code_and_names, concept_code
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.execution.visit_classes import visit_classes
from archqa.query.kinds import ENCOUNTER

_EMERGENCY_DEPARTMENT = "emergency department"
_AMBULATORY_TYPES = {
    "UR": "URGENT",
    "EL": "ELECTIVE",
}
_DIRECT_SOURCES = ("PHYSICIAN", "CLINIC REFERRAL")


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
    rows = chart.get_or_compute("rows of encounter", lambda: _encounter_rows(context))
    if context.query.returns != "care_unit":
        return rows
    return [_with_care_units(context, row) for row in rows]


def _encounter_rows(context: ExecutionContext) -> list[Row]:
    return [_encounter_row(context, encounter) for encounter in context.chart.encounters.all]


def _encounter_row(context: ExecutionContext, encounter: Resource) -> Row:
    chart = context.chart
    row = declared_row(chart, ENCOUNTER, encounter)
    stay = chart.stays[str(encounter["id"])]
    classes = visit_classes(chart, encounter)
    class_names = (*classes, text_at(encounter, "class.display"))
    return replace(
        row,
        name=row.name or "encounter",
        names=(*row.names, *filter(None, class_names)),
        hospital_visit_id=stay.hospital_visit_id or str(encounter["id"]),
        icu_stay_id=stay.icu_stay_id,
        facts={**row.facts, "class": classes},
    )


def _with_care_units(context: ExecutionContext, row: Row) -> Row:
    encounter = context.chart.resolver.resolve(row.refs[0])
    if encounter is None:
        return row
    return replace(row, facts={**row.facts, "care_unit": _care_unit_names(context, encounter)})


def care_units(context: ExecutionContext) -> list[Row]:
    """Rows of the stays of each hospital visit in a care unit. The evidence is the Location."""
    rows = []
    for visit in context.hospital_visits.all:
        for stay in context.chart.resolver.stays(visit):
            rows.append(_care_unit_row(visit, stay))
    return rows


def _care_unit_row(visit: Resource, stay: LocationStay) -> Row:
    name = text_at(stay.location, "name")
    return Row(
        refs=(f"Location/{stay.location['id']}",),
        name=name,
        names=(name,),
        time=_parse(stay.start),
        end=_parse(stay.end),
        hospital_visit_id=str(visit["id"]),
        context_refs=(f"Encounter/{visit['id']}",),
        facts={"care_unit": (name,)},
    )


def _parse(time: object) -> datetime | None:
    if not isinstance(time, str):
        return None
    return parse_datetime(time)


def _visit_row(context: ExecutionContext, encounter: Resource) -> Row:
    stay = context.chart.stays[str(encounter["id"])]
    name = "hospital visit"
    if stay.icu_stay_id:
        name = "ICU stay"
    row = Row(
        refs=(f"Encounter/{encounter['id']}",),
        name=name,
        time=parse_datetime(text_at(encounter, "period.start")),
        end=parse_datetime(text_at(encounter, "period.end")),
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        facts=declared_facts(context.chart, ENCOUNTER, encounter),
    )
    row.facts["class"] = visit_classes(context.chart, encounter)
    row.facts["admission_source"] = _labels(encounter, "hospitalization.admitSource")
    row.facts["discharge_destination"] = _labels(encounter, "hospitalization.dischargeDisposition")
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
    mimic_type = ""
    if context.conventions.admission_types == "mimic":
        mimic_type = _mimic_admission_type(context, encounter, row)
    if mimic_type:
        return mimic_type
    return text_at(encounter, "class.display") or text_at(encounter, "class.code")


def _mimic_admission_type(context: ExecutionContext, encounter: Resource, row: Row) -> str:
    """MIMIC-IV's admission type; empty for a class without one."""
    code = text_at(encounter, "class.code")
    if code == "AMB":
        priority = concept_code(value_at(encounter, "priority"))
        return _AMBULATORY_TYPES.get(priority, "AMBULATORY OBSERVATION")
    if code == "SS":
        return "SURGICAL SAME DAY ADMISSION"
    if code == "EMER":
        if _is_direct_admission(row):
            return "DIRECT EMER."
        return "EW EMER."
    if code == "OBSENC":
        if _is_only_observed(context, encounter, row):
            return "EU OBSERVATION"
        return "OBSERVATION ADMIT"
    return ""


def _is_direct_admission(row: Row) -> bool:
    sources = row.facts["admission_source"]
    return any(source.upper().startswith(_DIRECT_SOURCES) for source in sources)


def _is_only_observed(context: ExecutionContext, encounter: Resource, row: Row) -> bool:
    """Whether the patient never left the emergency department, or stayed under a day."""
    units = _care_unit_names(context, encounter)
    if units and all(map(_is_emergency_department, units)):
        return True
    if row.time is None or row.end is None:
        return False
    return row.end - row.time < timedelta(days=1)


def _is_emergency_department(unit: str) -> bool:
    return unit.lower().startswith(_EMERGENCY_DEPARTMENT)
