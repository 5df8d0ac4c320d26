"""Load resources into a record: all of them, or none.

A resource whose type and id exist already is replaced and keeps its position in the order.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from archqa.errors import InputError
from archqa.fhir.index import checksums, schema
from archqa.fhir.index.batch import IndexBatch, ResourceRow
from archqa.fhir.index.blobs import BlobReader, decompress_blob
from archqa.fhir.index.conditional_references import resolve_conditional_references
from archqa.fhir.index.indexer import Indexer
from archqa.fhir.index.interner import Interner
from archqa.fhir.index.load_report import LoadProgress, LoadReport
from archqa.fhir.index.reference_graph import sql_parts
from archqa.fhir.index.sources import FILE_SUFFIXES, Source, SourceChunk
from archqa.fhir.index.workers import IndexWorkers, worker_count_for
from archqa.fhir.values import dates

_BATCH_SIZE = 2000
"""Chunks (mostly lines) of a batch."""

_MAX_REPORTED_MISTAKES = 200
"""Mistakes of a load that are described; all are counted."""

_MAX_NAMED_CONFLICTS = 20
"""Resources with several versions that are named; all are counted."""


class _StoredResource(NamedTuple):
    n: int
    version: int
    d: int
    blob: bytes


class _SeenNumbers:
    """A set of the numbers of resources, with a bit for each: a record may have many millions."""

    def __init__(self) -> None:
        self._bits: dict[int, bytearray] = {}

    def add(self, n: int) -> bool:
        """Add a number; return whether it is new."""
        part, position = divmod(n, 2**16)
        index, bit = divmod(position, 8)
        bits = self._bits.setdefault(part, bytearray(2**13))
        is_new = not bits[index] & 1 << bit
        bits[index] |= 1 << bit
        return is_new


class Loader:
    """Insert batches within a transaction of the caller."""

    def __init__(
        self,
        connection: Connection,
        schema_name: str = "main",
        floor: int = 1,
    ) -> None:
        self._connection = connection
        self._schema = schema_name
        self._interner = Interner(connection, schema_name, floor)
        self._indexer = Indexer(connection, self._interner, schema_name)
        self._reader = BlobReader(connection)
        (largest,) = connection.execute("SELECT ifnull(max(n), 0) FROM resource").fetchone()
        # An empty record has no indexes until its load ends: remember what was added instead.
        self._added: dict[tuple[str, int], int] | None = None if largest else {}
        self._last_n = max(largest, floor - 1)
        self._now = dates.utc_now_microseconds()
        self._seen = _SeenNumbers()
        self.by_type: Counter[str] = Counter()
        """The resources that were inserted or there already, each once."""
        self.conflicting: dict[tuple[str, int], str] = {}
        """The resources of which several versions were inserted, as `Type/id`."""

    def insert_batch(self, batch: IndexBatch) -> Counter[str]:
        """Insert a batch; return how many resources were `added`, `replaced` and `unchanged`."""
        keys = [(row.id, self._interner.type_id(row.type)) for row in batch.resource_rows]
        self._interner.flush()
        d = self._write_dictionary(batch.dictionary)
        last_positions = {key: position for position, key in enumerate(keys)}
        outcomes: Counter[str] = Counter()
        numbers = [0] * len(keys)
        new_rows: list[tuple[Any, ...]] = []
        for position, (key, row) in enumerate(zip(keys, batch.resource_rows, strict=True)):
            if last_positions[key] != position:
                later = batch.resource_rows[last_positions[key]]
                if later.blob != row.blob:
                    self._note_conflict(key, row)
                outcomes["unchanged" if later.blob == row.blob else "replaced"] += 1
                continue
            n, outcome = self._insert_or_replace(key, row, d, batch.dictionary)
            outcomes[outcome] += 1
            if self._seen.add(n):
                self.by_type[row.type] += 1
            elif outcome == "replaced":
                self._note_conflict(key, row)
            if outcome != "unchanged":
                numbers[position] = n
            if outcome == "added":
                resource_id, type_id = key
                new_rows.append((n, type_id, resource_id, 1, self._updated(row), d, row.blob))
        insert = f"INSERT INTO {self._schema}.resource VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._connection.executemany(insert, new_rows)
        self._indexer.write(batch, numbers)
        return outcomes

    def _insert_or_replace(
        self, key: tuple[str, int], row: ResourceRow, d: int, dictionary: bytes
    ) -> tuple[int, str]:
        """Return the number of a resource, and whether it is `added`, `replaced` or `unchanged`.

        Replaces an existing row; the caller inserts added rows.
        """
        stored = self._stored(key)
        if stored is None:
            self._last_n += 1
            if self._added is not None:
                self._added[key] = self._last_n
            return self._last_n, "added"
        text = self._reader.decompress(stored.d, stored.blob)
        if text == decompress_blob(dictionary, row.blob):
            return stored.n, "unchanged"
        self._indexer.remove(stored.n)
        columns = "version = ?, updated = ?, d = ?, body = ?"
        update = f"UPDATE {self._schema}.resource SET {columns} WHERE n = ?"
        values = (stored.version + 1, self._updated(row), d, row.blob, stored.n)
        self._connection.execute(update, values)
        return stored.n, "replaced"

    def _note_conflict(self, key: tuple[str, int], row: ResourceRow) -> None:
        self.conflicting[key] = f"{row.type}/{row.id}"

    def count_unresolved(self) -> int:
        """Return how many ids that references name by `urn:` no resource has."""
        count = 0
        for part in sql_parts(self._indexer.unresolved_targets):
            exists = "SELECT 1 FROM resource r WHERE r.id = x.id"
            sql = f"SELECT count(*) FROM target x WHERE t IN ({part}) AND NOT EXISTS ({exists})"
            count += self._connection.execute(sql).fetchone()[0]
        return count

    def count_stored(self) -> int:
        """Return the number of resources in the record."""
        return int(self._connection.execute("SELECT count(*) FROM resource").fetchone()[0])

    def _updated(self, row: ResourceRow) -> int:
        return self._now if row.updated is None else row.updated

    def _stored(self, key: tuple[str, int]) -> _StoredResource | None:
        """Return the stored resource with this id and type."""
        select = "SELECT n, version, d, body FROM resource"
        if self._added is None:
            cursor = self._connection.execute(f"{select} WHERE id = ? AND type = ?", key)
        elif key in self._added:
            cursor = self._connection.execute(f"{select} WHERE n = ?", (self._added[key],))
        else:
            return None
        row = cursor.fetchone()
        return _StoredResource(*row) if row else None

    def _write_dictionary(self, content: bytes) -> int:
        """Write a compression dictionary and return its number, 0 for an empty one."""
        if not content:
            return 0
        (largest,) = self._connection.execute("SELECT ifnull(max(d), 0) FROM dictionary").fetchone()
        d = int(largest) + 1
        insert = f"INSERT INTO {self._schema}.dictionary VALUES (?, ?)"
        self._connection.execute(insert, (d, content))
        return d


def load(
    connection: Connection,
    paths: Iterable[str | Path],
    *,
    strict: bool = False,
    progress: Callable[[LoadProgress], None] | None = None,
) -> LoadReport:
    """Load files and folders in one transaction.

    Raises `InputError` for absent files, also of those that a checksum list names in a folder, for
    checksums that differ and, if `strict`, for the first file with mistakes, with all of its
    mistakes; the record is then unchanged.
    """
    named_paths = [Path(path) for path in paths]
    files = _files(named_paths)
    verified = checksums.verify_checksums(named_paths, files)
    connection.execute("BEGIN IMMEDIATE")
    try:
        any_resource = connection.execute("SELECT 1 FROM resource LIMIT 1").fetchone()
        is_empty = any_resource is None
        if is_empty:
            schema.drop_indexes(connection)
        running = _Load(
            connection,
            files,
            strict,
            progress,
            frozenset(named_paths),
        )
        running.run()
        if is_empty:
            schema.create_indexes(connection)
        running.resolve_conditional_references()
        report = running.report(verified)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return report


class _Load:
    """A running load."""

    def __init__(
        self,
        connection: Connection,
        files: list[Path],
        strict: bool,
        progress: Callable[[LoadProgress], None] | None,
        named_paths: frozenset[Path],
    ) -> None:
        self._connection = connection
        self._loader = Loader(connection)
        self._files = files
        self._strict = strict
        self._progress = progress
        self._named_paths = named_paths
        self._bytes_total = sum(path.stat().st_size for path in files)
        self._bytes_of_finished_files = 0
        self._outcomes: Counter[str] = Counter()
        self._unindexed = 0
        self._remarks: list[str] = []
        self._mistakes: list[str] = []
        self._skipped: list[str] = []
        self._mistake_count = 0
        self._bundles = 0
        self._without_resource = 0
        self._conditional = 0

    def run(self) -> None:
        """Load all files."""
        with IndexWorkers(worker_count_for(self._bytes_total)) as workers:
            pending: deque[tuple[Source, Future[IndexBatch] | None]] = deque()
            for source, chunks in self._chunks():
                future = None
                if chunks is not None:
                    future = workers.submit(chunks)
                pending.append((source, future))
                while len(pending) > workers.max_pending:
                    self._finish(*pending.popleft())
            while pending:
                self._finish(*pending.popleft())

    def resolve_conditional_references(self) -> None:
        """Resolve them when the indexes exist: what they name may have come last."""
        reasons = resolve_conditional_references(self._connection)
        self._conditional = reasons.total()
        for reason, count in sorted(reasons.items()):
            self._remarks.append(f"{count} conditional references to {reason}")

    def report(self, verified: checksums.ChecksumReport) -> LoadReport:
        """Return the report, when the indexes exist."""
        return LoadReport(
            files=len(self._files),
            added=self._outcomes["added"],
            replaced=self._outcomes["replaced"],
            unchanged=self._outcomes["unchanged"],
            by_type=dict(sorted(self._loader.by_type.items())),
            stored=self._loader.count_stored(),
            unresolved=self._loader.count_unresolved(),
            unindexed=self._unindexed,
            bundles=self._bundles,
            without_resource=self._without_resource,
            conflicting=len(self._loader.conflicting),
            conditional=self._conditional,
            bad=self._mistake_count,
            mistakes=tuple(self._mistakes),
            skipped=tuple(self._skipped),
            checksums=verified.checked,
            remarks=(*verified.remarks, *self._remarks, *self._conflict_remarks()),
        )

    def _conflict_remarks(self) -> list[str]:
        names = list(self._loader.conflicting.values())
        if not names:
            return []
        shown = ", ".join(names[:_MAX_NAMED_CONFLICTS])
        more = ", …" if len(names) > _MAX_NAMED_CONFLICTS else ""
        several = f"{len(names)} resources are in the files in several versions"
        return [f"{several}; the last of each is stored: {shown}{more}"]

    def _chunks(self) -> Iterator[tuple[Source, list[SourceChunk] | None]]:
        """Yield the chunks of each source in batches, and None at its end."""
        for path in self._files:
            source = Source(path)
            chunks = source.chunks()
            while batch := list(islice(chunks, _BATCH_SIZE)):
                yield source, batch
            yield source, None

    def _finish(self, source: Source, future: "Future[IndexBatch] | None") -> None:
        """Insert a batch when it is ready, or finish the source."""
        if future is None:
            self._finish_source(source)
            return
        batch = future.result()
        source.mistakes += batch.mistakes
        source.is_fhir &= batch.is_fhir
        self._outcomes += self._loader.insert_batch(batch)
        self._note_unindexed(batch)
        self._note_bundles(source, batch)
        self._report_progress(source, self._bytes_of_finished_files + source.position())

    def _note_unindexed(self, batch: IndexBatch) -> None:
        for n, count in batch.unindexed.items():
            self._unindexed += count
            if len(self._remarks) < _MAX_REPORTED_MISTAKES:
                row = batch.resource_rows[n]
                self._remarks.append(
                    f"{row.type}/{row.id}: {count} references by urn:uuid: are not indexed"
                )

    def _note_bundles(self, source: Source, batch: IndexBatch) -> None:
        self._bundles += batch.bundles
        self._without_resource += batch.without_resource
        for remark in batch.remarks[: _MAX_REPORTED_MISTAKES - len(self._remarks)]:
            self._remarks.append(f"{source.path}{remark}")

    def _finish_source(self, source: Source) -> None:
        """Report the mistakes of a file. A JSON file of a folder that is no FHIR is skipped."""
        if not source.is_fhir and source.path not in self._named_paths:
            self._skipped.append(str(source.path))
            source.mistakes.clear()
        if source.mistakes and self._strict:
            fix = "Nothing was loaded. Correct the file, or leave --strict away."
            raise InputError(source.path, source.mistakes, fix)
        unused = _MAX_REPORTED_MISTAKES - len(self._mistakes)
        for mistake in source.mistakes[:unused]:
            self._mistakes.append(f"{source.path}{mistake}")
        self._mistake_count += len(source.mistakes)
        self._bytes_of_finished_files += source.path.stat().st_size
        self._report_progress(source, self._bytes_of_finished_files)

    def _report_progress(self, source: Source, bytes_read: int) -> None:
        if self._progress is None:
            return
        progress = LoadProgress(
            file=source.path.name,
            resources=sum(self._outcomes.values()),
            bytes_read=bytes_read,
            bytes_total=self._bytes_total,
        )
        self._progress(progress)


def _files(paths: list[Path]) -> list[Path]:
    """Return the files of the named paths, those of a folder sorted by name.

    Raises `InputError` for a path that is absent or a folder without FHIR files.
    """
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            files.update(dict.fromkeys(_files_in(path)))
        elif path.is_file():
            files[path] = None
        else:
            fix = "Name FHIR files (NDJSON, Bundles) or their folder."
            raise InputError(path, [": no such file or folder."], fix)
    return list(files)


def _files_in(folder: Path) -> list[Path]:
    named = [path for path in folder.rglob("*") if path.name.endswith(FILE_SUFFIXES)]
    files = sorted(path for path in named if path.is_file())
    if not files:
        fix = f"Their names end in {', '.join(FILE_SUFFIXES)}."
        raise InputError(folder, [": holds no FHIR files."], fix)
    return files
