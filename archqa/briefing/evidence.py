"""What cited resources and sentences say, as text that is shown and that lines are checked against."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from archqa.asking.answer import Evidence
from archqa.briefing.notes import NoteSentence
from archqa.briefing.patient_rows import PatientRows
from archqa.fhir.views.projection import DROPPED
from archqa.fhir.views.resolver import display_name
from archqa.query.execution.dosage import dosage_facts
from archqa.query.execution.elements import text_at
from archqa.query.execution.names import concept_names

_LEFT_OUT = DROPPED | {
    *("resourceType", "id", "identifier", "subject", "patient", "encounter", "context"),
    *("participant", "serviceProvider", "requester", "recorder", "asserter", "performer"),
    *("location", "custodian", "issued", "intent", "category", "content", "partOf", "derivedFrom"),
    *("hasMember", "basedOn", "insurance", "diagnosis"),
}
"""Members that no line tells: who was there, links, what holds for every resource of its kind."""

_DATES = (
    *("effectiveDateTime", "onsetDateTime", "authoredOn", "performedDateTime", "recordedDate"),
    *("period.start", "performedPeriod.start", "effectivePeriod.start", "onsetPeriod.start"),
    *("effectiveInstant", "whenHandedOver", "dateAsserted", "onsetString"),
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
        texts = []
        for citation in citations:
            sentence = self._sentences.get(citation)
            place = (sentence.source, sentence.date) if sentence else ()
            texts.append("\n".join([self.text(citation), *place]))
        return "\n".join(texts)

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
            date=text_at(self._patient.read(citation), *_DATES),
        )

    def _read(self, citation: str) -> str:
        if citation in self._sentences:
            return self._sentences[citation].text
        return resource_text(self._patient.read(citation))


def resource_text(resource: Mapping[str, Any]) -> str:
    """Return what a resource says, without ids, links and codes: `code: Aspirin; onset: 1978`."""
    if resource.get("resourceType") == "Medication":
        return f"code: {display_name(dict(resource))}"
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
