"""FHIR search the slow way: every resource is looked at, nothing is indexed. Written from hl7.org/fhir/R4/search.html
alone and sharing no code with archqa; only what `test_searches_equal_a_brute_force` asks for is here.
"""

import calendar
import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

Resource = dict[str, Any]
Interval = tuple[datetime, datetime]

FIRST, LAST = datetime(1, 1, 2), datetime(9999, 12, 30)


def listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def interval(text: str, *, utc: bool) -> tuple[Interval, bool]:
    """What a date covers, on the wall clock or in UTC; and whether it names a zone."""
    match = re.match(r"(.*?)(Z|[+-]\d\d:\d\d)?$", text) if "T" in text else None
    body, zone = (match[1], match[2]) if match else (text, None)
    start = datetime.fromisoformat(body + {4: "-01-01", 7: "-01"}.get(len(body), ""))
    if len(body) == 4:
        end = start.replace(year=start.year + 1)
    elif len(body) == 7:
        end = start + timedelta(days=calendar.monthrange(start.year, start.month)[1])
    else:
        end = (
            start
            + {10: timedelta(days=1), 16: timedelta(minutes=1), 19: timedelta(seconds=1)}[len(body)]
        )
    if utc and zone:
        shift = datetime.fromisoformat(
            f"2000-01-01T00:00:00{zone.replace('Z', '+00:00')}"
        ).utcoffset()
        assert shift is not None
        start, end = start - shift, end - shift
    return (start, end), zone is not None


def date_passes(stored: Any, wanted: str, *, wall_clock: bool) -> bool:
    prefix, text = (wanted[:2], wanted[2:]) if wanted[:2].isalpha() else ("eq", wanted)
    on_wall = wall_clock and not interval(text, utc=False)[1]
    (low, high), _ = interval(text, utc=not on_wall)
    if isinstance(stored, dict):
        first = interval(stored["start"], utc=not on_wall)[0][0] if "start" in stored else FIRST
        last = interval(stored["end"], utc=not on_wall)[0][1] if "end" in stored else LAST
    else:
        (first, last), _ = interval(stored, utc=not on_wall)
    inside = low <= first and last <= high
    return {
        "eq": inside,
        "ne": not inside,
        "gt": last > high,
        "ge": last > high or inside,
        "lt": first < low,
        "le": first < low or inside,
        "sa": first >= high,
        "eb": last <= low,
    }[prefix]


def plain(text: str) -> str:
    bare = "".join(
        sign for sign in unicodedata.normalize("NFD", text) if unicodedata.category(sign) != "Mn"
    )
    return re.sub(r"\s+", " ", bare.lower()).strip()


def codings(value: Any) -> list[tuple[str | None, str | None, str]]:
    """System, code and words. A plain code has no system of its own: None."""
    if isinstance(value, str):
        return [(None, value, "")]
    if "value" in value:
        return [(value.get("system", ""), value["value"], "")]
    if "coding" in value or "text" in value:
        found = [
            (each.get("system", ""), each.get("code"), each.get("display", ""))
            for each in value.get("coding", [])
        ]
        return [*found, (None, None, value["text"])] if "text" in value else found
    return [(value.get("system", ""), value.get("code"), value.get("display", ""))]


def token_passes(coding: tuple[str | None, str | None, str], wanted: str) -> bool:
    system, code, _ = coding
    if "|" not in wanted:
        return code == wanted
    wanted_system, wanted_code = wanted.split("|")
    if not wanted_code:
        return system == wanted_system
    return code == wanted_code and (system is None or system == wanted_system)


def number_passes(value: float, wanted: str) -> bool:
    prefix, text = (wanted[:2], wanted[2:]) if wanted[:2].isalpha() else ("eq", wanted)
    exact = Decimal(text)
    half = Decimal(1).scaleb(exact.as_tuple().exponent) / 2  # type: ignore[arg-type]
    stored = Decimal(repr(value))
    inside = exact - half <= stored < exact + half
    return {
        "eq": inside,
        "ne": not inside,
        "gt": stored > exact,
        "sa": stored > exact,
        "lt": stored < exact,
        "eb": stored < exact,
        "ge": stored >= exact,
        "le": stored <= exact,
    }[prefix]


