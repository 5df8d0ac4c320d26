"""The audit log: who asked to write what, when, with what result, in an append-only file.

It holds record text, so only its owner may read it.
"""

import json
import os
import threading
from pathlib import Path
from typing import Any

from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.safety.files import open_private_log


class AuditEntry(FrozenModel):
    """One request to write.

    `payload` is the body as it came; `evidence` are the resources that justify it.
    """

    at: str
    who: str
    mode: str
    method: str
    url: str
    payload: Any
    status: int
    findings: tuple[dict[str, str], ...] = ()
    location: str | None = None
    evidence: tuple[str, ...] = ()


class AuditLog:
    """An append-only JSONL file, mode 0600. A line is on disk when `add` returns."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()

    def create(self) -> None:
        """Create the file if it is absent. Raises `InputError` if it cannot be written."""
        self._write("")

    def add(self, entry: AuditEntry) -> None:
        """Append one line. Raises `InputError` if the file cannot be written."""
        self._write(json.dumps(entry.model_dump(mode="json"), ensure_ascii=True) + "\n")

    def _write(self, line: str) -> None:
        try:
            with self._lock:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with open_private_log(self.path) as file:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise InputError(
                self.path, [f": cannot be written ({error.strerror})."]
            ) from None

    def entries(self) -> list[AuditEntry]:
        """Return every entry, oldest first."""
        if not self.path.is_file():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [AuditEntry.model_validate_json(line) for line in lines if line]
