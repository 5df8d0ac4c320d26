"""Where resources come from: NDJSON, Bundles, single resources, plain or gzipped, and folders of them.

Sources: hl7.org/fhir/R4/nd-json.html, hl7.org/fhir/R4/bundle.html.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from archqa.fhir.references import Target
from archqa.fhir.resource_types import R4, did_you_mean
from archqa.fhir.spans import items, members, parse

ENDINGS = (".ndjson", ".jsonl", ".json", ".ndjson.gz", ".jsonl.gz", ".json.gz")
LONGEST = 512 * 2**20
"""Bytes of one line, or of one Bundle file, that are read at most."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error)


class Found(NamedTuple):
    """One resource: its exact JSON text, what it says, and what the `urn:uuid:…` beside it stand for."""

    text: str
    resource: dict[str, Any]
    names: Mapping[str, Target]


@dataclass
class Source:
    """One file. `mistakes` are gathered while it is read, each beginning with `:line` or `: entry n`."""

    path: Path
    mistakes: list[str] = field(default_factory=list)
    is_fhir: bool = True
    position: Callable[[], int] = lambda: 0

    def resources(self) -> Iterator[Found]:
        """The resources of the file, one by one; what is none becomes a mistake."""
        try:
            with self.path.open("rb") as raw:
                self.position = raw.tell
                packed = raw.peek(2)[:2] == b"\x1f\x8b"
                with gzip.GzipFile(fileobj=raw) if packed else raw as file:
                    yield from self._read(file)  # type: ignore[arg-type]  # GzipFile is a BufferedIOBase
        except _BROKEN:
            self.mistakes.append(": the gzip stream is damaged; what comes after the last good line is lost.")
        except OSError as error:
            self.mistakes.append(f": cannot be read ({error.strerror}).")

    def _read(self, file: IO[bytes]) -> Iterator[Found]:
        by_line = self.path.name.removesuffix(".gz").endswith((".ndjson", ".jsonl"))
        if by_line:
            yield from self._lines(file, ())
            return
        first, second = file.readline(LONGEST), file.readline(LONGEST)
        if second.strip() and _is_whole(first):
            yield from self._lines(file, (first, second))
        else:
            yield from self._document(first + second + file.read(LONGEST))

    def _lines(self, file: IO[bytes], read: tuple[bytes, ...]) -> Iterator[Found]:
        for number, line in enumerate(chain(read, iter(lambda: file.readline(LONGEST), b"")), start=1):
            text = self._text(line, f":{number}") if line.strip() else ""
            if text:
                yield from self._one(text, f":{number}")

    def _document(self, content: bytes) -> Iterator[Found]:
        text = self._text(content, "") if content.strip() else ""
        if text:
            yield from self._one(text, "")
        elif not self.mistakes:
            self.mistakes.append(": is empty.")

    def _text(self, content: bytes, at: str) -> str:
        if len(content) >= LONGEST:
            self.mistakes.append(f"{at}: is longer than {LONGEST // 2**20} MiB.")
            return ""
        try:
            return content.decode("utf-8-sig").strip(" \t\r\n")
        except UnicodeDecodeError:
            self.mistakes.append(f"{at}: is not UTF-8.")
            return ""

    def _one(self, text: str, at: str) -> Iterator[Found]:
        try:
            resource = parse(text)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}" if not at else f"column {error.colno}"
            self.mistakes.append(f"{at}: is not JSON ({where}).")
            return
        except (ValueError, RecursionError):
            self.mistakes.append(f"{at}: is not JSON (a number out of bounds, or nested too deeply).")
            return
        if not at and not (isinstance(resource, dict) and "resourceType" in resource):
            self.is_fhir = False
            self.mistakes.append(": is JSON, but no FHIR resource (it has no resourceType).")
        elif isinstance(resource, dict) and resource.get("resourceType") == "Bundle" and "entry" in resource:
            yield from self._bundle(text, resource, at)
        else:
            yield from self._checked(Found(text, resource, {}), at)

    def _bundle(self, text: str, bundle: dict[str, Any], at: str) -> Iterator[Found]:
        entries = bundle["entry"]
        if not isinstance(entries, list):
            self.mistakes.append(f"{at}: the Bundle's entry is no list.")
            return
        names = _names(entries)
        for number, (start, end) in enumerate(_entry_spans(text), start=1):
            for name, first, last, resource in members(text, start) if text[start] == "{" else ():
                if name == "resource":
                    yield from self._checked(Found(text[first:last], resource, names), f"{at}: entry {number}")
            if text[start] != "{" or end - start < 3:
                self.mistakes.append(f"{at}: entry {number}: is no object with a resource.")

    def _checked(self, found: Found, at: str) -> Iterator[Found]:
        wrong = fault(found.resource, found.text)
        if wrong:
            self.mistakes.append(f"{at}: {wrong}")
        else:
            yield found


def fault(resource: Any, text: str) -> str:
    """Why this is no resource that a record can hold; empty if it is one."""
    if not isinstance(resource, dict):
        return "is no JSON object."
    resource_type, resource_id = resource.get("resourceType"), resource.get("id")
    if not isinstance(resource_type, str):
        return "has no resourceType."
    if resource_type not in R4:
        return f"resourceType is none of FHIR R4.{did_you_mean(resource_type, R4)}"
    if resource_id is None:
        return f"the {resource_type} has no id."
    if not isinstance(resource_id, str) or not _ID.fullmatch(resource_id):
        return f"the {resource_type}'s id is not 1 to 64 letters, digits, - and . (R4, datatype id)."
    if "\\ud" in text.lower() and not _is_encodable(resource):
        return f"the {resource_type} holds half a surrogate pair."
    return ""


def _is_encodable(resource: dict[str, Any]) -> bool:
    try:
        json.dumps(resource, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_whole(line: bytes) -> bool:
    """Whether the first line of a file is a resource of its own, so that more may follow."""
    stripped = line.strip()
    if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _names(entries: list[Any]) -> dict[str, Target]:
    """What each `urn:uuid:…` of a Bundle stands for (hl7.org/fhir/R4/bundle.html#references)."""
    names = {}
    for entry in entries:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        url = entry.get("fullUrl") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and isinstance(url, str) and url.startswith("urn:"):
            resource_type, resource_id = resource.get("resourceType"), resource.get("id")
            if isinstance(resource_type, str) and isinstance(resource_id, str):
                names[url.split(":", 2)[-1]] = Target(resource_type, resource_id)
    return names


def _entry_spans(text: str) -> list[tuple[int, int]]:
    for name, start, _, _ in members(text):
        if name == "entry":
            return [(first, last) for first, last, _ in items(text, start)]
    return []
