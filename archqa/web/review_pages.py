"""The pages of reviews of a run's cases, the queue of these, and what the forms save."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response

from archqa.core.case import Case
from archqa.core.question import ClinicalTask, Item
from archqa.report.case_table import specialties, specialty
from archqa.report.case_view import question_texts
from archqa.report.note_view import note_view
from archqa.report.record_view import (
    ClinicalTaskView,
    FhirQuestionView,
    clinical_task_view,
    fhir_question_view,
)
from archqa.report.report_data import ReportData
from archqa.review import AnswerVersion, CaseSetReviews
from archqa.runs.record import CaseRecord
from archqa.web.review_form import (
    ReviewForm,
    history_rows,
    keep_review,
    parse_review,
    saved_response,
    verdict_fields,
)
from archqa.web.reviewer import Reviewer, ask_name, read_reviewer
from archqa.web.run_cache import ReviewableRun
from archqa.web.site import NoSuchPage, Pages, Site, redirect, review_url, run_url

SELECTIONS = {
    "": "all cases",
    "unreviewed": "not reviewed by me",
    "disagreeing": "reviewers disagree",
}
ORDERS = {"": "as in the file", "worst": "worst score first"}


class QueueChoice(NamedTuple):
    """What a reviewer chose to work through; empty texts choose everything, in the file's order."""

    show: str = ""
    order: str = ""
    specialty: str = ""

    @property
    def query(self) -> str:
        """The choice as the end of a URL: empty, or from its question mark on."""
        chosen = {name: value for name, value in self._asdict().items() if value}
        return f"?{urlencode(chosen)}" if chosen else ""


class Queue(NamedTuple):
    """The cases of a choice, by index. `order` has all of the specialty, `members` the chosen ones."""

    choice: QueueChoice
    order: Sequence[int]
    members: frozenset[int]
    reviewed: frozenset[int]

    def first(self) -> int | None:
        """The first case that is not reviewed; where reviewers disagree, the first case."""
        for index in self.order:
            is_open = self.choice.show == "disagreeing" or index not in self.reviewed
            if index in self.members and is_open:
                return index
        return None

    def after(self, index: int) -> int | None:
        """The next case. The unreviewed ones begin anew after the last one."""
        place = self._place(index)
        following = [*self.order[place + 1 :]]
        if self.choice.show == "unreviewed":
            following += self.order[:place]
        return self._first_member(following)

    def before(self, index: int) -> int | None:
        """The case before."""
        earlier = self.order[: max(self._place(index), 0)]
        return self._first_member(earlier[::-1])

    @property
    def progress(self) -> str:
        """How much of it is done, as in "6 of 48 reviewed"."""
        return f"{len(self.reviewed)} of {len(self.order)} reviewed"

    def _place(self, index: int) -> int:
        return self.order.index(index) if index in self.order else -1

    def _first_member(self, indices: Sequence[int]) -> int | None:
        for index in indices:
            if index in self.members:
                return index
        return None


def review_queue(
    choice: QueueChoice,
    cases: Sequence[Item],
    reviews: CaseSetReviews,
    reviewer: str,
    run: str,
    scores: Mapping[str, float],
) -> Queue:
    """Return the queue of a choice. `scores` are by case id; cases without a score come last."""
    order = []
    reviewed = set()
    disagreeing = set()
    for index, item in enumerate(cases):
        if choice.specialty and specialty(item) != choice.specialty:
            continue
        order.append(index)
        case_reviews = reviews.case(item.id)
        if case_reviews.reviewer_events(reviewer, run):
            reviewed.add(index)
        if case_reviews.disagrees(run):
            disagreeing.add(index)
    if choice.order == "worst":
        order.sort(key=lambda index: scores.get(cases[index].id, math.inf))
    members = set(order)
    if choice.show == "unreviewed":
        members -= reviewed
    elif choice.show == "disagreeing":
        members = disagreeing
    return Queue(choice, order, frozenset(members), frozenset(reviewed))


ANCHOR = "c1"
"""The beginning of the anchors of a page with one case."""


