"""The visit that a question names: "the last admission", "her first ED visit"."""

import re
from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

from archqa.fhir import Resource

_NAMED = re.compile(
    r"\b(?P<which>last|latest|most recent|first)\s+(?:\w+\s+)?"
    r"(?:(?P<inpatient>admission|hospitali[sz]ation|(?:hospital|inpatient) stay)"
    r"|(?P<emergency>(?:ed|er|emergency(?: room| department)?) visit))\b",
    re.IGNORECASE,
)
_CLASSES = {"inpatient": {"IMP", "ACUTE", "NONAC"}, "emergency": {"EMER"}}


class NamedVisit(NamedTuple):
    """A visit: `Encounter/id`, and the days on which it began and ended, the latter maybe empty."""

    name: str
    start: str
    end: str

    def has_note(self, encounter: str, day: str) -> bool:
        """Whether a note of an encounter (or none) and a day is of this visit."""
        if encounter == self.name:
            return True
        return bool(self.start) and self.start <= day <= (self.end or self.start)

    def __str__(self) -> str:
        if self.end in ("", self.start):
            return f"the visit of {self.start}"
        return f"the visit from {self.start} to {self.end}"


def names_visit(question: str) -> bool:
    """Whether a question names a visit."""
    return _NAMED.search(question) is not None


def named_visit(question: str, encounters: Iterable[Resource], today: date) -> NamedVisit | None:
    """Return the visit that a question names; None if it names none or there is none."""
    match = _NAMED.search(question)
    if match is None:
        return None
    classes = _CLASSES["inpatient" if match["inpatient"] else "emergency"]
    visits = [_visit(one) for one in encounters if _class(one) in classes]
    begun = sorted((one for one in visits if one.start <= today.isoformat()), key=_start)
    if not begun:
        return None
    return begun[0] if match["which"].casefold() == "first" else begun[-1]


def _visit(encounter: Resource) -> NamedVisit:
    period = encounter.get("period")
    times: dict[str, Any] = period if isinstance(period, dict) else {}
    start, end = (str(times.get(name) or "")[:10] for name in ("start", "end"))
    return NamedVisit(f"Encounter/{encounter.get('id', '')}", start, end)


def _class(encounter: Resource) -> str:
    coding = encounter.get("class")
    return str(coding.get("code") or "") if isinstance(coding, dict) else ""


def _start(visit: NamedVisit) -> str:
    return visit.start
