"""The page of all reviews of a run: reviewers, agreement, disagreements, the key, the audit trail."""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import Response

from archqa import tasks
from archqa.core.case import Case
from archqa.core.question import Item
from archqa.report.case_view import question_texts
from archqa.report.note_view import note_view
from archqa.review import AnswerVersion, CaseSetReviews, ReviewEvent, agreement
from archqa.review.event import field_sentence_id, field_values, is_about_answer
from archqa.review.state import Disagreement
from archqa.tasks.key_provenance import ScoredKeys, key_provenance
from archqa.web.review_form import (
    field_in_words,
    history_rows,
    keep_review,
    parse_review,
    saved_response,
)
from archqa.web.review_pages import ANCHOR, find_case, find_run
from archqa.web.reviewer import read_reviewer
from archqa.web.run_cache import ReviewableRun
from archqa.web.site import Pages, redirect, review_url, run_url

_MAX_HISTORY_ROWS = 500


class ReviewerRow(NamedTuple):
    """What one reviewer has done in a run: cases, and fields of them that stand."""

    name: str
    cases: int
    sentences: int
    blind: int
    fields: int
    last: datetime


class DisputedField(NamedTuple):
    """A field that reviewers see differently: what it is about, and what may be decided."""

    disagreement: Disagreement
    words: str
    text: str
    options: tuple[str, ...]
    decided: str


class DisputedCase(NamedTuple):
    """A case with its disputed fields. `version` is what its form shows of the run's answer."""

    case_index: int
    item: Item
    question: str
    fields: tuple[DisputedField, ...]
    version: AnswerVersion


class _KeyState(NamedTuple):
    """Where the key of the reviews is. `newer` changes were saved after it was written.

    `statement` and `warnings` are what a score of the run against it says.
    """

    path: Path
    log: Path
    is_written: bool = False
    newer: int = 0
    statement: str = ""
    warnings: tuple[str, ...] = ()


class ReviewsPage(Pages):
    """All reviews of a run."""

    def add_routes(self, app: FastAPI) -> None:
        """Add the page, its decisions, and the writing of the key."""
        app.get("/runs/{name}/reviews")(self.overview)
        app.post("/runs/{name}/reviews/key")(self.write_key)
        app.post("/runs/{name}/reviews/{case_index}")(self.adjudicate)

    def overview(self, request: Request, name: str) -> Response:
        """Return the page; its query says what the last form did."""
        run = find_run(self._site, name)
        reviews = self._site.reviews.reviews(run.case_set)
        # The cases of this run that reviewers see differently, in the order of its file.
        by_case: dict[int, list[Disagreement]] = {}
        for disagreement in reviews.disagreements:
            index = run.indices.get(disagreement.case_id)
            if index is not None and disagreement.run in ("", run.name):
                by_case.setdefault(index, []).append(disagreement)
        disputed_cases = [
            _disputed_case(run, index, by_case[index]) for index in sorted(by_case)
        ]
        return self._site.page(
            "reviews.html.jinja",
            run=run,
            reviewer=read_reviewer(request),
            reviewers=_reviewer_rows(run, reviews),
            agreements=agreement(reviews),
            disputed=disputed_cases,
            history=history_rows(reviews.events[-_MAX_HISTORY_ROWS:]),
            omitted=max(len(reviews.events) - _MAX_HISTORY_ROWS, 0),
            key=self._key_state(run, reviews),
            is_of_notes=any(isinstance(item, Case) for item in run.cases[:1]),
            notice=dict(request.query_params),
            urls={"run": run_url(name), "review": review_url(name)},
        )

    async def write_key(self, request: Request, name: str) -> Response:
        """Write the key of the reviews."""
        await self._site.read_form(request)
        written = self._site.reviews.write_key(find_run(self._site, name).case_set)
        url = f"{run_url(name)}/reviews?key="
        if written is None:
            return redirect(f"{url}none#key")
        counts = f"&cases={written.cases}&sentences={written.sentences}"
        return redirect(
            f"{url}written{counts}&disagreements={written.disagreements}#key"
        )

    async def adjudicate(
        self,
        request: Request,
        name: str,
        case_index: int,
    ) -> Response:
        """Save what was decided of a case."""
        form = await self._site.read_form(request)
        overview = f"{run_url(name)}/reviews"
        action = f"{overview}/{case_index}"
        with keep_review(action, form):
            run, item = find_case(self._site, name, case_index)
            review = parse_review(form, read_reviewer(request).name, run.name)
            outcome = self._site.reviews.save(
                run.case_set, item, review, adjudicates=True
            )
        next_url = f"{overview}?adjudicated={len(outcome.saved)}#disagreements"
        return saved_response(self._site, review, outcome, action, next_url)

    def _key_state(self, run: ReviewableRun, reviews: CaseSetReviews) -> _KeyState:
        path = self._site.reviews.key_path(run.case_set)
        log = self._site.reviews.log_path(run.case_set)
        if not path.is_file():
            return _KeyState(path, log)
        written_at = path.stat().st_mtime
        newer = sum(event.at.timestamp() > written_at for event in reviews.events)
        # What a score of the run against the key will say of the key.
        key = tasks.load_key(path)
        keys = {}
        sentence_ids = {}
        for item in run.cases:
            if isinstance(item, Case) and item.id in key.keys:
                keys[item.id] = key.keys[item.id]
                sentence_ids[item.id] = item.sentence_ids
        scored = ScoredKeys(keys, sentence_ids)
        provenance = key_provenance(key.path, key.sha256, scored, [run.run.path])
        return _KeyState(
            path, log, True, newer, provenance.statement, provenance.warnings
        )


