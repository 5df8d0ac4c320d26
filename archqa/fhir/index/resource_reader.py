"""Reads the resources out of a piece of a source: a line, or a whole document.

Sources: hl7.org/fhir/R4/nd-json.html, hl7.org/fhir/R4/bundle.html.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archqa.fhir.index.sources import MAX_CHUNK_BYTES, SourceChunk
from archqa.fhir.values.json_spans import items, members, parse
from archqa.fhir.values.references import ReferenceTarget
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class ParsedResource(NamedTuple):
    """One resource: its exact JSON text, what it says, and what the `urn:uuid:…` beside it stand for."""

    text: str
    resource: dict[str, Any]
    names: Mapping[str, ReferenceTarget]


@dataclass
class ResourceParser:
    """Reads pieces. `mistakes` are gathered, each beginning with `:line` or `: entry n`."""

    mistakes: list[str] = field(default_factory=list)
    is_fhir: bool = True

    def resources(self, piece: SourceChunk) -> Iterator[ParsedResource]:
        """The resources of a piece, one by one; what is none becomes a mistake."""
        if len(piece.content) >= MAX_CHUNK_BYTES:
            self.mistakes.append(f"{piece.at}: is longer than {MAX_CHUNK_BYTES // 2**20} MiB.")
            return
        try:
            text = piece.content.decode("utf-8-sig").strip(" \t\r\n")
        except UnicodeDecodeError:
            self.mistakes.append(f"{piece.at}: is not UTF-8.")
            return
        if text:
            yield from self._one(text, piece.at)
        elif not piece.at:
            self.mistakes.append(": is empty.")

    def _one(self, text: str, at: str) -> Iterator[ParsedResource]:
        try:
            resource = parse(text)
        except json.JSONDecodeError as error:
            where = (
                f"line {error.lineno}, column {error.colno}" if not at else f"column {error.colno}"
            )
            self.mistakes.append(f"{at}: is not JSON ({where}).")
            return
        except (ValueError, RecursionError):
            self.mistakes.append(
                f"{at}: is not JSON (a number out of bounds, or nested too deeply)."
            )
            return
        if not at and not (isinstance(resource, dict) and "resourceType" in resource):
            self.is_fhir = False
            self.mistakes.append(": is JSON, but no FHIR resource (it has no resourceType).")
        elif (
            isinstance(resource, dict)
            and resource.get("resourceType") == "Bundle"
            and "entry" in resource
        ):
            yield from self._bundle(text, resource, at)
        else:
            yield from self._checked(ParsedResource(text, resource, {}), at)

    def _bundle(self, text: str, bundle: dict[str, Any], at: str) -> Iterator[ParsedResource]:
        entries = bundle["entry"]
        if not isinstance(entries, list):
            self.mistakes.append(f"{at}: the Bundle's entry is no list.")
            return
        names = _names(entries)
        for number, (start, end) in enumerate(_entry_spans(text), start=1):
            url = (
                entries[number - 1].get("fullUrl")
                if isinstance(entries[number - 1], dict)
                else None
            )
            for name, first, last, resource in members(text, start) if text[start] == "{" else ():
                if name == "resource":
                    found = _named(ParsedResource(text[first:last], resource, names), url)
                    yield from self._checked(found, f"{at}: entry {number}")
            if text[start] != "{" or end - start < 3:
                self.mistakes.append(f"{at}: entry {number}: is no object with a resource.")

    def _checked(self, found: ParsedResource, at: str) -> Iterator[ParsedResource]:
        wrong = invalid_resource_reason(found.resource, found.text)
        if wrong:
            self.mistakes.append(f"{at}: {wrong}")
        else:
            yield found


def invalid_resource_reason(resource: Any, text: str) -> str:
    """Why this is no resource that a record can hold; empty if it is one."""
    if not isinstance(resource, dict):
        return "is no JSON object."
    resource_type, resource_id = resource.get("resourceType"), resource.get("id")
    if not isinstance(resource_type, str):
        return "has no resourceType."
    if resource_type not in R4_RESOURCE_TYPES:
        return f"resourceType is none of FHIR R4.{did_you_mean(resource_type, R4_RESOURCE_TYPES)}"
    if resource_id is None:
        return f"the {resource_type} has no id."
    if not isinstance(resource_id, str) or not _ID.fullmatch(resource_id):
        return (
            f"the {resource_type}'s id is not 1 to 64 letters, digits, - and . (R4, datatype id)."
        )
    if "\\ud" in text.lower() and not _is_encodable(resource):
        return f"the {resource_type} holds half a surrogate pair."
    return ""


def _is_encodable(resource: dict[str, Any]) -> bool:
    try:
        json.dumps(resource, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _named(found: ParsedResource, url: Any) -> ParsedResource:
    """A resource of a transaction may have no id of its own: it gets the one its `fullUrl` ends with."""
    name = re.split("[/:]", url)[-1] if isinstance(url, str) else ""
    if not isinstance(found.resource, dict) or "id" in found.resource or not _ID.fullmatch(name):
        return found
    return ParsedResource(
        f'{{"id": "{name}", {found.text.lstrip()[1:]}', {"id": name, **found.resource}, found.names
    )


def _names(entries: list[Any]) -> dict[str, ReferenceTarget]:
    """What each `urn:uuid:…` of a Bundle stands for (hl7.org/fhir/R4/bundle.html#references)."""
    names = {}
    for entry in entries:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        url = entry.get("fullUrl") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and isinstance(url, str) and url.startswith("urn:"):
            resource_type, resource_id = (
                resource.get("resourceType"),
                resource.get("id", url.split(":")[-1]),
            )
            if isinstance(resource_type, str) and isinstance(resource_id, str):
                names[url.split(":", 2)[-1]] = ReferenceTarget(resource_type, resource_id)
    return names


def _entry_spans(text: str) -> list[tuple[int, int]]:
    for name, start, _, _ in members(text):
        if name == "entry":
            return [(first, last) for first, last, _ in items(text, start)]
    return []
