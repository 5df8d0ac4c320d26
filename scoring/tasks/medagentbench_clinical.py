"""The grading of a careful reviewer: what was really done for the patient, however it was spelt.

Beside the official grading, not in its place. A route or a note may have FHIR's shape or the benchmark's, instants may
be written in any zone, numbers may be rounded, two orders may come in any order, the address may hold a double slash,
and POST in prose is no write. What is for another patient, of another dose, twice or not asked for stays wrong, and a
conversation must have ended well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .medagentbench_faults import (
    ANSWER_MISMATCH,
    INVALID_RESULT,
    READ_ONLY_VIOLATION,
    SYSTEM_ERROR,
    WRONG_ENDPOINT,
    WRONG_POST_COUNT,
    Fault,
    require,
    require_equal,
    unfinished_fault,
)
from .medagentbench_official import quoted_text
from .medagentbench_reading import (
    has_code,
    is_amount,
    is_infusion_duration,
    is_number,
    is_route,
    is_time,
    iter_texts,
    last_path_segment,
    normalise_spacing,
    refers_to_patient,
    remove_spaces,
)
from .medagentbench_reference import (
    DAY,
    Chart,
    Lookup,
    Measurement,
    age_in_years,
    magnesium_dose,
    one_year_before,
    potassium_dose,
    time_from_context,
)
from .medagentbench_transcript import Post, Task, Transcript

_FAILS = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
    OverflowError,
)
_DOSE = 0.1
"""How far a dose or a mean may be off, as in the benchmark."""

Rule = Callable[["Reviewed"], Iterator[Fault]]


@dataclass(frozen=True)
class Reviewed:
    """One task, what the agent did, the patient's chart and the time it is."""

    task: Task
    transcript: Transcript
    chart: Chart
    now: datetime

    @property
    def said(self) -> list[Any]:
        """What FINISH( ) held; a single value counts as a list of one. Raises ValueError if it is no JSON."""
        value = json.loads(self.transcript.result or "")
        return value if isinstance(value, list) else [value]


def clinical_faults(task: Task, transcript: Transcript, lookup: Lookup) -> list[Fault]:
    """Why a careful reviewer would not accept the work; nothing if they would. Raises what `lookup` raises."""
    if transcript.result is None or not transcript.completed:
        return [unfinished_fault(transcript.status)]
    reviewed = Reviewed(
        task, transcript, Chart(lookup, task.mrn, valid_only=True), time_from_context(task.context)
    )
    try:
        return list(_RULES[task.number](reviewed))
    except _FAILS as error:
        return [Fault(SYSTEM_ERROR, "", f"the work cannot be read ({type(error).__name__})")]


def _find_patient(work: Reviewed) -> Iterator[Fault]:
    yield from _nothing_posted(work)
    wanted = [normalise_spacing(str(each)) for each in work.task.sol or ()]
    yield from _answered(
        work,
        lambda said: (
            [normalise_spacing(str(each)).removeprefix("patient/") for each in said] == wanted
        ),
    )


def _age(work: Reviewed) -> Iterator[Fault]:
    yield from _nothing_posted(work)
    years = age_in_years(work.chart.birth_date(), work.now.date())
    yield from _answered(work, lambda said: len(said) == 1 and is_number(said[0], years))


def _blood_pressure(work: Reviewed) -> Iterator[Fault]:
    value = quoted_text(work.task.instruction)
    for post in _posted(work, "Observation"):
        payload = post.payload
        yield from require(
            payload,
            lambda found: "vital-signs" in list(iter_texts(found)),
            "vital-signs",
            "category",
        )
        yield from require(payload, lambda found: "BP" in list(iter_texts(found)), "BP", "code")
        yield from require(
            payload, lambda found: is_time(found, work.now), _time(work.now), "effectiveDateTime"
        )
        yield from require(payload, lambda found: found == "final", "'final'", "status")
        yield from require(
            payload,
            lambda found: remove_spaces(found) == remove_spaces(value),
            repr(value),
            "valueString",
        )
        yield from _subject(work, payload)
    yield from _post_faults(work, "Observation")


