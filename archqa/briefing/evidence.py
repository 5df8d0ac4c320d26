"""What cited resources and sentences say, as text that is shown and that lines are checked against."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from archqa.asking.answer import Evidence
from archqa.briefing.notes import NoteSentence
from archqa.briefing.patient_rows import PatientRows
from archqa.fhir import Resource
from archqa.fhir.views.projection import DROPPED
from archqa.fhir.views.resolver import display_name
from archqa.query.execution.elements import concept_names, text_at
from archqa.query.execution.medications import dosage_facts
from archqa.query.execution.rows import parse_datetime

_LEFT_OUT = DROPPED | {
    *("resourceType", "id", "identifier", "subject", "patient", "encounter", "context"),
    *("participant", "serviceProvider", "requester", "recorder", "asserter", "performer"),
    *("location", "custodian", "issued", "intent", "category", "content", "partOf", "derivedFrom"),
    *("hasMember", "basedOn", "insurance", "diagnosis"),
}
"""Members that no line tells: who was there, links, what holds for every resource of its kind."""

_OF_PATIENT = ("gender", "birthDate", "deceasedDateTime", "deceasedBoolean")
"""Members of a Patient that a line tells; name and address stay where they are."""

_DATES = (
    *("effectiveDateTime", "onsetDateTime", "authoredOn", "performedDateTime", "recordedDate"),
    *("period.start", "performedPeriod.start", "effectivePeriod.start", "onsetPeriod.start"),
    *("effectiveInstant", "whenHandedOver", "dateAsserted", "onsetString"),
    *("occurrenceDateTime", "date"),
)


class EvidenceTexts:
    """The texts of what lines cite, each read once."""

    def __init__(self, patient: PatientRows, sentences: Iterable[NoteSentence] = ()) -> None:
        self._patient = patient
        self._sentences = {sentence.id: sentence for sentence in sentences}
        self._texts: dict[str, str] = {}

    def text(self, citation: str) -> str:
        """Return what a cited resource or sentence says; empty if the record has none."""
        if citation not in self._texts:
            self._texts[citation] = self._read(citation)
        return self._texts[citation]

    def sources(self, citations: Iterable[str]) -> str:
        """Return all that may be told of cited evidence: also title, author and date of a note."""
        cited = list(citations)
        sentences = [self._sentences[each] for each in cited if each in self._sentences]
        places = [f"{sentence.source}\n{sentence.date}" for sentence in sentences]
        ages = [self._ages()] if any(map(_is_patient, cited)) else []
        return "\n".join([*map(self.text, cited), *places, *ages])

    def evidence(self, citation: str) -> Evidence:
        """Return the evidence that is shown."""
        sentence = self._sentences.get(citation)
        if sentence is not None:
            return Evidence(
                id=citation,
                kind="sentence",
                text=sentence.text,
                source=sentence.source,
                date=sentence.date,
            )
        return Evidence(
            id=citation,
            kind="resource",
            text=self.text(citation),
            source=citation.partition("/")[0],
            date=self._date(self._patient.read(citation)),
        )

    def _read(self, citation: str) -> str:
        if citation in self._sentences:
            return self._sentences[citation].text
        resource = self._patient.read(citation)
        visit = _visit_text(self._visit(resource)) if resource and not _own_date(resource) else ""
        return "; ".join(filter(None, (resource_text(resource), visit)))

    def _ages(self) -> str:
        """The age at the time of the summary, and at death: what the date of birth tells."""
        resource = self._patient.read(f"Patient/{self._patient.patient_id}")
        death = parse_datetime(text_at(resource, "deceasedDateTime"))
        ages = [self._patient.age_at(time) for time in (self._patient.now, death)]
        return " ".join(f"{age} years" for age in ages if age is not None)

    def _date(self, resource: Resource) -> str:
        """The date of a resource; of one without, that of its visit."""
        return _own_date(resource) or _own_date(self._visit(resource))

    def _visit(self, resource: Resource) -> Resource:
        reference = text_at(resource, "encounter.reference")
        return self._patient.visit(reference) if reference else {}


def _is_patient(citation: str) -> bool:
    return citation.startswith("Patient/")


def _own_date(resource: Resource) -> str:
    return text_at(resource, *_DATES)


def _visit_text(visit: Resource) -> str:
    """What dates a resource that has no date: `encounter: type: …; period: …`."""
    told = {name: visit[name] for name in ("type", "period") if visit.get(name)}
    return f"encounter: {', '.join(_members(told))}" if told else ""


def resource_text(resource: Mapping[str, Any]) -> str:
    """Return what a resource says, without ids, links and codes: `code: Aspirin; onset: 1978`."""
    if resource.get("resourceType") == "Medication":
        return f"code: {display_name(dict(resource))}"
    if resource.get("resourceType") == "Patient":
        return "; ".join(_members({key: resource[key] for key in _OF_PATIENT if key in resource}))
    return "; ".join(_members(resource))


def _members(element: Mapping[str, Any]) -> Iterator[str]:
    for name, value in element.items():
        text = "" if _is_left_out(name, value) else _value_text(value)
        if name == "timing":
            text = f"{text} ({', '.join(dosage_facts([{name: value}]).get('frequency', ()))})"
        if text:
            yield f"{name}: {text}"


def _is_left_out(name: str, value: Any) -> bool:
    """Whether a member is told by no line; `text` is a resource's narrative, or an instruction."""
    if name == "text" and isinstance(value, str):
        return False
    return name in _LEFT_OUT or name.startswith("_")


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(filter(None, map(_value_text, value)))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format(Decimal(str(value)), "f")
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    if "coding" in value or ("code" in value and "display" in value):
        concept = value if "coding" in value else {"coding": [value]}
        return " / ".join(concept_names(concept))
    if "reference" in value:
        return str(value.get("display") or "")
    if "value" in value and not isinstance(value["value"], Mapping):
        unit = value.get("unit") or value.get("code") or ""
        return f"{value.get('comparator', '')}{_value_text(value['value'])} {unit}".strip()
    return ", ".join(_members(value))
