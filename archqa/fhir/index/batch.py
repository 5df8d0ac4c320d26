"""What is to be known of a batch of resources before it goes into a record."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archqa.fhir.index.blobs import compress_blobs
from archqa.fhir.index.extraction import IndexRowExtractor
from archqa.fhir.index.resource_reader import ParsedResource, ResourceParser
from archqa.fhir.index.sources import SourceChunk
from archqa.fhir.values import dates
from archqa.fhir.values.index_values import CodedTerm
from archqa.fhir.values.references import ReferenceTarget


class ResourceRow(NamedTuple):
    """Type and id of a resource, when it says it last changed (UTC microseconds since 0001), and its body."""

    type: str
    id: str
    updated: int | None
    body: bytes


@dataclass
class IndexBatch:
    """A batch: its resources, their index rows in the batch's own numbers, and what was wrong."""

    resource_rows: list[ResourceRow]
    dictionary: bytes
    rows: dict[str, list[tuple[Any, ...]]]
    elements: list[tuple[str, str, str]]
    terms: list[CodedTerm]
    targets: list[ReferenceTarget]
    longest: dict[int, int]
    words: set[tuple[int, int]]
    mistakes: list[str] = field(default_factory=list)
    is_fhir: bool = True


def build_index_batch(pieces: Iterable[SourceChunk]) -> IndexBatch:
    """Read pieces of one source, and find out by what their resources are to be found."""
    reading = ResourceParser()
    found = [each for piece in pieces for each in reading.resources(piece)]
    made = index_batch_of(found)
    made.mistakes, made.is_fhir = reading.mistakes, reading.is_fhir
    return made


def index_batch_of(found: list[ParsedResource]) -> IndexBatch:
    """The same for resources that have been read."""
    extractor = IndexRowExtractor()
    packed = compress_blobs([each.text.encode() for each in found])
    heads = []
    for n, (each, body) in enumerate(zip(found, packed.bodies, strict=True)):
        extractor.add(n, each.resource, each.names)
        heads.append(
            ResourceRow(
                each.resource["resourceType"], each.resource["id"], _updated(each.resource), body
            )
        )
    return IndexBatch(
        resource_rows=heads,
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
    found = dates.parse_time_range(said) if isinstance(said, str) else None
    return found.low_utc if found else None
