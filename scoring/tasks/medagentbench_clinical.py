"""The clinical grading: was the right thing done for the patient, however it was written?

It complements the official grading and does not replace it. A route or a note may have FHIR's shape
or the benchmark's, times may have any zone, numbers may be rounded, two orders may come in any
order, the URL may have a double slash, and POST in prose is not a write. An order for another
patient, of another dose, placed twice or not asked for is wrong, and the conversation must be
completed.

The second half of the module compares values leniently: a time, number, route, unit, code or URL is
accepted in any spelling that a careful reviewer would read as the same value.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from .medagentbench_official import quoted_text
from .medagentbench_reference import (
    ANSWER_MISMATCH,
    DAY,
    INVALID_RESULT,
    READ_ONLY_VIOLATION,
    SYSTEM_ERROR,
    WRONG_ENDPOINT,
    WRONG_POST_COUNT,
    Chart,
    Fault,
    Faults,
    Lookup,
    Measurement,
    age_in_years,
    magnesium_dose,
    mean_value,
    one_year_before,
    potassium_dose,
    require,
    require_equal,
    time_from_context,
    unfinished_fault,
)
from .medagentbench_transcript import Post, Task, Transcript

_GRADER_ERRORS = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
    OverflowError,
)
_DOSE_TOLERANCE = 0.1
"""The accepted difference of a dose or a mean, as in the benchmark."""

ROUNDING_TOLERANCE = 0.01
"""Values that differ by less differ in rounding only; laboratories give one or two decimals."""

_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*+([A-Za-z%/]*+)\s*")
_UNITS = {
    "g": {"g", "gram", "grams", "gm"},
    "h": {"h", "hr", "hrs", "hour", "hours"},
    "meq": {"meq", "mmol", "milliequivalent", "milliequivalents"},
}
_ROUTES = {
    "iv": {"iv", "intravenous", "intravenous route", "intravenous use", "47625008"},
    "oral": {"oral", "po", "by mouth", "oral route", "oral use", "26643006"},
}
_GRAM_PER_HOUR = {"g/h", "g/hr", "g/hour"}

Rule = Callable[["Reviewed"], Faults]
Precision = Literal["second", "minute"]


@dataclass(frozen=True)
class Reviewed:
    """A task, the conversation about it, the patient's chart and the current time."""

    task: Task
    transcript: Transcript
    chart: Chart
    now: datetime

    @property
    def answer(self) -> list[Any]:
        """The JSON list in FINISH( ); a single value counts as a list of one.

        Raises ValueError if it is not JSON.
        """
        value = self.transcript.result
        if isinstance(value, str):
            value = json.loads(value)
        return value if isinstance(value, list) else [value]


def clinical_faults(task: Task, transcript: Transcript, lookup: Lookup) -> list[Fault]:
    """Why a careful reviewer would not accept the work; empty if they would.

    Raises what `lookup` raises.
    """
    if transcript.result is None or not transcript.completed:
        return [unfinished_fault(transcript.status)]
    work = Reviewed(
        task,
        transcript,
        chart=Chart(lookup, task.mrn, valid_only=True),
        now=time_from_context(task.context),
    )
    try:
        check = _RULES[task.number]
        return list(check(work))
    except _GRADER_ERRORS as error:
        problem = f"the work cannot be read ({type(error).__name__})"
        return [Fault(SYSTEM_ERROR, "", problem)]


def _find_patient(work: Reviewed) -> Faults:
    expected = []
    for part in work.task.sol or ():
        expected.append(normalise_spacing(str(part)))

    def is_patient(answer: list[Any]) -> bool:
        ids = []
        for part in answer:
            text = normalise_spacing(str(part))
            ids.append(text.removeprefix("patient/"))
        return ids == expected

    yield from _require_no_post(work)
    yield from _check_answer(work, is_patient)


def _age(work: Reviewed) -> Faults:
    yield from _require_no_post(work)
    birth_date = work.chart.birth_date()
    years = age_in_years(birth_date, work.now.date())

    yield from _check_answer(work, lambda answer: _is_only_number(answer, years))


