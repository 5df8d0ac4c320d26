"""FHIR search the slow way: it looks at every resource and has no index.

Written from hl7.org/fhir/R4/search.html alone, without any code of archqa. It supports only what
`test_searches_equal_a_brute_force` needs.
"""

from collections.abc import Callable, Iterable
from datetime import UTC
from typing import Any, NamedTuple

from tests.fhir.brute_force_values import (
    Resource,
    any_token_matches,
    codings,
    date_matches,
    interval_of_value,
    is_of_type,
    plain,
    quantity_matches,
    reference_matches,
    string_matches,
    uri_matches,
    words_match,
)


class Element(NamedTuple):
    """What a search parameter looks at: the kind of values, and the paths to them."""

    kind: str
    paths: list[str]


ELEMENTS = {
    ("Observation", "code"): Element("token", ["code"]),
    ("Observation", "category"): Element("token", ["category"]),
    ("Observation", "status"): Element("token", ["status"]),
    ("Observation", "date"): Element("date", ["effectiveDateTime", "effectivePeriod"]),
    ("Observation", "patient"): Element("patient", ["subject"]),
    ("Observation", "encounter"): Element("encounter", ["encounter"]),
    ("Observation", "value-quantity"): Element("quantity", ["valueQuantity"]),
    ("Observation", "value-string"): Element(
        "string", ["valueString", "valueCodeableConcept.text"]
    ),
    ("Observation", "value-concept"): Element("token", ["valueCodeableConcept"]),
    ("Observation", "component-code"): Element("token", ["component.code"]),
    ("Observation", "combo-value-quantity"): Element(
        "quantity", ["valueQuantity", "component.valueQuantity"]
    ),
    ("Observation", "component-value-concept"): Element(
        "token", ["component.valueCodeableConcept"]
    ),
    ("Observation", "has-member"): Element("observation", ["hasMember"]),
    ("Patient", "identifier"): Element("token", ["identifier"]),
    ("Patient", "gender"): Element("token", ["gender"]),
    ("Patient", "family"): Element("string", ["name.family"]),
    ("Patient", "given"): Element("string", ["name.given"]),
    ("Patient", "birthdate"): Element("date", ["birthDate"]),
    ("Encounter", "date"): Element("date", ["period"]),
    ("Encounter", "patient"): Element("patient", ["subject"]),
    ("Encounter", "subject"): Element("patient", ["subject"]),
    ("Encounter", "class"): Element("token", ["class"]),
    ("Encounter", "part-of"): Element("encounter", ["partOf"]),
    ("Patient", "race"): Element("token", ["race()"]),
    ("Patient", "ethnicity"): Element("token", ["ethnicity()"]),
    ("Resource", "_profile"): Element("uri", ["meta.profile"]),
    ("Resource", "_source"): Element("uri", ["meta.source"]),
    ("Resource", "_tag"): Element("token", ["meta.tag"]),
    ("Resource", "_security"): Element("token", ["meta.security"]),
}

CHAIN_TARGETS = {
    "patient": "Patient",
    "encounter": "Encounter",
    "part-of": "Encounter",
    "has-member": "Observation",
}


class Composite(NamedTuple):
    """A composite parameter: the items it looks at ("" is the resource), the second half."""

    groups: list[str]
    kind: str
    value: str


COMPOSITES = {
    "code-value-quantity": Composite([""], "quantity", "valueQuantity"),
    "code-value-concept": Composite([""], "token", "valueCodeableConcept"),
    "code-value-string": Composite([""], "string", "valueString"),
    "component-code-value-quantity": Composite(
        ["component"], "quantity", "valueQuantity"
    ),
    "component-code-value-concept": Composite(
        ["component"], "token", "valueCodeableConcept"
    ),
    "combo-code-value-quantity": Composite(
        ["", "component"], "quantity", "valueQuantity"
    ),
    "combo-code-value-concept": Composite(
        ["", "component"], "token", "valueCodeableConcept"
    ),
}

EXTENSIONS = {
    "race()": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race",
    "ethnicity()": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity",
}


def element_of(resource_type: str, name: str) -> Element:
    return ELEMENTS.get((resource_type, name)) or ELEMENTS["Resource", name]


