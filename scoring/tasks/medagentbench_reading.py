"""What a careful reviewer reads the same: instants, numbers, routes, notes, codes and URLs in several spellings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

CLOSE = 0.01
"""Values that differ by less were only written otherwise; laboratories give one or two decimals."""

_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z%/]*)\s*")
_UNITS = {
    "g": {"g", "gram", "grams", "gm"},
    "h": {"h", "hr", "hrs", "hour", "hours"},
    "meq": {"meq", "mmol", "milliequivalent", "milliequivalents"},
}
_ROUTES = {
    "iv": {"iv", "intravenous", "intravenous route", "intravenous use", "47625008"},
    "oral": {"oral", "po", "by mouth", "oral route", "oral use", "26643006"},
}


def number(value: Any) -> float | None:
    """A number, also one in quotes or with its unit; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def is_number(value: Any, wanted: float, tolerance: float = CLOSE) -> bool:
    """Whether it is this number, within the tolerance."""
    found = number(value)
    return found is not None and abs(found - wanted) < tolerance + 1e-9


def instant(value: Any) -> datetime | None:
    """The instant that a text names, with its zone; None for anything else."""
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else None


def is_time(value: Any, wanted: datetime, *, to: str = "second") -> bool:
    """Whether it is this instant, in any zone, to the second or to the minute."""
    found = instant(value)
    if found is None:
        return False
    cut = {"microsecond": 0} if to == "second" else {"microsecond": 0, "second": 0}
    return found.astimezone(wanted.tzinfo).replace(**cut) == wanted.replace(**cut)  # type: ignore[arg-type]


def iter_texts(value: Any) -> Iterator[str]:
    """Every text in a string, an object or a list: of a route its text, displays and codes, of notes their texts."""
    if isinstance(value, str):
        yield value
    for part in (
        value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    ):
        yield from iter_texts(part)


def is_route(value: Any, wanted: str) -> bool:
    """Whether a route, however it is shaped, is `iv` or `oral`."""
    return any(normalise_spacing(each) in _ROUTES[wanted] for each in iter_texts(value))


def is_unit(value: Any, wanted: str) -> bool:
    """Whether a text is a spelling of g, h or meq."""
    return isinstance(value, str) and normalise_spacing(value) in _UNITS[wanted]


def is_amount(quantity: Any, value: float, unit: str, tolerance: float = 0.01) -> bool:
    """Whether a quantity is so much of g, h or meq. Raises KeyError or TypeError for what is none."""
    return is_number(quantity["value"], value, tolerance) and is_unit(
        quantity.get("unit") or quantity["code"], unit
    )


def is_infusion_duration(rate: Any, hours: int) -> bool:
    """So many hours, or (as FHIR has it) one gram an hour, which is the same for every dose of the table."""
    unit = rate.get("unit") or rate["code"]
    a_gram_an_hour = is_number(rate["value"], 1) and normalise_spacing(unit).replace(" ", "") in {
        "g/h",
        "g/hr",
        "g/hour",
    }
    return a_gram_an_hour or is_amount(rate, hours, "h")


def normalise_spacing(text: str) -> str:
    """Lower case, single blanks, nothing around."""
    return " ".join(text.lower().split())


def remove_spaces(text: Any) -> str:
    """Lower case, without blanks."""
    return "".join(str(text).lower().split())


def has_code(concept: Any, system: str, code: str) -> bool:
    """Whether any coding of a concept is this one."""
    codings = concept.get("coding") if isinstance(concept, dict) else None
    return isinstance(codings, list) and any(
        isinstance(each, dict)
        and each.get("code") == code
        and _same_system(each.get("system"), system)
        for each in codings
    )


def refers_to_patient(reference: Any, mrn: str) -> bool:
    """Whether a subject is this patient: `Patient/id`, also with the server's address before it."""
    text = reference.get("reference") if isinstance(reference, dict) else None
    return isinstance(text, str) and text.strip("/").split("/")[-2:] == ["Patient", mrn]


def last_path_segment(url: str) -> str:
    """The last part of a URL's path: `Observation` for `http://localhost:8080/fhir//Observation/`."""
    return url.partition("?")[0].rstrip("/").rpartition("/")[2]


def _same_system(value: Any, wanted: str) -> bool:
    return isinstance(value, str) and value.rstrip("/").lower() == wanted
