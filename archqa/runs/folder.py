"""The folder of a run. It holds record text, so its mode is 0700 and that of its files 0600.

    run.json  input.jsonl  cases.jsonl  trace/<id>.jsonl  submission.json  and what later commands add: scores.json

Lines are only appended; a line that a kill cut short is dropped when the run is resumed.
"""

import hashlib
import json
import os
import secrets
import string
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from archqa import tasks
from archqa.core.result import TaskResult
from archqa.core.step import Step
from archqa.errors import CallerError, InputError
from archqa.runs.record import SCHEMA_VERSION, CaseRecord, RunManifest

_MAX_NAME_LENGTH = 120


class RunFolder:
    """Reads and writes one run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """A new, empty run folder. Raises `CallerError` if something is there already."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CallerError(
                f"{path} exists already.\nGo on with it by --resume, or name another folder with --out."
            )
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
        (path / "trace").mkdir(mode=0o700)
        (path / "cases.jsonl").touch(mode=0o600)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing run folder. Raises `InputError` if it is none."""
        if not (path / "run.json").is_file():
            raise InputError(
                path, [": is not a run folder (it has no run.json)."], "archqa predict makes one."
            )
        return cls(path)

    def manifest(self) -> RunManifest:
        """`run.json`. Raises `InputError` if it is damaged or newer than this archqa."""
        path = self.path / "run.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict) and content.get("schema_version", 0) > SCHEMA_VERSION:
                raise InputError(
                    path, [": was written by a newer archqa."], "Update archqa to read it."
                )
            return RunManifest.model_validate(content)
        except (ValueError, RecursionError):
            raise InputError(
                path, [": is not a run's description."], "Run `archqa predict` anew."
            ) from None

    def write_manifest(self, manifest: RunManifest) -> None:
        """Replace `run.json` in one step."""
        self.write_json("run.json", manifest.model_dump(mode="json"))

    def records(self) -> "Records":
        """How each case ended, by id; of several tries the last. Read from disk when they are asked for."""
        return Records(self.path / "cases.jsonl", self._result_type())

    def _result_type(self) -> type[TaskResult] | None:
        """The type of the results in `cases.jsonl`; None before `run.json` names the task."""
        if not (self.path / "run.json").is_file():
            return None
        return tasks.find(self.manifest().task).result_type

    def add(self, record: CaseRecord) -> None:
        """Append how a case ended; it is on disk when this returns."""
        self._append("cases.jsonl", record.model_dump_json(), sync=True)

    def add_step(self, case_id: str, step: Step) -> None:
        """Append a step to the trace of a case."""
        self._append(f"trace/{case_file_name(case_id)}.jsonl", step.model_dump_json())

    def add_steps(self, case_id: str, lines: Iterable[str]) -> None:
        """Append steps, as lines of JSON, to the trace of a case."""
        text = "\n".join(lines)
        if text:
            self._append(f"trace/{case_file_name(case_id)}.jsonl", text)

    def steps(self, case_id: str) -> list[Step]:
        """The trace of a case, with all its tries."""
        lines = self._lines(f"trace/{case_file_name(case_id)}.jsonl")
        return [Step.model_validate_json(line) for line in lines]

    def mend(self) -> None:
        """Drop a last line that a kill cut short, so that lines can be appended."""
        for path in [self.path / "cases.jsonl", *(self.path / "trace").glob("*.jsonl")]:
            if not path.is_file():
                continue
            content = path.read_bytes()
            end_of_last_line = content.rfind(b"\n") + 1
            if end_of_last_line < len(content):
                with path.open("r+b") as file:
                    file.truncate(end_of_last_line)

    def write_lines(self, name: str, lines: Iterable[str]) -> Path:
        """Write a whole file of lines atomically."""
        path = self.path / name
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with _private(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            file.writelines(f"{line}\n" for line in lines)
        draft.replace(path)
        return path

    def write_json(self, name: str, content: Any) -> Path:
        """Write a whole JSON file atomically."""
        return self.write_lines(name, [json.dumps(content, ensure_ascii=False, indent=2)])

    def _lines(self, name: str) -> Iterator[str]:
        """The complete lines; one that a kill cut short has no line end."""
        path = self.path / name
        if path.is_file():
            with path.open(encoding="utf-8", newline="\n") as file:
                yield from (line for line in file if line.endswith("\n"))

    def _append(self, name: str, line: str, *, sync: bool = False) -> None:
        descriptor = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            unwritten = memoryview(f"{line}\n".encode())
            while unwritten:
                written = os.write(descriptor, unwritten)
                unwritten = unwritten[written:]
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Records(Mapping[str, CaseRecord]):
    """The lines of `cases.jsonl` by case id. Only their offsets are kept in memory."""

    def __init__(self, path: Path, result_type: type[TaskResult] | None = None) -> None:
        self._path = path
        self._context = {"result_type": result_type}
        self._offsets: dict[str, int] = {}
        if path.is_file():
            self._index()

    def __getitem__(self, case_id: str) -> CaseRecord:
        offset = self._offsets[case_id]
        with self._path.open("rb") as file:
            file.seek(offset)
            return CaseRecord.model_validate_json(file.readline(), context=self._context)

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._offsets

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def _index(self) -> None:
        """Raises `InputError` for a line that is no record. A line without its end was cut short and is none yet."""
        offset = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    self._offsets[self._id_in(line, number)] = offset
                offset += len(line)

    def _id_in(self, line: bytes, number: int) -> str:
        try:
            return CaseRecord.model_validate_json(line, context=self._context).id
        except ValidationError:
            fix = "Somebody edited the file; remove the line to run its case again."
            raise InputError(self._path, [f":{number}: is not a case record."], fix) from None


def new_run_name(at: datetime, task: str, pipeline: str) -> str:
    """A run's name: `<utc-time>-<task>-<pipeline>-<4 letters>`."""
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(4))
    return f"{at:%Y%m%dT%H%M%SZ}-{task}-{pipeline}-{letters}"


def case_file_name(case_id: str) -> str:
    """A case id as a file name: ids are opaque and may hold anything."""
    quoted = quote(case_id, safe=" ")
    if len(quoted) <= _MAX_NAME_LENGTH:
        return quoted
    return f"{quoted[:_MAX_NAME_LENGTH]}-{hashlib.sha256(case_id.encode()).hexdigest()[:16]}"


def _private(path: Path, flags: int) -> Any:
    return os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", newline="\n")
