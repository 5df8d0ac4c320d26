"""The reviews of a folder of runs, on disk: whole lines are appended under a lock, none is changed.

annotations/<set>.reviews.jsonl   the log: every event, in the order of saving (`ReviewEvent`)
annotations/<set>.json            the reviewed cases that have a note
annotations/<set>_key.json        the key that `ReviewStore.write_key` makes of the log: the labels
                                  that reviewers agree on or that somebody adjudicated

[{"case_id", "answers": [{"sentence_id", "relevance"}], "clinician_answer",
  "review": {"reviewers", "runs", "run_versions", "at", "blind", "disagreements"}}]
"""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from archqa import tasks
from archqa.core.case import Case
from archqa.core.question import Item
from archqa.core.value import JsonObject
from archqa.errors import CallerError, InputError, StorageError
from archqa.review.changes import SaveOutcome, SubmittedReview, plan_save, plan_undo
from archqa.review.event import (
    ReviewEvent,
    clean_value,
    edit_mistake,
    field_sentence_id,
    reviewer_name,
)
from archqa.review.state import CaseReviews, CaseSetReviews
from archqa.safety.files import (
    LocksUnsupported,
    acquire_lock,
    release_lock,
    storage_errors,
    write_private_text,
)


class WrittenKey(NamedTuple):
    """A key: how many sentences it labels, and how many were left out as disputed."""

    path: Path
    cases: int
    sentences: int
    disagreements: int


def write_key(reviews: CaseSetReviews, path: Path) -> WrittenKey | None:
    """Write the key of these reviews; None, and no key of reviews remains, if it labels nothing."""
    rows = []
    sentence_count = 0
    disagreement_count = 0
    for case in reviews.cases:
        row = _key_row(case)
        disagreement_count += row["review"]["disagreements"]
        if row["answers"]:
            sentence_count += len(row["answers"])
            rows.append(row)
    with storage_errors(path):
        # A key that was not made from the log may hold labels that nobody set here.
        if path.is_file() and not _is_key_of_reviews(path):
            number = 1
            old_path = path.with_name(f"{path.stem}.before-reviews.json")
            while old_path.exists():
                number += 1
                old_path = path.with_name(f"{path.stem}.before-reviews-{number}.json")
            path.replace(old_path)
        if not rows:
            path.unlink(missing_ok=True)
            return None
        write_private_text(path, json.dumps(rows, ensure_ascii=False, indent=1))
    return WrittenKey(path, len(rows), sentence_count, disagreement_count)


def _key_row(case: CaseReviews) -> JsonObject:
    answers = []
    sources: list[ReviewEvent] = []
    for field, _ in case.fields:
        decision = case.decision(field)
        sentence_id = field_sentence_id(field)
        if sentence_id and decision:
            answers.append({"sentence_id": sentence_id, "relevance": decision.value})
            sources += [*case.events_by_reviewer(field).values(), decision]
    row: JsonObject = {"case_id": case.case_id, "answers": answers}
    better_answer = case.decision("better_answer")
    if better_answer:
        row["clinician_answer"] = better_answer.value
        sources += [*case.events_by_reviewer("better_answer").values(), better_answer]
    disagreements = 0
    for disagreement in case.disagreements:
        if disagreement.is_open and field_sentence_id(disagreement.field) is not None:
            disagreements += 1
    row["review"] = _provenance(sources, disagreements)
    return row


def _provenance(sources: Sequence[ReviewEvent], disagreements: int) -> JsonObject:
    """Who said what the row holds, when, and which runs' answers they had seen."""
    reviewers, runs, versions = set(), set(), set()
    is_blind = True
    for event in sources:
        reviewers.add(event.reviewer)
        if not event.blind:
            is_blind = False
            runs.add(event.run)
            versions.add(event.run_version)
    last = max((event.at for event in sources), default=None)
    return {
        "reviewers": sorted(reviewers),
        "runs": sorted(runs - {""}),
        "run_versions": sorted(versions - {""}),
        "at": last.isoformat(timespec="seconds") if last else "",
        "blind": is_blind,
        "disagreements": disagreements,
    }


