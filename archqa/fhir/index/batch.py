"""Index batches: resources with their index rows, ready to be written to a record."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archqa.fhir.index.blobs import compress_blobs
from archqa.fhir.index.resource_reader import ParsedResource, ResourceParser
from archqa.fhir.index.row_extractor import IndexRowExtractor
from archqa.fhir.index.sources import SourceChunk
from archqa.fhir.values import dates
from archqa.fhir.values.element_values import CodedTerm
from archqa.fhir.values.references import ReferenceTarget


class ResourceRow(NamedTuple):
    """A resource's type, id, last change (UTC microseconds since 0001) and compressed text."""

    type: str
    id: str
    updated: int | None
    blob: bytes


@dataclass
class IndexBatch:
    """Resources, their index rows with batch-local numbers, and the mistakes of the source.

    `flags` are settings that the record needs for searches to be right. `unindexed` maps a
    resource's position to the number of its references that have no row. With `has_items`, there
    are rows of single items, such as the components of an Observation.
    """

    resource_rows: list[ResourceRow]
    dictionary: bytes
    rows: dict[str, list[tuple[Any, ...]]]
    elements: list[tuple[str, str, str]]
    terms: list[CodedTerm]
    targets: list[ReferenceTarget]
    max_durations: dict[int, int]
    used_terms: set[tuple[int, int]]
    flags: set[str] = field(default_factory=set)
    unindexed: dict[int, int] = field(default_factory=dict)
    unresolved_targets: set[int] = field(default_factory=set)
    has_items: bool = False
    mistakes: list[str] = field(default_factory=list)
    is_fhir: bool = True
    remarks: list[str] = field(default_factory=list)
    bundles: int = 0
    without_resource: int = 0


def build_index_batch(chunks: Iterable[SourceChunk]) -> IndexBatch:
    """Read chunks of one source and extract the index rows of their resources."""
    parser = ResourceParser()
    resources = [resource for chunk in chunks for resource in parser.parse(chunk)]
    batch = index_batch_of(resources)
    batch.mistakes = parser.mistakes
    batch.is_fhir = parser.is_fhir
    batch.remarks = parser.remarks
    batch.bundles = parser.bundles
    batch.without_resource = parser.without_resource
    return batch


def index_batch_of(resources: list[ParsedResource]) -> IndexBatch:
    """Extract the index rows of parsed resources."""
    extractor = IndexRowExtractor()
    compressed = compress_blobs([parsed.text.encode() for parsed in resources])
    resource_rows = []
    for n, (parsed, blob) in enumerate(zip(resources, compressed.blobs, strict=True)):
        resource = parsed.resource
        extractor.add(n, resource, parsed.urn_targets)
        row = ResourceRow(
            resource["resourceType"],
            resource["id"],
            _last_updated(resource),
            blob,
        )
        resource_rows.append(row)
    return IndexBatch(
        resource_rows=resource_rows,
        dictionary=compressed.dictionary,
        rows=extractor.rows,
        elements=extractor.elements.values,
        terms=extractor.terms.values,
        targets=extractor.targets.values,
        max_durations=extractor.max_durations,
        used_terms=extractor.used_terms,
        flags=extractor.flags,
        unindexed=dict(extractor.unindexed),
        unresolved_targets=extractor.unresolved_targets,
        has_items=extractor.has_items,
    )


def _last_updated(resource: dict[str, Any]) -> int | None:
    meta = resource.get("meta")
    text = meta.get("lastUpdated") if isinstance(meta, dict) else None
    time_range = dates.parse_time_range(text) if isinstance(text, str) else None
    return time_range.low_utc if time_range else None
