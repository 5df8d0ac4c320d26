"""Which edits of a page can be saved, which ones meet a conflict, and what a taking back restores."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from archqa.review.event import ReviewEvent, Seen, is_about_answer
from archqa.review.state import FieldEvents, last_words


class Conflict(NamedTuple):
    """An edit that was not saved: its field was changed after the page had been opened.

    `stored` is what stands now (empty if it was cleared), saved by `reviewer` at `at`.
    """

    field: str
    stored: str
    edit: str
    reviewer: str
    at: datetime


class SaveOutcome(NamedTuple):
    """The events that were saved, and the edits that were not."""

    saved: tuple[ReviewEvent, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


class Author(NamedTuple):
    """Whose words are changed: a reviewer's own, or the adjudicated ones, which all share."""

    case_id: str
    reviewer: str
    adjudicates: bool

    def wrote(self, event: ReviewEvent) -> bool:
        """Whether an event is one of the words that this author changes."""
        same_case = event.case_id == self.case_id
        if self.adjudicates:
            return same_case and event.adjudicated
        return same_case and not event.adjudicated and event.reviewer == self.reviewer


def plan_save(
    events: Sequence[ReviewEvent],
    author: Author,
    edits: Mapping[str, str],
    seen: Mapping[str, str],
    version: Seen,
) -> SaveOutcome:
    """The events that save these edits, and the edits in conflict with what stands now.

    What an edit would not change makes no event.
    """
    own = [event for event in events if author.wrote(event)]
    newest = {(event.field, event.answer_of): event for event in own}
    at = next_time(events)
    saved, conflicts = [], []
    for field, edit in edits.items():
        run = version.run if is_about_answer(field) else ""
        last = newest.get((field, run))
        stored = last.value if last else ""
        if edit == stored:
            continue
        if last and stored != seen.get(field, ""):
            conflicts.append(Conflict(field, stored, edit, last.reviewer, last.at))
        else:
            saved.append(_event(author, field, edit, at, version))
    return SaveOutcome(tuple(saved), tuple(conflicts))


def plan_undo(events: Sequence[ReviewEvent], author: Author) -> tuple[ReviewEvent, ...]:
    """The events that take back the author's last save that stands; none if there is no such save."""
    own = [event for event in events if author.wrote(event)]
    undone = {event.undoes for event in own if event.undoes}
    standing = [event for event in own if not event.undoes and event.at not in undone]
    mine = [event.at for event in standing if event.reviewer == author.reviewer]
    if not mine:
        return ()
    before = last_words(event for event in standing if event.at != mine[-1])
    taken = [event for event in standing if event.at == mine[-1]]
    return tuple(_restoring(taken, last_words(own), before, next_time(events)))


def next_time(events: Sequence[ReviewEvent]) -> datetime:
    """Now, but later than every event: the time tells the saves of a log apart."""
    now = datetime.now(UTC)
    return max(now, events[-1].at + timedelta(microseconds=1)) if events else now


def _event(author: Author, field: str, value: str, at: datetime, version: Seen) -> ReviewEvent:
    return ReviewEvent(
        case_id=author.case_id,
        field=field,
        value=value,
        reviewer=author.reviewer,
        at=at,
        run=version.run,
        run_version="" if version.blind else version.run_version,
        blind=version.blind,
        adjudicated=author.adjudicates,
    )


def _restoring(
    taken: Sequence[ReviewEvent], now: FieldEvents, before: FieldEvents, at: datetime
) -> Iterator[ReviewEvent]:
    """Events that put the fields of a save back; each keeps what its reviewer had seen back then."""
    for event in taken:
        place = (event.field, event.answer_of)
        stands = now.get(place)
        if (stands.value if stands else "") != event.value:
            continue  # Somebody changed an adjudicated field since.
        restored = before.get(place) or event.model_copy(update={"value": ""})
        yield restored.model_copy(update={"at": at, "undoes": event.at, "reviewer": event.reviewer})
