"""Resources of DSTU2, STU3 and R5: recognised by their shape, and converted to R4 while they are loaded.

`other_versions.tsv` has the elements that differ, and what becomes of them. What R4 has no place for
stays as it is, and the resource gets a tag (`NOT_CONVERTED`), so that questions can tell that it was
not read as a whole. Sources: hl7.org/fhir/DSTU2, hl7.org/fhir/STU3, hl7.org/fhir/R5/diff.html;
extensions for elements of other versions: hl7.org/fhir/versions.html#extensions.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from archqa.core.tables import read_rows
from archqa.fhir.record import NOT_CONVERTED
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, resource_elements

Node = dict[str, Any]
"""An object of JSON."""

_TABLE = "fhir/index/other_versions.tsv"
_EXTENSION = "http://hl7.org/fhir/StructureDefinition/extension-"
_EXACT_NUMBER = re.compile(r'"\\u0000(-?[0-9.eE+-]+)\\u0000"')


class Conversion(NamedTuple):
    """A resource in the shape of R4, the version that it had, and the elements that were not converted."""

    resource: Node
    text: str
    version: str
    not_converted: tuple[str, ...]


class _Rule(NamedTuple):
    """A row of the table; `parents` are the elements that lead to `member`."""

    parents: tuple[str, ...]
    member: str
    versions: str
    shape: str
    conversion: str
    arguments: tuple[str, ...]

    def matches(self, node: Node) -> bool:
        """Whether an element has the shape of another version."""
        value = node.get(self.member)
        if self.shape in _SHAPES:
            return _SHAPES[self.shape](value)
        return isinstance(value, str) and value in self.shape.split("|")


class ForeignType(NamedTuple):
    """A type that R4 does not have: its versions, what it became, and the intent of its resources."""

    versions: str
    r4_type: str = ""
    intent: str = ""


@cache
def foreign_types() -> dict[str, ForeignType]:
    """Return the types of other versions that R4 does not have."""
    types = {}
    for names, path, versions, _, conversion in read_rows(_TABLE, 5):
        if path == "-":
            foreign = ForeignType(versions, *conversion.split()[1:])
            types.update(dict.fromkeys(names.split(), foreign))
    return types


def r4_type(resource_type: str) -> str:
    """Return what R4 calls a type; one that it does not know as it is."""
    foreign = foreign_types().get(resource_type)
    return (foreign and foreign.r4_type) or resource_type


def is_of_other_version(resource: Node) -> bool:
    """Whether a resource has the shape of another version than R4."""
    resource_type = resource["resourceType"]
    if resource_type not in R4_RESOURCE_TYPES:
        return True
    for parents, rules in _rules_by_place(resource_type).items():
        if parents and parents[0] not in resource:
            continue
        for node in _nodes(resource, parents):
            for member in rules.keys() & node.keys():
                for rule in rules[member]:
                    if rule.matches(node):
                        return True
    return False


def convert_to_r4(text: str) -> Conversion:
    """Convert the text of a resource of another version. Its numbers keep all of their digits."""
    resource = json.loads(text, parse_float=lambda number: f"\0{number}\0")
    versions = []
    foreign = foreign_types().get(resource["resourceType"])
    if foreign is not None:
        versions.append(foreign.versions)
        resource["resourceType"] = foreign.r4_type
        if foreign.intent:
            resource.setdefault("intent", foreign.intent)
    not_converted: dict[str, None] = {}
    for rule in _rules(resource["resourceType"]):
        for node in filter(rule.matches, _nodes(resource, rule.parents)):
            versions.append(rule.versions)
            if not _apply(rule, node):
                not_converted[".".join((*rule.parents, rule.member))] = None
    version = _common_version(versions)
    if not_converted:
        meta = resource["meta"] if isinstance(resource.get("meta"), dict) else {}
        tag = {"system": NOT_CONVERTED, "code": version}
        resource["meta"] = {**meta, "tag": [*_objects(meta.get("tag")), tag]}
    converted = _EXACT_NUMBER.sub(r"\1", json.dumps(resource, ensure_ascii=False))
    for name in foreign_types():
        converted = converted.replace(f'": "{name}/', f'": "{r4_type(name)}/')
    return Conversion(json.loads(converted), converted, version, tuple(not_converted))


def _apply(rule: _Rule, node: Node) -> bool:
    """Replace an element by what it is in R4. Return whether R4 has a place for it."""
    convert = _CONVERSIONS[rule.conversion]
    try:
        replacement = convert(node[rule.member], *rule.arguments)
    except (AttributeError, LookupError, TypeError):  # The value is of no version.
        return False
    if replacement is None:
        return False
    value = node.pop(rule.member)
    for name, new in replacement.items():
        present = node.get(name)
        if name == "status" and present != "entered-in-error":
            node[name] = new
        elif isinstance(present, list) and isinstance(new, list):
            present += new
        elif (
            rule.conversion == "within"
            and isinstance(present, dict)
            and present.keys().isdisjoint(new)
        ):
            present |= new
        elif node.setdefault(name, new) != new:
            node[rule.member] = value
    return rule.member not in node or rule.member in replacement


def _common_version(versions: Sequence[str]) -> str:
    """The versions that have all of the elements, in words."""
    common = []
    for version in ("DSTU2", "STU3", "R5"):
        if all(version in names for names in versions):
            common.append(version)
    return " or ".join(common) or "several versions"


@cache
def _rules(resource_type: str) -> tuple[_Rule, ...]:
    """The rules for a type in the order of the table; of those for any type, what fits its elements."""
    members: set[str] = set()
    for names in resource_elements(resource_type).members.values():
        members.update(names)
    rules = []
    for types, path, versions, shape, conversion in read_rows(_TABLE, 5):
        name, *arguments = conversion.split()
        *parents, member = path.split(".")
        applies = resource_type in types.split() and path != "-"
        if types == "*" and arguments[0] in members:
            applies = shape != "-" or member not in members
        if applies:
            rules.append(
                _Rule(
                    tuple(parents),
                    member,
                    versions,
                    shape,
                    name,
                    tuple(arguments),
                )
            )
    return tuple(rules)


@cache
def _rules_by_place(
    resource_type: str,
) -> dict[tuple[str, ...], dict[str, list[_Rule]]]:
    """The rules by parents and member: few resources have any of the members."""
    places: dict[tuple[str, ...], dict[str, list[_Rule]]] = {}
    for rule in _rules(resource_type):
        members = places.setdefault(rule.parents, {})
        members.setdefault(rule.member, []).append(rule)
    return places


def _nodes(node: Any, parents: Sequence[str]) -> Iterator[Node]:
    """Yield the objects at the end of a path, through all items of lists."""
    if isinstance(node, list):
        for item in node:
            yield from _nodes(item, parents)
    elif isinstance(node, dict):
        if parents:
            yield from _nodes(node.get(parents[0]), parents[1:])
        else:
            yield node


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _objects(value: Any) -> list[Node]:
    return [item for item in _items(value) if isinstance(item, dict)]


def _has(name: str) -> Callable[[Any], bool]:
    return lambda value: any(name in item for item in _objects(value))


def _is_codeable(value: Any) -> bool:
    """Whether it is a CodeableReference of R5, or several."""
    return any(
        "concept" in item or isinstance(item.get("reference"), dict)
        for item in _objects(value)
    )


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "-": lambda value: value is not None,
    "text": lambda value: isinstance(value, str),
    "object": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "agent": _has("agent"),
    "actors": _has("actor"),
    "concepts": _has("coding"),
    "codeable": _is_codeable,
}


# A conversion returns what replaces a value; None if R4 has no place for it, or not for all of it.


def _rename(value: Any, target: str) -> Node:
    return {target: value}


def _lost(_: Any) -> None:
    return None


def _as_list(value: Any, target: str) -> Node:
    return {target: _items(value)}


def _single(value: Any, target: str) -> Node | None:
    values = _items(value)
    return {target: values[0]} if len(values) == 1 else None


def _mapped(value: Any, target: str, *codes: str) -> Node:
    return {target: _mapping(codes).get(value, value)}


def _coding(value: Any, target: str, system: str, *codes: str) -> Node:
    return {target: {"system": system, "code": _mapping(codes).get(value, value)}}


def _coded(value: Any, target: str, system: str) -> Node:
    return {target: {"coding": [{"system": system, "code": value}]}}


def _flag(value: Any, target: str, code: str, system: str = "") -> Node:
    """A boolean that says what a status says in R4."""
    if value is not True:
        return {}
    return _coded(code, target, system) if system else {target: code}


def _code(value: Any, target: str) -> Node | None:
    """The code of a CodeableConcept."""
    codings = _objects(value.get("coding"))
    return {target: codings[0].get("code")} if codings else None


def _first_coding(value: Any, target: str) -> Node | None:
    """The coding of a CodeableConcept, or of a list with a single one."""
    concepts = _objects(value)
    codings = _objects(concepts[0].get("coding")) if concepts else []
    return {target: codings[0]} if len(concepts) == 1 and codings else None


def _adherence(value: Any, target: str, *codes: str) -> Node | None:
    """hl7.org/fhir/R5/valueset-medication-statement-adherence.html: taking, stopped-as-directed, …"""
    coded = _code(value.get("code", {}), target) or {}
    for beginning, status in _mapping(codes).items():
        if str(coded.get(target)).startswith(beginning):
            return {target: status}
    return None


def _joined(value: Any, target: str) -> Node:
    return {target: " ".join(map(str, value))}


def _concept_text(value: Any, target: str) -> Node:
    return {target: {"text": value}}


def _notes(value: Any, target: str) -> Node:
    """Texts or Annotations as Annotations."""
    values = []
    for note in _items(value):
        values.append({"text": note} if isinstance(note, str) else note)
    return {target: values}


def _within(value: Any, target: str, *names: str) -> Node:
    for name in reversed(names):
        value = {name: value}
    return {target: value}


def _dose_and_rate(value: Any, name: str) -> Node:
    return {"doseAndRate": [{name: value}]}


def _actors(value: Any, target: str) -> Node:
    return {target: [{"actor": actor} for actor in _items(value)]}


def _spread(value: Any, *targets: str) -> Node:
    """The elements of an object as elements of the one that it is in."""
    names = _mapping(targets)
    return {names[name]: value[name] for name in names.keys() & value.keys()}


def _related(value: Any) -> Node | None:
    """Observations that belong together."""
    targets: dict[str, list[Any]] = defaultdict(list)
    for item in _objects(value):
        targets[str(item.get("type"))].append(item.get("target"))
    names = {"has-member": "hasMember", "derived-from": "derivedFrom"}
    if targets.keys() - names.keys():
        return None
    return {names[name]: references for name, references in targets.items()}


def _halves(value: Any, target: str, half: str) -> Node:
    """The concepts, or the references, of CodeableReferences; the other halves become extensions."""
    items = _objects(value)
    chosen = [item[half] for item in items]
    extensions = []
    for item in items:
        for name in item.keys() - {half}:
            other = item[name]
            kind = "Reference" if "reference" in other else "CodeableConcept"
            url = f"{_EXTENSION}{target}"
            extensions.append({"url": url, f"value{kind}": other})
    replacement = {target: chosen if isinstance(value, list) else chosen[0]}
    return replacement | ({"extension": extensions} if extensions else {})


def _choose(value: Any, target: str) -> Node | None:
    """A CodeableReference, or a Reference, as `xCodeableConcept` or `xReference`."""
    if not _is_codeable(value):
        return {f"{target}Reference": {**value}}
    if "concept" in value:
        return _halves(value, f"{target}CodeableConcept", "concept")
    return _halves(value, f"{target}Reference", "reference")


def _divide(value: Any, for_concepts: str, for_references: str) -> Node:
    """CodeableReferences, concepts and references, each in the list of its type."""
    lists: dict[str, list[Any]] = defaultdict(list)
    for item in _objects(value):
        # A reason of an Encounter in R5 has CodeableReferences as its value.
        for element in _objects(item.get("value", item)):
            if not _is_codeable(element):
                name = for_references if "reference" in element else for_concepts
                lists[name].append(element)
                continue
            for half, name in (
                ("concept", for_concepts),
                ("reference", for_references),
            ):
                if half in element:
                    lists[name].append(element[half])
    return lists


def _mapping(codes: tuple[str, ...]) -> dict[str, str]:
    return dict(code.split(":", 1) for code in codes)


_CONVERSIONS: dict[str, Callable[..., Node | None]] = {
    function.__name__[1:]: function
    for function in (
        _actors,
        _adherence,
        _as_list,
        _choose,
        _code,
        _coded,
        _coding,
        _concept_text,
        _divide,
        _dose_and_rate,
        _first_coding,
        _flag,
        _halves,
        _joined,
        _lost,
        _mapped,
        _notes,
        _related,
        _rename,
        _single,
        _spread,
        _within,
    )
}
