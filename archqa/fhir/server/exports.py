"""The bulk exports of a server: started, looked at, cancelled; their files are in a private folder.

Without a folder of the user's choice they are in a temporary one, which is removed at the end. With
one, a server that is started again has the exports of the one before, and goes on with those that
were not finished.
"""

import os
import re
import secrets
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import NamedTuple

from archqa.errors import CallerError
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.server.export_job import ExportedFile, ExportJob, JobState, read_state
from archqa.fhir.server.export_request import ExportRequest
from archqa.fhir.values import dates
from archqa.safety.files import LocksUnsupported, acquire_lock, release_lock, storage_errors

MAX_RUNNING = 2
"""Exports that run at the same time."""

MAX_KEPT = 16
"""Exports whose files are kept, with those that run."""

KEPT_HOURS = 24
"""Hours for which the files of a finished export are kept."""

_LOCK_NAME = "lock"
_JOB_ID = re.compile(r"[0-9a-f]{32}")


class TooManyExports(Exception):
    """No further export can be started now; the message says why."""


class FileOfExport(NamedTuple):
    """A finished file, and a name for its content that no other file has."""

    path: Path
    size: int
    tag: str


class Exports:
    """The exports of one record. Safe to use from several threads.

    Raises `CallerError` for a folder that another server uses, and `StorageError`.
    """

    def __init__(self, record: LocalRecord, folder: Path | None = None) -> None:
        self.record = record
        self._record_name = str(record.path.resolve())
        self._named_folder = folder
        self._folder: Path | None = None
        self._lock_descriptor: int | None = None
        self._lock = threading.RLock()
        self._jobs: dict[str, ExportJob] = {}
        if folder is not None:
            with storage_errors(folder):
                self._open_named_folder(folder)

    def start(self, url: str, request: ExportRequest) -> str:
        """Start an export in the background and return its id. Raises `TooManyExports`."""
        with self._lock:
            self._remove_expired()
            self._check_room()
            job_id = secrets.token_hex(16)
            state = JobState(id=job_id, record=self._record_name, url=url, request=request)
            folder = self._open_folder() / job_id
            job = ExportJob.create(self.record, folder, state)
            self._jobs[job_id] = job
            job.start()
            return job_id

    def get(self, job_id: str) -> ExportJob | None:
        """Return an export, None if there is none of that id, or none any more."""
        with self._lock:
            self._remove_expired()
            return self._jobs.get(job_id)

    def file(self, job_id: str, name: str) -> FileOfExport | None:
        """Return a file of a finished export, None if there is no such one."""
        job = self.get(job_id)
        if job is None or job.state.status != "complete":
            return None
        files: tuple[ExportedFile, ...] = (*job.state.files, *job.state.outcomes)
        for file in files:
            if file.name == name:
                return FileOfExport(job.folder / name, file.size, f"{job_id}-{name}")
        return None

    def cancel(self, job_id: str) -> bool:
        """Stop an export and remove its files; return whether there was one of that id."""
        with self._lock:
            job = self._jobs.pop(job_id, None)
        if job is None:
            return False
        job.remove()
        return True

    def close(self) -> None:
        """Stop all exports. A temporary folder is removed, the user's own is kept."""
        with self._lock:
            for job in self._jobs.values():
                job.stop()
            self._jobs.clear()
            folder, self._folder = self._folder, None
            if folder is not None and self._named_folder is None:
                shutil.rmtree(folder, ignore_errors=True)
            if folder is not None and self._lock_descriptor is not None:
                release_lock(folder / _LOCK_NAME, self._lock_descriptor)
                self._lock_descriptor = None

    def _check_room(self) -> None:
        states = [job.state.status for job in self._jobs.values()]
        if states.count("running") >= MAX_RUNNING:
            raise TooManyExports(f"{MAX_RUNNING} exports run already. Ask again later.")
        if len(states) >= MAX_KEPT:
            raise TooManyExports(f"{MAX_KEPT} exports are kept already. DELETE finished ones.")

    def _remove_expired(self) -> None:
        oldest = dates.utc_now_microseconds() - KEPT_HOURS * 60 * dates.MINUTE
        for job_id, job in list(self._jobs.items()):
            if job.state.status != "running" and job.state.finished_at < oldest:
                del self._jobs[job_id]
                job.remove()

    def _open_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="archqa-export-"))
            # Also where nobody calls `close`: a service in process, a program that ends.
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _open_named_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix" and folder.stat().st_mode & 0o077:
            raise CallerError(
                f"Others may read {folder}, where exports of record text would be.\n"
                f"Run chmod 700 on it, or name another folder with --export-dir."
            )
        try:
            self._lock_descriptor = acquire_lock(folder / _LOCK_NAME)
            if self._lock_descriptor is None:
                problem = f"Another server keeps its exports in {folder}."
                raise CallerError(f"{problem}\nName another folder with --export-dir.")
        except LocksUnsupported:
            self._lock_descriptor = None
        self._folder = folder
        for path in sorted(folder.iterdir()):
            if _JOB_ID.fullmatch(path.name):
                self._take_over(path)

    def _take_over(self, folder: Path) -> None:
        """Keep an export of a server before this one, if it is of the same record."""
        state = read_state(folder)
        if state is None or state.id != folder.name or state.record != self._record_name:
            return
        job = ExportJob(self.record, folder, state)
        self._jobs[state.id] = job
        if state.status == "running":
            job.start()
