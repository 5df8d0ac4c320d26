"""A fixed policy for MedAgentBench.

It has general rules for reading an instruction, typed tools and no model.

It shows that environment, tools and graders fit together. Its score is not the score of any model.
"""

from collections.abc import Callable
from datetime import datetime
from statistics import fmean
from typing import Any, NamedTuple

from archqa.errors import Unusable
from archqa.fhir.record import Resource
from archqa.tasks.medagentbench.clock import (
    age_on,
    format_datetime,
    parse_instant,
    parse_next_day_time,
    parse_now,
    subtract_years,
)
from archqa.tasks.medagentbench.dosing import DosingInstructions, parse_dosing
from archqa.tasks.medagentbench.instruction import ParsedInstruction, parse_instruction
from archqa.tasks.medagentbench.tool_implementations import (
    ActionFailed,
    ToolImplementations,
    latest_measurement,
    measured_value,
    resource_reference,
    window_start,
)
from archqa.tasks.medagentbench.write_checks import TaskText
from archqa.tasks.medagentbench.write_intents import (
    BENCHMARK_PRIORITY,
    LOINC,
    SNOMED,
    MedicationOrder,
    ServiceOrder,
    VitalSign,
    WriteIntent,
)

_NOT_AVAILABLE = -1


class _State(NamedTuple):
    """One task in progress."""

    task_text: TaskText
    instruction: ParsedInstruction
    tools: ToolImplementations

    @property
    def now(self) -> datetime:
        """The task's clock."""
        return parse_now(self.task_text.context)

    @property
    def fhir_now(self) -> str:
        """The task's clock as a FHIR dateTime."""
        return format_datetime(self.now)

    def code(self, code_type: str) -> str:
        """A code the instruction names. Raises `Unusable` if it names none."""
        code = self.instruction.codes.get(code_type)
        if code is None:
            raise Unusable(f"The instruction names no code of the kind {code_type}.")
        return code

    def patient_resources(self) -> list[Resource]:
        """The patient of the instruction; empty if the record has no such patient."""
        patient = self.tools.find_patient(self.instruction.patient)
        return [patient] if patient else []

    def finish(self, answers: list[Any], explanation: str, cited: list[Resource]) -> None:
        """End with these answers; explanation and citations are stored apart from them."""
        self.tools.finish(answers, explanation, _references(cited))


_Policy = Callable[[_State], None]


def run_policy(task_text: TaskText, tools: ToolImplementations) -> None:
    """Carry out an instruction to its end.

    Raises `Unusable` and `ActionFailed` if that is impossible.
    """
    state = _State(task_text, parse_instruction(task_text), tools)
    carry_out = _choose_policy(state.instruction)
    carry_out(state)


def _choose_policy(instruction: ParsedInstruction) -> _Policy:
    if instruction.name and instruction.birth_date:
        return _find_patient
    if instruction.asks_for_age:
        return _report_age
    if instruction.asks_to_record and "flowsheet" in instruction.codes:
        return _record_vital_sign
    if instruction.asks_to_order:
        return _choose_order_policy(instruction)
    if "lab" in instruction.codes:
        return _report_value
    raise Unusable("The instruction is of no kind the policy knows.")


def _choose_order_policy(instruction: ParsedInstruction) -> _Policy:
    if "lab" not in instruction.codes:
        return _order_service
    if instruction.max_age_years is None:
        return _replace_if_low
    return _reorder_if_old


def _find_patient(state: _State) -> None:
    instruction = state.instruction
    first_name = instruction.name.split()[0]  # The text does not show where the family name begins.
    candidates = state.tools.search_patients(name=first_name, birthdate=instruction.birth_date)
    patients = [patient for patient in candidates if _matches(patient, instruction)]
    if len(patients) == 1:
        explanation = "The only patient of this name and date of birth."
        state.finish([_record_number(patients[0])], explanation, patients)
        return
    explanation = "No patient has this name and date of birth."
    if patients:
        explanation = "Several patients have them."
    state.finish([instruction.fallback_answer or _NOT_AVAILABLE], explanation, [])


def _report_age(state: _State) -> None:
    patients = state.patient_resources()
    if not patients:
        state.finish([_NOT_AVAILABLE], "The record has no such patient.", [])
        return
    birth_date = str(patients[0].get("birthDate"))
    state.finish([age_on(birth_date, state.now)], f"Born {birth_date}.", patients)


def _report_value(state: _State) -> None:
    measurements = _measurements(state)
    latest = latest_measurement(measurements)
    if latest is None:
        explanation = "There is no measurement in the time asked for."
        state.finish([_NOT_AVAILABLE], explanation, [])
    elif state.instruction.asks_for_mean:
        mean = fmean(map(measured_value, measurements))
        state.finish([mean], f"The mean of {len(measurements)} measurements.", measurements)
    else:
        explanation = f"Measured at {latest['effectiveDateTime']}."
        state.finish([measured_value(latest)], explanation, [latest])


def _record_vital_sign(state: _State) -> None:
    vital_sign = VitalSign(
        patient=state.instruction.patient,
        at=state.fhir_now,
        flowsheet=state.code("flowsheet"),
        value=state.instruction.quoted_text,
    )
    evidence = state.patient_resources()
    is_written = _write(state, [vital_sign], evidence)
    state.finish([], "Recorded." if is_written else "Not recorded.", evidence)


