"""The folder of a run. It holds record text, so its mode is 0700 and that of its files 0600.

    run.json  input.jsonl  cases.jsonl  trace/<id>.jsonl  submission.json
    run.lock while a process works on it, and what later commands add: scores.json,
    and of a judge disagreements.jsonl and unsupported_lines.jsonl

Lines are only appended; a line that a kill cut short is dropped when the run is resumed. Whole
files replace the former ones in one step. What cannot be read or written raises `StorageError`.
"""

import hashlib
import json
import logging
import os
import secrets
import socket
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from archqa import tasks
from archqa.core.result import TaskResult
from archqa.core.step import Step
from archqa.errors import CallerError, InputError
from archqa.runs.record import SCHEMA_VERSION, CaseRecord, RunManifest
from archqa.safety.files import (
    LocksUnsupported,
    acquire_lock,
    is_locked,
    private_draft,
    release_lock,
    remove_drafts,
    storage_errors,
)

_log = logging.getLogger(__name__)

LOCK_NAME = "run.lock"
"""The file in a run's folder that its process holds; it is removed at the end."""

NO_LOCKS = "The file system has no locks: make sure that no other process works on this run's folder."


_MAX_NAME_LENGTH = 120

_WHOLE_FILES = ("run.json", "input.jsonl", "submission.json")
"""Files that are replaced in one step; a kill may leave their drafts."""

_DRAFT_PREFIXES = tuple(f".{name}." for name in _WHOLE_FILES)