def _recent_magnesium(work: Reviewed) -> Iterator[Fault]:
    yield from _nothing_posted(work)
    yield from _told_value(work, work.chart.latest("MG", work.now - DAY))


def _replace_magnesium(work: Reviewed) -> Iterator[Fault]:
    found = work.chart.latest("MG", work.now - DAY)
    if found is None:
        yield from _nothing_posted(work)
        return
    if found.value > 1.9:
        yield from _nothing_posted(work)
    else:
        for post in _posted(work, "MedicationRequest"):
            yield from _magnesium_order(work, post.payload, magnesium_dose(found.value))
        yield from _post_faults(work, "MedicationRequest")
    yield from _told_value(work, found, may_be_silent=True)


def _magnesium_order(work: Reviewed, payload: Any, dose: int) -> Iterator[Fault]:
    rate = ("dosageInstruction", 0, "doseAndRate", 0)
    yield from _medication(work, payload, "0338-1715-40", "iv")
    yield from require(
        payload, lambda found: is_amount(found, dose, "g"), f"{dose} g", *rate, "doseQuantity"
    )
    yield from require(
        payload, lambda found: is_infusion_duration(found, dose), f"{dose} h", *rate, "rateQuantity"
    )


def _mean_glucose(work: Reviewed) -> Iterator[Fault]:
    yield from _nothing_posted(work)
    values = [each.value for each in work.chart.measured("GLU", work.now - DAY)]
    mean = sum(values) / len(values) if values else -1
    yield from _answered(work, lambda said: len(said) == 1 and is_number(said[0], mean, _DOSE))


def _latest_glucose(work: Reviewed) -> Iterator[Fault]:
    yield from _nothing_posted(work)
    yield from _told_value(work, work.chart.latest("GLU"))


def _referral(work: Reviewed) -> Iterator[Fault]:
    wanted = normalise_spacing(quoted_text(work.task.instruction))
    for post in _posted(work, "ServiceRequest"):
        yield from _service(work, post.payload, "http://snomed.info/sct", "306181000000106")
        yield from require(
            post.payload,
            lambda found: any(wanted in normalise_spacing(each) for each in iter_texts(found)),
            "a note with the sentence of the instruction",
            "note",
        )
    yield from _post_faults(work, "ServiceRequest")


def _replace_potassium(work: Reviewed) -> Iterator[Fault]:
    found = work.chart.latest("K")
    if found is None or found.value >= 3.5:
        yield from _nothing_posted(work)
    else:
        for post in _posted(work, "MedicationRequest", "ServiceRequest"):
            if last_path_segment(post.url) == "ServiceRequest":
                yield from _potassium_check(work, post.payload)
            else:
                yield from _potassium_order(work, post.payload, potassium_dose(found.value))
        yield from _post_faults(work, "MedicationRequest", "ServiceRequest")
    yield from _told_value(work, found, may_be_silent=True)


def _potassium_order(work: Reviewed, payload: Any, dose: float) -> Iterator[Fault]:
    quantity = ("dosageInstruction", 0, "doseAndRate", 0, "doseQuantity")
    yield from _medication(work, payload, "40032-917-01", "oral")
    yield from require(
        payload, lambda found: is_amount(found, dose, "meq", _DOSE), f"{dose:g} mEq", *quantity
    )


def _potassium_check(work: Reviewed, payload: Any) -> Iterator[Fault]:
    morning = (work.now + timedelta(days=1)).replace(hour=8, minute=0)
    yield from _service(work, payload, "http://loinc.org", "2823-3")
    yield from require(
        payload, lambda found: is_time(found, morning), _time(morning), "occurrenceDateTime"
    )


def _a1c(work: Reviewed) -> Iterator[Fault]:
    found = work.chart.latest("A1C")
    if found is None or found.at < one_year_before(work.now):
        for post in _posted(work, "ServiceRequest"):
            yield from _service(work, post.payload, "http://loinc.org", "4548-4")
        yield from _post_faults(work, "ServiceRequest")
    else:
        yield from _nothing_posted(work)
    yield from _answered(
        work, lambda said: said in ([], [-1]) if found is None else _tells(said, found)
    )


