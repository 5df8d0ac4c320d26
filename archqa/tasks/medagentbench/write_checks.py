"""Why a write must not be made: it contradicts the record or the instruction, or nothing justifies it.

Each objection is a sentence for whoever wanted to write. They quote ids and codes of the write, never the record.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archqa.fhir.record import Resource
from archqa.tasks.medagentbench.write_intents import dose_units, resource_codes

_ASKS = {
    "Observation": re.compile(
        r"\b(?:record|document|chart|enter|log|file|note down)\b", re.IGNORECASE
    ),
    "MedicationRequest": re.compile(
        r"\b(?:order|prescribe|replace|give|start|administer|renew)\b", re.IGNORECASE
    ),
    "ServiceRequest": re.compile(
        r"\b(?:order|refer|referral|request|schedule|pair)\b", re.IGNORECASE
    ),
}
"""The words by which an instruction asks for a write of each type."""

_CONDITION = re.compile(r"\bif\b", re.IGNORECASE)
_CONCENTRATION = re.compile(r"\b(?:mg|g|mmol|mEq|ug|µg|ng|mL|U|IU)/(?:dL|L|mL)\b", re.IGNORECASE)
_SAME_UNITS = ({"meq/l", "mmol/l"},)
_OPEN = frozenset({"active", "draft", "on-hold"})


class TaskText(NamedTuple):
    """What was asked for, in the words of whoever asked."""

    instruction: str
    context: str

    @property
    def text(self) -> str:
        """Instruction and context."""
        return f"{self.instruction}\n{self.context}"

    def names(self, word: str) -> bool:
        """Whether the word stands there by itself."""
        return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", self.text) is not None


class WriteContext(NamedTuple):
    """What is known when a write is considered.

    `read` are the resources seen so far by `Type/id`, `asked` the searches made, `written` what this task has written,
    `standing` what the record holds of the same kind for the patient; `patient_exists` is None if that cannot be told.
    """

    read: Mapping[str, Resource]
    asked: tuple[str, ...] = ()
    written: tuple[Resource, ...] = ()
    standing: tuple[Resource, ...] = ()
    patient_exists: bool | None = True


def objections(
    payload: Mapping[str, Any], ask: TaskText, known: WriteContext, evidence: tuple[str, ...] = ()
) -> list[str]:
    """Every reason against writing this; nothing if there is none."""
    return [
        *_unasked(payload, ask),
        *_wrong_patient(payload, ask, known),
        *_wrong_unit(payload, ask, known, evidence),
        *_duplicate(payload, known),
    ]


def missing_reads(
    payload: Mapping[str, Any], ask: TaskText, known: WriteContext, evidence: tuple[str, ...]
) -> list[str]:
    """Why it is too early to write: nothing of the patient was read, or a condition was not looked at."""
    patient = subject_patient_id(payload)
    found = []
    if not any(_is_about(each, patient) for each in known.read.values()):
        found.append("Read the patient's record before you write to it.")
    invented = [each for each in evidence if each not in known.read]
    if invented:
        found.append(f"The evidence {', '.join(invented)} was not read in this task.")
    looked = any(each.startswith("Observation/") for each in evidence)
    searched = any("Observation" in each and patient in each for each in known.asked)
    if _CONDITION.search(ask.instruction) and not (looked or searched):
        found.append("The instruction sets a condition; read the measurement it speaks of first.")
    return found


def subject_patient_id(payload: Mapping[str, Any]) -> str:
    """The id of the patient it is about; empty if it names none."""
    subject = payload.get("subject")
    reference = subject.get("reference") if isinstance(subject, dict) else None
    kind, _, patient = str(reference or "").rpartition("/")
    return patient if kind.rpartition("/")[2] == "Patient" else ""


def _unasked(payload: Mapping[str, Any], ask: TaskText) -> Iterator[str]:
    kind = str(payload.get("resourceType"))
    if kind not in _ASKS or not _ASKS[kind].search(ask.instruction):
        yield f"The instruction does not ask for a {kind}."
    for code in resource_codes(payload):
        if not ask.names(code):
            yield f"The instruction names no code {code[:40]}."


def _wrong_patient(payload: Mapping[str, Any], ask: TaskText, known: WriteContext) -> Iterator[str]:
    patient = subject_patient_id(payload)
    if not patient:
        yield "The subject must be Patient/id."
        return
    found = [each for each in known.read if each.startswith("Patient/")]
    if not ask.names(patient) and found != [f"Patient/{patient}"]:
        yield f"The instruction is not about the patient {patient[:40]}."
    if known.patient_exists is False:
        yield f"The record has no patient {patient[:40]}."


def _wrong_unit(
    payload: Mapping[str, Any], ask: TaskText, known: WriteContext, evidence: tuple[str, ...]
) -> Iterator[str]:
    for unit in dose_units(payload):
        if not re.search(rf"\d\s*{re.escape(unit)}(?![\w/])", ask.text):
            yield f"The instruction gives no dose in {unit[:20]}."
    wanted = {each.lower() for each in _CONCENTRATION.findall(ask.text)}
    for name in evidence:
        unit = str((known.read.get(name, {}).get("valueQuantity") or {}).get("unit") or "").lower()
        if wanted and unit and not any(same_unit(unit, each) for each in wanted):
            yield f"The measurement {name} is in another unit than the instruction's {', '.join(sorted(wanted))}."


def same_unit(one: str, other: str) -> bool:
    """Whether two units are the same, as mEq/L and mmol/L of a monovalent ion are."""
    pair = {one.lower(), other.lower()}
    return len(pair) == 1 or any(pair <= each for each in _SAME_UNITS)


def _duplicate(payload: Mapping[str, Any], known: WriteContext) -> Iterator[str]:
    codes, patient, day = set(resource_codes(payload)), subject_patient_id(payload), _when(payload)
    for other in (*known.written, *known.standing):
        same = (
            other.get("resourceType") == payload.get("resourceType")
            and subject_patient_id(other) == patient
        )
        if same and codes & set(resource_codes(other)) and _stands(other) and _when(other) == day:
            yield f"The same has been written for this patient already ({other.get('id') or 'in this task'})."
            return


def _stands(other: Mapping[str, Any]) -> bool:
    return other.get("resourceType") == "Observation" or other.get("status") in _OPEN


def _when(resource: Mapping[str, Any]) -> str:
    """What tells two orders of one code apart: the day; two measurements: the instant."""
    if resource.get("resourceType") == "Observation":
        return str(resource.get("effectiveDateTime"))
    return str(resource.get("occurrenceDateTime") or resource.get("authoredOn"))[:10]


def _is_about(resource: Mapping[str, Any], patient: str) -> bool:
    is_patient = resource.get("resourceType") == "Patient"
    return (is_patient and _is_called(resource, patient)) or subject_patient_id(resource) == patient


def _is_called(resource: Mapping[str, Any], patient: str) -> bool:
    identifiers = resource.get("identifier") if isinstance(resource.get("identifier"), list) else []
    values = [each.get("value") for each in identifiers or [] if isinstance(each, dict)]
    return resource.get("id") == patient or patient in values
