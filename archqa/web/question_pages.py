"""The pages of questions: the form, the answer with its evidence, its progress, files and review."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from archqa.asking.answer import (
    Answer,
    AnsweredQuestion,
    AnswerLine,
    AnswerSpan,
    Evidence,
    ShownStatus,
    shown_status,
)
from archqa.asking.chart import GIVEN_NOTE
from archqa.asking.many import csv_text
from archqa.asking.question import AskOptions, parse_time
from archqa.asking.thread.ask_in_thread import ask_in_thread
from archqa.core.case import Case
from archqa.core.key import record_version
from archqa.core.question import Item, RecordQuestion
from archqa.report.case_view import CaseView
from archqa.report.note_view import Citation, ClaimView, SentenceView, sentence_views
from archqa.review import AnswerVersion
from archqa.runs.destinations import Announcer
from archqa.web.question_form import (
    QuestionForm,
    destination_sentence,
    destination_sentences,
    form_errors,
    read_question_form,
)
from archqa.web.question_jobs import QuestionJob, choose_patient
from archqa.web.review_form import (
    ReviewForm,
    keep_review,
    parse_review,
    saved_response,
    verdict_fields,
)
from archqa.web.reviewer import read_reviewer
from archqa.web.site import NoSuchPage, Pages, Site, redirect, text_response

_ANCHOR = "c1"
_REVIEW_ANCHOR = "review"

_SHORT_ID = 4
_LONGEST_WHOLE_ID = 8

_KINDS = {"DocumentReference": "Note"}
"""What types are called that do not speak for themselves."""

_WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class EvidenceLink(NamedTuple):
    """A citation of a line: a short label, the whole id, and the anchor of the evidence."""

    label: str
    id: str
    anchor: str


class LineView(NamedTuple):
    """A line of an answer in three parts, the middle one of which answers; often all of it."""

    anchor: str
    before: str
    answering: str
    after: str
    citations: tuple[EvidenceLink, ...]


class EvidenceView(NamedTuple):
    """A piece of evidence; `cited_by` has the anchor and the number of each line that cites it."""

    anchor: str
    label: str
    date: str
    piece: Evidence
    cited_by: tuple[tuple[str, int], ...]


class AnswerView(NamedTuple):
    """What a page shows of an answer. `note` is None for a patient, whose notes are many."""

    status: ShownStatus
    lines: tuple[LineView, ...]
    evidence: tuple[EvidenceView, ...]
    nearest: tuple[EvidenceView, ...]
    note: CaseView | None
    copied_text: str


def answer_view(answer: Answer, case: Case | None) -> AnswerView:
    """Return the view of an answer; `case` is of the notes that were searched."""
    note_case = case if answer.patient is None else None
    lines = _line_views(answer, note_case)
    citing: dict[str, list[tuple[str, int]]] = {}
    for number, line in enumerate(lines, start=1):
        for link in line.citations:
            citing_lines = citing.setdefault(link.id, [])
            citing_lines.append((line.anchor, number))
    evidence = []
    for index, piece in enumerate((*answer.evidence, *answer.related)):
        evidence.append(
            EvidenceView(
                anchor=f"e{index}",
                label=evidence_label(piece.id),
                date=piece.date[:16].replace("T", " "),
                piece=piece,
                cited_by=tuple(citing.get(piece.id, ())),
            )
        )
    count = len(answer.evidence)
    # The answer as it is copied: the lines with their citations, then the evidence.
    copied = [answer.message] if answer.message else []
    copied += [f"{line.text} |{','.join(line.citations)}|" for line in answer.lines]
    copied.append("")
    copied += [f"[{piece.id}] {piece.text}" for piece in answer.evidence]
    return AnswerView(
        status=shown_status(answer),
        lines=lines,
        evidence=tuple(evidence[:count]),
        nearest=tuple(evidence[count:]),
        note=_note_view(note_case, answer, lines) if note_case else None,
        copied_text="\n".join(copied),
    )


def review_rows(
    case: Case | None, lines: Sequence[AnswerLine]
) -> tuple[list[ClaimView], tuple[SentenceView, ...]]:
    """Return the lines of an answer for its review, and the sentences of the note, if there is one."""
    case = case or Case(id="")
    anchors = {}
    marks = dict.fromkeys(case.sentence_ids, "plain")
    for index, sentence_id in enumerate(case.sentence_ids):
        anchors[sentence_id] = f"{_REVIEW_ANCHOR}-s{index}"
    claims = []
    for number, line in enumerate(lines):
        citations = []
        for name in line.citations:
            citations.append(Citation(name, anchors.get(name, f"e-{name}"), "cited"))
            if name in marks:
                marks[name] = "cited"
        anchor = f"{_REVIEW_ANCHOR}-a{number}"
        claims.append(ClaimView(anchor, line.text, tuple(citations)))
    return claims, sentence_views(case, None, _REVIEW_ANCHOR, [claims], [marks], {})


def evidence_label(evidence_id: str) -> str:
    """Return a label such as `4`, `Observation · 1f3a…` or `Note · d1 · 4`.

    A sentence of a patient's note is named by its document and its number.
    """
    document, mark, number = evidence_id.partition("#")
    if document == GIVEN_NOTE:
        return f"Pasted note · {number}"
    if mark:
        return f"{_resource_label(document)} · {number}"
    return _resource_label(evidence_id)


def _resource_label(reference: str) -> str:
    """Return a reference as words and a short id; any other text stays as it is."""
    kind, slash, resource_id = reference.partition("/")
    if not slash:
        return reference
    if len(resource_id) > _LONGEST_WHOLE_ID:
        resource_id = f"{resource_id[:_SHORT_ID]}…"
    words = _KINDS.get(kind) or _WORD_BEGINS.sub(" ", kind).capitalize()
    return f"{words} · {resource_id}"


def _line_views(answer: Answer, case: Case | None) -> tuple[LineView, ...]:
    """Return the lines, with links to sentences of the note, else to the list of evidence."""
    links = {}
    for index, piece in enumerate(answer.evidence):
        label = evidence_label(piece.id)
        links[piece.id] = EvidenceLink(label, piece.id, f"e{index}")
    for index, sentence_id in enumerate(case.sentence_ids if case else ()):
        links[sentence_id] = EvidenceLink(
            sentence_id, sentence_id, f"{_ANCHOR}-s{index}"
        )
    views = []
    for number, line in enumerate(answer.lines):
        span = line.answering or AnswerSpan(0, 0)
        citations = []
        for name in line.citations:
            unknown = EvidenceLink(evidence_label(name), name, "")
            citations.append(links.get(name, unknown))
        views.append(
            LineView(
                anchor=f"{_ANCHOR}-r0-a{number}",
                before=line.text[: span.start],
                answering=line.text[span.start : span.end],
                after=line.text[span.end :],
                citations=tuple(citations),
            )
        )
    return tuple(views)


def _note_view(
    case: Case,
    answer: Answer,
    lines: Sequence[LineView],
) -> CaseView:
    marks = dict.fromkeys(case.sentence_ids, "plain")
    cited_ids = set()
    claims = []
    for line in lines:
        citations = []
        for link in line.citations:
            cited_ids.add(link.id)
            citations.append(Citation(link.id, link.anchor, "cited"))
        claims.append(ClaimView(line.anchor, "", tuple(citations)))
    marks.update((name, "cited") for name in marks if name in cited_ids)
    probabilities = {}
    for piece in answer.evidence:
        if piece.probability is not None:
            probabilities[piece.id] = piece.probability
    return CaseView(
        id="",
        anchor=_ANCHOR,
        case_index=0,
        kind="note",
        runs=(),
        sentences=sentence_views(case, None, _ANCHOR, [claims], [marks], probabilities),
        mark_counts={"cited": len(cited_ids)},
    )


ASKED = "asked"
"""The name of the reviews of answers that belong to no run."""

THREAD_LOST = (
    "The answer to ask on from is kept no longer: this server keeps the latest fifty, in its "
    "memory. Ask a whole question, and say what it is about."
)


class QuestionPages(Pages):
    """Questions about a pasted note, a patient of the site's record, or both together."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._announce = Announcer()

    def add_routes(self, app: FastAPI) -> None:
        """Add the form of a question, and the pages of its answer."""
        app.post("/ask")(self.ask)
        app.get("/answers/{job_id}")(self.answer)
        app.get("/answers/{job_id}/again")(self.ask_again)
        app.post("/answers/{job_id}/cancel")(self.cancel)
        app.get("/answers/{job_id}/events")(self.events)
        app.get("/answers/{job_id}/answer.json")(self.answer_json)
        app.get("/answers/{job_id}/answer.csv")(self.answer_csv)
        app.post("/answers/{job_id}")(self.save_review)
        app.post("/answers/{job_id}/undo")(self.undo_review)

    async def ask(self, request: Request) -> Response:
        """Start to answer a question; where fields are wrong, say so and keep what was sent.

        A question `after` an answer is about the same note or patient.
        """
        fields = await self._site.read_form(request)
        form = read_question_form(fields)
        after = None
        if fields.get("after"):
            after = self._site.jobs.find(fields["after"])
            if after is None:
                return self._form_page(form, {"question": THREAD_LOST}, status=422)
            form = after.form._replace(question=form.question)
        errors = form_errors(form, has_record=self._site.record is not None)
        if not errors:
            job = self._site.jobs.submit(form, self._answer, after)
            return redirect(f"/answers/{job.id}")
        if after is None:
            return self._form_page(form, errors, status=422)
        return self._answer_page(
            request, after, next_question=form.question, errors=errors
        )

    def ask_again(self, job_id: str) -> Response:
        """Return the form as it was filled in for a question."""
        job = self._find_job(job_id)
        return self._form_page(job.form, {}, job)

    async def cancel(self, request: Request, job_id: str) -> Response:
        """Stop the work on a question."""
        await self._site.read_form(request)
        job = self._find_job(job_id)
        if not job.finished:
            job.cancel()
        return redirect(f"/answers/{job_id}")

    def answer(
        self,
        request: Request,
        job_id: str,
        saved: int | None = None,
    ) -> Response:
        """Return the page of a question in progress, or of its answer with its review.

        `saved` is the number of fields that the reviewer has just saved.
        """
        return self._answer_page(request, self._find_job(job_id), saved=saved)

    def answer_json(self, job_id: str) -> Response:
        """Return an answer as `archqa ask --json` prints it."""
        answer = self._find_job(job_id).answer
        if answer is None:
            raise NoSuchPage
        content = json.dumps(answer.as_json(), ensure_ascii=False)
        return text_response(content, "application/json", "answer.json")

    def answer_csv(self, job_id: str) -> Response:
        """Return an answer as a table of one row, with the columns of `archqa ask --out`."""
        answer = self._find_job(job_id).answer
        if answer is None:
            raise NoSuchPage
        content = csv_text([answer.as_json()])
        return text_response(content, "text/csv; charset=utf-8", "answer.csv")

    async def events(self, job_id: str) -> Response:
        """Return the events of a question, as they happen."""
        events = self._site.jobs.events(self._find_job(job_id))
        return StreamingResponse(events, media_type="text/event-stream")

    async def save_review(self, request: Request, job_id: str) -> Response:
        """Save the review of an answer."""
        form = await self._site.read_form(request)
        action = f"/answers/{job_id}"
        with keep_review(action, form):
            item = _reviewed_item(self._find_job(job_id))
            review = parse_review(form, read_reviewer(request).name)
            outcome = self._site.reviews.save(ASKED, item, review)
        next_url = f"{action}?saved={len(outcome.saved)}#review"
        return saved_response(self._site, review, outcome, action, next_url)

    async def undo_review(self, request: Request, job_id: str) -> Response:
        """Take the reviewer's last save of an answer back."""
        await self._site.read_form(request)
        item = _reviewed_item(self._find_job(job_id))
        reviewer = read_reviewer(request)
        restored = self._site.reviews.undo(ASKED, item.id, reviewer.name)
        return redirect(f"/answers/{job_id}?undone={len(restored)}#review")

    def _find_job(self, job_id: str) -> QuestionJob:
        job = self._site.jobs.find(job_id)
        if job is None:
            raise NoSuchPage
        return job

    def _form_page(
        self,
        form: QuestionForm,
        errors: Mapping[str, str],
        job: QuestionJob | None = None,
        status: int = 200,
    ) -> Response:
        return self._site.page(
            "ask.html.jinja",
            status,
            form=form,
            errors=errors,
            patient=job.patient if job else None,
            has_patients=self._site.record is not None,
            destinations=destination_sentences(self._site.settings, self._site.record),
        )

    def _answer_page(
        self,
        request: Request,
        job: QuestionJob,
        *,
        saved: int | None = None,
        next_question: str = "",
        errors: Mapping[str, str] | None = None,
    ) -> Response:
        record = self._site.record if job.form.is_about_patient else None
        view = review = None
        if job.answer is not None:
            view = answer_view(job.answer, job.case)
            review = self._review_form(job, read_reviewer(request).name)
        return self._site.page(
            "answer.html.jinja",
            422 if errors else 200,
            job=job,
            answer=job.answer,
            view=view,
            review=review,
            saved=saved,
            before=self._site.jobs.waiting_before(job),
            next_question=next_question,
            errors=errors or {},
            has_patients=self._site.record is not None,
            destination=destination_sentence(self._site.settings, record),
            destinations=destination_sentences(self._site.settings, self._site.record),
        )

    def _review_form(self, job: QuestionJob, reviewer: str) -> ReviewForm:
        assert job.answer is not None
        item = _reviewed_item(job)
        case = item if isinstance(item, Case) else None
        lines, sentences = review_rows(case, job.answer.lines)
        reviews = self._site.reviews.reviews(ASKED)
        events = reviews.case(item.id).reviewer_events(reviewer)
        return ReviewForm(
            action=f"/answers/{job.id}",
            reviewer=reviewer,
            version=AnswerVersion("", record_version(job.answer.model_dump_json())),
            saved={field: event.value for field, event in events.items()},
            lines=lines,
            sentences=sentences,
            verdicts=verdict_fields(item, has_query=bool(job.answer.query)),
            can_undo=self._site.reviews.can_undo(ASKED, item.id, reviewer),
        )

    def _answer(self, job: QuestionJob) -> AnsweredQuestion:
        """Answer the question of a job, in the place of its thread, if it has one."""
        settings = self._site.settings
        options = AskOptions(settings, on_step=job.record_step, announce=self._announce)
        if job.thread.place is not None:
            return ask_in_thread(job.question, job.thread, options)
        form = job.form
        note = form.note if form.is_about_note else None
        if not form.is_about_patient:
            return ask_in_thread(job.question, job.thread, options, note=note)
        record = self._site.record or ""
        job.patient = choose_patient(
            record, form.patient, allow_plain_http=settings.allow_plain_http
        )
        options = options._replace(record=record, now=parse_time(form.now or None))
        patient_id = job.patient.id
        return ask_in_thread(
            job.question, job.thread, options, note=note, patient=patient_id
        )


def _reviewed_item(job: QuestionJob) -> Item:
    """What is reviewed: the note as a case; of a patient, the question and the cited sentences.

    Raises `NoSuchPage` where there is no answer yet.
    """
    if job.answer is None:
        raise NoSuchPage
    name = f"asked-{job.id}"
    if job.case is None:
        return RecordQuestion(id=name, question=job.question)
    case = job.case.model_copy(update={"id": name})
    if job.answer.patient is None:
        return case
    # A patient has many notes: labels are asked for where the answer rests on them.
    cited: set[str] = set()
    for line in job.answer.lines:
        cited.update(line.citations)
    sentences = tuple(sentence for sentence in case.sentences if sentence.id in cited)
    if not sentences:
        return RecordQuestion(id=name, question=job.question)
    return case.model_copy(update={"sentences": sentences})