def quantity_passes(quantity: Resource, wanted: str) -> bool:
    number, *unit = wanted.split("|")
    if not number_passes(quantity["value"], number):
        return False
    if not unit:
        return True
    system, code = unit
    if system:
        return quantity.get("system") == system and quantity.get("code") == code
    return code in (quantity.get("code"), quantity.get("unit"))


def reference_passes(stored: str, wanted: str, types: tuple[str, ...]) -> bool:
    kind, _, name = stored.rpartition("/")
    wanted_kind, _, wanted_name = wanted.rpartition("/")
    wanted_kind = wanted_kind.rpartition("/")[2]
    if name != wanted_name or (wanted_kind and kind != wanted_kind):
        return False
    return not types or kind in types


ELEMENTS: dict[tuple[str, str], tuple[str, list[str]]] = {
    ("Observation", "code"): ("token", ["code"]),
    ("Observation", "category"): ("token", ["category"]),
    ("Observation", "status"): ("token", ["status"]),
    ("Observation", "date"): ("date", ["effectiveDateTime", "effectivePeriod"]),
    ("Observation", "patient"): ("patient", ["subject"]),
    ("Observation", "encounter"): ("reference", ["encounter"]),
    ("Observation", "value-quantity"): ("quantity", ["valueQuantity"]),
    ("Observation", "value-string"): ("string", ["valueString"]),
    ("Patient", "identifier"): ("token", ["identifier"]),
    ("Patient", "gender"): ("token", ["gender"]),
    ("Patient", "family"): ("string", ["name.family"]),
    ("Patient", "given"): ("string", ["name.given"]),
    ("Patient", "birthdate"): ("date", ["birthDate"]),
    ("Encounter", "date"): ("date", ["period"]),
    ("Encounter", "patient"): ("patient", ["subject"]),
    ("Encounter", "class"): ("token", ["class"]),
    ("Encounter", "part-of"): ("reference", ["partOf"]),
}


def values(resource: Resource, paths: Iterable[str]) -> list[Any]:
    found = []
    for path in paths:
        nodes = [resource]
        for step in path.split("."):
            nodes = [item for node in nodes for item in listed(node.get(step))]
        found += nodes
    return found