def _blood_pressure(work: Reviewed) -> Faults:
    value = quoted_text(work.task.instruction)

    for post in _expected_posts(work, "Observation"):
        payload = post.payload
        yield from _require_text(payload, "vital-signs", "category")
        yield from _require_text(payload, "BP", "code")
        yield from _require_time(payload, work.now, "second", "effectiveDateTime")
        yield from require_equal(payload, "final", "status")
        yield from require(
            payload,
            lambda element: remove_spaces(element) == remove_spaces(value),
            repr(value),
            "valueString",
        )
        yield from _subject(work, payload)
    yield from _post_faults(work, "Observation")


def _recent_magnesium(work: Reviewed) -> Faults:
    yield from _require_no_post(work)
    measurement = work.chart.latest("MG", work.now - DAY)
    yield from _check_value_answer(work, measurement)


def _replace_magnesium(work: Reviewed) -> Faults:
    measurement = work.chart.latest("MG", work.now - DAY)
    if measurement is None:
        yield from _require_no_post(work)
        return
    if measurement.value > 1.9:
        yield from _require_no_post(work)
    else:
        dose = magnesium_dose(measurement.value)
        rate = ("dosageInstruction", 0, "doseAndRate", 0)

        for post in _expected_posts(work, "MedicationRequest"):
            yield from _medication(work, post.payload, "0338-1715-40", "iv")
            yield from require(
                post.payload,
                lambda element: is_amount(element, dose, "g"),
                f"{dose} g",
                *rate,
                "doseQuantity",
            )
            yield from require(
                post.payload,
                lambda element: is_infusion_duration(element, dose),
                f"{dose} h",
                *rate,
                "rateQuantity",
            )
        yield from _post_faults(work, "MedicationRequest")
    yield from _check_value_answer(work, measurement, may_be_empty=True)


def _mean_glucose(work: Reviewed) -> Faults:
    yield from _require_no_post(work)
    measurements = work.chart.measured("GLU", work.now - DAY)
    mean = mean_value(measurements)

    yield from _check_answer(
        work, lambda answer: _is_only_number(answer, mean, tolerance=_DOSE_TOLERANCE)
    )


def _latest_glucose(work: Reviewed) -> Faults:
    yield from _require_no_post(work)
    measurement = work.chart.latest("GLU")
    yield from _check_value_answer(work, measurement)


def _referral(work: Reviewed) -> Faults:
    sentence = quoted_text(work.task.instruction)
    expected = normalise_spacing(sentence)

    def has_sentence(element: Any) -> bool:
        texts = map(normalise_spacing, iter_texts(element))
        return any(expected in text for text in texts)

    for post in _expected_posts(work, "ServiceRequest"):
        yield from _service(
            work, post.payload, "http://snomed.info/sct", "306181000000106"
        )
        note = "a note with the sentence of the instruction"
        yield from require(post.payload, has_sentence, note, "note")
    yield from _post_faults(work, "ServiceRequest")


def _replace_potassium(work: Reviewed) -> Faults:
    measurement = work.chart.latest("K")
    if measurement is None or measurement.value >= 3.5:
        yield from _require_no_post(work)
    else:
        dose = potassium_dose(measurement.value)
        quantity = ("dosageInstruction", 0, "doseAndRate", 0, "doseQuantity")

        for post in _expected_posts(work, "MedicationRequest", "ServiceRequest"):
            payload = post.payload
            if last_path_segment(post.url) == "MedicationRequest":
                yield from _medication(work, payload, "40032-917-01", "oral")
                yield from require(
                    payload,
                    lambda element: is_amount(element, dose, "meq", _DOSE_TOLERANCE),
                    f"{dose:g} mEq",
                    *quantity,
                )
            else:
                next_day = work.now + timedelta(days=1)
                morning = next_day.replace(hour=8, minute=0)
                yield from _service(work, payload, "http://loinc.org", "2823-3")
                yield from _require_time(
                    payload, morning, "second", "occurrenceDateTime"
                )
        yield from _post_faults(work, "MedicationRequest", "ServiceRequest")
    yield from _check_value_answer(work, measurement, may_be_empty=True)


