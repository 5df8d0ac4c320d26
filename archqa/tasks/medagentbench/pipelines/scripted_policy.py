"""A fixed policy for MedAgentBench: general rules of reading an instruction, typed tools, no model.

It shows that environment, tools and graders fit together. Its score says nothing of any model.
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
    LOINC,
    SNOMED,
    MedicationOrder,
    ServiceOrder,
    VitalSign,
    WriteIntent,
)

_ABSENT = -1


class _Work(NamedTuple):
    """One task under way."""

    ask: TaskText
    wish: ParsedInstruction
    hands: ToolImplementations

    @property
    def now(self) -> datetime:
        """The task's clock."""
        return parse_now(self.ask.context)

    @property
    def written_now(self) -> str:
        """The task's clock as FHIR writes it."""
        return format_datetime(self.now)

    def code(self, kind: str) -> str:
        """A code the instruction names. Raises `Unusable` if it names none."""
        if kind not in self.wish.codes:
            raise Unusable(f"The instruction names no code of the kind {kind}.")
        return self.wish.codes[kind]

    def finish(self, answers: list[Any], why: str, cited: list[Resource]) -> None:
        """End with an answer, and apart from it the reason and what it rests on."""
        self.hands.finish(answers, why, [resource_reference(each) for each in cited])


def run_policy(ask: TaskText, hands: ToolImplementations) -> None:
    """Do what the instruction asks for, to the end. Raises `Unusable` and `ActionFailed` where that cannot be done."""
    work = _Work(ask, parse_instruction(ask), hands)
    _way(work)(work)


def _way(work: _Work) -> Callable[[_Work], None]:
    wish = work.wish
    ways = (
        (bool(wish.name and wish.birth_date), _find_patient),
        (wish.asks_for_age, _tell_age),
        (wish.records and "flowsheet" in wish.codes, _record),
        (wish.asks_to_order and "lab" in wish.codes and wish.max_age_years is not None, _renew),
        (wish.asks_to_order and "lab" in wish.codes, _replace),
        (wish.asks_to_order, _order),
        ("lab" in wish.codes, _tell_value),
    )
    for fits, way in ways:
        if fits:
            return way
    raise Unusable("The instruction is of no kind the policy knows.")


def _find_patient(work: _Work) -> None:
    first, *_ = (
        work.wish.name.split()
    )  # How the rest is split into given and family names, nobody can tell.
    found = work.hands.patients(name=first, birthdate=work.wish.birth_date)
    fitting = [
        each
        for each in found
        if _is_called(each, work.wish.name) and each.get("birthDate") == work.wish.birth_date
    ]
    if len(fitting) != 1:
        why = (
            "No patient has this name and date of birth."
            if not fitting
            else "Several patients have them."
        )
        work.finish([work.wish.fallback_answer or _ABSENT], why, [])
        return
    work.finish([_number(fitting[0])], "The only patient of this name and date of birth.", fitting)


def _tell_age(work: _Work) -> None:
    patient = work.hands.patient(work.wish.patient)
    if patient is None:
        work.finish([_ABSENT], "The record has no such patient.", [])
        return
    work.finish(
        [age_on(str(patient.get("birthDate")), work.now)],
        f"Born {patient.get('birthDate')}.",
        [patient],
    )


def _tell_value(work: _Work) -> None:
    found = _measured(work)
    if not found:
        work.finish([_ABSENT], "There is no measurement in the time asked for.", [])
    elif work.wish.mean:
        mean = round(fmean(measured_value(each) for each in found), 4)
        work.finish([mean], f"The mean of {len(found)} measurements.", found)
    else:
        last = latest_measurement(found) or found[0]
        work.finish([measured_value(last)], f"Measured at {last['effectiveDateTime']}.", [last])


def _record(work: _Work) -> None:
    sign = VitalSign(
        patient=work.wish.patient,
        at=work.written_now,
        flowsheet=work.code("flowsheet"),
        value=work.wish.quoted_text,
    )
    patient = work.hands.patient(work.wish.patient)
    done = _write(work, [sign], [patient] if patient else [])
    work.finish([], "Recorded." if done else "Not recorded.", [patient] if patient else [])


