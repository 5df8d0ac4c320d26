"""Puts resources into a record: all of them, or none.

A resource that is there already under its type and id is replaced and keeps its place in the order.
"""

import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any

from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.fhir.index import checksums, schema
from archqa.fhir.index.batch import IndexBatch
from archqa.fhir.index.blobs import BlobReader, decompress_blob
from archqa.fhir.index.indexer import Indexer
from archqa.fhir.index.interner import Interner
from archqa.fhir.index.sources import FILE_SUFFIXES, Source, SourceChunk
from archqa.fhir.index.workers import IndexWorkers, worker_count_for
from archqa.fhir.values import dates

BATCH = 2000
"""Lines that are worked on at a time."""

_KEPT = 200
"""Of the mistakes of one load, so many are kept in words; all are counted."""


class LoadProgress(FrozenModel):
    """How far a load is. Bytes are those of the files as they lie on disk."""

    file: str
    resources: int
    bytes_read: int
    bytes_total: int


class LoadReport(FrozenModel):
    """What a load did. `mistakes` are the first 200, as `file:line: what`; `skipped` files were no FHIR at all."""

    files: int
    added: int
    replaced: int
    unchanged: int
    by_type: dict[str, int]
    bad: int
    mistakes: tuple[str, ...]
    skipped: tuple[str, ...]
    checksums: int


class Loader:
    """Puts batches in, within a transaction that somebody else begins and ends."""

    def __init__(
        self, connection: sqlite3.Connection, schema_name: str = "main", floor: int = 1
    ) -> None:
        self._connection = connection
        self._schema = schema_name
        self._interner = Interner(connection, schema_name, floor)
        self._indexer = Indexer(connection, self._interner, schema_name)
        self._reader = BlobReader(connection)
        (last,) = connection.execute("SELECT ifnull(max(n), 0) FROM resource").fetchone()
        # What an empty record has been given is known without asking it: its indexes are made at the end.
        self._given: dict[tuple[str, int], int] | None = None if last else {}
        self._n = max(last, floor - 1)
        self._at = dates.utc_now_microseconds()

    def put(self, batch: IndexBatch) -> Counter[str]:
        """Put a batch in; how many were `added`, `replaced` and `unchanged`."""
        keys = [(head.id, self._interner.type(head.type)) for head in batch.resource_rows]
        self._interner.write()
        d = self._dictionary(batch.dictionary)
        last = {key: place for place, key in enumerate(keys)}
        outcomes: Counter[str] = Counter()
        numbers = [0] * len(keys)
        new: list[tuple[Any, ...]] = []
        for place, (key, head) in enumerate(zip(keys, batch.resource_rows, strict=True)):
            if last[key] != place:
                outcomes["replaced"] += 1  # By a later one of the same batch.
                continue
            row = (1, self._at if head.updated is None else head.updated, d, head.body)
            n, outcome = self._place(key, row, batch.dictionary)
            outcomes[outcome] += 1
            numbers[place] = 0 if outcome == "unchanged" else n
            if outcome == "added":
                new.append((n, key[1], key[0], *row))
        self._connection.executemany(
            f"INSERT INTO {self._schema}.resource VALUES (?, ?, ?, ?, ?, ?, ?)", new
        )
        self._indexer.write(batch, numbers)
        return outcomes

    def _place(
        self, key: tuple[str, int], row: tuple[int, int, int, bytes], dictionary: bytes
    ) -> tuple[int, str]:
        """The number a resource has or gets, and what becomes of it."""
        there = self._there(key)
        if there is None:
            self._n += 1
            if self._given is not None:
                self._given[key] = self._n
            return self._n, "added"
        n, version, d, body = there
        if self._reader.decompress(d, body) == decompress_blob(dictionary, row[3]):
            return n, "unchanged"
        self._indexer.remove(n)
        update = f"UPDATE {self._schema}.resource SET version = ?, updated = ?, d = ?, body = ? WHERE n = ?"
        self._connection.execute(update, (version + 1, *row[1:], n))
        return n, "replaced"

    def _there(self, key: tuple[str, int]) -> tuple[int, int, int, bytes] | None:
        """Number, version, dictionary and body of the resource that is there under this id and type."""
        if self._given is not None and key not in self._given:
            return None
        where, args = (
            ("id = ? AND type = ?", key) if self._given is None else ("n = ?", (self._given[key],))
        )
        row = self._connection.execute(
            f"SELECT n, version, d, body FROM resource WHERE {where}", args
        ).fetchone()
        return None if row is None else (row[0], row[1], row[2], row[3])

    def _dictionary(self, content: bytes) -> int:
        """The number of a new dictionary."""
        if not content:
            return 0
        (last,) = self._connection.execute("SELECT ifnull(max(d), 0) FROM dictionary").fetchone()
        self._connection.execute(
            f"INSERT INTO {self._schema}.dictionary VALUES (?, ?)", (last + 1, content)
        )
        return int(last) + 1


