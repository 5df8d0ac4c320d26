"""Load resources into a record: all of them, or none.

A resource whose type and id exist already is replaced and keeps its position in the order.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.fhir.index import checksums, schema
from archqa.fhir.index.batch import (
    IndexBatch,
    IndexWorkers,
    ResourceRow,
    worker_count_for,
)
from archqa.fhir.index.blobs import BlobReader, decompress_blob
from archqa.fhir.index.indexer import Indexer, Interner
from archqa.fhir.index.sources import FILE_SUFFIXES, ConvertedShape, Source
from archqa.fhir.index.sql import first_cell, first_column, sql_marks, sql_parts
from archqa.fhir.record import FhirError
from archqa.fhir.values import dates
from archqa.fhir.values.search_parameters import parameters
from archqa.fhir.values.urls import parse_query_string, split_unescaped, unescape

_BATCH_SIZE = 2000
"""Chunks (mostly lines) of a batch."""

_MAX_REPORTED_MISTAKES = 200
"""Mistakes of a load that are described; all are counted."""

_MAX_NAMED_CONVERSIONS = 10
"""Resources of another FHIR version that are named; all are counted."""

_MAX_NAMED_CONFLICTS = 20
"""Resources with several versions that are named; all are counted."""


class LoadProgress(FrozenModel):
    """The progress of a load. Bytes are those of the files on disk."""

    file: str
    resources: int
    bytes_read: int
    bytes_total: int


class LoadReport(FrozenModel):
    """The result of a load.

    `added` resources are new in the record. `replaced` is how often a resource took the place of
    an earlier version, in the record or in the files, `unchanged` how often it was there already.
    `by_type` counts the resources of the files as they are stored, each once, and `stored` those
    of the whole record. `mistakes` are the first 200, as `file:line: what`; `skipped` files are no
    FHIR at all.

    `unresolved` is the number of `urn:uuid:…` that resources refer to and no resource has,
    `unindexed` that of references which the index leaves out: `remarks` name the first 200 of
    their resources, after those on checksum lists.

    `bundles` is how many Bundles were taken apart into their resources, `without_resource` how many
    of their entries hold none (requests to read or delete, mere responses), `conflicting` how many
    resources the files have in several versions, of which the last is stored, and `conditional` the
    number of references such as `Practitioner?identifier=…` that do not fit exactly one resource.

    `converted` is how many resources had the shape of another FHIR version and are stored in that
    of R4, `not_converted` how many of another version could not be converted as a whole: they are
    stored with a tag, and questions that need them say so. `remarks` name the files and versions.
    """

    files: int
    added: int
    replaced: int
    unchanged: int
    by_type: dict[str, int]
    stored: int = 0
    unresolved: int = 0
    unindexed: int = 0
    bundles: int = 0
    without_resource: int = 0
    conflicting: int = 0
    conditional: int = 0
    converted: int = 0
    not_converted: int = 0
    bad: int
    mistakes: tuple[str, ...]
    skipped: tuple[str, ...]
    checksums: int
    remarks: tuple[str, ...] = ()


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
        largest = first_cell(connection, "SELECT ifnull(max(n), 0) FROM resource")
        # An empty record has no indexes until its load ends: remember what was added instead.
        self._added: dict[tuple[str, int], int] | None = None if largest else {}
        self._last_n = max(largest, floor - 1)
        self._now = dates.utc_now_microseconds()
        sql = f"SELECT 1 FROM setting WHERE name LIKE '{schema.MALFORMED}%' LIMIT 1"
        self._has_malformed = first_cell(connection, sql) is not None
        self._seen = _SeenNumbers()
        self.by_type: Counter[str] = Counter()
        """The resources that were inserted or there already, each once."""
        self.conflicting: dict[tuple[str, int], str] = {}
        """The resources of which several versions were inserted, as `Type/id`."""

    def insert_batch(self, batch: IndexBatch) -> Counter[str]:
        """Insert a batch; return how many resources were `added`, `replaced` and `unchanged`."""
        keys = [
            (row.id, self._interner.type_id(row.type)) for row in batch.resource_rows
        ]
        self._interner.flush()
        d = 0
        if batch.dictionary:
            sql = "SELECT ifnull(max(d), 0) + 1 FROM dictionary"
            d = first_cell(self._connection, sql)
            insert = f"INSERT INTO {self._schema}.dictionary VALUES (?, ?)"
            self._connection.execute(insert, (d, batch.dictionary))
        last_positions = {key: position for position, key in enumerate(keys)}
        outcomes: Counter[str] = Counter()
        numbers = [0] * len(keys)
        new_rows: list[tuple[Any, ...]] = []
        for position, (key, row) in enumerate(
            zip(keys, batch.resource_rows, strict=True)
        ):
            if last_positions[key] != position:
                later = batch.resource_rows[last_positions[key]]
                if later.blob != row.blob:
                    self.conflicting[key] = f"{row.type}/{row.id}"
                outcomes["unchanged" if later.blob == row.blob else "replaced"] += 1
                continue
            n, outcome = self._insert_or_replace(
                key,
                row,
                d,
                batch.dictionary,
            )
            outcomes[outcome] += 1
            if self._seen.add(n):
                self.by_type[row.type] += 1
            elif outcome == "replaced":
                self.conflicting[key] = f"{row.type}/{row.id}"
            if outcome != "unchanged":
                numbers[position] = n
            if outcome == "added":
                resource_id, type_id = key
                updated = self._now if row.updated is None else row.updated
                new_rows.append((n, type_id, resource_id, 1, updated, d, row.blob))
        insert = f"INSERT INTO {self._schema}.resource VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._connection.executemany(insert, new_rows)
        self._indexer.write(batch.index, numbers)
        return outcomes

    def _insert_or_replace(
        self,
        key: tuple[str, int],
        row: ResourceRow,
        d: int,
        dictionary: bytes,
    ) -> tuple[int, str]:
        """Return the number of a resource, and whether it is `added`, `replaced` or `unchanged`.

        Replaces an existing row; the caller inserts added rows.
        """
        select = "SELECT n, version, d, body FROM resource"
        stored = None
        if self._added is None:
            cursor = self._connection.execute(
                f"{select} WHERE id = ? AND type = ?", key
            )
            stored = cursor.fetchone()
        elif key in self._added:
            cursor = self._connection.execute(
                f"{select} WHERE n = ?", (self._added[key],)
            )
            stored = cursor.fetchone()
        if stored is None:
            self._last_n += 1
            if self._added is not None:
                self._added[key] = self._last_n
            return self._last_n, "added"
        n, version, stored_d, blob = stored
        text = self._reader.decompress(stored_d, blob)
        if text == decompress_blob(dictionary, row.blob):
            return n, "unchanged"
        self._indexer.remove(n)
        columns = "version = ?, updated = ?, d = ?, body = ?"
        update = f"UPDATE {self._schema}.resource SET {columns} WHERE n = ?"
        updated = self._now if row.updated is None else row.updated
        self._connection.execute(update, (version + 1, updated, d, row.blob, n))
        return n, "replaced"

    def count_unresolved(self) -> int:
        """Return how many ids that references name by `urn:` no resource has."""
        count = 0
        for part in sql_parts(self._indexer.unresolved_targets):
            exists = "SELECT 1 FROM resource r WHERE r.id = x.id"
            sql = f"SELECT count(*) FROM target x WHERE t IN ({part}) AND NOT EXISTS ({exists})"
            count += first_cell(self._connection, sql)
        return count

    def note_malformed(
        self, rows: Iterable[ResourceRow], malformed: dict[str, str]
    ) -> None:
        """Note which of these resources are malformed, by `Type/id` with their patients."""
        self._has_malformed |= bool(malformed)
        if self._has_malformed:
            names = [(f"{schema.MALFORMED}{row.type}/{row.id}",) for row in rows]
            self._connection.executemany("DELETE FROM setting WHERE name = ?", names)
        new = [(f"{schema.MALFORMED}{name}", malformed[name]) for name in malformed]
        self._connection.executemany("INSERT INTO setting VALUES (?, ?)", new)

    def count_stored(self) -> int:
        """Return the number of resources in the record."""
        return int(first_cell(self._connection, "SELECT count(*) FROM resource"))


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
        is_empty = first_cell(connection, "SELECT 1 FROM resource LIMIT 1") is None
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
        # When the indexes exist: what conditional references name may have come last.
        report = running.report(verified, _resolve_conditional_references(connection))
        connection.execute("COMMIT")
    except BaseException:
        # SQLite itself rolls back where the disk is full.
        if connection.in_transaction:
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
        self._converted: Counter[bool] = Counter()

    def run(self) -> None:
        """Load all files."""
        with IndexWorkers(worker_count_for(self._bytes_total)) as workers:
            pending: deque[tuple[Source, Future[IndexBatch] | None]] = deque()
            for path in self._files:
                source = Source(path)
                chunks = source.chunks()
                while batch := list(islice(chunks, _BATCH_SIZE)):
                    pending.append((source, workers.submit(batch)))
                    self._finish(pending, workers.max_pending)
                pending.append((source, None))
                self._finish(pending, workers.max_pending)
            self._finish(pending, 0)

    def _finish(
        self,
        pending: "deque[tuple[Source, Future[IndexBatch] | None]]",
        max_pending: int,
    ) -> None:
        """Insert the first batches, each when it is ready, until few are pending.

        Instead of a batch, the end of a source may come: its mistakes are reported then.
        """
        while len(pending) > max_pending:
            source, future = pending.popleft()
            if future is None:
                self._finish_source(source)
                bytes_read = self._bytes_of_finished_files
            else:
                batch = future.result()
                parser = batch.parser
                source.mistakes += parser.mistakes
                source.is_fhir &= parser.is_fhir
                self._outcomes += self._loader.insert_batch(batch)
                for n, count in batch.index.unindexed.items():
                    self._unindexed += count
                    row = batch.resource_rows[n]
                    self._remark(
                        f"{row.type}/{row.id}: {count} references by urn:uuid: are not indexed"
                    )
                self._bundles += parser.bundles
                self._without_resource += parser.without_resource
                self._loader.note_malformed(batch.resource_rows, parser.malformed)
                for shape, names in parser.conversions.items():
                    source.conversions[shape] += names
                for remark in parser.remarks:
                    self._remark(f"{source.path}{remark}")
                bytes_read = self._bytes_of_finished_files + source.position()
            if self._progress is not None:
                progress = LoadProgress(
                    file=source.path.name,
                    resources=sum(self._outcomes.values()),
                    bytes_read=bytes_read,
                    bytes_total=self._bytes_total,
                )
                self._progress(progress)

    def _remark(self, text: str) -> None:
        if len(self._remarks) < _MAX_REPORTED_MISTAKES:
            self._remarks.append(text)

    def _finish_source(self, source: Source) -> None:
        """Report the mistakes of a file. A JSON file of a folder that is no FHIR is skipped."""
        if not source.is_fhir and source.path not in self._named_paths:
            self._skipped.append(str(source.path))
            source.mistakes.clear()
        if source.mistakes and self._strict:
            raise InputError(
                source.path,
                source.mistakes,
                "Nothing was loaded. Correct the file, or leave --strict away.",
            )
        for shape, names in sorted(source.conversions.items()):
            self._converted[not shape.not_converted] += len(names)
            self._remark(f"{source.path}: {_conversion_text(shape, names)}")
        unused = _MAX_REPORTED_MISTAKES - len(self._mistakes)
        for mistake in source.mistakes[:unused]:
            self._mistakes.append(f"{source.path}{mistake}")
        self._mistake_count += len(source.mistakes)
        self._bytes_of_finished_files += source.path.stat().st_size

    def report(
        self, verified: checksums.ChecksumReport, unresolved_conditions: Counter[str]
    ) -> LoadReport:
        """Return the report, when the indexes exist."""
        remarks = [*verified.remarks, *self._remarks]
        for reason, count in sorted(unresolved_conditions.items()):
            remarks.append(f"{count} conditional references to {reason}")
        names = list(self._loader.conflicting.values())
        if names:
            first_names = ", ".join(names[:_MAX_NAMED_CONFLICTS])
            more = ", …" if len(names) > _MAX_NAMED_CONFLICTS else ""
            several = f"{len(names)} resources are in the files in several versions"
            remarks.append(
                f"{several}; the last of each is stored: {first_names}{more}"
            )
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
            conflicting=len(names),
            conditional=unresolved_conditions.total(),
            converted=self._converted[True],
            not_converted=self._converted[False],
            bad=self._mistake_count,
            mistakes=tuple(self._mistakes),
            skipped=tuple(self._skipped),
            checksums=verified.checked,
            remarks=tuple(remarks),
        )


def _conversion_text(shape: ConvertedShape, names: list[str]) -> str:
    """What became of the resources of another FHIR version in a file."""
    text = f"{len(names)} {shape.type} in the shape of {shape.version}"
    if not shape.not_converted:
        return f"{text}; converted to R4."
    listed = ", ".join(names[:_MAX_NAMED_CONVERSIONS])
    more = ", …" if len(names) > _MAX_NAMED_CONVERSIONS else ""
    elements = ", ".join(shape.not_converted)
    return f"{text}; not converted, as R4 has no place for {elements}: {listed}{more}"


def _files(paths: list[Path]) -> list[Path]:
    """Return the files of the named paths, those of a folder sorted by name.

    Raises `InputError` for a path that is absent or a folder without FHIR files.
    """
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            named = [
                file for file in path.rglob("*") if file.name.endswith(FILE_SUFFIXES)
            ]
            files_in_folder = sorted(file for file in named if file.is_file())
            if not files_in_folder:
                fix = f"Their names end in {', '.join(FILE_SUFFIXES)}."
                raise InputError(path, [": holds no FHIR files."], fix)
            files.update(dict.fromkeys(files_in_folder))
        elif path.is_file():
            files[path] = None
        else:
            fix = "Name FHIR files (NDJSON, Bundles) or their folder."
            raise InputError(path, [": no such file or folder."], fix)
    return list(files)


def _resolve_conditional_references(connection: Connection) -> Counter[str]:
    """Resolve references like `Practitioner?identifier=system|value` that fit one resource.

    Return why others stay, each with their number; no text of the record is in the reasons. The
    indexes must be there. Synthea's Bundles name hospitals and practitioners this way, and may be
    loaded before these. Until then the target of such a reference has a condition instead of an id;
    every load tries to replace it. Sources: hl7.org/fhir/R4/http.html#trules, bundle.html#references.
    """
    moves: list[tuple[int, int]] = []
    unresolved: Counter[str] = Counter()
    has_patients = False
    # "@" is the character after "?": the range is that of all ids that begin with "?".
    placeholders = "SELECT t, id, type FROM target WHERE id >= '?' AND id < '@'"
    is_referred_to = (
        "SELECT 1 FROM element e CROSS JOIN reference x ON x.p = e.p AND x.t = ?"
        " WHERE e.kind = 'reference' AND e.used LIMIT 1"
    )
    for t, condition, resource_type in connection.execute(placeholders).fetchall():
        identifier = _identifier(condition)
        ids = _fitting_ids(connection, resource_type, identifier)
        if len(ids) == 1:
            key = (ids[0], resource_type)
            sql = "SELECT t FROM target WHERE id = ? AND type = ?"
            new = first_cell(connection, sql, key)
            if new is None:
                new = first_cell(connection, "SELECT max(t) + 1 FROM target")
                connection.execute("INSERT INTO target VALUES (?, ?, ?)", (new, *key))
            moves.append((t, new))
            has_patients |= resource_type == "Patient"
        elif first_cell(connection, is_referred_to, (t,)) is not None:
            reason = (
                "several resources fit" if ids else "no resource of the record fits"
            )
            if not identifier:
                reason = "they name no identifier to look for"
            unresolved[f"{resource_type}: {reason}"] += 1
    if moves:
        _move(connection, moves, has_patients=has_patients)
    return unresolved


def _identifier(condition: str) -> str:
    """Return the identifier that is the whole condition; "" if it is another one."""
    try:
        params = parse_query_string(condition[1:])
    except FhirError:
        return ""
    is_identifier = len(params) == 1 and params[0][0] == "identifier"
    value = params[0][1] if is_identifier else ""
    return "" if value.endswith("|") or len(split_unescaped(value, ",")) > 1 else value


def _fitting_ids(
    connection: Connection, resource_type: str, identifier: str
) -> list[str]:
    """Return the ids of up to two resources that have an identifier."""
    parameter = parameters(resource_type).get("identifier")
    if not identifier or parameter is None:
        return []
    *systems, value = map(unescape, split_unescaped(identifier, "|"))
    has_system = "AND m.system = ?" if len(systems) == 1 else ""
    # CROSS JOIN keeps the order: SQLite would read all identifiers of the type for each condition.
    sql = (
        "SELECT DISTINCT r.id FROM element e CROSS JOIN term m CROSS JOIN token x"
        " CROSS JOIN resource r WHERE x.p = e.p AND x.t = m.t AND r.n = x.n"
        f" AND e.type = ? AND e.kind = 'token' AND e.path IN ({sql_marks(parameter.elements)})"
        f" AND m.code = ? {has_system} LIMIT 2"
    )
    args = [resource_type, *parameter.elements, value, *(systems if has_system else ())]
    return first_column(connection, sql, args)


def _move(
    connection: Connection, moves: list[tuple[int, int]], *, has_patients: bool
) -> None:
    """Let the index rows of each old target be those of the new one."""
    connection.execute("CREATE TEMP TABLE moved (old INTEGER PRIMARY KEY, new INTEGER)")
    connection.executemany("INSERT INTO moved VALUES (?, ?)", moves)
    columns = [("reference", "t")]
    if has_patients:
        columns += [(table, "patient") for table in schema.INDEX_COLUMN_COUNTS]
    for table, column in columns:
        new = f"(SELECT new FROM moved WHERE old = {column})"
        is_moved = f"{column} IN (SELECT old FROM moved)"
        connection.execute(
            f"UPDATE OR REPLACE {table} SET {column} = {new} WHERE {is_moved}"
        )
    connection.execute("DELETE FROM target WHERE t IN (SELECT old FROM moved)")
    connection.execute("DROP TABLE moved")
