"""The pages of reviews of a run's cases, and what their forms save.

A method returns None if there is no such page.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from archqa.core.case import Case
from archqa.core.question import ClinicalTask, Item
from archqa.report.case_view import question_texts
from archqa.report.gold import Gold
from archqa.report.record_view import FhirQuestionView, fhir_question_view
from archqa.report.task_view import TaskView, task_view
from archqa.review.event import ReviewEvent, Seen
from archqa.review.store import ReviewStore
from archqa.runs.record import CaseRecord
from archqa.web.page_renderer import PageRenderer
from archqa.web.review_form import (
    ReviewForm,
    history_rows,
    note_rows,
    parse_review,
    verdict_fields,
)
from archqa.web.review_queue import (
    ORDERS,
    SHOWN,
    Queue,
    QueueChoice,
    review_queue,
    specialties,
)
from archqa.web.review_saving import ReviewSaving, Saved
from archqa.web.reviewable_runs import ReviewableRun, ReviewableRuns
from archqa.web.reviewer import Reviewer
from archqa.web.run_pages import review_url, run_url


class Notice(NamedTuple):
    """What the last form did, said on the next page: fields saved or put back, of which case."""

    saved: int | None = None
    undone: int | None = None
    of: int | None = None


class _Shown(NamedTuple):
    """What a page shows of a run's answer: nothing, the answer, or the answer with the key."""

    record: CaseRecord | None
    gold: Gold | None
    is_hidden: bool


