"""Reasons against a write: it contradicts the record or the instruction, or nothing justifies it.

Each reason is a sentence for the agent. The sentences quote ids and codes of the write, never the
record.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archqa.core.id_lists import list_ids
from archqa.fhir.record import Resource
from archqa.tasks.medagentbench.write_intents import dose_units, resource_codes

_REQUESTING_VERBS = {
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

INSTRUCTION_EVIDENCE = "instruction:"
"""What evidence begins with that is words of the instruction, not a resource."""

_MIN_QUOTED_WORDS = 3

_CONDITION = re.compile(r"\bif\b", re.IGNORECASE)
_CONCENTRATION = re.compile(r"\b(?:mg|g|mmol|mEq|ug|µg|ng|mL|U|IU)/(?:dL|L|mL)\b", re.IGNORECASE)
_EQUIVALENT_UNITS = ({"meq/l", "mmol/l"},)
_OPEN_STATUSES = frozenset({"active", "draft", "on-hold"})


class TaskText(NamedTuple):
    """A task in the words of the person who asks."""

    instruction: str
    context: str

    @property
    def text(self) -> str:
        """Instruction and context."""
        return f"{self.instruction}\n{self.context}"

    def mentions(self, word: str) -> bool:
        """Whether the text contains the word, not merely as a part of a longer one."""
        return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", self.text) is not None


class WriteContext(NamedTuple):
    """The facts against which a write is checked.

    `resources_read` are the resources read in this task by `Type/id`, `requested_urls` its
    searches, `accepted_writes` its writes, `existing_resources` those of the same type and patient
    in the record; `patient_exists` is None if the record cannot tell.
    """

    resources_read: Mapping[str, Resource]
    requested_urls: tuple[str, ...] = ()
    accepted_writes: tuple[Resource, ...] = ()
    existing_resources: tuple[Resource, ...] = ()
    patient_exists: bool | None = True


def objections(
    payload: Mapping[str, Any],
    task_text: TaskText,
    context: WriteContext,
    evidence: tuple[str, ...] = (),
) -> list[str]:
    """Every reason against writing the payload, none if it may be written."""
    return [
        *_not_requested(payload, task_text),
        *_wrong_patient(payload, task_text, context),
        *_wrong_dose_unit(payload, task_text),
        *_wrong_evidence_unit(task_text, context, evidence),
        *_duplicate(payload, context),
    ]


def missing_reads(
    payload: Mapping[str, Any],
    task_text: TaskText,
    context: WriteContext,
    evidence: tuple[str, ...],
) -> list[str]:
    """Why it is too early to write.

    The patient was not looked up, nothing justifies the write, or a condition was not checked.
    """
    patient = subject_patient_id(payload)
    reasons = []
    if not _is_looked_up(patient, context.resources_read):
        reasons.append(
            f"The patient {patient[:40]} was not looked up in this task: find the Patient by "
            "this record number before you write."
        )
    reasons += _wrong_evidence(task_text, context, evidence)
    is_conditional = _CONDITION.search(task_text.instruction) is not None
    if is_conditional and not _looked_at_measurements(patient, context, evidence):
        reasons.append("The instruction sets a condition; read the measurement it speaks of first.")
    return reasons


def _is_looked_up(patient: str, resources_read: Mapping[str, Resource]) -> bool:
    """Whether the Patient with this id or record number is among the resources read."""
    return any(
        reference.startswith("Patient/") and _has_identity(resource, patient)
        for reference, resource in resources_read.items()
    )


def subject_patient_id(payload: Mapping[str, Any]) -> str:
    """The id of the patient that a payload is about; empty if it names none."""
    subject = payload.get("subject")
    reference = subject.get("reference") if isinstance(subject, dict) else None
    base, _, patient = str(reference or "").rpartition("/")
    _, _, resource_type = base.rpartition("/")
    if resource_type != "Patient":
        return ""
    return patient


def same_unit(unit: str, other_unit: str) -> bool:
    """Whether two units are the same, as mEq/L and mmol/L of a monovalent ion are."""
    units = {unit.lower(), other_unit.lower()}
    return len(units) == 1 or any(units <= equivalent for equivalent in _EQUIVALENT_UNITS)


def _wrong_evidence(
    task_text: TaskText, context: WriteContext, evidence: tuple[str, ...]
) -> Iterator[str]:
    if not evidence:
        yield (
            "Nothing justifies this write: name as evidence the resources it rests on, as Type/id, "
            f"or '{INSTRUCTION_EVIDENCE} ' and words of the instruction."
        )
    instruction = _folded(task_text.text)
    unread = []
    for each in evidence:
        if not each.startswith(INSTRUCTION_EVIDENCE):
            unread += [each] if each not in context.resources_read else []
            continue
        quotation = _folded(each.removeprefix(INSTRUCTION_EVIDENCE))
        if len(quotation.split()) < _MIN_QUOTED_WORDS or quotation not in instruction:
            yield (
                f"The instruction does not say {quotation[:80]!r}: quote at least "
                f"{_MIN_QUOTED_WORDS} words of it."
            )
    if unread:
        yield f"The evidence {list_ids(unread)} was not read in this task."


def _folded(text: str) -> str:
    """A text in lower case on one line, without quotation marks at its ends."""
    return " ".join(text.casefold().split()).strip("\"'“”‘’ ")


def _looked_at_measurements(patient: str, context: WriteContext, evidence: tuple[str, ...]) -> bool:
    if any(reference.startswith("Observation/") for reference in evidence):
        return True
    return any("Observation" in url and patient in url for url in context.requested_urls)


def _not_requested(payload: Mapping[str, Any], task_text: TaskText) -> Iterator[str]:
    resource_type = str(payload.get("resourceType"))
    verbs = _REQUESTING_VERBS.get(resource_type)
    if verbs is None or not verbs.search(task_text.instruction):
        yield f"The instruction does not ask for a {resource_type}."
    for code in resource_codes(payload):
        if not task_text.mentions(code):
            yield f"The instruction names no code {code[:40]}."


def _wrong_patient(
    payload: Mapping[str, Any], task_text: TaskText, context: WriteContext
) -> Iterator[str]:
    patient = subject_patient_id(payload)
    if not patient:
        yield "The subject must be Patient/id."
        return
    patients_read = [name for name in context.resources_read if name.startswith("Patient/")]
    if not task_text.mentions(patient) and patients_read != [f"Patient/{patient}"]:
        yield f"The instruction is not about the patient {patient[:40]}."
    if context.patient_exists is False:
        yield f"The record has no patient {patient[:40]}."


def _wrong_dose_unit(payload: Mapping[str, Any], task_text: TaskText) -> Iterator[str]:
    for unit in dose_units(payload):
        if not re.search(rf"\d\s*{re.escape(unit)}(?![\w/])", task_text.text):
            yield f"The instruction gives no dose in {unit[:20]}."


def _wrong_evidence_unit(
    task_text: TaskText, context: WriteContext, evidence: tuple[str, ...]
) -> Iterator[str]:
    units = _CONCENTRATION.findall(task_text.text)
    instruction_units = sorted({unit.lower() for unit in units})
    if not instruction_units:
        return
    for reference in evidence:
        resource = context.resources_read.get(reference, {})
        quantity = resource.get("valueQuantity") or {}
        unit = str(quantity.get("unit") or "").lower()
        if unit and not any(same_unit(unit, expected) for expected in instruction_units):
            expected_units = list_ids(instruction_units)
            yield (
                f"The measurement {reference} is in another unit than the instruction's "
                f"{expected_units}."
            )


def _duplicate(payload: Mapping[str, Any], context: WriteContext) -> Iterator[str]:
    for resource in (*context.accepted_writes, *context.existing_resources):
        if _is_duplicate(payload, resource):
            identity = resource.get("id") or "in this task"
            yield f"The same has been written for this patient already ({identity})."
            return


def _is_duplicate(payload: Mapping[str, Any], resource: Mapping[str, Any]) -> bool:
    same_subject = (
        resource.get("resourceType") == payload.get("resourceType")
        and subject_patient_id(resource) == subject_patient_id(payload)
        and _occasion(resource) == _occasion(payload)
    )
    shares_code = not set(resource_codes(payload)).isdisjoint(resource_codes(resource))
    return same_subject and shares_code and _is_in_force(resource)


def _is_in_force(resource: Mapping[str, Any]) -> bool:
    if resource.get("resourceType") == "Observation":
        return True
    return resource.get("status") in _OPEN_STATUSES


def _occasion(resource: Mapping[str, Any]) -> str:
    """What tells two resources of one code apart.

    It is the day of an order, the instant of a measurement.
    """
    if resource.get("resourceType") == "Observation":
        return str(resource.get("effectiveDateTime"))
    return str(resource.get("occurrenceDateTime") or resource.get("authoredOn"))[:10]


def _has_identity(resource: Mapping[str, Any], patient: str) -> bool:
    if resource.get("id") == patient:
        return True
    identifiers = resource.get("identifier")
    if not isinstance(identifiers, list):
        return False
    values = [entry.get("value") for entry in identifiers if isinstance(entry, dict)]
    return patient in values
