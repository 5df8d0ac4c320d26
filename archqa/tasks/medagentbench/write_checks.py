"""Reasons against a write: it contradicts the record or the instruction, or nothing justifies it.

Each reason is a sentence for the agent. The sentences quote ids and codes of the write, never the
record.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from archqa.core.id_lists import list_ids
from archqa.fhir.record import Resource, objects_of

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
_CONCENTRATION = re.compile(
    r"\b(?:mg|g|mmol|mEq|ug|µg|ng|mL|U|IU)/(?:dL|L|mL)\b", re.IGNORECASE
)
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
        return (
            re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", self.text) is not None
        )


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
    payload: Resource,
    task_text: TaskText,
    context: WriteContext,
    evidence: tuple[str, ...] = (),
) -> list[str]:
    """Every reason against writing the payload, none if it may be written."""
    reasons = []
    resource_type = str(payload.get("resourceType"))
    verbs = _REQUESTING_VERBS.get(resource_type)
    if verbs is None or not verbs.search(task_text.instruction):
        reasons.append(f"The instruction does not ask for a {resource_type}.")
    for code in resource_codes(payload):
        if not task_text.mentions(code):
            reasons.append(f"The instruction names no code {code[:40]}.")
    reasons += _wrong_patient(subject_patient_id(payload), task_text, context)
    for unit in dose_units(payload):
        if not re.search(rf"\d\s*{re.escape(unit)}(?![\w/])", task_text.text):
            reasons.append(f"The instruction gives no dose in {unit[:20]}.")
    reasons += _wrong_evidence_unit(task_text, context, evidence)
    for resource in (*context.accepted_writes, *context.existing_resources):
        if _is_duplicate(payload, resource):
            identity = resource.get("id") or "in this task"
            reasons.append(
                f"The same has been written for this patient already ({identity})."
            )
            break
    return reasons


def missing_reads(
    payload: Resource,
    task_text: TaskText,
    context: WriteContext,
    evidence: tuple[str, ...],
) -> list[str]:
    """Why it is too early to write.

    The patient was not looked up, nothing justifies the write, or a condition was not checked.
    """
    patient = subject_patient_id(payload)
    reasons = []
    known_numbers = []
    for name, resource in context.resources_read.items():
        if name.startswith("Patient/"):
            known_numbers.append(resource.get("id"))
            for identifier in objects_of(resource, "identifier"):
                known_numbers.append(identifier.get("value"))
    if patient not in known_numbers:
        reasons.append(
            f"The patient {patient[:40]} was not looked up in this task: find the Patient by "
            "this record number before you write."
        )
    reasons += _wrong_evidence(task_text, context, evidence)
    if _CONDITION.search(task_text.instruction):
        cites_measurement = any(name.startswith("Observation/") for name in evidence)
        searched = any(
            "Observation" in url and patient in url for url in context.requested_urls
        )
        if not cites_measurement and not searched:
            reasons.append(
                "The instruction sets a condition; read the measurement it speaks of first."
            )
    return reasons


def subject_patient_id(payload: Resource) -> str:
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
    return len(units) == 1 or any(
        units <= equivalent for equivalent in _EQUIVALENT_UNITS
    )


def _wrong_evidence(
    task_text: TaskText, context: WriteContext, evidence: tuple[str, ...]
) -> Iterator[str]:
    if not evidence:
        yield (
            "Nothing justifies this write: name as evidence the resources it rests on, as Type/id, "
            f"or '{INSTRUCTION_EVIDENCE} ' and words of the instruction."
        )
    unread = []
    for reference in evidence:
        if reference.startswith(INSTRUCTION_EVIDENCE):
            quotation = _folded(reference.removeprefix(INSTRUCTION_EVIDENCE))
            is_long = len(quotation.split()) >= _MIN_QUOTED_WORDS
            if not is_long or quotation not in _folded(task_text.text):
                yield (
                    f"The instruction does not say {quotation[:80]!r}: quote at least "
                    f"{_MIN_QUOTED_WORDS} words of it."
                )
        elif reference not in context.resources_read:
            unread.append(reference)
    if unread:
        yield f"The evidence {list_ids(unread)} was not read in this task."


def _folded(text: str) -> str:
    """A text in lower case on one line, without quotation marks at its ends."""
    return " ".join(text.casefold().split()).strip("\"'“”‘’ ")


def _wrong_patient(
    patient: str, task_text: TaskText, context: WriteContext
) -> Iterator[str]:
    if not patient:
        yield "The subject must be Patient/id."
        return
    patients_read = [
        name for name in context.resources_read if name.startswith("Patient/")
    ]
    if not task_text.mentions(patient) and patients_read != [f"Patient/{patient}"]:
        yield f"The instruction is not about the patient {patient[:40]}."
    if context.patient_exists is False:
        yield f"The record has no patient {patient[:40]}."


def _wrong_evidence_unit(
    task_text: TaskText, context: WriteContext, evidence: tuple[str, ...]
) -> Iterator[str]:
    units = _CONCENTRATION.findall(task_text.text)
    instruction_units = sorted(set(map(str.lower, units)))
    if not instruction_units:
        return
    for reference in evidence:
        resource = context.resources_read.get(reference, {})
        quantity = resource.get("valueQuantity") or {}
        unit = str(quantity.get("unit") or "").lower()
        if unit and not any(
            same_unit(unit, expected) for expected in instruction_units
        ):
            expected_units = list_ids(instruction_units)
            yield (
                f"The measurement {reference} is in another unit than the instruction's "
                f"{expected_units}."
            )


def _is_duplicate(payload: Resource, resource: Resource) -> bool:
    is_same = (
        resource.get("resourceType") == payload.get("resourceType")
        and subject_patient_id(resource) == subject_patient_id(payload)
        and _occasion(resource) == _occasion(payload)
    )
    shares_code = not set(resource_codes(payload)).isdisjoint(resource_codes(resource))
    is_measured = resource.get("resourceType") == "Observation"
    is_in_force = is_measured or resource.get("status") in _OPEN_STATUSES
    return is_same and shares_code and is_in_force


def _occasion(resource: Resource) -> str:
    """What tells two resources of one code apart.

    It is the day of an order, the instant of a measurement.
    """
    if resource.get("resourceType") == "Observation":
        return str(resource.get("effectiveDateTime"))
    return str(resource.get("occurrenceDateTime") or resource.get("authoredOn"))[:10]


def resource_codes(payload: Resource) -> list[str]:
    """The codes of the medication or service, else the text of the code."""
    concept = payload.get("medicationCodeableConcept") or payload.get("code")
    if not isinstance(concept, dict):
        return []
    codings = objects_of(concept, "coding")
    codes = [str(coding["code"]) for coding in codings if coding.get("code")]
    if not codes and concept.get("text"):
        return [str(concept["text"])]
    return codes


def dose_units(payload: Resource) -> list[str]:
    """The units of the doses of an order."""
    units = []
    for dosage in objects_of(payload, "dosageInstruction"):
        for dose_and_rate in objects_of(dosage, "doseAndRate"):
            quantity = dose_and_rate.get("doseQuantity")
            if isinstance(quantity, dict) and quantity.get("unit"):
                units.append(str(quantity["unit"]))
    return units
