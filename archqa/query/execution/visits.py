"""Rows of visits, ICU stays and stays in care units."""

from datetime import datetime, timedelta

from archqa.fhir import Resource
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import text_at, value_at
from archqa.query.execution.names import concept_code, concept_names
from archqa.query.execution.rows import Row, parse_datetime

_EMERGENCY = "emergency department"


def hospital_visits(inquiry: ExecutionContext) -> list[Row]:
    """Rows of hospital visits."""
    return [_visit(inquiry, each) for each in inquiry.chart.encounters.hospital.all]


def icu_stays(inquiry: ExecutionContext) -> list[Row]:
    """Rows of ICU stays."""
    return [_visit(inquiry, each) for each in inquiry.chart.encounters.icu.all]


def care_units(inquiry: ExecutionContext) -> list[Row]:
    """Rows of the stretches of each hospital visit in one care unit. The evidence is the Location."""
    rows = []
    for visit in inquiry.chart.encounters.hospital.all:
        for place in inquiry.chart.resolver.stays(visit):
            name = text_at(place.location, "name")
            rows.append(
                Row(
                    refs=(f"Location/{place.location['id']}",),
                    name=name,
                    names=(name,),
                    time=_at(place.start),
                    end=_at(place.end),
                    visit=str(visit["id"]),
                    context_refs=(f"Encounter/{visit['id']}",),
                    facts={"care_unit": (name,)},
                )
            )
    return rows


def _at(said: object) -> datetime | None:
    return parse_datetime(said) if isinstance(said, str) else None


def _visit(inquiry: ExecutionContext, encounter: Resource) -> Row:
    stay = inquiry.chart.stays[str(encounter["id"])]
    row = Row(
        refs=(f"Encounter/{encounter['id']}",),
        name="ICU stay" if stay.icu else "hospital visit",
        time=parse_datetime(text_at(encounter, "period.start")),
        end=parse_datetime(text_at(encounter, "period.end")),
        visit=stay.visit,
        icu_stay_id=stay.icu,
    )
    for fact, element in (
        ("admission_source", "admitSource"),
        ("discharge_destination", "dischargeDisposition"),
    ):
        concept = value_at(encounter, f"hospitalization.{element}")
        row.facts[fact] = tuple(
            dict.fromkeys(filter(None, (concept_code(concept), *concept_names(concept))))
        )
    if inquiry.query.returns == "care_unit":
        row.facts["care_unit"] = _places(inquiry, encounter)
    if inquiry.query.returns == "admission_type":
        row.facts["admission_type"] = (_admission_type(inquiry, encounter, row),)
    return row


def _places(inquiry: ExecutionContext, encounter: Resource) -> tuple[str, ...]:
    stays = inquiry.chart.resolver.stays(encounter)
    return tuple(dict.fromkeys(text_at(stay.location, "name") for stay in stays))


def _admission_type(inquiry: ExecutionContext, encounter: Resource, row: Row) -> str:
    """The class in words; or MIMIC-IV's admission type, of which FHIR keeps class and priority only."""
    code = text_at(encounter, "class.code")
    if inquiry.ways.admission_types == "as_recorded" or code not in {"AMB", "SS", "EMER", "OBSENC"}:
        return text_at(encounter, "class.display") or code
    if code == "AMB":
        priorities = {"UR": "URGENT", "EL": "ELECTIVE"}
        return priorities.get(
            concept_code(value_at(encounter, "priority")), "AMBULATORY OBSERVATION"
        )
    if code == "SS":
        return "SURGICAL SAME DAY ADMISSION"
    if code == "EMER":
        sources = {each.upper() for each in row.facts["admission_source"]}
        direct = any(source.startswith(("PHYSICIAN", "CLINIC REFERRAL")) for source in sources)
        return "DIRECT EMER." if direct else "EW EMER."
    return "EU OBSERVATION" if _only_observed(inquiry, encounter, row) else "OBSERVATION ADMIT"


def _only_observed(inquiry: ExecutionContext, encounter: Resource, row: Row) -> bool:
    """Whether the patient never left the emergency department, or stayed under a day."""
    places = _places(inquiry, encounter)
    if places and all(place.lower().startswith(_EMERGENCY) for place in places):
        return True
    return row.time is not None and row.end is not None and row.end - row.time < timedelta(days=1)