def _order_service(state: _State) -> None:
    """A referral or a test without any condition."""
    evidence = state.patient_resources()
    is_written = _write(state, [_service_order(state, state.instruction.quoted_text)], evidence)
    state.finish([], "Ordered." if is_written else "Not ordered.", evidence)


def _replace_if_low(state: _State) -> None:
    """Read the latest measurement, and order a replacement if it is low."""
    dosing = parse_dosing(state.task_text.context)
    if dosing is None:
        raise Unusable("The dosing instructions are of no form the policy knows.")
    latest = latest_measurement(_measurements(state))
    if latest is None:
        explanation = "There is no measurement in the time asked for; nothing is ordered."
        state.finish([_NOT_AVAILABLE], explanation, [])
        return
    value = measured_value(latest)
    intents = _replacement_orders(state, dosing, value)
    if not intents:
        explanation = "Not low: nothing is ordered."
    elif _write(state, intents, [latest]):
        explanation = "Low: replaced."
    else:
        explanation = "Low, but the order was refused."
    state.finish([value], explanation, [latest])


def _replacement_orders(
    state: _State, dosing: DosingInstructions, value: float
) -> list[WriteIntent]:
    dose = dosing.dose_for(value)
    if dose is None:
        return []
    instruction = state.instruction
    medication_order = MedicationOrder(
        patient=instruction.patient,
        at=state.fhir_now,
        ndc=state.code("ndc"),
        name=instruction.code_names.get("ndc", "replacement"),
        route=dose.route,
        dose=dose.amount,
        unit=dose.unit,
        hours=dose.hours,
    )
    if "loinc" not in instruction.codes:
        return [medication_order]
    return [medication_order, _service_order(state)]


def _reorder_if_old(state: _State) -> None:
    """Report the latest value and its time; order a new test if it is too old or there is none."""
    latest = latest_measurement(_measurements(state))
    cited = [latest] if latest else []
    if _is_recent(latest, state):
        explanation = "Recent enough: nothing is ordered."
    elif _write(state, [_service_order(state)], cited or state.patient_resources()):
        explanation = "Too old or absent: a new test is ordered."
    else:
        explanation = "Too old or absent, but the order was refused."
    answers: list[Any] = [_NOT_AVAILABLE]
    if latest:
        answers = [measured_value(latest), latest["effectiveDateTime"]]
    state.finish(answers, explanation, cited)


def _is_recent(measurement: Resource | None, state: _State) -> bool:
    if measurement is None:
        return False
    time = parse_instant(measurement["effectiveDateTime"])
    oldest = subtract_years(state.now, state.instruction.max_age_years or 1)
    return time is not None and time >= oldest


def _measurements(state: _State) -> list[Resource]:
    instruction = state.instruction
    since = window_start(state.now, instruction.lookback)
    return state.tools.search_measurements(instruction.patient, state.code("lab"), since)


def _service_order(state: _State, note: str = "") -> ServiceOrder:
    instruction = state.instruction
    system, code_type = SNOMED, "snomed"
    if "loinc" in instruction.codes:
        system, code_type = LOINC, "loinc"
    when = parse_next_day_time(state.now, state.task_text.instruction)
    return ServiceOrder(
        patient=instruction.patient,
        at=state.fhir_now,
        system=system,
        code=state.code(code_type),
        name=instruction.code_names.get(code_type, code_type),
        note=note,
        when=format_datetime(when) if when else "",
        priority=BENCHMARK_PRIORITY,
    )


def _write(state: _State, intents: list[WriteIntent], evidence: list[Resource]) -> bool:
    """Write the intents until one is refused; whether all were written.

    The patient is looked up before, if nobody has. A refusal becomes a remark.
    """
    references = _references(evidence)
    try:
        if not state.tools.has_looked_up(state.instruction.patient):
            state.patient_resources()
        for intent in intents:
            state.tools.write(intent, references)
    except ActionFailed as failure:
        state.tools.remarks.append(str(failure))
        return False
    return True


def _references(resources: list[Resource]) -> list[str]:
    return [resource_reference(resource) for resource in resources]


def _record_number(patient: Resource) -> str:
    """The medical record number: the identifier of that type, else the id."""
    for identifier in patient.get("identifier") or []:
        codings = (identifier.get("type") or {}).get("coding") or []
        is_record_number = any(coding.get("code") == "MR" for coding in codings)
        if is_record_number and identifier.get("value"):
            return str(identifier["value"])
    return str(patient["id"])


def _matches(patient: Resource, instruction: ParsedInstruction) -> bool:
    """Whether the patient has the date of birth, and every word of the name."""
    words = set(instruction.name.casefold().split())
    return patient.get("birthDate") == instruction.birth_date and words <= _name_words(patient)


def _name_words(patient: Resource) -> set[str]:
    words: set[str] = set()
    for name in patient.get("name") or []:
        for part in (*(name.get("given") or []), name.get("family") or ""):
            words.update(part.casefold().split())
    return words
