"""The form of a review: what it shows, what a reviewer changed in it, and the saving of that.

Fields of the form: `field-<field>` is what the reviewer says, `seen-<field>` what was saved when the
page was made (absent if nothing was). A field that is absent, or as it was seen, is no edit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fastapi.responses import Response

from archqa.core.case import Case
from archqa.core.question import Item
from archqa.errors import ArchqaError, CallerError, InputError, StorageError
from archqa.report.note_view import ClaimView, SentenceView
from archqa.review import AnswerVersion, ReviewEvent, SubmittedReview
from archqa.review.changes import Conflict, SaveOutcome
from archqa.review.event import clean_value
from archqa.web.reviewer import remember_name
from archqa.web.site import Site, redirect

_FIELD = "field-"
_SEEN = "seen-"
_TEXTS = ("field-better_answer", "field-remark")


class ReviewForm(NamedTuple):
    """What the form shows. `saved` is what its reviewer has said so far, by field.

    `version` says which version of which run's answer the page shows. `verdicts` are the fields
    that judge the answer as a whole; `shows_key` is set where the key's labels stand in `sentences`.
    """

    action: str
    reviewer: str
    version: AnswerVersion
    saved: Mapping[str, str]
    lines: Sequence[ClaimView] = ()
    sentences: Sequence[SentenceView] = ()
    verdicts: Sequence[str] = ()
    has_next: bool = False
    can_undo: bool = False
    shows_key: bool = False

    @property
    def undo_action(self) -> str:
        """The URL that takes the reviewer's last save back."""
        path, mark, query = self.action.partition("?")
        return f"{path}/undo{mark}{query}"


class ConflictRow(NamedTuple):
    """An edit that met another one, in words."""

    conflict: Conflict
    field: str
    stored: str
    edit: str


class HistoryRow(NamedTuple):
    """One event of the audit trail in words."""

    event: ReviewEvent
    field: str
    value: str
    circumstances: str


class UnsavedReview(Exception):
    """A review could not be saved: a page has all of it, and sends it again.

    The status says why: 422 for values that a field does not take, 507 for the storage (RFC 4918,
    11.5).
    """

    def __init__(
        self,
        action: str,
        form: Mapping[str, str],
        error: ArchqaError,
        status: int,
    ) -> None:
        self._action = action
        self._form = form
        self._error = error
        self._status = status
        super().__init__(action)

    def page(self, site: Site) -> Response:
        """Return the page of the review."""
        hidden = dict(self._form)
        texts = {}
        for name in _TEXTS:
            text = hidden.pop(name, "")
            if text:
                texts[name] = text
        return site.page(
            "unsaved.html.jinja",
            self._status,
            action=self._action,
            fields=hidden,
            texts=texts,
            message=str(self._error),
        )


@contextmanager
def keep_review(action: str, form: Mapping[str, str]) -> Iterator[None]:
    """Keep a review on a page if it cannot be saved. Raises `UnsavedReview`."""
    try:
        yield
    except (InputError, StorageError) as error:
        raise UnsavedReview(action, form, error, 507) from None
    except CallerError as error:
        raise UnsavedReview(action, form, error, 422) from None


def saved_response(
    site: Site,
    review: SubmittedReview,
    outcome: SaveOutcome,
    action: str,
    next_url: str,
) -> Response:
    """Go on after a review was saved; edits in conflict are kept on a page (409)."""
    if outcome.conflicts:
        rows = []
        for conflict in outcome.conflicts:
            field = field_in_words(conflict.field)
            stored = value_in_words(conflict.stored)
            rows.append(
                ConflictRow(conflict, field, stored, value_in_words(conflict.edit))
            )
        response = site.page(
            "conflict.html.jinja",
            409,
            action=action,
            rows=rows,
            saved=len(outcome.saved),
            review=review,
        )
    else:
        response = redirect(next_url)
    remember_name(response, review.reviewer)
    return response


def parse_review(
    form: Mapping[str, str],
    reviewer: str,
    run: str = "",
) -> SubmittedReview:
    """Return the review of a form; the name in the form goes before that of the cookie."""
    fields: dict[str, str] = {}
    page_values: dict[str, str] = {}
    for name, value in form.items():
        if name.startswith(_FIELD):
            fields[name.removeprefix(_FIELD)] = clean_value(value)
        elif name.startswith(_SEEN):
            page_values[name.removeprefix(_SEEN)] = clean_value(value)
    edits = {}
    for field, value in fields.items():
        if value != page_values.get(field, ""):
            edits[field] = value
    version = AnswerVersion(
        run=run,
        run_version=form.get("run_version", ""),
        blind=form.get("blind") == "1",
    )
    name = form.get("reviewer") or reviewer
    return SubmittedReview(" ".join(name.split()), edits, page_values, version)


def verdict_fields(item: Item, *, has_query: bool) -> tuple[str, ...]:
    """The fields that judge an answer as a whole; sentences of a note have labels of their own."""
    if isinstance(item, Case):
        return ("answer_right",)
    query = ("query_right",) if has_query else ()
    return ("answer_right", "evidence_right", *query)


def history_rows(events: Iterable[ReviewEvent]) -> list[HistoryRow]:
    """The audit trail in words, the latest event first.

    Its circumstances are what the reviewer had seen, and whether the event decides or takes back.
    """
    rows = []
    for event in events:
        circumstances = []
        if event.adjudicated:
            circumstances.append("adjudicated")
        if event.undoes:
            circumstances.append("undo")
        if event.blind:
            circumstances.append("blind")
        elif event.run:
            circumstances.append(f"saw {event.run} {event.run_version}".rstrip())
        field = field_in_words(event.field)
        value = value_in_words(event.value)
        rows.append(HistoryRow(event, field, value, ", ".join(circumstances)))
    return rows[::-1]


def field_in_words(field: str) -> str:
    """`sentence/3` → `sentence 3`, `answer_right` → `answer right`."""
    return field.replace("/", " ", 1).replace("_", " ")


def value_in_words(value: str) -> str:
    """A label as the pages write it; a value that was taken back is called cleared."""
    return value.replace("not-relevant", "not relevant") or "cleared"
