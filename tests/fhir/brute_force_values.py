"""Comparisons of search values with values of resources, without any code of archqa.

Source: hl7.org/fhir/R4/search.html.
"""

import calendar
import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

Resource = dict[str, Any]
Interval = tuple[datetime, datetime]

EARLIEST = datetime(1, 1, 2)
LATEST = datetime(9999, 12, 30)


class Coding(NamedTuple):
    """A code of a resource. A plain code has no system of its own: None."""

    system: str | None
    code: str | None
    display: str


# Dates


def interval(text: str, *, utc: bool) -> Interval:
    """What a date covers, on the wall clock or in UTC."""
    zone = zone_of(text)
    clock = text.removesuffix(zone)
    missing_parts = {4: "-01-01", 7: "-01"}.get(len(clock), "")
    start = datetime.fromisoformat(clock + missing_parts)
    end = start + length_of(clock, start)
    if not (utc and zone):
        return start, end
    midnight = datetime.fromisoformat(
        f"2000-01-01T00:00:00{zone.replace('Z', '+00:00')}"
    )
    offset = midnight.utcoffset()
    assert offset is not None
    return start - offset, end - offset


def zone_of(text: str) -> str:
    match = re.search(r"T.*?(Z|[+-]\d\d:\d\d)$", text)
    return match[1] if match else ""


def length_of(clock: str, start: datetime) -> timedelta:
    if len(clock) == 4:
        return start.replace(year=start.year + 1) - start
    if len(clock) == 7:
        _, days = calendar.monthrange(start.year, start.month)
        return timedelta(days=days)
    lengths = {
        10: timedelta(days=1),
        16: timedelta(minutes=1),
        19: timedelta(seconds=1),
    }
    return lengths[len(clock)]


def interval_of_value(value: Any, *, utc: bool) -> Interval:
    """What a date or Period of a resource covers."""
    if not isinstance(value, dict):
        return interval(value, utc=utc)
    start, end = EARLIEST, LATEST
    if "start" in value:
        start, _ = interval(value["start"], utc=utc)
    if "end" in value:
        _, end = interval(value["end"], utc=utc)
    return start, end


def split_prefix(value: str) -> tuple[str, str]:
    if value[:2].isalpha():
        return value[:2], value[2:]
    return "eq", value


def date_matches(stored: Any, value: str, *, wall_clock: bool) -> bool:
    prefix, text = split_prefix(value)
    utc = not wall_clock or bool(zone_of(text))
    low, high = interval(text, utc=utc)
    start, end = interval_of_value(stored, utc=utc)
    is_within = low <= start and end <= high
    comparisons = {
        "eq": is_within,
        "ne": not is_within,
        "gt": end > high,
        "ge": end > high or is_within,
        "lt": start < low,
        "le": start < low or is_within,
        "sa": start >= high,
        "eb": end <= low,
    }
    return comparisons[prefix]


# Numbers


def number_matches(stored: float, value: str) -> bool:
    prefix, text = split_prefix(value)
    exact = Decimal(text)
    exponent = exact.as_tuple().exponent
    half = Decimal(1).scaleb(exponent) / 2  # type: ignore[arg-type]
    number = Decimal(repr(stored))
    is_within = exact - half <= number < exact + half
    comparisons = {
        "eq": is_within,
        "ne": not is_within,
        "gt": number > exact,
        "sa": number > exact,
        "lt": number < exact,
        "eb": number < exact,
        "ge": number >= exact,
        "le": number <= exact,
    }
    return comparisons[prefix]


def quantity_matches(quantity: Resource, value: str) -> bool:
    number, *unit = value.split("|")
    if not number_matches(quantity["value"], number):
        return False
    if not unit:
        return True
    system, code = unit
    if system:
        return quantity.get("system") == system and quantity.get("code") == code
    return code in (quantity.get("code"), quantity.get("unit"))


# Strings


def plain(text: str) -> str:
    """The text in lower case, without accents, with single blanks."""
    decomposed = unicodedata.normalize("NFD", text)
    without_accents = "".join(
        character for character in decomposed if unicodedata.category(character) != "Mn"
    )
    return re.sub(r"\s+", " ", without_accents.lower()).strip()


def string_matches(stored: str, modifier: str, value: str) -> bool:
    if modifier == "exact":
        return stored == value
    if modifier == "contains":
        return plain(value) in plain(stored)
    return plain(stored).startswith(plain(value))


def words_match(stored: list[str], value: str) -> bool:
    """Whether a part begins with the value, or every word of it begins a word of some part."""
    if any(string_matches(part, "", value) for part in stored):
        return True
    word_starts = []
    for part in stored:
        text = plain(part)
        word_starts.append(text)
        for blank in re.finditer(" ", text):
            word_starts.append(text[blank.end() :])

    def begins_a_word(word: str) -> bool:
        return any(start.startswith(word) for start in word_starts)

    return all(map(begins_a_word, plain(value).split()))


# Codes and references


def codings(value: Any) -> list[Coding]:
    """The codes of a code, Identifier, CodeableConcept or Coding."""
    if isinstance(value, str):
        return [Coding(None, value, "")]
    if "value" in value:
        return [Coding(value.get("system", ""), value["value"], "")]
    if "coding" not in value and "text" not in value:
        return [coding_of(value)]
    concept_codings = [coding_of(coding) for coding in value.get("coding", [])]
    if "text" in value:
        concept_codings.append(Coding(None, None, value["text"]))
    return concept_codings


def coding_of(coding: Resource) -> Coding:
    return Coding(
        coding.get("system", ""), coding.get("code"), coding.get("display", "")
    )


def token_matches(coding: Coding, token: str) -> bool:
    if "|" not in token:
        return coding.code == token
    system, code = token.split("|")
    if not code:
        return coding.system == system
    return coding.code == code and coding.system in (None, system)


def any_token_matches(stored: Iterable[Coding], token: str) -> bool:
    return any(token_matches(coding, token) for coding in stored)


def reference_matches(stored: str, value: str, allowed_type: str) -> bool:
    stored_type, _, stored_id = stored.rpartition("/")
    url, _, searched_id = value.rpartition("/")
    searched_type = url.rpartition("/")[2]
    if stored_id != searched_id or stored_type != allowed_type:
        return False
    return not searched_type or stored_type == searched_type


def is_of_type(identifier: Resource, value: str) -> bool:
    """Whether an Identifier is `system|code|value`: of this type, and with this value."""
    system, code, number = value.split("|")
    types = identifier.get("type", {}).get("coding", [])
    has_type = any(
        kind.get("system") == system and kind.get("code") == code for kind in types
    )
    return has_type and identifier.get("value") == number


# URIs


def uri_matches(stored: str, modifier: str, value: str) -> bool:
    """Whether a URI is the one of the search; a canonical URL also without its version."""
    return any(_uri_is(uri, modifier, value) for uri in {stored, stored.split("|")[0]})


def _uri_is(uri: str, modifier: str, value: str) -> bool:
    if uri == value:
        return True
    if modifier == "below":
        return f"{uri.rstrip('/')}/".startswith(f"{value.rstrip('/')}/")
    if modifier == "above":
        return f"{value.rstrip('/')}/".startswith(f"{uri.rstrip('/')}/")
    return False
