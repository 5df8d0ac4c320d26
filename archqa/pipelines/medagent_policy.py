"""A fixed policy for MedAgentBench: general rules of reading an instruction, typed tools, no model.

It shows that environment, tools and graders fit together. Its score says nothing of any model.
"""

from collections.abc import Callable
from datetime import datetime
from statistics import fmean
from typing import Any, NamedTuple

from archqa.errors import Unusable
from archqa.fhir.base import Resource
from archqa.tools.clinical_clock import age_on, clock_of, instant, morning_after, written, years_before
from archqa.tools.clinical_dosing import Dosing, read_dosing
from archqa.tools.clinical_hands import Hands, NotDone, ago, latest, name_of, value_of
from archqa.tools.clinical_instruction import Wish, read_instruction
from archqa.tools.clinical_safety import Ask
from archqa.tools.clinical_writes import LOINC, SNOMED, Intent, MedicationOrder, ServiceOrder, VitalSign

_ABSENT = -1


class _Work(NamedTuple):
    """One task under way."""

    ask: Ask
    wish: Wish
    hands: Hands

    @property
    def now(self) -> datetime:
        """The task's clock."""
        return clock_of(self.ask.context)

    @property
    def written_now(self) -> str:
        """The task's clock as FHIR writes it."""
        return written(self.now)

    def code(self, kind: str) -> str:
        """A code the instruction names. Raises `Unusable` if it names none."""
        if kind not in self.wish.codes:
            raise Unusable(f"The instruction names no code of the kind {kind}.")
        return self.wish.codes[kind]

    def finish(self, answers: list[Any], why: str, cited: list[Resource]) -> None:
        """End with an answer, and apart from it the reason and what it rests on."""
        self.hands.finish(answers, why, [name_of(each) for each in cited])


def carry_out(ask: Ask, hands: Hands) -> None:
    """Do what the instruction asks for, to the end. Raises `Unusable` and `NotDone` where that cannot be done."""
    work = _Work(ask, read_instruction(ask), hands)
    _way(work)(work)


def _way(work: _Work) -> Callable[[_Work], None]:
    wish = work.wish
    ways = (
        (bool(wish.name and wish.born), _find_patient),
        (wish.age, _tell_age),
        (wish.records and "flowsheet" in wish.codes, _record),
        (wish.orders and "lab" in wish.codes and wish.stale_years is not None, _renew),
        (wish.orders and "lab" in wish.codes, _replace),
        (wish.orders, _order),
        ("lab" in wish.codes, _tell_value),
    )
    for fits, way in ways:
        if fits:
            return way
    raise Unusable("The instruction is of no kind the policy knows.")


def _find_patient(work: _Work) -> None:
    first, *_ = work.wish.name.split()  # How the rest is split into given and family names, nobody can tell.
    found = work.hands.patients(name=first, birthdate=work.wish.born)
    fitting = [each for each in found if _is_called(each, work.wish.name) and each.get("birthDate") == work.wish.born]
    if len(fitting) != 1:
        why = "No patient has this name and date of birth." if not fitting else "Several patients have them."
        work.finish([work.wish.instead or _ABSENT], why, [])
        return
    work.finish([_number(fitting[0])], "The only patient of this name and date of birth.", fitting)


def _tell_age(work: _Work) -> None:
    patient = work.hands.patient(work.wish.patient)
    if patient is None:
        work.finish([_ABSENT], "The record has no such patient.", [])
        return
    work.finish([age_on(str(patient.get("birthDate")), work.now)], f"Born {patient.get('birthDate')}.", [patient])


def _tell_value(work: _Work) -> None:
    found = _measured(work)
    if not found:
        work.finish([_ABSENT], "There is no measurement in the time asked for.", [])
    elif work.wish.mean:
        mean = round(fmean(value_of(each) for each in found), 4)
        work.finish([mean], f"The mean of {len(found)} measurements.", found)
    else:
        last = latest(found) or found[0]
        work.finish([value_of(last)], f"Measured at {last['effectiveDateTime']}.", [last])


def _record(work: _Work) -> None:
    sign = VitalSign(
        patient=work.wish.patient, at=work.written_now, flowsheet=work.code("flowsheet"), value=work.wish.quote
    )
    patient = work.hands.patient(work.wish.patient)
    done = _write(work, [sign], [patient] if patient else [])
    work.finish([], "Recorded." if done else "Not recorded.", [patient] if patient else [])


def _order(work: _Work) -> None:
    """A referral or a test without any condition."""
    patient = work.hands.patient(work.wish.patient)
    done = _write(work, [_service(work, work.wish.quote)], [patient] if patient else [])
    work.finish([], "Ordered." if done else "Not ordered.", [patient] if patient else [])


def _replace(work: _Work) -> None:
    """Measure, and replace what is low by the instruction's own dosing."""
    dosing = read_dosing(work.ask.context)
    if dosing is None:
        raise Unusable("The dosing instructions are of no form the policy knows.")
    last = latest(_measured(work))
    if last is None:
        work.finish([_ABSENT], "There is no measurement in the time asked for; nothing is ordered.", [])
        return
    intents = _replacement(work, dosing, value_of(last))
    done = _write(work, intents, [last]) if intents else False
    why = "Low: replaced." if done else "Low, but the order was refused." if intents else "Not low: nothing is ordered."
    work.finish([value_of(last)], why, [last])


def _replacement(work: _Work, dosing: Dosing, value: float) -> list[Intent]:
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
    last = latest(_measured(work))
    before = years_before(work.now, work.wish.stale_years or 1)
    measured = instant(last["effectiveDateTime"]) if last else None
    evidence = [last] if last else []
    why = "Recent enough: nothing is ordered."
    if measured is None or measured < before:
        patient = None if last else work.hands.patient(work.wish.patient)
        done = _write(work, [_service(work)], [*evidence, *([patient] if patient else [])])
        why = "Too old or absent: a new test is ordered." if done else "Too old or absent, but the order was refused."
    answer = [value_of(last), last["effectiveDateTime"]] if last else [_ABSENT]
    work.finish(answer, why, evidence)


def _measured(work: _Work) -> list[Resource]:
    return work.hands.measured(work.wish.patient, work.code("lab"), ago(work.now, work.wish.window))


def _service(work: _Work, note: str = "") -> ServiceOrder:
    system, kind = (LOINC, "loinc") if "loinc" in work.wish.codes else (SNOMED, "snomed")
    when = morning_after(work.now, work.ask.instruction)
    return ServiceOrder(
        patient=work.wish.patient,
        at=work.written_now,
        system=system,
        code=work.code(kind),
        name=work.wish.names.get(kind, kind),
        note=note,
        when=written(when) if when else "",
    )


def _write(work: _Work, intents: list[Intent], evidence: list[Resource]) -> bool:
    """All of them, or as many as are not refused; whether all were written. The reasons stay with the task."""
    proofs = [name_of(each) for each in evidence]
    try:
        for intent in intents:
            work.hands.write(intent, proofs)
    except NotDone as why:
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
