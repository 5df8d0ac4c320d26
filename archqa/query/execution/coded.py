"""Rows of diagnoses and procedures, and the one row of the patient."""

from collections.abc import Iterator
from datetime import datetime

from archqa.fhir import Resource
from archqa.query.execution.chart import reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import objects_at, text_at, value_at
from archqa.query.execution.names import concept_code, concept_names
from archqa.query.execution.rows import Row, parse_datetime

_ICU_ITEMS = "mimic-d-items"
_SEX = {"male": "M", "female": "F"}
_MARITAL = {
    "M": ("married", "MARRIED"),
    "S": ("never married", "SINGLE"),
    "D": ("divorced", "DIVORCED"),
    "W": ("widowed", "WIDOWED"),
}


def diagnoses(inquiry: ExecutionContext) -> list[Row]:
    """Rows of diagnoses. One without a date has the start of its visit."""
    rows = [_coded(inquiry, each, _onset(each)) for each in inquiry.chart.search("Condition")]
    asks_time = bool(
        inquiry.query.when.spans or inquiry.query.when.position or inquiry.query.returns == "time"
    )
    if asks_time and any(_onset(each) is None for each in inquiry.chart.search("Condition")):
        inquiry.warn(
            "Diagnoses have no date of their own here: the start of their visit stands in."
        )
    return rows


def procedures(inquiry: ExecutionContext) -> list[Row]:
    """Rows of procedures; those done in the ICU only if the conventions count them."""
    found = inquiry.chart.search("Procedure")
    kept = [each for each in found if inquiry.ways.include_icu_procedures or not _is_icu(each)]
    if len(kept) < len(found):
        inquiry.warn(
            f"{len(found) - len(kept)} of {len(found)} procedures were done in the ICU and are left out."
        )
    return [_coded(inquiry, each, _performed(each)) for each in kept]


def _coded(
    inquiry: ExecutionContext,
    resource: Resource,
    time: tuple[datetime | None, datetime | None] | None,
) -> Row:
    encounter = reference_id(resource.get("encounter"))
    stay = inquiry.chart.stays.get(encounter)
    start, end = time or (_start(inquiry, encounter), None)
    holders = () if time or not encounter else (f"Encounter/{encounter}",)
    names = concept_names(resource.get("code"))
    return Row(
        refs=(f"{resource['resourceType']}/{resource['id']}",),
        name=names[0] if names else "",
        names=names,
        time=start,
        end=end,
        visit=stay.visit if stay else "",
        icu_stay_id=stay.icu if stay else "",
        context_refs=holders,
    )


def _start(inquiry: ExecutionContext, encounter: str) -> datetime | None:
    visit = inquiry.chart.resolver.resolve(f"Encounter/{encounter}") if encounter else None
    return parse_datetime(text_at(visit, "period.start"))


def _onset(condition: Resource) -> tuple[datetime | None, datetime | None] | None:
    said = text_at(condition, "onsetDateTime", "onsetPeriod.start", "recordedDate")
    return (
        (parse_datetime(said), parse_datetime(text_at(condition, "abatementDateTime")))
        if said
        else None
    )


def _performed(procedure: Resource) -> tuple[datetime | None, datetime | None]:
    start = text_at(procedure, "performedDateTime", "performedPeriod.start")
    return parse_datetime(start), parse_datetime(text_at(procedure, "performedPeriod.end"))


def _is_icu(procedure: Resource) -> bool:
    return any(
        text_at(each, "system").rstrip("/").endswith(_ICU_ITEMS)
        for each in objects_at(procedure, "code.coding")
    )


def patient_rows(inquiry: ExecutionContext) -> list[Row]:
    """The one row of the patient; no row if the record has no such patient."""
    found = inquiry.chart.patient_resource
    if found is None:
        return []
    facts = {
        "sex": _filled(_sex(inquiry, found)),
        "birth_date": _filled(text_at(found, "birthDate")),
        "marital_status": _filled(_marital(inquiry, found)),
        "ethnicity": tuple(dict.fromkeys(_ethnicity(found))),
        "language": tuple(
            each
            for said in objects_at(found, "communication.language")
            for each in concept_names(said)
        ),
        "death_time": _filled(_died(found)),
    }
    last = (
        inquiry.chart.encounters.hospital.last
        if inquiry.query.returns == "marital_status"
        else None
    )
    also = (
        (f"Encounter/{last['id']}",)
        if last and inquiry.ways.marital_status_source == "last_admission"
        else ()
    )
    row = Row(
        refs=(f"Patient/{found['id']}", *also),
        name="patient",
        time=parse_datetime(text_at(found, "birthDate")),
        facts=facts,
    )
    return [row]


def _sex(inquiry: ExecutionContext, patient: Resource) -> str:
    said = text_at(patient, "gender")
    return _SEX.get(said, said) if inquiry.ways.demographic_coding == "mimic" else said


def _marital(inquiry: ExecutionContext, patient: Resource) -> str:
    status = value_at(patient, "maritalStatus")
    code = concept_code(status)
    if code in _MARITAL:
        return _MARITAL[code][1 if inquiry.ways.demographic_coding == "mimic" else 0]
    return next(iter(concept_names(status)), code)


def _died(patient: Resource) -> str:
    said = text_at(patient, "deceasedDateTime")
    return said or ("yes, at an unknown time" if patient.get("deceasedBoolean") is True else "")


def _ethnicity(patient: Resource) -> Iterator[str]:
    """Race and ethnicity (US Core extensions: hl7.org/fhir/us/core, us-core-race and us-core-ethnicity)."""
    for extension in objects_at(patient, "extension"):
        if text_at(extension, "url").endswith(("us-core-race", "us-core-ethnicity")):
            for part in objects_at(extension, "extension"):
                if part.get("url") == "text" and text_at(part, "valueString"):
                    yield text_at(part, "valueString")


def _filled(said: str) -> tuple[str, ...]:
    return (said,) if said else ()
