"""The page of all reviews of a run: reviewers, agreement, disagreements, the key, the audit trail."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from archqa import tasks
from archqa.core.case import Case
from archqa.core.question import Item
from archqa.report.case_view import question_texts
from archqa.review.agreement import agreement
from archqa.review.event import Seen, is_about_answer, sentence_of, values_of
from archqa.review.key import WrittenKey
from archqa.review.state import CaseSetReviews, Disagreement
from archqa.review.store import ReviewStore
from archqa.tasks.key_provenance import KeyProvenance, ScoredKeys, key_provenance
from archqa.web.page_renderer import PageRenderer
from archqa.web.review_form import field_in_words, history_rows, note_rows, parse_review
from archqa.web.review_saving import ReviewSaving, Saved
from archqa.web.reviewable_runs import ReviewableRun, ReviewableRuns
from archqa.web.reviewer import Reviewer
from archqa.web.run_pages import review_url, run_url

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
    """A case with its disputed fields. `seen` is what its form shows of the run's answer."""

    case_index: int
    item: Item
    question: str
    fields: tuple[DisputedField, ...]
    seen: Seen


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


class ReviewsPage:
    """All reviews of a run."""

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

    def page(self, name: str, reviewer: Reviewer, notice: Mapping[str, str]) -> str | None:
        """Return the page; None without such a run. `notice` is what the last form did."""
        run = self._runs.find(name)
        if run is None:
            return None
        reviews = self._store.reviews(run.case_set)
        return self._renderer.render(
            "reviews.html.jinja",
            run=run,
            reviewer=reviewer,
            reviewers=_reviewer_rows(run, reviews),
            agreements=agreement(reviews),
            disputed=_disputed_cases(run, reviews),
            history=history_rows(reviews.events[-_MAX_HISTORY_ROWS:]),
            omitted=max(len(reviews.events) - _MAX_HISTORY_ROWS, 0),
            key=self._key_state(run, reviews),
            is_of_notes=any(isinstance(item, Case) for item in run.cases[:1]),
            notice=notice,
            urls={"run": run_url(name), "review": review_url(name)},
        )

    def adjudicate(
        self, name: str, case_index: int, reviewer: Reviewer, form: Mapping[str, str], action: str
    ) -> Saved | None:
        """Save what was decided of a case. Raises as `ReviewStore.adjudicate` does."""
        run = self._runs.find(name)
        item = run.case(case_index) if run else None
        if run is None or item is None:
            return None
        review = parse_review(form, reviewer.name, run.name)
        return self._saving.adjudicate(run.case_set, item, review, action)

    def write_key(self, name: str) -> WrittenKey | str | None:
        """Write the key of the reviews; a text says why there is none. None without such a run."""
        run = self._runs.find(name)
        if run is None:
            return None
        return self._store.write_key(run.case_set) or "no label"

    def _key_state(self, run: ReviewableRun, reviews: CaseSetReviews) -> _KeyState:
        path = self._store.key_path(run.case_set)
        log = self._store.log_path(run.case_set)
        if not path.is_file():
            return _KeyState(path, log)
        written_at = path.stat().st_mtime
        newer = sum(event.at.timestamp() > written_at for event in reviews.events)
        provenance = _provenance(run, path)
        return _KeyState(path, log, True, newer, provenance.statement, provenance.warnings)


def _provenance(run: ReviewableRun, path: Path) -> KeyProvenance:
    """What a score of the run against the key will say of the key."""
    key = tasks.load_key(path)
    cases = {item.id: item for item in run.cases if isinstance(item, Case)}
    keys = {case_id: case_key for case_id, case_key in key.keys.items() if case_id in cases}
    sentence_ids = {case_id: cases[case_id].sentence_ids for case_id in keys}
    scored = ScoredKeys(keys, sentence_ids)
    return key_provenance(key.path, key.sha256, scored, [run.run.path])


def _reviewer_rows(run: ReviewableRun, reviews: CaseSetReviews) -> list[ReviewerRow]:
    rows = []
    for name in reviews.reviewers:
        row = _reviewer_row(name, run, reviews)
        if row:
            rows.append(row)
    return rows


def _reviewer_row(name: str, run: ReviewableRun, reviews: CaseSetReviews) -> ReviewerRow | None:
    run_name = run.name
    events_by_case = [reviews.case(item.id).events_of(name, run_name) for item in run.cases]
    events = [event for fields in events_by_case for event in fields.values()]
    if not events:
        return None
    return ReviewerRow(
        name=name,
        cases=sum(bool(fields) for fields in events_by_case),
        sentences=sum(bool(sentence_of(event.field)) for event in events),
        blind=sum(event.blind for event in events),
        fields=len(events),
        last=max(event.at for event in events),
    )


def _disputed_cases(run: ReviewableRun, reviews: CaseSetReviews) -> list[DisputedCase]:
    """The cases of this run that reviewers see differently, in the order of its file."""
    run_name = run.name
    by_case: dict[int, list[Disagreement]] = {}
    for disagreement in reviews.disagreements:
        index = run.index_of(disagreement.case_id)
        if index is not None and disagreement.run in ("", run_name):
            by_case.setdefault(index, []).append(disagreement)
    return [_disputed_case(run, index, by_case[index]) for index in sorted(by_case)]


def _disputed_case(
    run: ReviewableRun, index: int, disagreements: list[Disagreement]
) -> DisputedCase:
    item = run.cases[index]
    texts = _texts_of_fields(run, item)
    shows_answer = any(is_about_answer(disagreement.field) for disagreement in disagreements)
    version = run.version_of(item.id) if shows_answer else ""
    questions = question_texts(item)
    fields = tuple(_disputed_field(disagreement, texts) for disagreement in disagreements)
    return DisputedCase(
        case_index=index,
        item=item,
        question=questions[0][1] if questions else "",
        fields=fields,
        seen=Seen(run.name, version, blind=not version),
    )


def _disputed_field(disagreement: Disagreement, texts: Mapping[str, str]) -> DisputedField:
    values = dict.fromkeys(event.value for event in disagreement.by_reviewer.values())
    decided = disagreement.adjudicated.value if disagreement.adjudicated else ""
    return DisputedField(
        disagreement=disagreement,
        words=field_in_words(disagreement.field),
        text=texts.get(disagreement.field, ""),
        options=values_of(disagreement.field) or tuple(values),
        decided=decided,
    )


def _texts_of_fields(run: ReviewableRun, item: Item) -> dict[str, str]:
    """What the fields of a case are about: the sentences of its note, the lines of its answer."""
    if not isinstance(item, Case):
        return {}
    lines, sentences = note_rows(item, run.run.get_record(item.id), None)
    texts = {f"sentence/{sentence.id}": sentence.text for sentence in sentences}
    return texts | {f"line/{number}": line.text for number, line in enumerate(lines, start=1)}