def _reviewer_rows(run: ReviewableRun, reviews: CaseSetReviews) -> list[ReviewerRow]:
    rows = []
    for name in reviews.reviewers:
        case_count = 0
        events: list[ReviewEvent] = []
        for item in run.cases:
            case_events = reviews.case(item.id).reviewer_events(name, run.name)
            case_count += bool(case_events)
            events += case_events.values()
        if events:
            row = ReviewerRow(
                name=name,
                cases=case_count,
                sentences=sum(bool(field_sentence_id(event.field)) for event in events),
                blind=sum(event.blind for event in events),
                fields=len(events),
                last=max(event.at for event in events),
            )
            rows.append(row)
    return rows


def _disputed_case(
    run: ReviewableRun, case_index: int, disagreements: list[Disagreement]
) -> DisputedCase:
    item = run.cases[case_index]
    # What the fields are about: the sentences of the note, the lines of the answer.
    texts: dict[str, str] = {}
    if isinstance(item, Case):
        record = run.run.get_record(item.id)
        note = note_view(item, [record], None, ANCHOR, {})
        for sentence in note.sentences:
            texts[f"sentence/{sentence.id}"] = sentence.text
        for number, line in enumerate(note.claims[0], start=1):
            texts[f"line/{number}"] = line.text
    fields = []
    run_version = ""
    for disagreement in disagreements:
        if is_about_answer(disagreement.field):
            run_version = run.answer_version(item.id)
        values = dict.fromkeys(
            event.value for event in disagreement.by_reviewer.values()
        )
        adjudicated = disagreement.adjudicated
        fields.append(
            DisputedField(
                disagreement=disagreement,
                words=field_in_words(disagreement.field),
                text=texts.get(disagreement.field, ""),
                options=field_values(disagreement.field) or tuple(values),
                decided=adjudicated.value if adjudicated else "",
            )
        )
    questions = question_texts(item)
    return DisputedCase(
        case_index=case_index,
        item=item,
        question=questions[0][1] if questions else "",
        fields=tuple(fields),
        version=AnswerVersion(run.name, run_version, blind=not run_version),
    )
