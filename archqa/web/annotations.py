"""Reviews of answers, saved as case files with keys that `archqa score` reads.

annotations/<cases>.json          the reviewed cases
annotations/<cases>_key.json      [{"case_id", "answers": [{"sentence_id", "relevance"}],
                                    "clinician_answer", "review": {"thumb", "run", "at"}}]
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from archqa import tasks
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.safety.private_files import write_private_text
from archqa.safety.storage import storage_errors

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


class Review(FrozenModel):
    """A reviewer's verdict on one case. `labels` is empty if no sentence was labelled."""

    case: Case
    labels: dict[str, Relevance] = {}
    answer: str = ""
    thumb: str = ""
    run: str = ""


class Annotations:
    """The reviews of a folder of runs.

    Files are readable by their owner alone and replaced atomically.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._write_lock = Lock()

    def key_path(self, name: str) -> Path:
        """Return the path of the key of a case set, whether it exists or not."""
        safe_name = _safe_file_name(name)
        return self._folder / f"{safe_name}_key.json"

    def _case_path(self, name: str) -> Path:
        safe_name = _safe_file_name(name)
        return self._folder / f"{safe_name}.json"

    def find_row(self, name: str, case_id: str) -> Mapping[str, Any] | None:
        """Return the saved review of a case; None if there is none. Raises `InputError`."""
        for row in _read_rows(self.key_path(name)):
            if row.get("case_id") == case_id:
                return row
        return None

    def save(self, name: str, review: Review) -> Path:
        """Save a review over an earlier one of the same case; return the path of the key.

        What the new review leaves empty stays as the earlier one has it. Raises `InputError` for
        damaged files, which stay as they are, and `StorageError`.
        """
        key_path = self.key_path(name)
        with self._write_lock, storage_errors(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            rows = []
            earlier: dict[str, Any] = {}
            for row in _read_rows(key_path):
                if row.get("case_id") == review.case.id:
                    earlier = row
                else:
                    rows.append(row)
            rows.append(_merge_row(review, earlier))
            # The case comes first: a key must not name a case that is not there.
            self._save_case(self._case_path(name), review.case)
            _replace_file(key_path, rows)
        return key_path

    def _save_case(self, path: Path, case: Case) -> None:
        cases = []
        if path.is_file():
            for saved_case in tasks.load_notes(path).notes:
                if saved_case.id != case.id:
                    cases.append(saved_case)
        cases.append(case)
        _replace_file(path, json.loads(tasks.dump_json(cases)))


def _merge_row(review: Review, earlier: Mapping[str, Any]) -> dict[str, Any]:
    earlier_review = earlier.get("review") or {}
    labels = []
    for sentence_id, label in review.labels.items():
        labels.append({"sentence_id": sentence_id, "relevance": label.value})
    now = datetime.now(UTC)
    row: dict[str, Any] = {
        "case_id": review.case.id,
        "answers": labels or earlier.get("answers", []),
        "review": {
            "thumb": review.thumb or earlier_review.get("thumb", ""),
            "run": review.run or earlier_review.get("run", ""),
            "at": now.isoformat(timespec="seconds"),
        },
    }
    answer = review.answer.strip() or earlier.get("clinician_answer", "")
    if answer:
        row["clinician_answer"] = answer
    return row


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """The saved reviews. Raises `InputError` for a damaged file: saving over it would lose them."""
    with storage_errors(path):
        if not path.is_file():
            return []
        text = path.read_bytes()
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        fix = "Repair the file, or move it away; it is not overwritten."
        raise InputError(path, [": is not a file of reviews."], fix)
    return rows


def _replace_file(path: Path, content: Any) -> None:
    write_private_text(path, json.dumps(content, ensure_ascii=False, indent=1))


def _safe_file_name(name: str) -> str:
    safe_name = _UNSAFE_CHARACTERS.sub("-", name).strip(".-")
    return safe_name or "cases"
