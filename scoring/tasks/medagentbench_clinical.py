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
    def answer(self) -> list[Any]:
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
    yield from _require_no_post(work)
    expected = [normalise_spacing(str(part)) for part in work.task.sol or ()]
    yield from _check_answer(
        work,
        lambda answer: (
            [normalise_spacing(str(part)).removeprefix("patient/") for part in answer] == expected
        ),
    )


def _age(work: Reviewed) -> Iterator[Fault]:
    yield from _require_no_post(work)
    years = age_in_years(work.chart.birth_date(), work.now.date())
    yield from _check_answer(work, lambda answer: len(answer) == 1 and is_number(answer[0], years))


def _blood_pressure(work: Reviewed) -> Iterator[Fault]:
    value = quoted_text(work.task.instruction)
    for post in _expected_posts(work, "Observation"):
        payload = post.payload
        yield from require(
            payload,
            lambda element: "vital-signs" in list(iter_texts(element)),
            "vital-signs",
            "category",
        )
        yield from require(payload, lambda element: "BP" in list(iter_texts(element)), "BP", "code")
        yield from require(
            payload,
            lambda element: is_time(element, work.now),
            _time(work.now),
            "effectiveDateTime",
        )
        yield from require(payload, lambda element: element == "final", "'final'", "status")
        yield from require(
            payload,
            lambda element: remove_spaces(element) == remove_spaces(value),
            repr(value),
            "valueString",
        )
        yield from _subject(work, payload)
    yield from _post_faults(work, "Observation")


def _recent_magnesium(work: Reviewed) -> Iterator[Fault]:
    yield from _require_no_post(work)
    yield from _check_value_answer(work, work.chart.latest("MG", work.now - DAY))


def _replace_magnesium(work: Reviewed) -> Iterator[Fault]:
    measurement = work.chart.latest("MG", work.now - DAY)
    if measurement is None:
        yield from _require_no_post(work)
        return
    if measurement.value > 1.9:
        yield from _require_no_post(work)
    else:
        for post in _expected_posts(work, "MedicationRequest"):
            yield from _magnesium_order(work, post.payload, magnesium_dose(measurement.value))
        yield from _post_faults(work, "MedicationRequest")
    yield from _check_value_answer(work, measurement, may_be_silent=True)


def _magnesium_order(work: Reviewed, payload: Any, dose: int) -> Iterator[Fault]:
    rate = ("dosageInstruction", 0, "doseAndRate", 0)
    yield from _medication(work, payload, "0338-1715-40", "iv")
    yield from require(
        payload, lambda element: is_amount(element, dose, "g"), f"{dose} g", *rate, "doseQuantity"
    )
    yield from require(
        payload,
        lambda element: is_infusion_duration(element, dose),
        f"{dose} h",
        *rate,
        "rateQuantity",
    )


def _mean_glucose(work: Reviewed) -> Iterator[Fault]:
    yield from _require_no_post(work)
    values = [reading.value for reading in work.chart.measured("GLU", work.now - DAY)]
    mean = sum(values) / len(values) if values else -1
    yield from _check_answer(
        work, lambda answer: len(answer) == 1 and is_number(answer[0], mean, _DOSE)
    )


def _latest_glucose(work: Reviewed) -> Iterator[Fault]:
    yield from _require_no_post(work)
    yield from _check_value_answer(work, work.chart.latest("GLU"))


def _referral(work: Reviewed) -> Iterator[Fault]:
    expected = normalise_spacing(quoted_text(work.task.instruction))
    for post in _expected_posts(work, "ServiceRequest"):
        yield from _service(work, post.payload, "http://snomed.info/sct", "306181000000106")
        yield from require(
            post.payload,
            lambda element: any(
                expected in normalise_spacing(text) for text in iter_texts(element)
            ),
            "a note with the sentence of the instruction",
            "note",
        )
    yield from _post_faults(work, "ServiceRequest")


def _replace_potassium(work: Reviewed) -> Iterator[Fault]:
    measurement = work.chart.latest("K")
    if measurement is None or measurement.value >= 3.5:
        yield from _require_no_post(work)
    else:
        for post in _expected_posts(work, "MedicationRequest", "ServiceRequest"):
            if last_path_segment(post.url) == "ServiceRequest":
                yield from _potassium_check(work, post.payload)
            else:
                yield from _potassium_order(work, post.payload, potassium_dose(measurement.value))
        yield from _post_faults(work, "MedicationRequest", "ServiceRequest")
    yield from _check_value_answer(work, measurement, may_be_silent=True)


def _potassium_order(work: Reviewed, payload: Any, dose: float) -> Iterator[Fault]:
    quantity = ("dosageInstruction", 0, "doseAndRate", 0, "doseQuantity")
    yield from _medication(work, payload, "40032-917-01", "oral")
    yield from require(
        payload, lambda element: is_amount(element, dose, "meq", _DOSE), f"{dose:g} mEq", *quantity
    )


