"""Fetch a server's bulk export into a record; an interrupted one goes on where it ended.

    .record.db.export/            private, beside the record; removed when all is loaded
      state.json                  what was asked for, and how far it is
      0001-Patient.ndjson ...     the files

Source: hl7.org/fhir/uv/bulkdata/STU2/export.html.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from archqa.core.value import FrozenModel
from archqa.errors import ArchqaError, CallerError, InputError, ServerUnavailable
from archqa.fhir.client.exchange import TransientFailure, read_issues
from archqa.fhir.client.export_server import (
    ExportServer,
    Manifest,
    RemoteFile,
    Waiting,
    download,
    part_path,
)
from archqa.fhir.dumping import wrapped_bundle
from archqa.fhir.index.loading import LoadProgress, LoadReport
from archqa.fhir.record import member_of
from archqa.fhir.store import Store
from archqa.safety.files import (
    LocksUnsupported,
    acquire_lock,
    make_private_folder,
    open_private_file,
    release_lock,
    storage_errors,
    write_private_text,
)
from archqa.safety.text import without_surrogates

T = TypeVar("T")

_TRIES = 8
"""Attempts at one step without any progress."""

_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0
"""Seconds between two looks or attempts, where the server does not say."""

_MAX_ISSUES = 20
"""Issues of the server's error files that are told; all are counted."""

_MAX_ISSUE_LENGTH = 600
_MAX_OUTCOME_BYTES = 2**20
"""Bytes of a line of an error file that are read at once."""

_STATE_NAME = "state.json"
_LOCK_NAME = "lock"


class ExportOrder(FrozenModel):
    """What is asked of which server: the same order goes on with the same export."""

    base: str
    path: str = "$export"
    types: tuple[str, ...] = ()
    since: str = ""

    @property
    def params(self) -> dict[str, str]:
        """The parameters of the kick-off."""
        params = {}
        if self.types:
            params["_type"] = ",".join(self.types)
        if self.since:
            params["_since"] = self.since
        return params


class ImportProgress(NamedTuple):
    """What is under way; `total` is None where nobody knows."""

    step: str
    done: int = 0
    total: int | None = None


class ImportReport(FrozenModel):
    """The result. `failures` counts the server's own errors, `issues` tells the first 20 of all.

    `transaction_time` is for the next export: `_since` that, only what is new. `deleted` counts
    files of what is gone on the server; it stays in the record.
    """

    transaction_time: str
    load: LoadReport
    failures: int = 0
    issues: tuple[str, ...] = ()
    deleted: int = 0


class _State(FrozenModel):
    """The content of `state.json`."""

    order: ExportOrder
    status_url: str = ""
    manifest: Manifest | None = None


def state_folder(into: Path) -> Path:
    """Return where the state of an export into a record is."""
    return into.parent / f".{into.name}.export"