class Notice(NamedTuple):
    """What the last form did, said on the next page: fields saved or put back, of which case."""

    saved: int | None = None
    undone: int | None = None
    of: int | None = None


class VisibleAnswer(NamedTuple):
    """What a page shows of a run's answer: nothing, the answer, or the answer with the key."""

    record: CaseRecord | None
    gold: ReportData | None = None
    is_hidden: bool = False


def _read_choice(
    show: str = "",
    order: str = "",
    specialty: str = "",
) -> QueueChoice:
    """The queue that a URL names; unknown values are left out."""
    show = show if show in SELECTIONS else ""
    order = order if order in ORDERS else ""
    return QueueChoice(show, order, specialty)


_Choice = Annotated[QueueChoice, Depends(_read_choice)]


class ReviewPages(Pages):
    """The reviews of the cases of runs."""

    def add_routes(self, app: FastAPI) -> None:
        """Add the reviews of a run's cases."""
        app.get("/runs/{name}/review")(self.first)
        app.get("/runs/{name}/review/{case_index}")(self.review)
        app.post("/runs/{name}/review/{case_index}")(self.save)
        app.post("/runs/{name}/review/{case_index}/undo")(self.undo)

    def first(
        self,
        request: Request,
        name: str,
        choice: _Choice,
    ) -> Response:
        """Lead to the first case of a queue; without one, to all reviews."""
        reviewer = read_reviewer(request)
        run = find_run(self._site, name)
        index = self._queue(run, reviewer, choice).first()
        if not reviewer.name:
            return ask_name(request)
        if index is None:
            return redirect(f"{run_url(name)}/reviews?queue=done")
        return redirect(f"{review_url(name)}/{index}{choice.query}")

    def review(
        self,
        request: Request,
        name: str,
        case_index: int,
        choice: _Choice,
        notice: Annotated[Notice, Depends(Notice)],
    ) -> Response:
        """Return one case of a run with the review form."""
        reviewer = read_reviewer(request)
        run, item = find_case(self._site, name, case_index)
        if not reviewer.name:
            return ask_name(request)
        queue = self._queue(run, reviewer, choice)
        events = self._site.reviews.history(run.case_set, item.id)
        has_saved = any(event.reviewer == reviewer.name for event in events)
        # Whoever has ever saved the case has seen the answer.
        visible = VisibleAnswer(run.run.get_record(item.id))
        if reviewer.blind and has_saved:
            visible = visible._replace(gold=run.gold)
        elif reviewer.blind:
            visible = VisibleAnswer(None, is_hidden=True)
        # What others say is shown once the reviewer has said something too.
        visible_events = events if has_saved else ()
        history = {
            "rows": history_rows(visible_events),
            "hidden": len(events) - len(visible_events),
        }
        urls = {
            "run": run_url(name),
            "review": review_url(name),
            "reviews": f"{run_url(name)}/reviews",
        }
        action = _case_url(name, case_index, choice)
        return self._site.page(
            "review.html.jinja",
            item=item,
            run_name=name,
            questions=question_texts(item),
            form=self._form(run, item, visible, reviewer, action),
            visible=visible,
            answer_view=_answer_view(item, visible),
            history=history,
            queue=queue,
            previous_index=queue.before(case_index),
            next_index=queue.after(case_index),
            case_index=case_index,
            reviewer=reviewer,
            notice=notice,
            urls=urls,
            options={"show": SELECTIONS, "order": ORDERS},
            specialties=specialties(run.cases),
        )

    async def save(
        self,
        request: Request,
        name: str,
        case_index: int,
        choice: _Choice,
    ) -> Response:
        """Save the review of a form; then show the case again, or the next one."""
        form = await self._site.read_form(request)
        reviewer = read_reviewer(request)
        action = _case_url(name, case_index, choice)
        with keep_review(action, form):
            run, item = find_case(self._site, name, case_index)
            review = parse_review(form, reviewer.name, run.name)
            outcome = self._site.reviews.save(run.case_set, item, review)
        next_url = _case_url(name, case_index, choice, saved=len(outcome.saved))
        if form.get("then") == "next" and not outcome.conflicts:
            queue = self._queue(run, reviewer._replace(name=review.reviewer), choice)
            next_index = queue.after(case_index)
            next_url = f"{run_url(name)}/reviews?queue=done"
            if next_index is not None:
                notice = {"saved": len(outcome.saved), "of": case_index}
                next_url = _case_url(name, next_index, choice, **notice)
        return saved_response(self._site, review, outcome, action, next_url)

    async def undo(
        self,
        request: Request,
        name: str,
        case_index: int,
        choice: _Choice,
    ) -> Response:
        """Take the reviewer's last save of a case back."""
        await self._site.read_form(request)
        run, item = find_case(self._site, name, case_index)
        reviewer = read_reviewer(request)
        restored = self._site.reviews.undo(run.case_set, item.id, reviewer.name)
        return redirect(_case_url(name, case_index, choice, undone=len(restored)))

    def _queue(
        self,
        run: ReviewableRun,
        reviewer: Reviewer,
        choice: QueueChoice,
    ) -> Queue:
        """The queue of a choice. The worst first would tell a blind reviewer the scores."""
        if reviewer.blind:
            choice = choice._replace(order="")
        scores = run.gold.case_scores if choice.order == "worst" else {}
        reviews = self._site.reviews.reviews(run.case_set)
        return review_queue(choice, run.cases, reviews, reviewer.name, run.name, scores)

    def _form(
        self,
        run: ReviewableRun,
        item: Item,
        visible: VisibleAnswer,
        reviewer: Reviewer,
        action: str,
    ) -> ReviewForm:
        reviews = self._site.reviews.reviews(run.case_set)
        events = reviews.case(item.id).reviewer_events(reviewer.name, run.name)
        record = visible.record
        verdicts: tuple[str, ...] = ()
        run_version = ""
        if record is not None:
            has_query = bool(getattr(record.result, "query", None))
            verdicts = verdict_fields(item, has_query=has_query)
            run_version = run.answer_version(item.id)
        can_undo = self._site.reviews.can_undo(run.case_set, item.id, reviewer.name)
        form = ReviewForm(
            action=action,
            reviewer=reviewer.name,
            version=AnswerVersion(run.name, run_version, blind=record is None),
            saved={field: event.value for field, event in events.items()},
            verdicts=verdicts,
            has_next=True,
            can_undo=can_undo,
            shows_key=visible.gold is not None,
        )
        if not isinstance(item, Case):
            return form
        key = visible.gold.keys.get(item.id) if visible.gold else None
        note = note_view(item, [record], key, ANCHOR, {})
        return form._replace(lines=note.claims[0], sentences=note.sentences)