class RunFolder:
    """Reads and writes one run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """Create an empty run folder. Raises `CallerError` if something is there already.

        A folder that a killed process had only begun counts as empty.
        """
        cls.check_unused(path)
        with storage_errors(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
        folder = cls(path)
        folder.repair()
        return folder

    @staticmethod
    def check_unused(path: Path) -> None:
        """Raise `CallerError` unless a run folder can be created at this path."""
        with storage_errors(path):
            is_free = not path.exists() or _is_unused(path)
            is_run = (path / "run.json").is_file()
        if is_free:
            return
        advice = "Go on with it by --resume, or name another folder with --out."
        if not is_run:
            advice = "It is no run: name another folder with --out, or move it away."
        raise CallerError(f"{path} exists already.\n{advice}")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open an existing run folder. Raises `InputError` if it is none."""
        if not (path / "run.json").is_file():
            mistake = ": is not a run folder (it has no run.json)."
            raise InputError(path, [mistake], "archqa predict makes one.")
        return cls(path)

    def manifest(self) -> RunManifest:
        """Read `run.json`. Raises `InputError` if it is damaged or newer than this archqa."""
        path = self.path / "run.json"
        try:
            with storage_errors(path):
                content = json.loads(path.read_text(encoding="utf-8"))
            version = (
                content.get("schema_version", 0) if isinstance(content, dict) else 0
            )
            if not isinstance(version, int):
                raise ValueError("the version is not a number")
            if version <= SCHEMA_VERSION:
                manifest = RunManifest.model_validate(content)
                tasks.find(manifest.task)
                return manifest
        except (OSError, ValueError, RecursionError):
            mistake = (
                ": is damaged, or was written by an archqa before its first release."
            )
            raise InputError(path, [mistake], "Run `archqa predict` anew.") from None
        except CallerError:
            mistake = ": is of a task that this archqa does not have."
            raise InputError(path, [mistake], "Update archqa to read it.") from None
        raise InputError(
            path, [": was written by a newer archqa."], "Update archqa to read it."
        )

    def write_manifest(self, manifest: RunManifest) -> None:
        """Replace `run.json` in one step."""
        self.write_json("run.json", manifest.model_dump(mode="json"))

    def records(self) -> "Records":
        """Return the latest record of each case, by case id; each is read from disk when needed."""
        result_type = None
        if (self.path / "run.json").is_file():
            result_type = tasks.find(self.manifest().task).result_type
        return Records(self.path / "cases.jsonl", result_type)

    def add(self, record: CaseRecord) -> None:
        """Append the record of a case, which is on disk when this returns, and log how it ended."""
        self._append("cases.jsonl", record.model_dump_json(), sync=True)
        calls = record.usage.calls + record.usage.cached_calls
        _log.info(
            "case %s: %s, %.1f s, model calls %d",
            record.id,
            record.status,
            record.seconds,
            calls,
        )

    def add_step(self, case_id: str, step: Step) -> None:
        """Append a step to the trace of a case."""
        self.add_steps(case_id, [step.model_dump_json()])

    def add_steps(self, case_id: str, lines: Iterable[str]) -> None:
        """Append steps, as lines of JSON, to the trace of a case."""
        text = "\n".join(lines)
        if text:
            self._append(trace_name(case_id), text)

    def steps(self, case_id: str) -> list[Step]:
        """Return the trace of a case, with all its tries."""
        path = self.path / trace_name(case_id)
        steps = []
        try:
            with storage_errors(path):
                if not path.is_file():
                    return []
                with path.open(encoding="utf-8", newline="\n") as file:
                    for line in file:
                        if line.endswith(
                            "\n"
                        ):  # One that a kill cut short has no line end.
                            steps.append(Step.model_validate_json(line))
        except (OSError, ValueError, RecursionError):
            raise damaged_trace(path) from None
        return steps

    def repair(self) -> None:
        """Repair what a kill left, so that lines can be appended; call it with the run's lock held.

        A last line that was cut short is dropped, as are drafts of whole files.
        """
        cases_file = self.path / "cases.jsonl"
        trace_folder = self.path / "trace"
        with storage_errors(self.path):
            trace_folder.mkdir(mode=0o700, exist_ok=True)
            cases_file.touch(mode=0o600)
            for path in (cases_file, *trace_folder.glob("*.jsonl")):
                content = path.read_bytes()
                end_of_last_line = content.rfind(b"\n") + 1
                if end_of_last_line < len(content):
                    with path.open("r+b") as file:
                        file.truncate(end_of_last_line)
            for name in _WHOLE_FILES:
                remove_drafts(self.path / name)

    def has_lines(self, name: str, count: int) -> bool:
        """Whether a file is there with so many lines, the last one complete."""
        path = self.path / name
        line_count = 0
        last_chunk = b"\n"
        with storage_errors(path):
            if not path.is_file():
                return False
            with path.open("rb") as file:
                while chunk := file.read(2**20):
                    line_count += chunk.count(b"\n")
                    last_chunk = chunk
        return line_count == count and last_chunk.endswith(b"\n")

    def write_lines(self, name: str, lines: Iterable[str]) -> Path:
        """Write a whole file of lines atomically; it is on disk when this returns."""
        path = self.path / name
        with storage_errors(path), private_draft(path) as file:
            file.writelines(f"{line}\n".encode() for line in lines)
            file.flush()
            os.fsync(file.fileno())
        return path

    def write_json(self, name: str, content: Any) -> Path:
        """Write a whole JSON file atomically."""
        text = json.dumps(content, ensure_ascii=False, indent=2)
        # A path may hold bytes that are not UTF-8; as JSON escapes they are read back unchanged.
        return self.write_lines(
            name, [text.encode("utf-8", "backslashreplace").decode()]
        )

    def _append(self, name: str, line: str, *, sync: bool = False) -> None:
        path = self.path / name
        with storage_errors(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                unwritten = memoryview(f"{line}\n".encode())
                try:
                    while unwritten:
                        unwritten = unwritten[os.write(descriptor, unwritten) :]
                except OSError:
                    # The next line must not follow half of this one.
                    with suppress(OSError):
                        os.ftruncate(descriptor, size)
                    raise
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)


