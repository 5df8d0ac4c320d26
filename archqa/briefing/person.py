"""Who the patient is: sex, age, and death where it is recorded."""

from archqa.asking.record_words import full_years
from archqa.briefing.drafts import LineDraft, SectionDraft
from archqa.briefing.patient_rows import PatientRows
from archqa.fhir import Resource
from archqa.query.execution.rows import parse_datetime

_DAY = len("1971-08-28")


def person(patient: PatientRows) -> SectionDraft:
    """Return a line with sex, date of birth and age, and one with the death, also a later one."""
    reference = f"Patient/{patient.patient_id}"
    resource = patient.read(reference)
    texts = [_person_text(patient, resource), _death_text(resource)]
    return SectionDraft(tuple(LineDraft(text, (reference,)) for text in texts if text))


def _person_text(patient: PatientRows, resource: Resource) -> str:
    born = str(resource.get("birthDate") or "")
    age = patient.age_at(None if _died(resource) else patient.now)
    sex = str(resource.get("gender") or "").capitalize()
    years = f"{age} years old" if age is not None else ""
    return ", ".join(filter(None, (sex, f"born {born}" if born else "", years)))


def _death_text(resource: Resource) -> str:
    if not _died(resource):
        return ""
    death = parse_datetime(str(resource.get("deceasedDateTime") or ""))
    if death is None:
        return "Dead, date not recorded"
    text = f"Died on {str(resource['deceasedDateTime'])[:_DAY]}"
    birth = parse_datetime(str(resource.get("birthDate") or ""))
    has_day = len(str(resource.get("birthDate") or "")) == _DAY
    if birth is None or not has_day:
        return text
    return f"{text} at age {full_years(birth.date(), death.date())}"


def _died(resource: Resource) -> bool:
    return bool(resource.get("deceasedDateTime")) or resource.get("deceasedBoolean") is True
