"""Write a record as NDJSON, one file a type, so that it can be loaded again elsewhere.

    Patient.ndjson ...   a resource a line, in the order in which they were loaded
    dump.tsv             the number of resources in each file
    SHA256SUMS           the checksums that `fhir load` verifies

Source: hl7.org/fhir/R4/nd-json.html.
"""

import gzip
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import IO, NamedTuple

from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError
from archqa.fhir.client.http_client import FhirClient
from archqa.fhir.index.blobs import ResourceReader, StoredResource
from archqa.fhir.index.checksums import ChecksumList, digest
from archqa.fhir.index.sources import MAX_UNPACKED_BYTES
from archqa.fhir.index.sql import first_cell, first_column
from archqa.fhir.record import Entry
from archqa.fhir.store import LocalRecord
from archqa.fhir.values.text import on_one_line
from archqa.safety.files import open_private_file, storage_errors, write_private_text

COUNTS_NAME = "dump.tsv"
CHECKSUMS_NAME = "SHA256SUMS"

_PAGE_SIZE = "1000"
"""Resources that are asked of a server at once."""

_BATCH_SIZE = 500
"""Resources of a file that are in memory at once."""


class DumpProgress(NamedTuple):
    """The type that is being written, and the number of resources so far and in all."""

    resource_type: str
    resources: int
    total: int


class DumpReport(FrozenModel):
    """What was written.

    `reflowed` resources had line ends between their values, which are blanks in the files.
    """

    by_type: dict[str, int]
    files: tuple[str, ...]
    reflowed: int
    remarks: tuple[str, ...] = ()


def dump(
    record: LocalRecord | FhirClient,
    into: Path,
    *,
    compress: bool = False,
    force: bool = False,
    progress: Callable[[DumpProgress], None] | None = None,
) -> DumpReport:
    """Write all resources of a record into a folder: all, or nothing.

    `force` replaces an earlier dump. Raises `CallerError` for a folder that holds anything else,
    `InputError` if the record was written meanwhile, `StorageError`, and as `FhirClient` does.
    """
    with storage_errors(into):
        _check_folder(into, force=force)
        into.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _draft_folder(into) as draft:
            writer = _DumpWriter(draft, compress, progress)
            report = writer.write(record)
            # An earlier dump is removed last.
            former = draft.with_name(f"{draft.name}.former")
            if into.exists():
                into.rename(former)
            try:
                draft.rename(into)
            except OSError:
                if former.exists():
                    former.rename(into)
                raise
            shutil.rmtree(former, ignore_errors=True)
    return report


class _DumpWriter:
    """A running dump into a folder of its own."""

    def __init__(
        self,
        folder: Path,
        compress: bool,
        progress: Callable[[DumpProgress], None] | None,
    ) -> None:
        self._folder = folder
        self._suffix = ".ndjson.gz" if compress else ".ndjson"
        self._progress = progress
        self._by_type: dict[str, int] = {}
        self._reflowed = 0
        self._remarks: list[str] = []
        self._total = 0

    def write(self, record: LocalRecord | FhirClient) -> DumpReport:
        """Write the files and the lists of them."""
        counts = record.counts()
        self._total = sum(counts.values())
        if isinstance(record, FhirClient):
            for resource_type, count in counts.items():
                matches = record.matches(resource_type, {"_count": _PAGE_SIZE})
                of_type = (entry for entry in matches if entry.type == resource_type)
                written = self._write_type(resource_type, of_type)
                if written != count:
                    difference = f"the server counts {count} and sent {written}"
                    self._remarks.append(f"{resource_type}: {difference}")
        else:
            state = _state_of(record)
            for resource_type in counts:
                self._write_type(
                    resource_type, _resources_of_type(record, resource_type, state)
                )
            if _state_of(record).versions != state.versions:
                raise InputError(
                    record.path,
                    [": was loaded into meanwhile."],
                    "Nothing was written. Dump it again when no load is under way.",
                )
        names = []
        lines = ["type\tresources\tfile"]
        for resource_type, count in sorted(self._by_type.items()):
            name = f"{resource_type}{self._suffix}"
            names.append(name)
            lines.append(f"{resource_type}\t{count}\t{name}")
        _write_lines(self._folder / COUNTS_NAME, lines)
        sums = [
            f"{digest(self._folder / name)}  {name}" for name in [*names, COUNTS_NAME]
        ]
        _write_lines(self._folder / CHECKSUMS_NAME, sums)
        return DumpReport(
            by_type=dict(sorted(self._by_type.items())),
            files=tuple(names),
            reflowed=self._reflowed,
            remarks=tuple(self._remarks),
        )

    def _write_type(
        self, resource_type: str, resources: Iterable[Entry | StoredResource]
    ) -> int:
        count = 0
        with _open_lines(self._folder / f"{resource_type}{self._suffix}") as file:
            for resource in resources:
                text = on_one_line(resource.text)
                self._reflowed += text != resource.text
                if resource_type == "Bundle":
                    text = wrapped_bundle(text)
                line = f"{text}\n".encode()
                if self._suffix.endswith(".gz") and len(line) > MAX_UNPACKED_BYTES:
                    size = f"longer than {MAX_UNPACKED_BYTES // 2**20} MiB, too long to load"
                    problem = f"{resource_type}/{resource.id} is {size} from gzip."
                    raise CallerError(f"{problem}\nLeave --gzip away.")
                file.write(line)
                count += 1
                if count % 1000 == 0:
                    self._show(resource_type, count)
        self._by_type[resource_type] = count
        self._show(resource_type, 0)
        return count

    def _show(self, resource_type: str, count: int) -> None:
        if self._progress is not None:
            written = sum(self._by_type.values()) + count
            self._progress(DumpProgress(resource_type, written, self._total))