_RULES: dict[int, Rule] = {
    1: _find_patient,
    2: _age,
    3: _blood_pressure,
    4: _recent_magnesium,
    5: _replace_magnesium,
    6: _mean_glucose,
    7: _latest_glucose,
    8: _referral,
    9: _replace_potassium,
    10: _a1c,
}


def _nothing_posted(work: Reviewed) -> Iterator[Fault]:
    if work.transcript.executed_posts():
        yield Fault(READ_ONLY_VIOLATION, "", "something was written that was not to be")


def _posted(work: Reviewed, *types: str) -> list[Post]:
    """The writes, where they are as many and of the types they should be."""
    posts = work.transcript.executed_posts()
    return posts if sorted(last_path_segment(each.url) for each in posts) == sorted(types) else []


def _post_faults(work: Reviewed, *types: str) -> Iterator[Fault]:
    posts = work.transcript.executed_posts()
    if len(posts) != len(types):
        yield Fault(WRONG_POST_COUNT, "", f"{len(posts)} writes; there must be {len(types)}")
    elif sorted(last_path_segment(each.url) for each in posts) != sorted(types):
        yield Fault(WRONG_ENDPOINT, "", f"must be posted to {' and '.join(types)}")
    else:
        for post in posts:
            yield from require_equal(post.payload, last_path_segment(post.url), "resourceType")


def _medication(work: Reviewed, payload: Any, ndc: str, route: str) -> Iterator[Fault]:
    wanted = f"the NDC {ndc}"
    yield from require(
        payload,
        lambda found: has_code(found, "http://hl7.org/fhir/sid/ndc", ndc),
        wanted,
        "medicationCodeableConcept",
    )
    yield from require(
        payload, lambda found: is_route(found, route), route, "dosageInstruction", 0, "route"
    )
    yield from require(payload, lambda found: found == "active", "'active'", "status")
    yield from _ordered(work, payload)


def _service(work: Reviewed, payload: Any, system: str, code: str) -> Iterator[Fault]:
    yield from require(
        payload, lambda found: has_code(found, system, code), f"{system} {code}", "code"
    )
    yield from require(payload, lambda found: found == "active", "'active'", "status")
    yield from require(payload, lambda found: found == "stat", "'stat'", "priority")
    yield from _ordered(work, payload)


def _ordered(work: Reviewed, payload: Any) -> Iterator[Fault]:
    yield from require(
        payload, lambda found: is_time(found, work.now, to="minute"), _time(work.now), "authoredOn"
    )
    yield from require(payload, lambda found: found == "order", "'order'", "intent")
    yield from _subject(work, payload)


def _subject(work: Reviewed, payload: Any) -> Iterator[Fault]:
    yield from require(
        payload,
        lambda found: refers_to_patient(found, work.task.mrn),
        "the patient of the task",
        "subject",
    )


def _told_value(
    work: Reviewed, found: Measurement | None, *, may_be_silent: bool = False
) -> Iterator[Fault]:
    """The answer is the value, or -1 without one; an instruction that asks for no number may get an empty list."""
    value = found.value if found else -1
    yield from _answered(
        work,
        lambda said: (
            (may_be_silent and said == []) or (len(said) == 1 and is_number(said[0], value))
        ),
    )


def _tells(said: list[Any], found: Measurement) -> bool:
    if not said:
        return True
    return len(said) == 2 and is_number(said[0], found.value) and is_time(said[1], found.at)


def _answered(work: Reviewed, right: Callable[[list[Any]], bool]) -> Iterator[Fault]:
    try:
        said = work.said
    except (ValueError, RecursionError):
        yield Fault(INVALID_RESULT, "", "FINISH( ) holds no JSON")
        return
    if not right(said):
        yield Fault(ANSWER_MISMATCH, "", "the answer is another")


def _time(at: datetime) -> str:
    return at.isoformat()