class Records(Mapping[str, CaseRecord]):
    """The lines of `cases.jsonl` by case id. Only their offsets are kept in memory."""

    def __init__(self, path: Path, result_type: type[TaskResult] | None) -> None:
        self._path = path
        self._context = {"result_type": result_type}
        self._offsets: dict[str, int] = {}
        with storage_errors(path):
            if path.is_file():
                self._index()

    def __getitem__(self, case_id: str) -> CaseRecord:
        return CaseRecord.model_validate_json(self.line(case_id), context=self._context)

    def line(self, case_id: str) -> bytes:
        """Return the line of a record as it is on disk: what a version of a record is told by."""
        offset = self._offsets[case_id]
        with storage_errors(self._path), self._path.open("rb") as file:
            file.seek(offset)
            return file.readline()

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._offsets

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def _index(self) -> None:
        """Note where each line begins. Raises `InputError` for a line that is no record.

        A last line without its end was cut short by a kill and does not count.
        """
        offset = 0
        with self._path.open("rb") as file:
            for line_number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    try:
                        record = CaseRecord.model_validate_json(
                            line, context=self._context
                        )
                    except ValidationError:
                        fix = "Somebody edited the file; remove the line to run its case again."
                        mistake = f":{line_number}: is not a case record."
                        raise InputError(self._path, [mistake], fix) from None
                    self._offsets[record.id] = offset
                offset += len(line)


def damaged_trace(path: Path) -> InputError:
    """Return the error of a trace that cannot be read."""
    fix = "Remove the file: the run is shown without its steps."
    return InputError(path, [": is damaged: this is no trace."], fix)


def new_run_name(at: datetime, task: str, pipeline: str) -> str:
    """Return a run's name: `<utc-time>-<task>-<pipeline>-<4 letters>`."""
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(4))
    return f"{at:%Y%m%dT%H%M%SZ}-{task}-{pipeline}-{letters}"


def trace_name(case_id: str) -> str:
    """Return the file of a case's trace in its run: ids are opaque and may have any character."""
    quoted = quote(case_id, safe=" ")
    if len(quoted) > _MAX_NAME_LENGTH:
        digest = hashlib.sha256(case_id.encode()).hexdigest()
        quoted = f"{quoted[:_MAX_NAME_LENGTH]}-{digest[:16]}"
    return f"trace/{quoted}.jsonl"


def _is_unused(path: Path) -> bool:
    """Whether a folder is empty, or holds no more than an interrupted start of a run leaves."""
    if not path.is_dir():
        return False
    names = {entry.name for entry in path.iterdir()}
    leftovers = {
        LOCK_NAME,
        *(name for name in names if name.startswith(_DRAFT_PREFIXES)),
    }
    cases_file, trace_folder = path / "cases.jsonl", path / "trace"
    if trace_folder.is_dir() and not any(trace_folder.iterdir()):
        leftovers.add("trace")
        if cases_file.is_file() and cases_file.stat().st_size == 0:
            leftovers |= {"cases.jsonl", "input.jsonl"}
    return names <= leftovers


class RunLocked(CallerError):
    """Another process works on the run."""


@contextmanager
def run_lock(folder: Path) -> Iterator[str]:
    """Hold the lock of a run's folder; yields a remark, empty unless locks do not exist here.

    The kernel releases the lock when the process ends, even by a kill. Raises `RunLocked`, which
    says who holds it, and `StorageError`.
    """
    path = folder / LOCK_NAME
    try:
        with storage_errors(folder):
            descriptor = acquire_lock(path)
    except LocksUnsupported:
        yield NO_LOCKS
        return
    if descriptor is None:
        raise _run_locked(folder)
    try:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        with suppress(
            OSError
        ):  # A full disk does not matter: the lock itself needs no byte.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        yield ""
    finally:
        release_lock(path, descriptor)


def check_not_locked(folder: Path) -> None:
    """Raise `RunLocked` if another process works on the run."""
    with storage_errors(folder):
        locked = is_locked(folder / LOCK_NAME)
    if locked:
        raise _run_locked(folder)


def _run_locked(folder: Path) -> RunLocked:
    try:
        owner = json.loads((folder / LOCK_NAME).read_bytes())
        since = datetime.fromisoformat(owner["since"])
        process = f"process {int(owner['pid'])} on {owner['host']} since {since:%Y-%m-%d %H:%M:%S}"
        process += " UTC"
    except (OSError, ValueError, KeyError, TypeError):
        process = "another process"
    return RunLocked(
        f"{folder} is being worked on by {process}.\n"
        "Wait until it ends, or stop it and go on with --resume."
    )
