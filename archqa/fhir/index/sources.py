"""Read the resources of source files: NDJSON, Bundles and single resources, plain or gzipped.

Sources: hl7.org/fhir/R4/nd-json.html, hl7.org/fhir/R4/bundle.html.
"""

import codecs
import gzip
import json
import re
import uuid
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from archqa.fhir.index.other_versions import (
    convert_to_r4,
    foreign_types,
    is_of_other_version,
    r4_type,
)
from archqa.fhir.record import member_of
from archqa.fhir.values.element_types import malformed_element
from archqa.fhir.values.json_text import is_nested_deeper, items, members, parse
from archqa.fhir.values.references import (
    PATIENT_ELEMENTS,
    ReferenceTarget,
    parse_reference_element,
)
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean

FILE_SUFFIXES = (".ndjson", ".jsonl", ".json", ".ndjson.gz", ".jsonl.gz", ".json.gz")
MAX_CHUNK_BYTES = 512 * 2**20
"""Bytes of one line, or of one Bundle file."""

MAX_UNPACKED_BYTES = 64 * 2**20
"""The same in a gzip: a kilobyte of it may unpack to a MiB."""

MAX_DEPTH = 200
"""Nested objects and arrays of a resource. Python's parser reads about 900, far from the top of the
stack fewer; R4's deepest resources have about 20."""

_GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_URN_REFERENCE = re.compile(r'("reference"\s*:\s*)"urn:[a-z]+:([^"\\]+)"')
_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"}
_NEW_IDS = uuid.UUID("5a9f7a54-3c0e-4b52-8d0a-0d1c33a1f6b7")
"""The namespace of the ids that resources without one get: the same at each load."""


class _TooLong(Exception):
    """A line or a document is over the limit; the message is the mistake."""


class SourceChunk(NamedTuple):
    """A line of a source with its location (`:17`), or a whole document with an empty one."""

    location: str
    content: bytes


class ConvertedShape(NamedTuple):
    """What resources of another FHIR version share: type, version, and elements that R4 does not have."""

    type: str
    version: str
    not_converted: tuple[str, ...] = ()


Conversions = defaultdict[ConvertedShape, list[str]]
"""The place and `Type/id` of the resources of each shape."""


@dataclass
class Source:
    """One file. `mistakes` concern the whole file; `position` returns the bytes read so far.

    `conversions` has the `Type/id` of the resources of each `ConvertedShape`.
    """

    path: Path
    mistakes: list[str] = field(default_factory=list)
    conversions: Conversions = field(default_factory=lambda: defaultdict(list))
    is_fhir: bool = True
    position: Callable[[], int] = lambda: 0

    def chunks(self) -> Iterator[SourceChunk]:
        """Yield the lines of the file that are not blank, or the file as one document."""
        try:
            with self.path.open("rb") as raw:
                self.position = raw.tell
                is_gzip = raw.peek(2)[:2] == b"\x1f\x8b"
                limit = MAX_UNPACKED_BYTES if is_gzip else MAX_CHUNK_BYTES
                with gzip.GzipFile(fileobj=raw) if is_gzip else raw as file:
                    yield from self._read(file, limit)  # type: ignore[arg-type]
        except _TooLong as mistake:
            self.mistakes.append(str(mistake))
        except _GZIP_ERRORS:
            loss = "what comes after the last good line is lost"
            self.mistakes.append(f": the gzip stream is damaged; {loss}.")
        except OSError as error:
            self.mistakes.append(f": cannot be read ({error.strerror}).")
        finally:
            size = self.path.stat().st_size
            self.position = lambda: size

    def _read(self, file: IO[bytes], limit: int) -> Iterator[SourceChunk]:
        lines = _limited_lines(file, limit)
        if not self.path.name.removesuffix(".gz").endswith((".ndjson", ".jsonl")):
            first_line, next_line = next(lines, b""), next(lines, b"")
            if not (next_line.strip() and _is_json_object(first_line)):
                document = first_line + next_line + file.read(limit + 1)
                if len(document) > limit:
                    raise _TooLong(
                        f": is longer than {limit // 2**20} MiB; it was not read."
                    )
                yield SourceChunk("", document)
                return
            lines = chain((first_line, next_line), lines)
        for number, line in enumerate(lines, start=1):
            if not line.isspace():
                yield SourceChunk(f":{number}", line)


