"""The helpers that a model's code can use in the sandbox, where this file runs first.

Written in the part of Python that the sandbox supports (no generators, no decorators, no `del`).
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
    """Stands in for the module of that name, which the sandbox lacks."""

    def mean(self, data: Any) -> Any:
        values = list(data)
        if not values:
            raise ValueError("mean requires at least one data point")
        return sum(values) / len(values)

    def fmean(self, data: Any) -> Any:
        return float(self.mean(data))

    def median(self, data: Any) -> Any:
        middle = self._middle(data)
        return middle[0] if len(middle) == 1 else (middle[0] + middle[1]) / 2

    def median_low(self, data: Any) -> Any:
        return self._middle(data)[0]

    def median_high(self, data: Any) -> Any:
        return self._middle(data)[-1]

    def _middle(self, data: Any) -> Any:
        """The value in the middle, or the two of them."""
        values = sorted(data)
        if not values:
            raise ValueError("no median for empty data")
        return values[(len(values) - 1) // 2 : len(values) // 2 + 1]

    def multimode(self, data: Any) -> Any:
        counts: dict[Any, int] = {}
        for value in data:
            counts[value] = counts.get(value, 0) + 1
        highest = max(counts.values(), default=0)
        return [value for value in counts if counts[value] == highest]

    def mode(self, data: Any) -> Any:
        modes = self.multimode(data)
        if not modes:
            raise ValueError("no mode for empty data")
        return modes[0]

    def variance(self, data: Any) -> Any:
        return self._mean_square_deviation(data, 1)

    def pvariance(self, data: Any) -> Any:
        return self._mean_square_deviation(data, 0)

    def stdev(self, data: Any) -> Any:
        return math.sqrt(self._mean_square_deviation(data, 1))

    def pstdev(self, data: Any) -> Any:
        return math.sqrt(self._mean_square_deviation(data, 0))

    def _mean_square_deviation(self, data: Any, lost_degrees: int) -> Any:
        values = list(data)
        if len(values) < 1 + lost_degrees:
            raise ValueError("too few data points for a variance")
        mean = sum(values) / len(values)
        return sum((value - mean) ** 2 for value in values) / (
            len(values) - lost_degrees
        )


statistics = _Statistics()


def local_time(text: Any) -> Any:
    """A FHIR dateTime as local time, `YYYY-MM-DD HH:MM:SS`, without its time zone."""
    return str(text)[:19].replace("T", " ")


def parse_time(text: Any) -> Any:
    """A FHIR date or dateTime as a `datetime` in local time, for differences."""
    plain = local_time(text or "")
    if not plain:
        raise ValueError("there is no time to parse")
    return datetime.datetime.fromisoformat(
        (plain + "-01-01"[len(plain) - 4 :])[:10] if len(plain) < 10 else plain
    )


def time_of(resource: Any) -> Any:
    """The clinical time of a resource in local time; "" if it has none."""
    period: Any = {}
    for element in ("period", "performedPeriod", "effectivePeriod", "onsetPeriod"):
        period = period or resource.get(element) or {}
    validity = (resource.get("dispenseRequest") or {}).get("validityPeriod") or {}
    times = {**resource, "start": period.get("start") or validity.get("start")}
    for element in (
        "effectiveDateTime",
        "performedDateTime",
        "start",
        "authoredOn",
        "birthDate",
        "onsetDateTime",
        "occurrenceDateTime",
        "started",
        "date",
        "recordedDate",
        "created",
    ):
        if times.get(element):
            return local_time(times[element])
    return ""


def reference_id(reference: Any) -> Any:
    """The id in `{"reference": "Type/id"}`, "Type/id" or "urn:uuid:id"; "" if there is none."""
    text = (
        reference.get("reference", "")
        if isinstance(reference, dict)
        else str(reference or "")
    )
    return text.split("/")[-1].removeprefix("urn:uuid:")


def resolve(reference: Any) -> Any:
    """The retrieved resource a reference points to; None if it was not retrieved."""
    resource_id = reference_id(reference)
    for resource_type in retrieved_resources:
        for resource in retrieved_resources[resource_type]:
            if resource_id and resource.get("id") == resource_id:
                return resource
    return None


def codings(resource: Any, element: str = "code") -> Any:
    """The codings of a resource's code: a list of {system, code, display}.

    Of an element that repeats, such as an Encounter's type, all of them; one that is a coding, such
    as its class, is one.
    """
    found: list[Any] = []
    for concept in _concepts(resource, element):
        found += concept.get("coding") or ([concept] if "code" in concept else [])
    return found


def _concepts(resource: Any, element: str) -> Any:
    value = resource.get(element) or []
    return value if isinstance(value, list) else [value]


def _texts(resource: Any, element: str) -> Any:
    return [concept.get("text", "") for concept in _concepts(resource, element)]


def display(resource: Any, element: str = "code") -> Any:
    """The name of a resource's code: its display, the code itself, or its text."""
    for coding in codings(resource, element):
        if coding.get("display") or coding.get("code"):
            return coding.get("display") or coding.get("code")
    return "".join(_texts(resource, element)[:1])


def same(left: Any, right: Any) -> bool:
    """Whether two names are equal, ignoring case and outer white space."""
    return str(left).strip().lower() == str(right).strip().lower()


def has_code(resource: Any, name: Any, element: str = "code") -> bool:
    """Whether a code, a display or the text of a resource is this name, ignoring case."""
    texts = _texts(resource, element)
    for coding in codings(resource, element):
        texts += [coding.get("display", ""), coding.get("code", "")]
    return any(same(text, name) for text in texts if text)


def value_of(observation: Any) -> Any:
    """The value of an Observation: a number, a text, or None."""
    if "valueQuantity" in observation:
        return observation["valueQuantity"].get("value")
    concept = observation.get("valueCodeableConcept")
    if concept:
        return display({"code": concept})
    return observation.get("valueString") or observation.get("valueDateTime")


def encounter_kind(encounter: Any) -> Any:
    """hospital, icu or ed, by the system of the identifier; "" if it does not say."""
    for identifier in encounter.get("identifier") or []:
        ending = str(identifier.get("system", "")).split("encounter-")[-1]
        if ending in {"hosp", "icu", "ed"}:
            return {"hosp": "hospital"}.get(ending, ending)
    return ""


_PROVIDED = (json, re)  # Names the model's code may use without importing them.