def us_core_values(patient: Resource, url: str) -> list[Any]:
    """The codings of US Core's extension of that URL; its text is no coding."""
    codings_of_extension = []
    for extension in patient.get("extension", []):
        if extension["url"] == url:
            for part in extension["extension"]:
                codings_of_extension += as_list(part.get("valueCoding"))
    return codings_of_extension


def values(resource: Resource, paths: Iterable[str]) -> list[Any]:
    """The values at any of the paths, such as `name.family`."""
    all_values = []
    for path in paths:
        if path in EXTENSIONS:
            all_values += us_core_values(resource, EXTENSIONS[path])
            continue
        nodes = [resource]
        for step in path.split("."):
            nodes = [member for node in nodes for member in as_list(node.get(step))]
        all_values += nodes
    return all_values


def as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, list):
        return value
    return [value]


class BruteForce:
    """A record as a list of resources.

    The profile is archqa (helpful, dates on the wall clock) or hapi (neither).
    """

    def __init__(self, resources: list[Resource], profile: str) -> None:
        self.resources = resources
        self.is_helpful = profile == "archqa"

    def search(self, resource_type: str, params: list[tuple[str, str]]) -> list[str]:
        """The ids of all matches, in order."""
        sort = ""
        matches = self.resources_of(resource_type)
        for name, value in params:
            if name == "_sort":
                sort = value
            else:
                matches = [
                    match for match in matches if self.matches(match, name, value)
                ]
        if sort:
            matches = self.ordered(matches, sort)
        return [resource["id"] for resource in matches]

    def resources_of(self, resource_type: str) -> list[Resource]:
        return [
            resource
            for resource in self.resources
            if resource["resourceType"] == resource_type
        ]

    def matches(self, resource: Resource, name: str, value: str) -> bool:
        if name.startswith("_has:"):
            return self.reverse_chain_matches(resource, name, value)
        if "." in name:
            return self.chain_matches(resource, name, value)
        base, _, modifier = name.partition(":")
        alternatives = value.split(",")
        if base == "_id":
            is_among = resource["id"] in alternatives
            return not is_among if modifier == "not" else is_among
        return self.values_match(resource, base, modifier, value)

    def values_match(
        self, resource: Resource, base: str, modifier: str, value: str
    ) -> bool:
        """Whether the resource's own values pass a filter."""
        alternatives = value.split(",")
        if base in COMPOSITES:
            return any(
                self.composite_matches(resource, base, pair) for pair in alternatives
            )
        element = element_of(resource["resourceType"], base)
        if modifier == "of-type":
            identifiers = values(resource, element.paths)
            return any(
                is_of_type(stored, token)
                for stored in identifiers
                for token in alternatives
            )
        if modifier == "identifier":
            paths = [f"{path}.identifier" for path in element.paths]
            return self.any_matches(resource, Element("token", paths), "", alternatives)
        if modifier == "missing":
            is_missing = not values(resource, element.paths)
            return is_missing == (value == "true")
        if modifier == "not":
            return not self.any_matches(resource, element, "", alternatives)
        return self.any_matches(resource, element, modifier, alternatives)

    def reverse_chain_matches(self, resource: Resource, name: str, value: str) -> bool:
        """Whether a resource that passes the rest of the filter refers to this one."""
        _, source_type, reference_name, rest = name.split(":", 3)
        name_of_resource = f"{resource['resourceType']}/{resource['id']}"
        element = element_of(source_type, reference_name)
        for source in self.resources_of(source_type):
            references = references_at(source, element)
            if name_of_resource in references and self.matches(source, rest, value):
                return True
        return False

    def chain_matches(self, resource: Resource, name: str, value: str) -> bool:
        """Whether this resource refers to one that passes the rest of the filter."""
        head, rest = name.split(".", 1)
        reference_name, _, named_type = head.partition(":")
        references = references_at(
            resource, element_of(resource["resourceType"], reference_name)
        )
        target_type = named_type or CHAIN_TARGETS[reference_name]
        for target in self.resources_of(target_type):
            is_referenced = f"{target_type}/{target['id']}" in references
            if is_referenced and self.matches(target, rest, value):
                return True
        return False

    def composite_matches(self, resource: Resource, name: str, pair: str) -> bool:
        """Whether both halves hold in the resource itself, or in the same of its components."""
        groups, kind, path = COMPOSITES[name]
        code, value = pair.split("$")
        for group in groups:
            for item in [resource] if not group else as_list(resource.get(group)):
                has_code = self.half_matches(
                    resource, item, groups, "token", "code", code
                )
                if has_code and self.half_matches(
                    resource, item, groups, kind, path, value
                ):
                    return True
        return False

    def half_matches(
        self,
        resource: Resource,
        item: Resource,
        groups: list[str],
        kind: str,
        path: str,
        value: str,
    ) -> bool:
        stored = values(item, [path])
        if kind != "token":
            return self.value_matches(kind, stored, "", value)
        paths = [f"{group}.{path}".lstrip(".") for group in groups]
        resource_type = resource["resourceType"]
        return self.code_matches(resource_type, Element(kind, paths), stored, "", value)

    def any_matches(
        self,
        resource: Resource,
        element: Element,
        modifier: str,
        alternatives: list[str],
    ) -> bool:
        stored = values(resource, element.paths)
        resource_type = resource["resourceType"]
        for alternative in alternatives:
            if element.kind == "token":
                is_match = self.code_matches(
                    resource_type, element, stored, modifier, alternative
                )
            elif element.kind == "string" and not modifier and self.is_helpful:
                is_match = words_match(stored, alternative)
            else:
                is_match = self.value_matches(
                    element.kind, stored, modifier, alternative
                )
            if is_match:
                return True
        return False

    def value_matches(
        self, kind: str, stored: list[Any], modifier: str, value: str
    ) -> bool:
        checks: dict[str, Callable[[Any], bool]] = {
            "date": lambda date: date_matches(date, value, wall_clock=self.is_helpful),
            "quantity": lambda quantity: quantity_matches(quantity, value),
            "encounter": lambda target: reference_matches(
                target["reference"], value, "Encounter"
            ),
            "observation": lambda target: reference_matches(
                target["reference"], value, "Observation"
            ),
            "uri": lambda uri: uri_matches(uri, modifier, value),
            "patient": lambda target: reference_matches(
                target["reference"], value, "Patient"
            ),
            "string": lambda string: string_matches(string, modifier, value),
        }
        return any(map(checks[kind], stored))

    def code_matches(
        self,
        resource_type: str,
        element: Element,
        stored: list[Any],
        modifier: str,
        token: str,
    ) -> bool:
        own_codings = [coding for value in stored for coding in codings(value)]
        if modifier == "text":
            return any(
                self.display_matches(coding.display, token) for coding in own_codings
            )
        if any_token_matches(own_codings, token):
            return True
        if not self.is_helpful or self.occurs(resource_type, element, token):
            return False
        # A code that occurs nowhere is compared without regard to case.
        system, bar, code = token.rpartition("|")
        if bar and not code:
            return False
        folded = []
        for coding in own_codings:
            folded.append(
                coding._replace(code=plain(coding.code) if coding.code else None)
            )
        return any_token_matches(folded, f"{system}{bar}{plain(code)}")

    def display_matches(self, display: str, value: str) -> bool:
        if not display:
            return False
        if self.is_helpful:
            return plain(value) in plain(display)
        return plain(display).startswith(plain(value))

    def occurs(self, resource_type: str, element: Element, token: str) -> bool:
        """Whether any resource of the type has this code."""
        for resource in self.resources_of(resource_type):
            for value in values(resource, element.paths):
                if any_token_matches(codings(value), token):
                    return True
        return False

    def ordered(self, resources: list[Resource], sort: str) -> list[Resource]:
        name = sort.removeprefix("-")
        is_descending = sort.startswith("-")
        if name == "_id":
            return sorted(
                resources,
                key=lambda resource: str(resource["id"]),
                reverse=is_descending,
            )

        def key(resource: Resource) -> tuple[int, float]:
            element = ELEMENTS[resource["resourceType"], name]
            return sort_key(values(resource, element.paths), is_descending)

        return sorted(resources, key=key)


def references_at(resource: Resource, element: Element) -> list[str]:
    return [reference["reference"] for reference in values(resource, element.paths)]


def sort_key(dates: list[Any], is_descending: bool) -> tuple[int, float]:
    """Sort by the latest end or the earliest start; resources without a date come last."""
    if not dates:
        return 1, 0.0
    intervals = [interval_of_value(date, utc=True) for date in dates]
    if is_descending:
        latest = max(end for _, end in intervals)
        return 0, -latest.replace(tzinfo=UTC).timestamp()
    earliest = min(start for start, _ in intervals)
    return 0, earliest.replace(tzinfo=UTC).timestamp()
