"""Which edits of a review can be saved, which ones meet a conflict, and what an undo restores."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from archqa.review.event import AnswerVersion, ReviewEvent, is_about_answer
from archqa.review.state import latest_events


class SubmittedReview(NamedTuple):
    """What a reviewer changed on a page: `edits` by field, the value "" clears a field.

    `page_values` are the values that the page had shown, by field.
    """

    reviewer: str
    edits: Mapping[str, str]
    page_values: Mapping[str, str] = {}
    version: AnswerVersion = AnswerVersion()


class Conflict(NamedTuple):
    """An edit that was not saved: its field was changed after the page had been opened.

    `stored` is the current value (empty if it was cleared), saved by `reviewer` at `at`.
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


def plan_save(
    events: Sequence[ReviewEvent],
    case_id: str,
    review: SubmittedReview,
    *,
    adjudicates: bool,
) -> SaveOutcome:
    """The events that save these edits, and the edits in conflict with the current values.

    Each reviewer has a state of their own; all who adjudicate share one. An edit that changes
    nothing makes no event.
    """
    latest = {}
    for event in events:
        is_own = adjudicates or event.reviewer == review.reviewer
        if event.case_id == case_id and event.adjudicated == adjudicates and is_own:
            latest[event.field, event.judged_run] = event
    version = review.version
    saved_at = _next_time(events)
    saved, conflicts = [], []
    for field, edit in review.edits.items():
        judged_run = version.run if is_about_answer(field) else ""
        last = latest.get((field, judged_run))
        stored = last.value if last else ""
        if edit == stored:
            continue
        if last and stored != review.page_values.get(field, ""):
            conflicts.append(Conflict(field, stored, edit, last.reviewer, last.at))
            continue
        event = ReviewEvent(
            case_id=case_id,
            field=field,
            value=edit,
            reviewer=review.reviewer,
            at=saved_at,
            run=version.run,
            run_version="" if version.blind else version.run_version,
            blind=version.blind,
            adjudicated=adjudicates,
        )
        saved.append(event)
    return SaveOutcome(tuple(saved), tuple(conflicts))


def plan_undo(
    events: Sequence[ReviewEvent], case_id: str, reviewer: str
) -> tuple[ReviewEvent, ...]:
    """The events that take back a reviewer's last save of a case; none if there is no such save.

    A restored event keeps what the reviewer had seen when it was saved first.
    """
    own_events = []
    undone_saves = set()
    for event in events:
        if (
            event.case_id == case_id
            and event.reviewer == reviewer
            and not event.adjudicated
        ):
            own_events.append(event)
            undone_saves.add(event.undoes)
    standing = []
    for event in own_events:
        if event.undoes is None and event.at not in undone_saves:
            standing.append(event)
    if not standing:
        return ()
    last_save = standing[-1].at
    state_before = latest_events(event for event in standing if event.at != last_save)
    undone_at = _next_time(events)
    restored = []
    for event in standing:
        if event.at == last_save:
            cleared = event.model_copy(update={"value": ""})
            previous = state_before.get((event.field, event.judged_run)) or cleared
            update = {"at": undone_at, "undoes": last_save}
            restored.append(previous.model_copy(update=update))
    return tuple(restored)


def _next_time(events: Sequence[ReviewEvent]) -> datetime:
    """Now, but later than every event: the time tells the saves of a log apart."""
    now = datetime.now(UTC)
    if not events:
        return now
    return max(now, events[-1].at + timedelta(microseconds=1))
