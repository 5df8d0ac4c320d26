"""Puts resources into a record: all of them, or none.

A resource that is there already under its type and id is replaced and keeps its place in the order.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from archqa.core.value import Value
from archqa.errors import InputError
from archqa.fhir import checksums, dates, schema
from archqa.fhir.bodies import Reader, Writer
from archqa.fhir.indexer import Indexer
from archqa.fhir.interner import Interner
from archqa.fhir.references import Target
from archqa.fhir.sources import ENDINGS, Found, Source

BATCH = 5000
_KEPT = 200
"""Of the mistakes of one load, so many are kept in words; all are counted."""


class LoadProgress(Value):
    """How far a load is. Bytes are those of the files as they lie on disk."""

    file: str
    resources: int
    bytes_read: int
    bytes_total: int


class LoadReport(Value):
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
    """Puts resources in, within a transaction that somebody else begins and ends."""

    def __init__(self, connection: sqlite3.Connection, schema_name: str = "main", floor: int = 1) -> None:
        self._connection = connection
        self._schema = schema_name
        self._interner = Interner(connection, schema_name, floor)
        self._indexer = Indexer(connection, self._interner, schema_name)
        self._writer = Writer(connection, schema_name)
        self._reader = Reader(connection)
        (last,) = connection.execute("SELECT ifnull(max(n), 0) FROM resource").fetchone()
        self._n = max(last, floor - 1)
        self._at = dates.now()
        self._waiting = 0

    def learn(self, texts: list[bytes]) -> None:
        """A new source begins with these texts."""
        self._writer.learn(texts)

    def put(self, text: str, resource: dict[str, Any], names: Mapping[str, Target] | None = None) -> str:
        """Put one resource in; whether it was `added`, `replaced` or `unchanged`."""
        k = self._interner.type(resource["resourceType"])
        find = "SELECT n, version, d, body FROM resource WHERE id = ? AND type = ?"
        there = self._connection.execute(find, (resource["id"], k)).fetchone()
        if there and self._reader.unpack(*there[2:]) == text:
            return "unchanged"
        d, body = self._writer.pack(text.encode())
        if there:
            n = int(there[0])
            self._indexer.remove(n)
            update = f"UPDATE {self._schema}.resource SET version = ?, updated = ?, d = ?, body = ? WHERE n = ?"
            self._connection.execute(update, (there[1] + 1, self._updated(resource), d, body, n))
        else:
            self._n = n = self._n + 1
            insert = f"INSERT INTO {self._schema}.resource VALUES (?, ?, ?, 1, ?, ?, ?)"
            self._connection.execute(insert, (n, k, resource["id"], self._updated(resource), d, body))
        self._indexer.add(n, resource, names or {})
        self._waiting += 1
        if self._waiting >= BATCH:
            self.write()
        return "replaced" if there else "added"

    def write(self) -> None:
        """Write down what waits."""
        self._indexer.write()
        self._waiting = 0

    def _updated(self, resource: dict[str, Any]) -> int:
        """When the resource last changed: as it says, else now."""
        meta = resource.get("meta")
        said = meta.get("lastUpdated") if isinstance(meta, dict) else None
        found = dates.stretch(said) if isinstance(said, str) else None
        return found.low_utc if found else self._at


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
    checked = checksums.verify(files)
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
        self._outcomes = {"added": 0, "replaced": 0, "unchanged": 0}
        self._by_type: dict[str, int] = {}
        self._mistakes: list[str] = []
        self._skipped: list[str] = []
        self._bad = 0

    def run(self, checked: int) -> LoadReport:
        for path in self._files:
            source = Source(path)
            self._take(source)
            self._close(source)
        self._loader.write()
        return LoadReport(
            files=len(self._files),
            **self._outcomes,
            by_type=dict(sorted(self._by_type.items())),
            bad=self._bad,
            mistakes=tuple(self._mistakes),
            skipped=tuple(self._skipped),
            checksums=checked,
        )

    def _take(self, source: Source) -> None:
        for text, resource, names in self._sampled(source.resources()):
            self._outcomes[self._loader.put(text, resource, names)] += 1
            kind = resource["resourceType"]
            self._by_type[kind] = self._by_type.get(kind, 0) + 1
            if sum(self._outcomes.values()) % BATCH == 0:
                self._tell(source)

    def _sampled(self, resources: Iterator[Found]) -> Iterator[Found]:
        """The resources, after the first of them have served as a sample of what is to come."""
        first = list(islice(resources, 1000))
        self._loader.learn([found.text.encode() for found in first])
        return chain(first, resources)

    def _close(self, source: Source) -> None:
        """Count the mistakes of a file that has been read. A JSON file of a folder that is no FHIR is only skipped."""
        if not source.is_fhir and source.path not in self._named:
            self._skipped.append(str(source.path))
            source.mistakes.clear()
        if source.mistakes and self._strict:
            raise InputError(source.path, source.mistakes, "Nothing was loaded. Mend the file, or leave --strict away.")
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
        self._progress(LoadProgress(file=source.path.name, resources=done, bytes_read=read, bytes_total=self._total))


def _files(paths: list[Path]) -> list[Path]:
    """The files of what was named, folders sorted by name. Raises `InputError` for what is absent or holds nothing."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.is_file() and each.name.endswith(ENDINGS))
            if not inside:
                raise InputError(path, [": holds no FHIR files."], f"Their names end in {', '.join(ENDINGS)}.")
            found.update(dict.fromkeys(inside))
        elif path.is_file():
            found[path] = None
        else:
            raise InputError(path, [": no such file or folder."], "Name FHIR files (NDJSON, Bundles) or their folder.")
    return list(found)