def _limited_lines(file: IO[bytes], limit: int) -> Iterator[bytes]:
    """Yield the lines of a file. Raises `_TooLong`, instead of looking for the end of a long one."""
    lines = iter(partial(file.readline, limit + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > limit:
            size = f"is longer than {limit // 2**20} MiB"
            raise _TooLong(f":{number}: {size}; what comes after it was not read.")
        yield line


def _is_json_object(line: bytes) -> bool:
    """Whether the line is a JSON object, so that every line may be a resource."""
    stripped = line.removeprefix(codecs.BOM_UTF8).strip()
    if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


class ParsedResource(NamedTuple):
    """One resource: its exact JSON text, its values, the targets of its Bundle's `urn:uuid:…`.

    In the text, references by `urn:` to resources of the Bundle are already `Type/id`.
    """

    text: str
    resource: dict[str, Any]
    urn_targets: Mapping[str, ReferenceTarget]


@dataclass
class ResourceParser:
    """Parse chunks. Every mistake begins with its place, `:line` or `: entry n`.

    `remarks` tell of entries that hold no resource, `without_resource` of them altogether, and of
    malformed resources, whose `Type/id` are in `malformed` with the id of their patient if it is known.
    """

    mistakes: list[str] = field(default_factory=list)
    is_fhir: bool = True
    remarks: list[str] = field(default_factory=list)
    conversions: Conversions = field(default_factory=lambda: defaultdict(list))
    malformed: dict[str, str] = field(default_factory=dict)
    bundles: int = 0
    without_resource: int = 0

    def parse(self, chunk: SourceChunk) -> Iterator[ParsedResource]:
        """Yield the resources of a chunk; anything else becomes a mistake."""
        location = chunk.location
        is_document = not location
        try:
            text = chunk.content.decode("utf-8-sig").strip(" \t\r\n")
            value: Any = parse(text) if text else None
        except UnicodeDecodeError:
            self.mistakes.append(f"{location}: is not UTF-8.")
            return
        except (ValueError, RecursionError) as error:
            problem = "a number out of bounds, or nested too deeply"
            if isinstance(error, json.JSONDecodeError):
                line = f"line {error.lineno}, " if is_document else ""
                problem = f"{line}column {error.colno}"
            self.mistakes.append(f"{location}: is not JSON ({problem}).")
            return
        is_object = isinstance(value, dict)
        if not text:
            if is_document:
                self.mistakes.append(": is empty.")
        elif is_document and not (is_object and "resourceType" in value):
            self.is_fhir = False
            self.mistakes.append(
                ": is JSON, but no FHIR resource (it has no resourceType)."
            )
        elif is_object and value.get("resourceType") == "Bundle" and "entry" in value:
            yield from self._parse_bundle(text, value["entry"], location)
        else:
            yield from self._checked(ParsedResource(text, value, {}), location)

    def _parse_bundle(
        self, text: str, entries: Any, location: str
    ) -> Iterator[ParsedResource]:
        if not isinstance(entries, list):
            self.mistakes.append(f"{location}: the Bundle's entry is no list.")
            return
        self.bundles += 1
        urn_targets = _urn_targets(entries)
        without_resource: Counter[str] = Counter()
        entries_start = next(
            start for name, start, _, _ in members(text) if name == "entry"
        )
        for index, (start, end, _) in enumerate(items(text, entries_start)):
            entry_location = f"{location}: entry {index + 1}"
            entry = entries[index]
            if not isinstance(entry, dict) or end - start < 3:
                self.mistakes.append(f"{entry_location}: is no object with a resource.")
                continue
            if "resource" not in entry:
                without_resource[_purpose(entry)] += 1
            for name, value_start, value_end, value in members(text, start):
                if name == "resource":
                    resource_text = _with_resolved_urns(
                        text[value_start:value_end], urn_targets
                    )
                    parsed = ParsedResource(resource_text, value, urn_targets)
                    parsed = _with_id(parsed, entry, index)
                    yield from self._checked(parsed, entry_location)
        if without_resource:
            total = without_resource.total()
            self.without_resource += total
            kinds = [
                f"{count} {purpose}"
                for purpose, count in sorted(without_resource.items())
            ]
            remark = f"{total} entries hold no resource to load ({', '.join(kinds)})."
            self.remarks.append(f"{location}: {remark}")

    def _checked(
        self, parsed: ParsedResource, location: str
    ) -> Iterator[ParsedResource]:
        reason = invalid_resource_reason(parsed.resource, parsed.text)
        if reason:
            self.mistakes.append(f"{location}: {reason}")
            return
        if is_of_other_version(parsed.resource):
            parsed = self._converted(parsed, location)
        malformed = malformed_element(parsed.resource)
        if malformed:
            name = f"{parsed.resource['resourceType']}/{parsed.resource['id']}"
            problem = f"{name} has a malformed {malformed}"
            self.remarks.append(f"{location}: {problem}: answers leave it out.")
            self.malformed[name] = _patient_of(parsed)
        yield parsed

    def _converted(self, parsed: ParsedResource, location: str) -> ParsedResource:
        """Convert a resource to R4, and note it."""
        conversion = convert_to_r4(parsed.text)
        resource = conversion.resource
        shape = ConvertedShape(
            resource["resourceType"], conversion.version, conversion.not_converted
        )
        name = f"{shape.type}/{resource['id']}"
        self.conversions[shape].append(f"{name} ({location.strip(': ')})")
        return ParsedResource(conversion.text, resource, parsed.urn_targets)


def invalid_resource_reason(resource: Any, text: str) -> str:
    """Return why a record cannot hold this resource; empty if it can."""
    if not isinstance(resource, dict):
        return "is no JSON object."
    resource_type, resource_id = resource.get("resourceType"), resource.get("id")
    if not isinstance(resource_type, str):
        return "has no resourceType."
    if r4_type(resource_type) not in R4_RESOURCE_TYPES:
        foreign = foreign_types().get(resource_type)
        if foreign is not None:
            return f"the type {resource_type} is of {foreign.versions}; R4 does not have it."
        hint = did_you_mean(resource_type, R4_RESOURCE_TYPES)
        return f"resourceType is none of FHIR R4.{hint}"
    if resource_id is None:
        return f"the {resource_type} has no id."
    if not isinstance(resource_id, str) or not _ID.fullmatch(resource_id):
        rule = "1 to 64 letters, digits, - and . (R4, datatype id)"
        return f"the {resource_type}'s id is not {rule}."
    if "\\ud" in text.lower():
        try:
            json.dumps(resource, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return f"the {resource_type} holds half a surrogate pair."
    # A resource with fewer brackets cannot be so deep: most are not walked through.
    if text.count("{") + text.count("[") > MAX_DEPTH and is_nested_deeper(
        resource, MAX_DEPTH
    ):
        return f"the {resource_type} is nested more than {MAX_DEPTH} levels deep."
    return ""


def _patient_of(parsed: ParsedResource) -> str:
    """Return the id of the patient whom a resource is about; empty if it cannot be read."""
    resource = parsed.resource
    if resource["resourceType"] == "Patient":
        return str(resource["id"])
    for element in PATIENT_ELEMENTS:
        target = parse_reference_element(resource.get(element))
        if target is not None:
            target = parsed.urn_targets.get(target.id, target)
            if target.type in ("Patient", ""):
                return target.id
    return ""


def _purpose(entry: dict[str, Any]) -> str:
    """Return what an entry without a resource is for: its method, or `response`."""
    method = member_of(entry.get("request"), "method")
    if isinstance(method, str) and method in _METHODS:
        return method
    return "response" if "response" in entry else "without a request"


def _with_resolved_urns(text: str, urn_targets: Mapping[str, ReferenceTarget]) -> str:
    """Write references to resources of the Bundle as `Type/id`: they are stored apart from it.

    Nothing else of the text changes (http.html#trules).
    """
    if '"urn:' not in text:
        return text

    def resolved(match: re.Match[str]) -> str:
        target = urn_targets.get(match[2])
        if text[match.start() - 1] == "\\":  # The end of another name: "…\"reference".
            return match[0]
        if (
            target is None
            or target.type not in R4_RESOURCE_TYPES
            or not _ID.fullmatch(target.id)
        ):
            return match[0]
        return f'{match[1]}"{target.type}/{target.id}"'

    return _URN_REFERENCE.sub(resolved, text)


def _with_id(
    parsed: ParsedResource, entry: dict[str, Any], index: int
) -> ParsedResource:
    """Give a resource without an id the one that its `fullUrl` ends with.

    What is to be created may be without both (bundle.html, bdl-7): its id is made of its text.
    """
    resource = parsed.resource
    if not isinstance(resource, dict) or "id" in resource:
        return parsed
    full_url = entry.get("fullUrl")
    new_id = re.split("[/:]", full_url)[-1] if isinstance(full_url, str) else ""
    if full_url is None and member_of(entry.get("request"), "method") == "POST":
        new_id = str(uuid.uuid5(_NEW_IDS, f"{index} {parsed.text}"))
    if not _ID.fullmatch(new_id):
        return parsed
    return ParsedResource(
        f'{{"id": "{new_id}", {parsed.text.lstrip()[1:]}',
        {"id": new_id, **resource},
        parsed.urn_targets,
    )


def _urn_targets(entries: Iterable[Any]) -> dict[str, ReferenceTarget]:
    """Return the target of each `urn:uuid:…` of a Bundle (bundle.html#references)."""
    targets = {}
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        resource, url = entry.get("resource"), entry.get("fullUrl")
        if (
            isinstance(resource, dict)
            and isinstance(url, str)
            and url.startswith("urn:")
        ):
            resource_type = resource.get("resourceType")
            resource_id = resource.get("id", url.split(":")[-1])
            if isinstance(resource_type, str) and isinstance(resource_id, str):
                targets[url.split(":", 2)[-1]] = ReferenceTarget(
                    r4_type(resource_type), resource_id
                )
    return targets
