"""The reviews of a folder of runs, on disk.

annotations/<set>.reviews.jsonl   the log: every event, in the order of saving (`ReviewEvent`)
annotations/<set>.json            the reviewed cases that have a note
annotations/<set>_key.json        the key that `ReviewStore.write_key` makes of the log
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from archqa import tasks
from archqa.core.case import Case
from archqa.core.question import Item
from archqa.errors import CallerError
from archqa.review.changes import Author, SaveOutcome, plan_save, plan_undo
from archqa.review.event import ReviewEvent, Seen, edit_mistake, reviewer_name
from archqa.review.key import WrittenKey, write_key
from archqa.review.log import NOTHING_READ, ReadLog, append_events, log_lock, read_log
from archqa.review.state import CaseSetReviews
from archqa.safety.files import storage_errors, write_private_text

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


class ReviewStore:
    """The reviews of case sets. A case set is a name; all processes that write share one folder.

    Every method raises `InputError` for damaged files, which stay as they are, and `StorageError`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = Lock()
        self._cache: dict[str, tuple[ReadLog, CaseSetReviews]] = {}

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
        known, reviews = self._cache.get(case_set) or (NOTHING_READ, CaseSetReviews(()))
        log = read_log(self.log_path(case_set), known)
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
        edits: Mapping[str, str],
        seen: Mapping[str, str],
        reviewer: str,
        version: Seen,
    ) -> SaveOutcome:
        """Save the fields that a reviewer changed; "" clears a field.

        `seen` is what the page had shown for these fields. A field that holds something else by
        now, and not what the edit says, is not saved but a conflict; the other fields are saved.
        Raises `CallerError` without a reviewer's name, and for what cannot be said of the item.
        """
        author = Author(item.id, reviewer_name(reviewer), adjudicates=False)
        return self._save(case_set, item, edits, seen, author, version)

    def adjudicate(
        self,
        case_set: str,
        item: Item,
        edits: Mapping[str, str],
        seen: Mapping[str, str],
        reviewer: str,
        version: Seen,
    ) -> SaveOutcome:
        """Save what counts where reviewers differ; all adjudicators share one state. As `save`."""
        author = Author(item.id, reviewer_name(reviewer), adjudicates=True)
        return self._save(case_set, item, edits, seen, author, version)

    def undo(
        self, case_set: str, case_id: str, reviewer: str, *, adjudicated: bool = False
    ) -> tuple[ReviewEvent, ...]:
        """Take back the reviewer's last save of a case; again, the one before.

        Returns the fields that were put back, as the new events of the log; none if there is
        nothing to take back.
        """
        author = Author(case_id, reviewer_name(reviewer), adjudicated)
        if not self.log_path(case_set).is_file():
            return ()
        with self._writing(case_set) as events:
            restored = plan_undo(events, author)
            append_events(self.log_path(case_set), restored)
        return restored

    def can_undo(self, case_set: str, case_id: str, reviewer: str) -> bool:
        """Whether a reviewer has a save of a case that can be taken back."""
        author = Author(case_id, reviewer, adjudicates=False)
        return bool(plan_undo(self.reviews(case_set).events, author))

    def write_key(self, case_set: str) -> WrittenKey | None:
        """Write the key of what reviewers agree on or adjudicated; None if no sentence has a label.

        A key that was not made from the log is kept beside it (`<set>_key.before-reviews.json`).
        """
        path = self.key_path(case_set)
        if not self.log_path(case_set).is_file():
            return None
        with self._writing(case_set) as events:
            return write_key(CaseSetReviews(events), path, self.case_path(case_set))

    def _save(
        self,
        case_set: str,
        item: Item,
        edits: Mapping[str, str],
        seen: Mapping[str, str],
        author: Author,
        version: Seen,
    ) -> SaveOutcome:
        cleaned = {field: _clean(value) for field, value in edits.items()}
        shown = {field: _clean(value) for field, value in seen.items()}
        mistakes = [edit_mistake(item, field, value) for field, value in cleaned.items()]
        for mistake in filter(None, mistakes):
            raise CallerError(f"{mistake}\nReload the page, and save again.")
        with self._writing(case_set) as events:
            outcome = plan_save(events, author, cleaned, shown, version)
            if outcome.saved:
                # The case comes first: the log must not name a case that is not there.
                self._save_case(case_set, item)
                append_events(self.log_path(case_set), outcome.saved)
        return outcome

    @contextmanager
    def _writing(self, case_set: str) -> Iterator[tuple[ReviewEvent, ...]]:
        """Hold the lock of a case set; yields its events as they are now."""
        with storage_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.log_path(case_set)
        with self._lock, log_lock(path):
            yield self.reviews(case_set).events

    def _save_case(self, case_set: str, item: Item) -> None:
        """Add a case to the reviewed ones; questions and tasks on a record stay in their run."""
        if not isinstance(item, Case):
            return
        path = self.case_path(case_set)
        with storage_errors(path):
            saved = list(tasks.load_notes(path).notes) if path.is_file() else []
            others = [case for case in saved if case.id != item.id]
            if len(others) == len(saved) or item not in saved:
                rows = json.loads(tasks.dump_json([*others, item]))
                write_private_text(path, json.dumps(rows, ensure_ascii=False, indent=1))


def _clean(text: str) -> str:
    """A value as it is stored; a form sends line ends of Windows."""
    return text.replace("\r\n", "\n").strip()


def _safe_file_name(name: str) -> str:
    safe_name = _UNSAFE_CHARACTERS.sub("-", name).strip(".-")
    return safe_name or "cases"