def _is_key_of_reviews(path: Path) -> bool:
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    if not isinstance(rows, list):
        return False
    for row in rows:
        review = row.get("review") if isinstance(row, dict) else None
        if not isinstance(review, dict) or "reviewers" not in review:
            return False
    return True


_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.02


class _Log(NamedTuple):
    """A log as it was read: its whole lines, and their events in the order of saving."""

    content: bytes = b""
    events: tuple[ReviewEvent, ...] = ()


class ReviewStore:
    """The reviews of case sets. A case set is a name; all processes that write share one folder.

    Every method raises `InputError` for damaged files, which stay as they are, and `StorageError`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = Lock()
        self._cache: dict[str, tuple[_Log, CaseSetReviews]] = {}

    def log_path(self, case_set: str) -> Path:
        """The path of the log, whether it exists or not."""
        return self.folder / f"{_safe_file_name(case_set)}.reviews.jsonl"

    def key_path(self, case_set: str) -> Path:
        """The path of the key, whether it exists or not."""
        return self.folder / f"{_safe_file_name(case_set)}_key.json"

    def case_path(self, case_set: str) -> Path:
        """The path of the reviewed cases, whether it exists or not."""
        return self.folder / f"{_safe_file_name(case_set)}.json"

    def reviews(self, case_set: str) -> CaseSetReviews:
        """The state of all cases, as the log is now."""
        unread = (_Log(), CaseSetReviews(()))
        known, reviews = self._cache.get(case_set, unread)
        log = _read_log(self.log_path(case_set), known)
        if log is not known:
            reviews = CaseSetReviews(log.events)
            self._cache[case_set] = (log, reviews)
        return reviews

    def history(self, case_set: str, case_id: str) -> tuple[ReviewEvent, ...]:
        """Every event of a case, the earliest first."""
        return self.reviews(case_set).case(case_id).events

    def save(
        self,
        case_set: str,
        item: Item,
        review: SubmittedReview,
        *,
        adjudicates: bool = False,
    ) -> SaveOutcome:
        """Save the fields that a reviewer changed.

        A field whose value is now another one than the page had shown, and not that of the edit, is
        not saved but a conflict; the other fields are saved. What is adjudicated counts where
        reviewers differ; all who adjudicate share one state. Raises `CallerError` without a
        reviewer's name, and for values that a field of the item does not take.
        """
        name = reviewer_name(review.reviewer)
        edits = {}
        for field, value in review.edits.items():
            edits[field] = clean_value(value)
            mistake = edit_mistake(item, field, edits[field])
            if mistake:
                raise CallerError(f"{mistake}\nReload the page, and save again.")
        page_values = {
            field: clean_value(value) for field, value in review.page_values.items()
        }
        review = review._replace(reviewer=name, edits=edits, page_values=page_values)
        with self._locked_events(case_set) as events:
            outcome = plan_save(events, item.id, review, adjudicates=adjudicates)
            if outcome.saved:
                # The case comes first: the log must not name a case that is not there.
                self._save_case(case_set, item)
                _append_events(self.log_path(case_set), outcome.saved)
        return outcome

    def undo(
        self,
        case_set: str,
        case_id: str,
        reviewer: str,
    ) -> tuple[ReviewEvent, ...]:
        """Take back the reviewer's last save of a case; again, the one before.

        Returns the fields that were put back, as the new events of the log; none if there is
        nothing to take back.
        """
        name = reviewer_name(reviewer)
        if not self.log_path(case_set).is_file():
            return ()
        with self._locked_events(case_set) as events:
            restored = plan_undo(events, case_id, name)
            _append_events(self.log_path(case_set), restored)
        return restored

    def can_undo(
        self,
        case_set: str,
        case_id: str,
        reviewer: str,
    ) -> bool:
        """Whether a reviewer has a save of a case that can be taken back."""
        return bool(plan_undo(self.reviews(case_set).events, case_id, reviewer))

    def write_key(self, case_set: str) -> WrittenKey | None:
        """Write the key of what reviewers agree on or adjudicated; None if no sentence has a label.

        A key that was not made from the log is moved to `<set>_key.before-reviews.json`.
        """
        if not self.log_path(case_set).is_file():
            return None
        with self._locked_events(case_set) as events:
            reviews = CaseSetReviews(events)
            return write_key(reviews, self.key_path(case_set))

    @contextmanager
    def _locked_events(self, case_set: str) -> Iterator[tuple[ReviewEvent, ...]]:
        """Hold the lock of a case set; yields its events as they are now."""
        with storage_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock, _log_lock(self.log_path(case_set)):
            yield self.reviews(case_set).events

    def _save_case(self, case_set: str, item: Item) -> None:
        """Add a case to the reviewed ones; questions and tasks on a record stay in their run."""
        if not isinstance(item, Case):
            return
        path = self.case_path(case_set)
        with storage_errors(path):
            saved: list[Case] = []
            if path.is_file():
                saved += tasks.load_notes(path).notes
            if item in saved:
                return
            others = [case for case in saved if case.id != item.id]
            rows = json.loads(tasks.dump_json([*others, item]))
            write_private_text(path, json.dumps(rows, ensure_ascii=False, indent=1))


def _safe_file_name(name: str) -> str:
    safe_name = _UNSAFE_CHARACTERS.sub("-", name).strip(".-")
    return safe_name or "cases"


def _read_log(path: Path, known: _Log) -> _Log:
    """The log as it is now; of one that goes on from `known`, only the new lines are parsed.

    A last line without its end was never confirmed to anybody and does not count. Raises
    `InputError` for a damaged file: appending to it would bury the damage.
    """
    with storage_errors(path):
        content = path.read_bytes() if path.is_file() else b""
    content = content[: content.rfind(b"\n") + 1]
    if content == known.content:
        return known
    if not content.startswith(known.content):
        known = _Log()
    new_content = content[len(known.content) :]
    new_lines = new_content.split(b"\n")[:-1]
    try:
        events = tuple(map(ReviewEvent.model_validate_json, new_lines))
    except (ValueError, RecursionError):
        fix = "Repair the file, or move it away; it is not overwritten."
        raise InputError(path, [": is not a log of reviews."], fix) from None
    return _Log(content, known.events + events)


def _append_events(path: Path, events: Sequence[ReviewEvent]) -> None:
    """Append events, all or none; they are on disk when this returns. Hold the lock.

    Raises `StorageError`.
    """
    lines = "".join(f"{event.model_dump_json()}\n" for event in events)
    new_content = lines.encode("utf-8", "backslashreplace")
    is_new = not path.exists()
    with storage_errors(path):
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        descriptor = os.open(path, flags, 0o600)
        try:
            content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
            size = content.rfind(b"\n") + 1
            if size < len(content):
                os.ftruncate(descriptor, size)  # Its last line was never finished.
            try:
                written = 0
                while written < len(new_content):
                    written += os.write(descriptor, new_content[written:])
                os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, size)
                if is_new:
                    path.unlink()
                raise
        finally:
            os.close(descriptor)


@contextmanager
def _log_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a log against other processes and threads. Raises `StorageError`."""
    lock_path = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    descriptor = None
    with storage_errors(lock_path), suppress(LocksUnsupported):
        while (descriptor := acquire_lock(lock_path)) is None:
            if time.monotonic() > deadline:
                reason = f"Another process keeps {lock_path} locked."
                raise StorageError(f"{reason}\nSave again in a moment.")
            time.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        if descriptor is not None:
            release_lock(lock_path, descriptor)
