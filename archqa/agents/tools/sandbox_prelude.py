"""What code in the sandbox finds there: this file is read into it before the model's own code runs.

Written in the part of Python that the sandbox understands (no generators, no decorators, no `del`).
`retrieved_resources` maps a type to a list of resources and is set from outside.
"""

import datetime
import json
import math
import re
from typing import Any

retrieved_resources: dict[str, Any] = {}
answer: Any = None


class _Statistics:
    """As the module of that name, which the sandbox lacks."""

    def mean(self, data: Any) -> Any:
        values = list(data)
        if not values:
            raise ValueError("mean requires at least one data point")
        return sum(values) / len(values)

    def fmean(self, data: Any) -> Any:
        return float(self.mean(data))

    def median(self, data: Any) -> Any:
        values = sorted(data)
        if not values:
            raise ValueError("no median for empty data")
        middle = len(values) // 2
        return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2

    def median_low(self, data: Any) -> Any:
        values = sorted(data)
        if not values:
            raise ValueError("no median for empty data")
        return values[(len(values) - 1) // 2]

    def median_high(self, data: Any) -> Any:
        values = sorted(data)
        if not values:
            raise ValueError("no median for empty data")
        return values[len(values) // 2]

    def multimode(self, data: Any) -> Any:
        counts: dict[Any, int] = {}
        for each in data:
            counts[each] = counts.get(each, 0) + 1
        most = max(counts.values(), default=0)
        return [each for each in counts if counts[each] == most]

    def mode(self, data: Any) -> Any:
        found = self.multimode(data)
        if not found:
            raise ValueError("no mode for empty data")
        return found[0]

    def variance(self, data: Any) -> Any:
        return self._spread(data, 1)

    def pvariance(self, data: Any) -> Any:
        return self._spread(data, 0)

    def stdev(self, data: Any) -> Any:
        return math.sqrt(self._spread(data, 1))

    def pstdev(self, data: Any) -> Any:
        return math.sqrt(self._spread(data, 0))

    def _spread(self, data: Any, less: int) -> Any:
        values = list(data)
        if len(values) < 1 + less:
            raise ValueError("too few data points for a variance")
        middle = sum(values) / len(values)
        return sum((each - middle) ** 2 for each in values) / (len(values) - less)


statistics = _Statistics()


def local_time(text: Any) -> Any:
    """A FHIR dateTime as wall clock, `YYYY-MM-DD HH:MM:SS`: what the clinician read on the wall, whatever the zone."""
    return str(text)[:19].replace("T", " ")


def parse_time(text: Any) -> Any:
    """A FHIR date or dateTime as a `datetime` of the wall clock, for differences."""
    plain = local_time(text)
    return datetime.datetime.fromisoformat(
        (plain + "-01-01"[len(plain) - 4 :])[:10] if len(plain) < 10 else plain
    )


def time_of(resource: Any) -> Any:
    """The clinical time of a resource as wall clock; "" if it has none."""
    period = (
        resource.get("period")
        or resource.get("performedPeriod")
        or resource.get("effectivePeriod")
        or {}
    )
    validity = (resource.get("dispenseRequest") or {}).get("validityPeriod") or {}
    for text in (
        resource.get("effectiveDateTime"),
        resource.get("performedDateTime"),
        period.get("start"),
        validity.get("start"),
        resource.get("authoredOn"),
        resource.get("birthDate"),
    ):
        if text:
            return local_time(text)
    return ""


def reference_id(reference: Any) -> Any:
    """The id in `{"reference": "Type/id"}` or "Type/id"; "" if there is none."""
    text = reference.get("reference", "") if isinstance(reference, dict) else str(reference or "")
    return text.split("/")[-1]


def resolve(reference: Any) -> Any:
    """The retrieved resource a reference points to; None if it was not retrieved."""
    wanted = reference_id(reference)
    for kind in retrieved_resources:
        for resource in retrieved_resources[kind]:
            if wanted and resource.get("id") == wanted:
                return resource
    return None


def codings(resource: Any, element: str = "code") -> Any:
    """The codings of a resource's code: a list of {system, code, display}."""
    concept = resource.get(element) or {}
    return list(concept.get("coding") or [])


def display(resource: Any, element: str = "code") -> Any:
    """What a resource's code is called: its display, its text, or the code itself."""
    for coding in codings(resource, element):
        if coding.get("display") or coding.get("code"):
            return coding.get("display") or coding.get("code")
    return (resource.get(element) or {}).get("text", "")


def same(one: Any, other: Any) -> bool:
    """Whether two names are equal when case and outer white space do not matter."""
    return str(one).strip().lower() == str(other).strip().lower()


def has_code(resource: Any, name: Any, element: str = "code") -> bool:
    """Whether one of a resource's codes, displays or its text is this name (whole, without regard to case)."""
    texts = [(resource.get(element) or {}).get("text", "")]
    for coding in codings(resource, element):
        texts += [coding.get("display", ""), coding.get("code", "")]
    return any(same(each, name) for each in texts if each)


def value_of(observation: Any) -> Any:
    """The value of an Observation: a number, a text, or None."""
    if "valueQuantity" in observation:
        return observation["valueQuantity"].get("value")
    concept = observation.get("valueCodeableConcept")
    return (
        display({"code": concept})
        if concept
        else observation.get("valueString") or observation.get("valueDateTime")
    )


def encounter_kind(encounter: Any) -> Any:
    """hospital, icu or ed, by the system of the identifier; "" if that does not tell."""
    for identifier in encounter.get("identifier") or []:
        ending = str(identifier.get("system", "")).split("encounter-")[-1]
        if ending in {"hosp", "icu", "ed"}:
            return {"hosp": "hospital"}.get(ending, ending)
    return ""


def export_answer(most: int) -> Any:
    """The answer, or its beginning as text where it is longer than `most` characters."""
    text = str(answer)
    return (
        answer
        if len(text) <= most
        else f"{text[:most]}… (truncated, {len(text) - most} more characters)"
    )


_PROVIDED = (json, re)  # Names the model's code may use without importing them.
