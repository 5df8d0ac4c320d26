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
from typing import IO, NamedTuple

from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError
from archqa.fhir.client.http_client import MAX_PAGES, FhirClient
from archqa.fhir.index.checksum_list import ChecksumList
from archqa.fhir.index.checksums import digest
from archqa.fhir.index.sources import MAX_UNPACKED_BYTES
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError
from archqa.fhir.values.text import on_one_line
from archqa.fhir.whole_record import is_unchanged, read_type, state_of
from archqa.safety.files import open_private_file, storage_errors, write_private_text

COUNTS_NAME = "dump.tsv"
CHECKSUMS_NAME = "SHA256SUMS"

_PAGE_SIZE = "1000"
"""Resources that are asked of a server at once."""


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


class _Text(NamedTuple):
    id: str
    text: str


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
            _replace(draft, into)
    return report


class _DumpWriter:
    """A running dump into a folder of its own."""

    def __init__(
        self, folder: Path, compress: bool, progress: Callable[[DumpProgress], None] | None
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
        if isinstance(record, FhirClient):
            self._write_server(record)
        else:
            self._write_file(record)
        return self._finish()

    def _write_file(self, record: LocalRecord) -> None:
        state = state_of(record)
        counts = record.counts()
        self._total = sum(counts.values())
        for resource_type in counts:
            batches = read_type(record, resource_type, state)
            texts = (_Text(stored.id, stored.text) for batch in batches for stored in batch)
            self._write_type(resource_type, texts)
        if not is_unchanged(record, state):
            fix = "Nothing was written. Dump it again when no load is under way."
            raise InputError(record.path, [": was loaded into meanwhile."], fix)

    def _write_server(self, client: FhirClient) -> None:
        counts = client.counts()
        self._total = sum(counts.values())
        for resource_type, count in counts.items():
            written = self._write_type(resource_type, _texts_of_server(client, resource_type))
            if written != count:
                difference = f"the server counts {count} and sent {written}"
                self._remarks.append(f"{resource_type}: {difference}")

    def _write_type(self, resource_type: str, texts: Iterable[_Text]) -> int:
        count = 0
        with _open_lines(self._folder / f"{resource_type}{self._suffix}") as file:
            for resource in texts:
                file.write(self._line(resource_type, resource))
                count += 1
                if count % 1000 == 0:
                    self._show(resource_type, count)
        self._by_type[resource_type] = count
        self._show(resource_type, 0)
        return count

    def _line(self, resource_type: str, resource: _Text) -> bytes:
        text = on_one_line(resource.text)
        if text != resource.text:
            self._reflowed += 1
        if resource_type == "Bundle":
            text = wrapped_bundle(text)
        line = f"{text}\n".encode()
        if self._suffix.endswith(".gz") and len(line) > MAX_UNPACKED_BYTES:
            size = f"is longer than {MAX_UNPACKED_BYTES // 2**20} MiB, too long to load from gzip"
            raise CallerError(f"{resource_type}/{resource.id} {size}.\nLeave --gzip away.")
        return line

    def _show(self, resource_type: str, count: int) -> None:
        if self._progress is not None:
            written = sum(self._by_type.values()) + count
            self._progress(DumpProgress(resource_type, written, self._total))

    def _finish(self) -> DumpReport:
        names = []
        lines = ["type\tresources\tfile"]
        for resource_type, count in sorted(self._by_type.items()):
            name = f"{resource_type}{self._suffix}"
            names.append(name)
            lines.append(f"{resource_type}\t{count}\t{name}")
        _write_lines(self._folder / COUNTS_NAME, lines)
        sums = [f"{digest(self._folder / name)}  {name}" for name in [*names, COUNTS_NAME]]
        _write_lines(self._folder / CHECKSUMS_NAME, sums)
        return DumpReport(
            by_type=dict(sorted(self._by_type.items())),
            files=tuple(names),
            reflowed=self._reflowed,
            remarks=tuple(self._remarks),
        )


def wrapped_bundle(text: str) -> str:
    """Return a Bundle as the only entry of another: a load takes the outer one apart, not it."""
    return f'{{"resourceType": "Bundle", "type": "collection", "entry": [{{"resource": {text}}}]}}'


def _texts_of_server(client: FhirClient, resource_type: str) -> Iterator[_Text]:
    """Yield the texts of a type on all pages, each resource once."""
    page = client.search(resource_type, {"_count": _PAGE_SIZE})
    urls: set[str] = set()
    ids: set[str] = set()
    while True:
        for entry in page.entries:
            if entry.mode == "match" and entry.type == resource_type and entry.id not in ids:
                ids.add(entry.id)
                yield _Text(entry.id, entry.text)
        if page.next is None:
            return
        if page.next in urls or len(urls) >= MAX_PAGES:
            raise FhirError("The server's pages never end.", 502, "throttled")
        urls.add(page.next)
        page = client.search(page.next)


@contextmanager
def _open_lines(path: Path) -> Iterator[IO[bytes]]:
    """Open a private file to write to; the same lines give the same gzip."""
    with open_private_file(path) as raw:
        if path.suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
            yield file  # type: ignore[misc]


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    write_private_text(path, "".join(f"{line}\n" for line in lines))


def _check_folder(folder: Path, *, force: bool) -> None:
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise CallerError(f"{folder} is no folder.\nName a new folder with --into.")
    if not any(folder.iterdir()):
        return
    if not _is_dump(folder):
        raise CallerError(f"{folder} holds files that are no dump.\nName a new folder with --into.")
    if not force:
        raise CallerError(
            f"{folder} holds an earlier dump.\nReplace it with --force, or name a new folder."
        )


def _is_dump(folder: Path) -> bool:
    """Whether a folder holds a dump and nothing else."""
    checksums = ChecksumList.read(folder / CHECKSUMS_NAME)
    names = {path.name for path in folder.iterdir()}
    own_names = {CHECKSUMS_NAME, *checksums.digests}
    return COUNTS_NAME in names and CHECKSUMS_NAME in names and names <= own_names


@contextmanager
def _draft_folder(into: Path) -> Iterator[Path]:
    """Provide a private folder beside the target, which is removed if it is still there."""
    draft = into.parent / f".{into.name[:50]}.{secrets.token_hex(4)}"
    draft.mkdir(mode=0o700)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _replace(draft: Path, into: Path) -> None:
    """Give the draft the name of the target; an earlier dump goes last."""
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