class BruteForce:
    """A record as a list. `ways` is archqa (helpful, wall clock) or hapi (neither)."""

    def __init__(self, resources: list[Resource], ways: str) -> None:
        self.resources = resources
        self.helpful = ways == "archqa"

    def search(self, kind: str, params: list[tuple[str, str]]) -> list[str]:
        """The ids of all that match, in order."""
        sort = [value for name, value in params if name == "_sort"]
        filters = [(name, value) for name, value in params if name != "_sort"]
        found = [
            each
            for each in self.of(kind)
            if all(self.passes(each, name, value) for name, value in filters)
        ]
        if sort:
            found = self.ordered(found, sort[0])
        return [resource["id"] for resource in found]

    def of(self, kind: str) -> list[Resource]:
        return [each for each in self.resources if each["resourceType"] == kind]

    def passes(self, resource: Resource, name: str, value: str) -> bool:
        kind = resource["resourceType"]
        if name.startswith("_has:"):
            _, source, by, rest = name.split(":", 3)
            theirs = ELEMENTS[source, by][1]
            return any(
                self.passes(each, rest, value)
                and any(
                    ref["reference"] == f"{kind}/{resource['id']}" for ref in values(each, theirs)
                )
                for each in self.of(source)
            )
        if "." in name:
            by, rest = name.split(".")
            target = {"patient": "Patient", "encounter": "Encounter", "part-of": "Encounter"}[by]
            there = {
                f"{target}/{each['id']}"
                for each in self.of(target)
                if self.passes(each, rest, value)
            }
            return any(ref["reference"] in there for ref in values(resource, ELEMENTS[kind, by][1]))
        base, _, modifier = name.partition(":")
        if base == "_id":
            return (resource["id"] in value.split(",")) != (modifier == "not")
        how, paths = ELEMENTS[kind, base]
        stored = values(resource, paths)
        if modifier == "missing":
            return bool(stored) != (value == "true")
        alternatives = value.split(",")
        if modifier == "not":
            return not any(self.one(how, kind, base, stored, "", each) for each in alternatives)
        return any(self.one(how, kind, base, stored, modifier, each) for each in alternatives)

    def one(
        self, how: str, kind: str, base: str, stored: list[Any], modifier: str, wanted: str
    ) -> bool:
        check: dict[str, Callable[[Any], bool]] = {
            "token": lambda value: self.token(kind, base, value, modifier, wanted),
            "date": lambda value: date_passes(value, wanted, wall_clock=self.helpful),
            "quantity": lambda value: quantity_passes(value, wanted),
            "reference": lambda value: reference_passes(value["reference"], wanted, ("Encounter",)),
            "patient": lambda value: reference_passes(value["reference"], wanted, ("Patient",)),
            "string": lambda value: string_passes(value, modifier, wanted),
        }
        if how == "string" and not modifier and self.helpful:
            return words_pass(stored, wanted)
        return any(check[how](value) for value in stored)

    def token(self, kind: str, base: str, value: Any, modifier: str, wanted: str) -> bool:
        if modifier == "text":
            words = [plain(each[2]) for each in codings(value) if each[2]]
            return any(
                plain(wanted) in each if self.helpful else each.startswith(plain(wanted))
                for each in words
            )
        if any(token_passes(each, wanted) for each in codings(value)):
            return True
        everywhere = [
            each
            for one in self.of(kind)
            for v in values(one, ELEMENTS[kind, base][1])
            for each in codings(v)
        ]
        if not self.helpful or any(token_passes(each, wanted) for each in everywhere):
            return False
        system, bar, code = wanted.rpartition("|")
        if bar and not code:
            return False
        folded = [(s, plain(c) if c else None, w) for s, c, w in codings(value)]
        return any(token_passes(each, f"{system}{bar}{plain(code)}") for each in folded)

    def ordered(self, found: list[Resource], sort: str) -> list[Resource]:
        name, down = sort.removeprefix("-"), sort.startswith("-")
        if name == "_id":
            return sorted(found, key=lambda resource: resource["id"], reverse=down)
        keyed = []
        for place, each in enumerate(found):
            stretches = []
            for value in values(each, ELEMENTS[each["resourceType"], name][1]):
                period = value if isinstance(value, dict) else {"start": value, "end": value}
                start = interval(period["start"], utc=True)[0][0] if "start" in period else FIRST
                end = interval(period["end"], utc=True)[0][1] if "end" in period else LAST
                stretches.append((start, end))
            if not stretches:
                key: tuple[int, float] = (1, 0.0)
            elif down:
                key = (0, -max(end for _, end in stretches).replace(tzinfo=UTC).timestamp())
            else:
                key = (0, min(start for start, _ in stretches).replace(tzinfo=UTC).timestamp())
            keyed.append((key, place, each))
        return [each for _, _, each in sorted(keyed, key=lambda item: item[:2])]


def string_passes(value: str, modifier: str, wanted: str) -> bool:
    if modifier == "exact":
        return value == wanted
    if modifier == "contains":
        return plain(wanted) in plain(value)
    return plain(value).startswith(plain(wanted))


def words_pass(stored: list[str], wanted: str) -> bool:
    """One part begins with all of it, or every word begins a word of some part."""
    if any(plain(value).startswith(plain(wanted)) for value in stored):
        return True
    starts = [
        plain(value)[at:]
        for value in stored
        for at in [0, *(m.end() for m in re.finditer(" ", plain(value)))]
    ]
    return all(any(start.startswith(word) for start in starts) for word in plain(wanted).split())