class ReviewPages:
    """The reviews of the cases of runs."""

    def __init__(
        self,
        renderer: PageRenderer,
        runs: ReviewableRuns,
        store: ReviewStore,
        saving: ReviewSaving,
    ) -> None:
        self._renderer = renderer
        self._runs = runs
        self._store = store
        self._saving = saving

    def review(
        self, name: str, case_index: int, reviewer: Reviewer, choice: QueueChoice, notice: Notice
    ) -> str | None:
        """Return one case of a run with the review form."""
        run = self._runs.find(name)
        item = run.case(case_index) if run else None
        if run is None or item is None:
            return None
        queue = self._queue(run, reviewer, choice)
        shown = self._shown(run, item, reviewer)
        url = review_url(name)
        return self._renderer.render(
            "review.html.jinja",
            item=item,
            run_name=name,
            questions=question_texts(item),
            form=self._form(run, item, shown, reviewer, f"{url}/{case_index}{choice.query}"),
            shown=shown,
            answer_view=_answer_view(item, shown),
            history=self._history(run, item, reviewer),
            queue=queue,
            previous_index=queue.before(case_index),
            next_index=queue.after(case_index),
            case_index=case_index,
            reviewer=reviewer,
            notice=notice,
            urls=_urls(name),
            options={"show": SHOWN, "order": ORDERS},
            specialties=specialties(run.cases),
        )

    def first(self, name: str, reviewer: Reviewer, choice: QueueChoice) -> str | None:
        """Return the URL of the first case of a queue; without one, that of all reviews."""
        run = self._runs.find(name)
        if run is None:
            return None
        first = self._queue(run, reviewer, choice).first()
        return _case_url(name, first, choice, {"queue": "done"})

    def exists(self, name: str, case_index: int) -> bool:
        """Whether a run has a case of this index."""
        run = self._runs.find(name)
        return run is not None and run.case(case_index) is not None

    def save(
        self, name: str, case_index: int, reviewer: Reviewer, form: Mapping[str, str], action: str
    ) -> Saved | None:
        """Save the review of a form. Raises as `ReviewStore.save` does."""
        run = self._runs.find(name)
        item = run.case(case_index) if run else None
        if run is None or item is None:
            return None
        review = parse_review(form, reviewer.name, run.name)
        return self._saving.save(run.case_set, item, review, action)

    def url_after(
        self, name: str, case_index: int, reviewer: Reviewer, choice: QueueChoice, saved: int
    ) -> str | None:
        """Return the URL of the case to review next, after a case was saved."""
        run = self._runs.find(name)
        if run is None:
            return None
        after = self._queue(run, reviewer, choice).after(case_index)
        notice = {"saved": saved, "of": case_index}
        return _case_url(name, after, choice, notice if after is not None else {"queue": "done"})

    def undo(self, name: str, case_index: int, reviewer: Reviewer) -> int | None:
        """Take the reviewer's last save of a case back; return the number of fields put back."""
        run = self._runs.find(name)
        item = run.case(case_index) if run else None
        if run is None or item is None:
            return None
        return len(self._store.undo(run.case_set, item.id, reviewer.name))

    def _queue(self, run: ReviewableRun, reviewer: Reviewer, choice: QueueChoice) -> Queue:
        """The queue of a choice. The worst first would tell a blind reviewer the scores."""
        if reviewer.blind:
            choice = choice._replace(order="")
        scores = run.gold.scores if choice.order == "worst" else {}
        reviews = self._store.reviews(run.case_set)
        run_name = run.name
        return review_queue(choice, run.cases, reviews, reviewer.name, run_name, scores)

    def _shown(self, run: ReviewableRun, item: Item, reviewer: Reviewer) -> _Shown:
        """What the reviewer may see by now. Whoever has ever saved the case has seen the answer."""
        record = run.run.get_record(item.id)
        if not reviewer.blind:
            return _Shown(record, None, is_hidden=False)
        if not self._own_events(run, item, reviewer):
            return _Shown(None, None, is_hidden=True)
        return _Shown(record, run.gold, is_hidden=False)

    def _form(
        self, run: ReviewableRun, item: Item, shown: _Shown, reviewer: Reviewer, action: str
    ) -> ReviewForm:
        run_name = run.name
        events = self._store.reviews(run.case_set).case(item.id).events_of(reviewer.name, run_name)
        is_seen = shown.record is not None
        version = run.version_of(item.id) if is_seen else ""
        form = ReviewForm(
            action=action,
            reviewer=reviewer.name,
            seen=Seen(run_name, version, blind=not is_seen),
            saved={field: event.value for field, event in events.items()},
            verdicts=verdict_fields(item, has_query=_has_query(shown)) if is_seen else (),
            has_next=True,
            can_undo=self._store.can_undo(run.case_set, item.id, reviewer.name),
            shows_key=shown.gold is not None,
        )
        if not isinstance(item, Case):
            return form
        key = shown.gold.keys.get(item.id) if shown.gold else None
        lines, sentences = note_rows(item, shown.record, key)
        return form._replace(lines=lines, sentences=sentences)

    def _own_events(
        self, run: ReviewableRun, item: Item, reviewer: Reviewer
    ) -> tuple[ReviewEvent, ...]:
        events = self._store.history(run.case_set, item.id)
        return tuple(event for event in events if event.reviewer == reviewer.name)

    def _history(self, run: ReviewableRun, item: Item, reviewer: Reviewer) -> dict[str, Any]:
        """The audit trail. What others say is shown once the reviewer has said something too."""
        own = self._own_events(run, item, reviewer)
        every = self._store.history(run.case_set, item.id)
        shown = every if own else ()
        return {"rows": history_rows(shown), "hidden": len(every) - len(shown)}


def _answer_view(item: Item, shown: _Shown) -> FhirQuestionView | TaskView | None:
    """The answer to a question or task on a record; None for notes, and where it is not shown."""
    if isinstance(item, Case) or shown.record is None:
        return None
    gold = shown.gold
    if isinstance(item, ClinicalTask):
        return task_view(shown.record, gold.per_case.get(item.id, {}) if gold else {}, {})
    question = gold.questions.get(item.id) if gold else None
    return fhir_question_view(shown.record, question, {})


def _has_query(shown: _Shown) -> bool:
    return bool(getattr(shown.record and shown.record.result, "query", None))


def _urls(name: str) -> dict[str, str]:
    return {"run": run_url(name), "review": review_url(name), "reviews": f"{run_url(name)}/reviews"}


def _case_url(
    name: str, index: int | None, choice: QueueChoice, notice: Mapping[str, object]
) -> str:
    """The URL of a case's review with a notice; that of all reviews if there is no case."""
    if index is None:
        return f"{run_url(name)}/reviews?{urlencode(notice)}"
    if "queue" in notice:
        return f"{review_url(name)}/{index}{choice.query}"
    mark = "&" if choice.query else "?"
    return f"{review_url(name)}/{index}{choice.query}{mark}{urlencode(notice)}"
