"""What reviewers say of answers, kept as a key: a case file and, beside it, a key that `archqa score` takes.

annotations/<cases>.json          the cases that were reviewed, as archqa reads them
annotations/<cases>_key.json      [{"case_id", "answers": [{"sentence_id", "relevance"}], "clinician_answer",
                                    "review": {"thumb", "run", "at"}}]
"""

import json
import os
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

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Review(FrozenModel):
    """One reviewer's word on one case. `labels` is empty where only a thumb was given."""

    case: Case
    labels: dict[str, Relevance] = {}
    answer: str = ""
    thumb: str = ""
    run: str = ""


class Annotations:
    """The reviews of a folder of runs. Files are readable by their owner alone and replaced in one step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._alone = Lock()

    def key_path(self, name: str) -> Path:
        """Where the key of these cases is, or will be."""
        return self._folder / f"{_UNSAFE.sub('-', name).strip('.-') or 'cases'}_key.json"

    def row(self, name: str, case_id: str) -> Mapping[str, Any] | None:
        """What was said of a case so far; None if nothing was."""
        return next(
            (row for row in _rows(self.key_path(name)) if row.get("case_id") == case_id), None
        )

    def save(self, name: str, review: Review) -> Path:
        """Add a review, over an earlier one of the same case; what was given before stays where nothing is new."""
        key = self.key_path(name)
        with self._alone:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            before = self.row(name, review.case.id) or {}
            rows = [row for row in _rows(key) if row.get("case_id") != review.case.id]
            _replace(key, [*rows, _row(review, before)])
            self._keep_case(key.with_name(key.name.replace("_key.json", ".json")), review.case)
        return key

    def _keep_case(self, path: Path, case: Case) -> None:
        there = tasks.load_notes(path).notes if path.is_file() else ()
        kept = [*(each for each in there if each.id != case.id), case]
        _replace(path, json.loads(tasks.dump_json(kept)))


def _row(review: Review, before: Mapping[str, Any]) -> dict[str, Any]:
    labels = [
        {"sentence_id": each, "relevance": label.value} for each, label in review.labels.items()
    ]
    said = dict(before.get("review") or {})
    row: dict[str, Any] = {
        "case_id": review.case.id,
        "answers": labels or before.get("answers", []),
        "review": {
            "thumb": review.thumb or said.get("thumb", ""),
            "run": review.run or said.get("run", ""),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    }
    answer = review.answer.strip() or before.get("clinician_answer", "")
    return {**row, "clinician_answer": answer} if answer else row


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    return [row for row in content if isinstance(row, dict)] if isinstance(content, list) else []


def _replace(path: Path, content: Any) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(content, file, ensure_ascii=False, indent=1)
    draft.replace(path)
