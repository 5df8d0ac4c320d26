"""A bulk export that runs in the background, and the folder that it leaves.

    job.json             what was asked for, and what became of it
    Patient.ndjson ...   a file for each type, a resource a line
    outcomes.ndjson      OperationOutcomes: what was left out of account

Source: hl7.org/fhir/uv/bulkdata/STU2/export.html.
"""

import json
import logging
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from pathlib import Path

from archqa.core.value import FrozenModel
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import operation_outcome
from archqa.fhir.server.export_request import ExportRequest
from archqa.fhir.values import dates
from archqa.fhir.values.text import on_one_line
from archqa.fhir.whole_record import (
    RecordState,
    WholeResource,
    is_unchanged,
    read_type,
    state_of,
)
from archqa.safety.files import open_private_file, write_private_text

_log = logging.getLogger(__name__)

JOB_FILE_NAME = "job.json"
_OUTCOMES_NAME = "outcomes.ndjson"

_FAILED = "The export failed. Start it again; the server's owner finds more in the log."
_CHANGED = "The record was loaded into while it was exported. Start the export again."


class ExportedFile(FrozenModel):
    """A file of an export: the type of its resources, and how many there are."""

    name: str
    type: str
    count: int
    size: int


class JobState(FrozenModel):
    """The content of `job.json`. `status` is running, complete or failed; `problem` says why."""

    id: str
    record: str
    url: str
    request: ExportRequest
    status: str = "running"
    transaction_time: str = ""
    finished_at: int = 0
    files: tuple[ExportedFile, ...] = ()
    outcomes: tuple[ExportedFile, ...] = ()
    problem: str = ""


class _Stopped(Exception):
    """The job was cancelled, or the server ends."""


class ExportJob:
    """A job in its own folder. It is stopped between two batches."""

    def __init__(self, record: LocalRecord, folder: Path, state: JobState) -> None:
        self._record = record
        self.folder = folder
        self.state = state
        self.progress = "starting"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def create(cls, record: LocalRecord, folder: Path, state: JobState) -> "ExportJob":
        """Return a new job, whose folder and state are on the disk."""
        job = cls(record, folder, state)
        folder.mkdir(mode=0o700)
        job._save()
        return job

    def start(self) -> None:
        """Run in the background, without the limits of the request that asked for it."""
        # In a context of its own: the budget of that request is in the caller's.
        self._thread = threading.Thread(
            target=Context().run, args=(self._run,), name="bulk export", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until nothing is written any more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def remove(self) -> None:
        """Stop, and remove all files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self) -> None:
        try:
            self._export()
        except _Stopped:
            return
        except Exception as error:  # A thread that ends must not leave a job that runs for ever.
            _log.error("bulk export: %s", type(error).__name__)
            with suppress(OSError):
                self._finish(status="failed", problem=_FAILED)

    def _export(self) -> None:
        now = dates.format_instant(dates.utc_now_microseconds())
        state = state_of(self._record)
        counts = self._record.counts()
        types = self.state.request.types
        names = [name for name in counts if types is None or name in types]
        files = []
        for number, name in enumerate(names, start=1):
            self.progress = f"type {number} of {len(names)}: {name}"
            file = self._write_type(name, state)
            if file.count:
                files.append(file)
        if not is_unchanged(self._record, state):
            self._finish(status="failed", problem=_CHANGED)
            return
        outcomes = self._write_outcomes()
        self._finish(status="complete", transaction_time=now, files=tuple(files), outcomes=outcomes)

    def _write_type(self, resource_type: str, state: RecordState) -> ExportedFile:
        path = self.folder / f"{resource_type}.ndjson"
        request = self.state.request
        batches = read_type(self._record, resource_type, state, with_patients=request.of_patients)
        is_asked_for = _selection(request)
        count = 0
        with open_private_file(path) as file:
            for batch in batches:
                if self._stop.is_set():
                    raise _Stopped
                for resource in batch:
                    if is_asked_for(resource):
                        file.write(f"{on_one_line(resource.text)}\n".encode())
                        count += 1
        size = path.stat().st_size
        if not count:
            path.unlink()
        return ExportedFile(name=path.name, type=resource_type, count=count, size=size)

    def _write_outcomes(self) -> tuple[ExportedFile, ...]:
        ignored = self.state.request.ignored
        if not ignored:
            return ()
        lines = []
        for text in ignored:
            outcome = operation_outcome([f"Ignored: {text}"], "warning", "not-supported")
            lines.append(f"{json.dumps(outcome, ensure_ascii=False)}\n")
        content = "".join(lines)
        write_private_text(self.folder / _OUTCOMES_NAME, content)
        return (
            ExportedFile(
                name=_OUTCOMES_NAME,
                type="OperationOutcome",
                count=len(lines),
                size=len(content.encode()),
            ),
        )

    def _finish(self, **changes: object) -> None:
        finished_at = dates.utc_now_microseconds()
        state = self.state.model_copy(update={**changes, "finished_at": finished_at})
        if not self._stop.is_set():
            self.state = state
            self._save()

    def _save(self) -> None:
        path = self.folder / JOB_FILE_NAME
        write_private_text(path, self.state.model_dump_json(indent=2))


def read_state(folder: Path) -> JobState | None:
    """Return the state of the job in a folder; None if there is none, or it is damaged."""
    try:
        return JobState.model_validate_json((folder / JOB_FILE_NAME).read_bytes())
    except (OSError, ValueError):
        return None


def _selection(request: ExportRequest) -> Callable[[WholeResource], bool]:
    """Return whether a request asks for a resource."""
    since = -1 if request.since is None else request.since
    patients = None if request.patients is None else frozenset(request.patients)

    def is_asked_for(resource: WholeResource) -> bool:
        if resource.updated <= since:
            return False
        if not request.of_patients:
            return True
        if patients is None:
            return bool(resource.patients)
        return not patients.isdisjoint(resource.patients)

    return is_asked_for