def find_run(site: Site, name: str) -> ReviewableRun:
    """Return a run to be reviewed. Raises `NoSuchPage`, and `InputError` if it is damaged."""
    run = site.reviewable_runs.find(name)
    if run is None:
        raise NoSuchPage
    return run


def find_case(
    site: Site,
    name: str,
    case_index: int,
) -> tuple[ReviewableRun, Item]:
    """Return a run to be reviewed and one of its cases. Raises as `find_run` does."""
    run = find_run(site, name)
    if not 0 <= case_index < len(run.cases):
        raise NoSuchPage
    return run, run.cases[case_index]


def _answer_view(
    item: Item, visible: VisibleAnswer
) -> FhirQuestionView | ClinicalTaskView | None:
    """The answer to a question or task on a record; None for notes, and where it is hidden."""
    record, gold, _ = visible
    if isinstance(item, Case) or record is None:
        return None
    if isinstance(item, ClinicalTask):
        scores = gold.per_case.get(item.id, {}) if gold else {}
        return clinical_task_view(record, scores, {})
    question = gold.gold_questions.get(item.id) if gold else None
    return fhir_question_view(record, question, {})


def _case_url(
    name: str,
    case_index: int,
    choice: QueueChoice,
    **notice: Any,
) -> str:
    """The URL of a case's review, with what the last form did."""
    url = f"{review_url(name)}/{case_index}{choice.query}"
    if not notice:
        return url
    return f"{url}{'&' if choice.query else '?'}{urlencode(notice)}"