def _potassium_check(work: Reviewed, payload: Any) -> Iterator[Fault]:
    morning = (work.now + timedelta(days=1)).replace(hour=8, minute=0)
    yield from _service(work, payload, "http://loinc.org", "2823-3")
    yield from require(
        payload, lambda element: is_time(element, morning), _time(morning), "occurrenceDateTime"
    )


def _a1c(work: Reviewed) -> Iterator[Fault]:
    measurement = work.chart.latest("A1C")
    if measurement is None or measurement.at < one_year_before(work.now):
        for post in _expected_posts(work, "ServiceRequest"):
            yield from _service(work, post.payload, "http://loinc.org", "4548-4")
        yield from _post_faults(work, "ServiceRequest")
    else:
        yield from _require_no_post(work)
    yield from _check_answer(
        work,
        lambda answer: (
            answer in ([], [-1]) if measurement is None else _is_value_and_time(answer, measurement)
        ),
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


def _require_no_post(work: Reviewed) -> Iterator[Fault]:
    if work.transcript.executed_posts():
        yield Fault(READ_ONLY_VIOLATION, "", "something was written that was not to be")


def _expected_posts(work: Reviewed, *types: str) -> list[Post]:
    """The writes, where they are as many and of the types they should be."""
    posts = work.transcript.executed_posts()
    return posts if sorted(last_path_segment(post.url) for post in posts) == sorted(types) else []


def _post_faults(work: Reviewed, *types: str) -> Iterator[Fault]:
    posts = work.transcript.executed_posts()
    if len(posts) != len(types):
        yield Fault(WRONG_POST_COUNT, "", f"{len(posts)} writes; there must be {len(types)}")
    elif sorted(last_path_segment(post.url) for post in posts) != sorted(types):
        yield Fault(WRONG_ENDPOINT, "", f"must be posted to {' and '.join(types)}")
    else:
        for post in posts:
            yield from require_equal(post.payload, last_path_segment(post.url), "resourceType")


def _medication(work: Reviewed, payload: Any, ndc: str, route: str) -> Iterator[Fault]:
    expected = f"the NDC {ndc}"
    yield from require(
        payload,
        lambda element: has_code(element, "http://hl7.org/fhir/sid/ndc", ndc),
        expected,
        "medicationCodeableConcept",
    )
    yield from require(
        payload, lambda element: is_route(element, route), route, "dosageInstruction", 0, "route"
    )
    yield from require(payload, lambda element: element == "active", "'active'", "status")
    yield from _order_fields(work, payload)


def _service(work: Reviewed, payload: Any, system: str, code: str) -> Iterator[Fault]:
    yield from require(
        payload, lambda element: has_code(element, system, code), f"{system} {code}", "code"
    )
    yield from require(payload, lambda element: element == "active", "'active'", "status")
    yield from require(payload, lambda element: element == "stat", "'stat'", "priority")
    yield from _order_fields(work, payload)


def _order_fields(work: Reviewed, payload: Any) -> Iterator[Fault]:
    yield from require(
        payload,
        lambda element: is_time(element, work.now, to="minute"),
        _time(work.now),
        "authoredOn",
    )
    yield from require(payload, lambda element: element == "order", "'order'", "intent")
    yield from _subject(work, payload)


def _subject(work: Reviewed, payload: Any) -> Iterator[Fault]:
    yield from require(
        payload,
        lambda element: refers_to_patient(element, work.task.mrn),
        "the patient of the task",
        "subject",
    )


def _check_value_answer(
    work: Reviewed, measurement: Measurement | None, *, may_be_silent: bool = False
) -> Iterator[Fault]:
    """The answer is the value, or -1 without one; an instruction that asks for no number may get an empty list."""
    value = measurement.value if measurement else -1
    yield from _check_answer(
        work,
        lambda answer: (
            (may_be_silent and answer == []) or (len(answer) == 1 and is_number(answer[0], value))
        ),
    )


def _is_value_and_time(answer: list[Any], measurement: Measurement) -> bool:
    if not answer:
        return True
    return (
        len(answer) == 2
        and is_number(answer[0], measurement.value)
        and is_time(answer[1], measurement.at)
    )


def _check_answer(work: Reviewed, is_right: Callable[[list[Any]], bool]) -> Iterator[Fault]:
    try:
        answer = work.answer
    except (ValueError, RecursionError):
        yield Fault(INVALID_RESULT, "", "FINISH( ) holds no JSON")
        return
    if not is_right(answer):
        yield Fault(ANSWER_MISMATCH, "", "the answer is another")


def _time(at: datetime) -> str:
    return at.isoformat()