def load(
    connection: sqlite3.Connection,
    paths: Iterable[str | Path],
    *,
    strict: bool = False,
    progress: Callable[[LoadProgress], None] | None = None,
) -> LoadReport:
    """Load files and folders in one transaction.

    Raises `InputError` for what is absent or differs from its checksum and, if `strict`, for the first file with
    mistakes, all of its mistakes at once; the record is then as it was before.
    """
    named = [Path(path) for path in paths]
    files = _files(named)
    checked = checksums.verify_checksums(files)
    connection.execute("BEGIN IMMEDIATE")
    try:
        fresh = connection.execute("SELECT 1 FROM resource LIMIT 1").fetchone() is None
        if fresh:
            schema.drop_indexes(connection)
        report = _Load(connection, files, strict, progress, frozenset(named)).run(checked)
        if fresh:
            schema.create_indexes(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return report


class _Load:
    """One load under way."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        files: list[Path],
        strict: bool,
        progress: Callable[[LoadProgress], None] | None,
        named: frozenset[Path],
    ) -> None:
        self._loader = Loader(connection)
        self._files = files
        self._strict = strict
        self._progress = progress
        self._named = named
        self._total = sum(path.stat().st_size for path in files)
        self._before = 0
        self._outcomes: Counter[str] = Counter()
        self._by_type: Counter[str] = Counter()
        self._mistakes: list[str] = []
        self._skipped: list[str] = []
        self._bad = 0

    def run(self, checked: int) -> LoadReport:
        with IndexWorkers(worker_count_for(self._total)) as workshop:
            under_way: deque[tuple[Source, Future[IndexBatch] | None]] = deque()
            for source, batch in self._batches():
                under_way.append((source, None if batch is None else workshop.submit(batch)))
                while len(under_way) > workshop.ahead:
                    self._take(*under_way.popleft())
            while under_way:
                self._take(*under_way.popleft())
        return LoadReport(
            files=len(self._files),
            added=self._outcomes["added"],
            replaced=self._outcomes["replaced"],
            unchanged=self._outcomes["unchanged"],
            by_type=dict(sorted(self._by_type.items())),
            bad=self._bad,
            mistakes=tuple(self._mistakes),
            skipped=tuple(self._skipped),
            checksums=checked,
        )

    def _batches(self) -> Iterator[tuple[Source, list[SourceChunk] | None]]:
        """The pieces of each source, some thousand at a time, and None at its end."""
        for path in self._files:
            source = Source(path)
            pieces = source.pieces()
            while batch := list(islice(pieces, BATCH)):
                yield source, batch
            yield source, None

    def _take(self, source: Source, ready: "Future[IndexBatch] | None") -> None:
        if ready is None:
            self._close(source)
            return
        batch = ready.result()
        source.mistakes += batch.mistakes
        source.is_fhir &= batch.is_fhir
        self._outcomes += self._loader.put(batch)
        self._by_type.update(head.type for head in batch.resource_rows)
        self._tell(source)

    def _close(self, source: Source) -> None:
        """Count the mistakes of a file that has been read. A JSON file of a folder that is no FHIR is only skipped."""
        if not source.is_fhir and source.path not in self._named:
            self._skipped.append(str(source.path))
            source.mistakes.clear()
        if source.mistakes and self._strict:
            raise InputError(
                source.path,
                source.mistakes,
                "Nothing was loaded. Mend the file, or leave --strict away.",
            )
        room = _KEPT - len(self._mistakes)
        self._mistakes += [f"{source.path}{mistake}" for mistake in source.mistakes[:room]]
        self._bad += len(source.mistakes)
        self._before += source.path.stat().st_size
        self._tell(source, at_end=True)

    def _tell(self, source: Source, *, at_end: bool = False) -> None:
        if self._progress is None:
            return
        read = self._before if at_end else self._before + source.position()
        done = sum(self._outcomes.values())
        self._progress(
            LoadProgress(
                file=source.path.name, resources=done, bytes_read=read, bytes_total=self._total
            )
        )


def _files(paths: list[Path]) -> list[Path]:
    """The files of what was named, folders sorted by name. Raises `InputError` for what is absent or holds nothing."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(
                each
                for each in path.rglob("*")
                if each.is_file() and each.name.endswith(FILE_SUFFIXES)
            )
            if not inside:
                raise InputError(
                    path,
                    [": holds no FHIR files."],
                    f"Their names end in {', '.join(FILE_SUFFIXES)}.",
                )
            found.update(dict.fromkeys(inside))
        elif path.is_file():
            found[path] = None
        else:
            raise InputError(
                path,
                [": no such file or folder."],
                "Name FHIR files (NDJSON, Bundles) or their folder.",
            )
    return list(found)