def _a1c(work: Reviewed) -> Faults:
    measurement = work.chart.latest("A1C")
    if measurement is None or measurement.at < one_year_before(work.now):
        for post in _expected_posts(work, "ServiceRequest"):
            yield from _service(work, post.payload, "http://loinc.org", "4548-4")
        yield from _post_faults(work, "ServiceRequest")
    else:
        yield from _require_no_post(work)

    def is_value_and_time(answer: list[Any]) -> bool:
        if not answer:
            return True
        if measurement is None:
            return answer == [-1]
        if len(answer) != 2:
            return False
        value, time = answer
        return is_number(value, measurement.value) and is_time(time, measurement.at)

    yield from _check_answer(work, is_value_and_time)


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


def _require_no_post(work: Reviewed) -> Faults:
    if work.transcript.executed_posts():
        yield Fault(READ_ONLY_VIOLATION, "", "something was written that was not to be")


def _expected_posts(work: Reviewed, *types: str) -> list[Post]:
    """The writes if their number and resource types are as expected, or else none."""
    posts = work.transcript.executed_posts()
    return posts if _resource_types(posts) == sorted(types) else []


def _resource_types(posts: Sequence[Post]) -> list[str]:
    types = [last_path_segment(post.url) for post in posts]
    return sorted(types)


def _post_faults(work: Reviewed, *types: str) -> Faults:
    posts = work.transcript.executed_posts()
    if len(posts) != len(types):
        yield Fault(
            WRONG_POST_COUNT, "", f"{len(posts)} writes; there must be {len(types)}"
        )
    elif _resource_types(posts) != sorted(types):
        yield Fault(WRONG_ENDPOINT, "", f"must be posted to {' and '.join(types)}")
    else:
        for post in posts:
            resource_type = last_path_segment(post.url)
            yield from require_equal(post.payload, resource_type, "resourceType")


def _medication(
    work: Reviewed,
    payload: Any,
    ndc: str,
    route: str,
) -> Faults:
    yield from require(
        payload,
        lambda element: has_code(element, "http://hl7.org/fhir/sid/ndc", ndc),
        f"the NDC {ndc}",
        "medicationCodeableConcept",
    )
    yield from require(
        payload,
        lambda element: is_route(element, route),
        route,
        "dosageInstruction",
        0,
        "route",
    )
    yield from require_equal(payload, "active", "status")
    yield from _order_fields(work, payload)


def _service(
    work: Reviewed,
    payload: Any,
    system: str,
    code: str,
) -> Faults:
    yield from require(
        payload,
        lambda element: has_code(element, system, code),
        f"{system} {code}",
        "code",
    )
    yield from require_equal(payload, "active", "status")
    yield from require_equal(payload, "stat", "priority")
    yield from _order_fields(work, payload)


def _order_fields(work: Reviewed, payload: Any) -> Faults:
    yield from _require_time(payload, work.now, "minute", "authoredOn")
    yield from require_equal(payload, "order", "intent")
    yield from _subject(work, payload)


def _subject(work: Reviewed, payload: Any) -> Faults:
    yield from require(
        payload,
        lambda element: refers_to_patient(element, work.task.mrn),
        "the patient of the task",
        "subject",
    )


def _require_text(payload: Any, text: str, field: str) -> Faults:
    """A fault unless the text is one of the strings in the field."""

    return require(
        payload, lambda element: text in list(iter_texts(element)), text, field
    )


def _require_time(
    payload: Any,
    time: datetime,
    precision: Precision,
    field: str,
) -> Faults:
    """A fault unless the field is this time, to the second or to the minute."""

    return require(
        payload,
        lambda element: is_time(element, time, to=precision),
        time.isoformat(),
        field,
    )


def _check_value_answer(
    work: Reviewed,
    measurement: Measurement | None,
    *,
    may_be_empty: bool = False,
) -> Faults:
    """A fault unless the answer is the value, or -1 without a measurement.

    may_be_empty: an empty list is also right, since the instruction does not ask for a number.
    """
    value = measurement.value if measurement else -1

    def is_right(answer: list[Any]) -> bool:
        if not answer:
            return may_be_empty
        return _is_only_number(answer, value)

    yield from _check_answer(work, is_right)


def _is_only_number(
    answer: list[Any],
    expected: float,
    tolerance: float = ROUNDING_TOLERANCE,
) -> bool:
    if len(answer) != 1:
        return False
    return is_number(answer[0], expected, tolerance)


