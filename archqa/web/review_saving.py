"""Saving of what a form of a review sent, and what becomes of it."""

from collections.abc import Mapping
from typing import NamedTuple

from archqa.core.question import Item
from archqa.errors import ArchqaError
from archqa.review.changes import Conflict
from archqa.review.store import ReviewStore
from archqa.web.page_renderer import PageRenderer
from archqa.web.review_form import SubmittedReview, field_in_words, value_in_words


class Saved(NamedTuple):
    """What became of a form: the number of fields that are saved now, and the conflicts.

    `page` shows the conflicts, where there are any.
    """

    fields: int
    reviewer: str
    page: str = ""


class ConflictRow(NamedTuple):
    """An edit that met another one, in words."""

    conflict: Conflict
    field: str
    stored: str
    edit: str


class ReviewSaving:
    """Saves reviews, and renders the pages of those that could not be saved, or not whole."""

    def __init__(self, renderer: PageRenderer, store: ReviewStore) -> None:
        self._renderer = renderer
        self._store = store

    def save(self, case_set: str, item: Item, review: SubmittedReview, action: str) -> Saved:
        """Save what a reviewer changed. Raises as `ReviewStore.save` does."""
        outcome = self._store.save(
            case_set, item, review.edits, review.seen, review.reviewer, review.version
        )
        page = self._conflicts(outcome.conflicts, len(outcome.saved), review, action)
        return Saved(len(outcome.saved), review.reviewer, page)

    def adjudicate(self, case_set: str, item: Item, review: SubmittedReview, action: str) -> Saved:
        """Save what an adjudicator decided. Raises as `ReviewStore.adjudicate` does."""
        outcome = self._store.adjudicate(
            case_set, item, review.edits, review.seen, review.reviewer, review.version
        )
        page = self._conflicts(outcome.conflicts, len(outcome.saved), review, action)
        return Saved(len(outcome.saved), review.reviewer, page)

    def unsaved(self, action: str, form: Mapping[str, str], error: ArchqaError) -> str:
        """Return the page of a review that could not be saved: it can be sent from there again."""
        texts = ("field-better_answer", "field-remark")
        hidden = {name: value for name, value in form.items() if name not in texts}
        return self._renderer.render(
            "unsaved.html.jinja",
            action=action,
            fields=hidden,
            texts={name: form[name] for name in texts if form.get(name)},
            message=str(error),
        )

    def _conflicts(
        self, conflicts: tuple[Conflict, ...], saved: int, review: SubmittedReview, action: str
    ) -> str:
        if not conflicts:
            return ""
        rows = [_conflict_row(conflict) for conflict in conflicts]
        return self._renderer.render(
            "conflict.html.jinja", action=action, rows=rows, saved=saved, review=review
        )


def _conflict_row(conflict: Conflict) -> ConflictRow:
    return ConflictRow(
        conflict,
        field_in_words(conflict.field),
        value_in_words(conflict.stored),
        value_in_words(conflict.edit),
    )
