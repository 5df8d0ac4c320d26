"""Rows of diagnoses and procedures, and the one row of the patient."""

from collections.abc import Iterator
from datetime import datetime

from archqa.fhir import Resource
from archqa.query.chart import reference_id
from archqa.query.elements import first, parts, text
from archqa.query.inquiry import Inquiry
from archqa.query.naming import code_of, words_of
from archqa.query.rows import Row, moment

_ICU_ITEMS = "mimic-d-items"
_SEX = {"male": "M", "female": "F"}
_MARITAL = {
    "M": ("married", "MARRIED"),
    "S": ("never married", "SINGLE"),
    "D": ("divorced", "DIVORCED"),
    "W": ("widowed", "WIDOWED"),
}


def diagnoses(inquiry: Inquiry) -> list[Row]:
    """Rows of diagnoses. One without a date has the start of its visit."""
    rows = [_coded(inquiry, each, _onset(each)) for each in inquiry.chart.search("Condition")]
    asks_time = bool(inquiry.query.when.spans or inquiry.query.when.position or inquiry.query.returns == "time")
    if asks_time and any(_onset(each) is None for each in inquiry.chart.search("Condition")):
        inquiry.warn("Diagnoses have no date of their own here: the start of their visit stands in.")
    return rows


def procedures(inquiry: Inquiry) -> list[Row]:
    """Rows of procedures; those done in the ICU only if the conventions count them."""
    found = inquiry.chart.search("Procedure")
    kept = [each for each in found if inquiry.ways.icu_procedures or not _is_icu(each)]
    if len(kept) < len(found):
        inquiry.warn(f"{len(found) - len(kept)} of {len(found)} procedures were done in the ICU and are left out.")
    return [_coded(inquiry, each, _performed(each)) for each in kept]


def _coded(inquiry: Inquiry, resource: Resource, time: tuple[datetime | None, datetime | None] | None) -> Row:
    encounter = reference_id(resource.get("encounter"))
    stay = inquiry.chart.stays.get(encounter)
    start, end = time or (_start(inquiry, encounter), None)
    holders = () if time or not encounter else (f"Encounter/{encounter}",)
    names = words_of(resource.get("code"))
    return Row(
        refs=(f"{resource['resourceType']}/{resource['id']}",),
        name=names[0] if names else "",
        names=names,
        time=start,
        end=end,
        visit=stay.visit if stay else "",
        stay=stay.icu if stay else "",
        holders=holders,
    )


def _start(inquiry: Inquiry, encounter: str) -> datetime | None:
    visit = inquiry.chart.resolver.resolve(f"Encounter/{encounter}") if encounter else None
    return moment(text(visit, "period.start"))


def _onset(condition: Resource) -> tuple[datetime | None, datetime | None] | None:
    said = text(condition, "onsetDateTime", "onsetPeriod.start", "recordedDate")
    return (moment(said), moment(text(condition, "abatementDateTime"))) if said else None


def _performed(procedure: Resource) -> tuple[datetime | None, datetime | None]:
    start = text(procedure, "performedDateTime", "performedPeriod.start")
    return moment(start), moment(text(procedure, "performedPeriod.end"))


def _is_icu(procedure: Resource) -> bool:
    return any(text(each, "system").rstrip("/").endswith(_ICU_ITEMS) for each in parts(procedure, "code.coding"))


def person(inquiry: Inquiry) -> list[Row]:
    """The one row of the patient; no row if the record has no such patient."""
    found = inquiry.chart.person
    if found is None:
        return []
    facts = {
        "sex": _filled(_sex(inquiry, found)),
        "birth_date": _filled(text(found, "birthDate")),
        "marital_status": _filled(_marital(inquiry, found)),
        "ethnicity": tuple(dict.fromkeys(_ethnicity(found))),
        "language": tuple(each for said in parts(found, "communication.language") for each in words_of(said)),
        "death_time": _filled(_died(found)),
    }
    last = inquiry.chart.encounters.hospital.last if inquiry.query.returns == "marital_status" else None
    also = (f"Encounter/{last['id']}",) if last and inquiry.ways.marital_status_of == "last_admission" else ()
    row = Row(
        refs=(f"Patient/{found['id']}", *also), name="patient", time=moment(text(found, "birthDate")), facts=facts
    )
    return [row]


def _sex(inquiry: Inquiry, patient: Resource) -> str:
    said = text(patient, "gender")
    return _SEX.get(said, said) if inquiry.ways.coded_words == "mimic" else said


def _marital(inquiry: Inquiry, patient: Resource) -> str:
    status = first(patient, "maritalStatus")
    code = code_of(status)
    if code in _MARITAL:
        return _MARITAL[code][1 if inquiry.ways.coded_words == "mimic" else 0]
    return next(iter(words_of(status)), code)


def _died(patient: Resource) -> str:
    said = text(patient, "deceasedDateTime")
    return said or ("yes, at an unknown time" if patient.get("deceasedBoolean") is True else "")


def _ethnicity(patient: Resource) -> Iterator[str]:
    """Race and ethnicity (US Core extensions: hl7.org/fhir/us/core, us-core-race and us-core-ethnicity)."""
    for extension in parts(patient, "extension"):
        if text(extension, "url").endswith(("us-core-race", "us-core-ethnicity")):
            for part in parts(extension, "extension"):
                if part.get("url") == "text" and text(part, "valueString"):
                    yield text(part, "valueString")


def _filled(said: str) -> tuple[str, ...]:
    return (said,) if said else ()