def import_export(
    server: ExportServer,
    order: ExportOrder,
    into: Path,
    *,
    strict: bool = False,
    restart: bool = False,
    progress: Callable[[ImportProgress], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> ImportReport:
    """Export from a server and load all of it into a record, or nothing.

    What was fetched before an error or an interruption is kept beside the record, and the same call
    goes on with it; `restart` drops it. Raises `CallerError` if that is of another order,
    `NotPrivate` if somebody else may have put it there,
    `ServerUnavailable`, `AuthenticationFailed`, `FhirError` for what the server refuses or sends
    otherwise than it says, and as `Store.load`.
    """
    if into.exists():
        Store.open(into).close()
    folder = state_folder(into)
    with storage_errors(folder):
        into.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private_folder(folder)
        with _locked(folder):
            running = _Import(
                server,
                order,
                folder,
                progress,
                sleep,
            )
            if restart:
                running.drop()
            running.resume()
            report = running.load(running.fetch(), into, strict=strict)
            running.drop()
            shutil.rmtree(folder)
    return report


class _Import:
    """A running import with its folder."""

    def __init__(
        self,
        server: ExportServer,
        order: ExportOrder,
        folder: Path,
        progress: Callable[[ImportProgress], None],
        sleep: Callable[[float], None],
    ) -> None:
        self._server = server
        self._folder = folder
        self._progress = progress
        self._sleep = sleep
        self._state = _State(order=order)
        self._bytes = 0

    def resume(self) -> None:
        """Take the state that an earlier attempt left. Raises `CallerError` for another order."""
        state = self._saved_state()
        if state is None:
            return
        if state.order != self._state.order:
            raise CallerError(
                f"{self._folder} holds what is fetched of another export.\n"
                "Go on with that by its own command, or drop it with --restart."
            )
        self._state = state

    def drop(self) -> None:
        """Remove the export from the server, if it still has it, and all files here."""
        with suppress(ArchqaError, TransientFailure):
            state = self._saved_state()
            if (
                state is not None
                and state.status_url
                and state.order.base == self._server.base
            ):
                self._server.delete(state.status_url)
        for path in self._folder.iterdir():
            if path.name != _LOCK_NAME:
                path.unlink()

    def fetch(self) -> Manifest:
        """Return the manifest, with all of its files here."""
        if not self._state.status_url:
            order = self._state.order
            self._progress(ImportProgress("starting the export"))
            url = self._patiently(lambda: self._server.start(order.path, order.params))
            self._save(status_url=url)
        wait = _FIRST_WAIT
        while self._state.manifest is None:
            state = self._patiently(lambda: self._server.look(self._state.status_url))
            if not isinstance(state, Waiting):
                self._save(manifest=state)
                break
            self._progress(
                ImportProgress(f"the server exports {state.progress}".rstrip())
            )
            self._sleep(wait if state.retry_after is None else state.retry_after)
            wait = min(2 * wait, _LONGEST_WAIT)
        manifest = self._state.manifest
        assert manifest is not None
        files = [*manifest.files, *manifest.errors]
        for number, file in enumerate(files, start=1):
            if not self._path(number, file).exists():
                self._download(
                    number,
                    file,
                    len(files),
                    with_token=manifest.requires_token,
                )
        return manifest

    def load(self, manifest: Manifest, into: Path, *, strict: bool) -> ImportReport:
        """Load the files, and read what the server's error files say."""
        paths = []
        for number, file in enumerate(manifest.files, start=1):
            path = self._path(number, file)
            paths.append(_with_whole_bundles(path) if file.type == "Bundle" else path)

        def show(progress: LoadProgress) -> None:
            self._progress(
                ImportProgress(
                    f"loading, {progress.resources} resources",
                    progress.bytes_read,
                    progress.bytes_total,
                )
            )

        with Store.open_to_load(into) as store:
            load = store.load(paths, strict=strict, progress=show)
        first_error = len(manifest.files) + 1
        outcomes = [
            self._path(n, file) for n, file in enumerate(manifest.errors, first_error)
        ]
        failures, issues = _read_issues(outcomes)
        return ImportReport(
            transaction_time=manifest.transaction_time,
            load=load,
            failures=failures,
            issues=tuple(issues),
            deleted=len(manifest.deleted),
        )

    def _download(
        self,
        number: int,
        file: RemoteFile,
        total: int,
        *,
        with_token: bool,
    ) -> None:
        path = self._path(number, file)

        def show(size: int) -> None:
            self._bytes += size
            self._progress(
                ImportProgress(
                    f"{file.type}: file {number} of {total}, {self._bytes // 2**20} MiB",
                    number - 1,
                    total,
                )
            )

        def attempt() -> None:
            download(
                self._server,
                file,
                path,
                with_token=with_token,
                progress=show,
            )

        part = part_path(path)
        self._patiently(attempt, lambda: part.stat().st_size if part.exists() else 0)

    def _patiently(
        self, attempt: Callable[[], T], progress: Callable[[], int] = lambda: 0
    ) -> T:
        """Return what an attempt returns, after as many as it takes while there is progress.

        Raises `ServerUnavailable` after `_TRIES` without any.
        """
        failures = 0
        wait = _FIRST_WAIT
        while True:
            before = progress()
            try:
                return attempt()
            except TransientFailure as failure:
                if progress() > before:
                    failures, wait = 0, _FIRST_WAIT
                failures += 1
                if failures >= _TRIES:
                    text = f"The FHIR server at {self._server.base} does not answer ({failure})."
                    advice = "Try later: the same command goes on where it ended."
                    raise ServerUnavailable(f"{text}\n{advice}") from None
                self._progress(ImportProgress(f"waiting for the server ({failure})"))
                self._sleep(
                    wait if failure.retry_after is None else failure.retry_after
                )
                wait = min(2 * wait, _LONGEST_WAIT)

    def _path(self, number: int, file: RemoteFile) -> Path:
        return self._folder / f"{number:04d}-{file.type}.ndjson"

    def _saved_state(self) -> _State | None:
        """Return the state on the disk. Raises `InputError` if it is damaged."""
        path = self._folder / _STATE_NAME
        if not path.exists():
            return None
        try:
            return _State.model_validate_json(path.read_bytes())
        except ValueError:
            raise InputError(
                path,
                [": is damaged."],
                "Remove that folder, or begin anew with --restart.",
            ) from None

    def _save(self, **changes: object) -> None:
        self._state = self._state.model_copy(update=changes)
        write_private_text(
            self._folder / _STATE_NAME, self._state.model_dump_json(indent=2)
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes away from a folder. Raises `CallerError` if one has it."""
    try:
        descriptor = acquire_lock(folder / _LOCK_NAME)
    except LocksUnsupported:
        yield
        return
    if descriptor is None:
        raise CallerError(
            f"Another command is at work in {folder}.\nWait until it is done."
        )
    try:
        yield
    finally:
        release_lock(folder / _LOCK_NAME, descriptor)


def _with_whole_bundles(path: Path) -> Path:
    """Return a copy of a file of Bundles that a load does not take apart."""
    copy = path.with_name(f"{path.stem}.whole.ndjson")
    with path.open("rb") as lines, open_private_file(copy) as file:
        for line in lines:
            if not line.isspace():
                text = line.decode("utf-8", "surrogateescape").strip()
                file.write(
                    f"{wrapped_bundle(text)}\n".encode("utf-8", "surrogateescape")
                )
    return copy


def _read_issues(paths: Iterable[Path]) -> tuple[int, list[str]]:
    """Return how many errors the server's outcomes tell, and the first issues of any kind."""
    failures = 0
    texts: list[str] = []
    for path in paths:
        issues: list[dict[str, Any]] = []
        with path.open("rb") as lines:
            while line := lines.readline(_MAX_OUTCOME_BYTES):
                if not line.isspace():
                    unreadable = {"code": "an outcome that cannot be read"}
                    issues += read_issues(line) or [unreadable]
        for issue in issues:
            severity = str(issue.get("severity", "error"))
            failures += severity in {"error", "fatal"}
            text = member_of(issue.get("details"), "text")
            words = issue.get("diagnostics") or text or issue.get("code") or "no reason"
            if len(texts) < _MAX_ISSUES:
                text = without_surrogates(f"the server's {severity}: {words}")
                texts.append(text[:_MAX_ISSUE_LENGTH])
    return failures, texts
