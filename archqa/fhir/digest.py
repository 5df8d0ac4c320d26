"""What is to be known of a batch of resources before it goes into a record."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archqa.fhir import dates
from archqa.fhir.bodies import pack
from archqa.fhir.extracting import Extractor
from archqa.fhir.reading import Found, Reading
from archqa.fhir.references import Target
from archqa.fhir.sources import Piece
from archqa.fhir.values import Term


class Head(NamedTuple):
    """Type and id of a resource, when it says it last changed (UTC microseconds since 0001), and its body."""

    type: str
    id: str
    updated: int | None
    body: bytes


@dataclass
class Digest:
    """A batch: its resources, their index rows in the batch's own numbers, and what was wrong."""

    heads: list[Head]
    dictionary: bytes
    rows: dict[str, list[tuple[Any, ...]]]
    elements: list[tuple[str, str, str]]
    terms: list[Term]
    targets: list[Target]
    longest: dict[int, int]
    words: set[tuple[int, int]]
    mistakes: list[str] = field(default_factory=list)
    is_fhir: bool = True


def digest(pieces: Iterable[Piece]) -> Digest:
    """Read pieces of one source, and find out by what their resources are to be found."""
    reading = Reading()
    found = [each for piece in pieces for each in reading.resources(piece)]
    made = digest_of(found)
    made.mistakes, made.is_fhir = reading.mistakes, reading.is_fhir
    return made


def digest_of(found: list[Found]) -> Digest:
    """The same for resources that have been read."""
    extractor = Extractor()
    packed = pack([each.text.encode() for each in found])
    heads = []
    for n, (each, body) in enumerate(zip(found, packed.bodies, strict=True)):
        extractor.add(n, each.resource, each.names)
        heads.append(Head(each.resource["resourceType"], each.resource["id"], _updated(each.resource), body))
    return Digest(
        heads=heads,
        dictionary=packed.dictionary,
        rows=extractor.rows,
        elements=extractor.elements.values,
        terms=extractor.terms.values,
        targets=extractor.targets.values,
        longest=extractor.longest,
        words=extractor.words,
    )


def _updated(resource: dict[str, Any]) -> int | None:
    meta = resource.get("meta")
    said = meta.get("lastUpdated") if isinstance(meta, dict) else None
    found = dates.stretch(said) if isinstance(said, str) else None
    return found.low_utc if found else None