class _RecordState(NamedTuple):
    """What a record held at one moment: it is the same record as long as the versions are equal."""

    last_number: int
    versions: tuple[int, ...]


def _state_of(record: LocalRecord) -> _RecordState:
    """Return the state of a record now, as the calling thread sees it."""
    with record.read_session() as session:
        connection: Connection = session.connection
        last = first_cell(connection, "SELECT ifnull(max(n), 0) FROM resource")
        versions = []
        for _, name, file in connection.execute("PRAGMA database_list").fetchall():
            if file:
                versions.append(first_cell(connection, f"PRAGMA {name}.data_version"))
        return _RecordState(last, tuple(versions))


def _resources_of_type(
    record: LocalRecord,
    resource_type: str,
    state: _RecordState,
) -> Iterator[StoredResource]:
    """Yield the resources of a type in the order of the record, without those after `state`.

    Each batch is a read of its own: other threads search and write between two of them.
    """
    sql = (
        "SELECT n FROM resource WHERE type = (SELECT k FROM type WHERE name = ?)"
        " AND n > ? AND n <= ? ORDER BY n LIMIT ?"
    )
    last = -1
    while True:
        with record.read_session() as session:
            args = (resource_type, last, state.last_number, _BATCH_SIZE)
            numbers = first_column(session.connection, sql, args)
            resources = ResourceReader(session.connection).fetch(numbers)
        if not numbers:
            return
        yield from resources
        last = numbers[-1]


def wrapped_bundle(text: str) -> str:
    """Return a Bundle as the only entry of another: a load takes the outer one apart, not it."""
    return f'{{"resourceType": "Bundle", "type": "collection", "entry": [{{"resource": {text}}}]}}'


@contextmanager
def _open_lines(path: Path) -> Iterator[IO[bytes]]:
    """Open a private file to write to; the same lines give the same gzip."""
    with open_private_file(path) as raw:
        if path.suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile(
            "",
            "wb",
            6,
            raw,
            mtime=0,
        ) as file:
            yield file  # type: ignore[misc]


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    write_private_text(path, "".join(f"{line}\n" for line in lines))


def _check_folder(folder: Path, *, force: bool) -> None:
    """Raise `CallerError` for what is neither new nor empty, nor an earlier dump to replace."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise CallerError(f"{folder} is no folder.\nName a new folder with --into.")
    names = {path.name for path in folder.iterdir()}
    if not names:
        return
    dumped = {CHECKSUMS_NAME, *ChecksumList.read(folder / CHECKSUMS_NAME).digests}
    is_dump = {COUNTS_NAME, CHECKSUMS_NAME} <= names <= dumped
    if not is_dump:
        raise CallerError(
            f"{folder} holds files that are no dump.\nName a new folder with --into."
        )
    if not force:
        raise CallerError(
            f"{folder} holds an earlier dump.\nReplace it with --force, or name a new folder."
        )


@contextmanager
def _draft_folder(into: Path) -> Iterator[Path]:
    """Provide a private folder beside the target, which is removed if it is still there."""
    draft = into.parent / f".{into.name[:50]}.{secrets.token_hex(4)}"
    draft.mkdir(mode=0o700)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