def _check_answer(work: Reviewed, is_right: Callable[[list[Any]], bool]) -> Faults:
    try:
        answer = work.answer
    except (ValueError, RecursionError):
        yield Fault(INVALID_RESULT, "", "FINISH( ) holds no JSON")
        return
    if not is_right(answer):
        yield Fault(ANSWER_MISMATCH, "", "the answer is another")


def parse_number(value: Any) -> float | None:
    """A number, also as a text or with its unit; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    match = _NUMBER.fullmatch(value)
    return float(match[1]) if match else None


def is_number(
    value: Any,
    expected: float,
    tolerance: float = ROUNDING_TOLERANCE,
) -> bool:
    """Whether the value is this number, within the tolerance."""
    number = parse_number(value)
    if number is None:
        return False
    return abs(number - expected) < tolerance + 1e-9


def parse_time(value: Any) -> datetime | None:
    """The time that an ISO 8601 text states with its zone; None for anything else."""
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None


def is_time(value: Any, expected: datetime, *, to: Precision = "second") -> bool:
    """Whether the value is this time, in any zone, to the second or to the minute."""
    time = parse_time(value)
    if time is None:
        return False
    local_time = time.astimezone(expected.tzinfo).replace(microsecond=0)
    expected = expected.replace(microsecond=0)
    if to == "minute":
        local_time = local_time.replace(second=0)
        expected = expected.replace(second=0)
    return local_time == expected


def iter_texts(value: Any) -> Iterator[str]:
    """All strings in a JSON value, such as the text, displays and codes of a route."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from iter_texts(element)
    elif isinstance(value, dict):
        for element in value.values():
            yield from iter_texts(element)


def is_route(value: Any, expected: str) -> bool:
    """Whether a route, as a text or as an object, is `iv` or `oral`."""
    names = _ROUTES[expected]
    texts = map(normalise_spacing, iter_texts(value))
    return not names.isdisjoint(texts)


def is_unit(value: Any, expected: str) -> bool:
    """Whether a text is a spelling of g, h or meq."""
    if not isinstance(value, str):
        return False
    return normalise_spacing(value) in _UNITS[expected]


def is_amount(
    quantity: Any,
    value: float,
    unit: str,
    tolerance: float = ROUNDING_TOLERANCE,
) -> bool:
    """Whether a quantity has this value and unit (g, h or meq).

    Raises KeyError, TypeError or AttributeError for a value that is not a FHIR Quantity.
    """
    if not is_number(quantity["value"], value, tolerance):
        return False
    written_unit = quantity.get("unit") or quantity["code"]
    return is_unit(written_unit, unit)


def is_infusion_duration(rate: Any, hours: int) -> bool:
    """Whether a rate is this many hours, or one gram per hour as FHIR would state it.

    The two agree for every dose of the benchmark, which is as many grams as hours.
    """
    unit = rate.get("unit") or rate["code"]
    if is_number(rate["value"], 1) and remove_spaces(unit) in _GRAM_PER_HOUR:
        return True
    return is_amount(rate, hours, "h")


def normalise_spacing(text: str) -> str:
    """The text in lower case, with single spaces between its words and none around."""
    words = text.lower().split()
    return " ".join(words)


def remove_spaces(text: Any) -> str:
    """The text in lower case, without spaces."""
    pieces = str(text).lower().split()
    return "".join(pieces)


def has_code(concept: Any, system: str, code: str) -> bool:
    """Whether a CodeableConcept has a coding with this system and code."""
    codings = concept.get("coding") if isinstance(concept, dict) else None
    if not isinstance(codings, list):
        return False
    for coding in codings:
        if not isinstance(coding, dict):
            continue
        coding_system = coding.get("system")
        if not isinstance(coding_system, str) or coding.get("code") != code:
            continue
        if coding_system.rstrip("/").lower() == system:
            return True
    return False


def refers_to_patient(reference: Any, mrn: str) -> bool:
    """Whether a subject is this patient: `Patient/id`, also behind the server's address."""
    text = reference.get("reference") if isinstance(reference, dict) else None
    if not isinstance(text, str):
        return False
    segments = text.strip("/").split("/")
    return segments[-2:] == ["Patient", mrn]


def last_path_segment(url: str) -> str:
    """`Observation` for `http://localhost:8080/fhir//Observation/`."""
    path, _, _ = url.partition("?")
    segments = path.rstrip("/").split("/")
    return segments[-1]