def _order(work: _Work) -> None:
    """A referral or a test without any condition."""
    patient = work.hands.patient(work.wish.patient)
    done = _write(work, [_service(work, work.wish.quoted_text)], [patient] if patient else [])
    work.finish([], "Ordered." if done else "Not ordered.", [patient] if patient else [])


def _replace(work: _Work) -> None:
    """Measure, and replace what is low by the instruction's own dosing."""
    dosing = parse_dosing(work.ask.context)
    if dosing is None:
        raise Unusable("The dosing instructions are of no form the policy knows.")
    last = latest_measurement(_measured(work))
    if last is None:
        work.finish(
            [_ABSENT], "There is no measurement in the time asked for; nothing is ordered.", []
        )
        return
    intents = _replacement(work, dosing, measured_value(last))
    done = _write(work, intents, [last]) if intents else False
    why = (
        "Low: replaced."
        if done
        else "Low, but the order was refused."
        if intents
        else "Not low: nothing is ordered."
    )
    work.finish([measured_value(last)], why, [last])


def _replacement(work: _Work, dosing: DosingInstructions, value: float) -> list[WriteIntent]:
    dose = dosing.dose_for(value)
    if dose is None:
        return []
    order = MedicationOrder(
        patient=work.wish.patient,
        at=work.written_now,
        ndc=work.code("ndc"),
        name=work.wish.names.get("ndc", "replacement"),
        route=dose.route,
        dose=dose.amount,
        unit=dose.unit,
        hours=dose.hours,
    )
    paired = [_service(work)] if "loinc" in work.wish.codes else []
    return [order, *paired]


def _renew(work: _Work) -> None:
    """Tell the last value and when it was measured; order a new test if that was too long ago, or never."""
    last = latest_measurement(_measured(work))
    before = subtract_years(work.now, work.wish.max_age_years or 1)
    measured = parse_instant(last["effectiveDateTime"]) if last else None
    evidence = [last] if last else []
    why = "Recent enough: nothing is ordered."
    if measured is None or measured < before:
        patient = None if last else work.hands.patient(work.wish.patient)
        done = _write(work, [_service(work)], [*evidence, *([patient] if patient else [])])
        why = (
            "Too old or absent: a new test is ordered."
            if done
            else "Too old or absent, but the order was refused."
        )
    answer = [measured_value(last), last["effectiveDateTime"]] if last else [_ABSENT]
    work.finish(answer, why, evidence)


def _measured(work: _Work) -> list[Resource]:
    return work.hands.measured(
        work.wish.patient, work.code("lab"), window_start(work.now, work.wish.window)
    )


def _service(work: _Work, note: str = "") -> ServiceOrder:
    system, kind = (LOINC, "loinc") if "loinc" in work.wish.codes else (SNOMED, "snomed")
    when = parse_next_day_time(work.now, work.ask.instruction)
    return ServiceOrder(
        patient=work.wish.patient,
        at=work.written_now,
        system=system,
        code=work.code(kind),
        name=work.wish.names.get(kind, kind),
        note=note,
        when=format_datetime(when) if when else "",
    )


def _write(work: _Work, intents: list[WriteIntent], evidence: list[Resource]) -> bool:
    """All of them, or as many as are not refused; whether all were written. The reasons stay with the task."""
    proofs = [resource_reference(each) for each in evidence]
    try:
        for intent in intents:
            work.hands.write(intent, proofs)
    except ActionFailed as why:
        work.hands.remarks.append(str(why))
        return False
    return True


def _number(patient: Resource) -> str:
    """The medical record number: the identifier of that type, else the id."""
    for each in patient.get("identifier") or []:
        codings = (each.get("type") or {}).get("coding") or []
        if any(coding.get("code") == "MR" for coding in codings) and each.get("value"):
            return str(each["value"])
    return str(patient["id"])


def _is_called(patient: Resource, name: str) -> bool:
    """Whether every word of the name is one of the patient's."""
    words = {
        word.casefold()
        for each in patient.get("name") or []
        for part in (*(each.get("given") or []), each.get("family") or "")
        for word in part.split()
    }
    return {word.casefold() for word in name.split()} <= words
