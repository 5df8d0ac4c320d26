"""The pages of questions: the answer to one, and what the form of a question starts.

A method returns None if there is no such page.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from archqa.asking.answer import Answer, AnsweredQuestion
from archqa.asking.question import AskOptions, parse_time
from archqa.asking.question_files import csv_text
from archqa.asking.thread.asking import ask_in_thread
from archqa.runs.destinations import Announcer
from archqa.settings import Settings
from archqa.web.asked_patient import find_asked_patient
from archqa.web.asked_reviews import AskedReviews
from archqa.web.asked_view import asked_view
from archqa.web.page_renderer import PageRenderer
from archqa.web.question_destinations import (
    describe_own_destinations,
    describe_question_destinations,
)
from archqa.web.question_form import QuestionForm, form_errors, read_question_form
from archqa.web.question_jobs import QuestionJob, QuestionJobs

THREAD_LOST = (
    "The answer to ask on from is kept no longer: this server keeps the latest fifty, in its "
    "memory. Ask a whole question, and say what it is about."
)


class Submitted(NamedTuple):
    """What a form has led to: the URL of an answer, or the page that says what is wrong."""

    url: str = ""
    page: str = ""


class AskPages:
    """Questions about a pasted note, a patient of `record`, or both together."""

    def __init__(
        self,
        renderer: PageRenderer,
        question_jobs: QuestionJobs,
        settings: Settings,
        record: str | None,
        reviews: AskedReviews,
    ) -> None:
        self._renderer = renderer
        self._question_jobs = question_jobs
        self._settings = settings
        self._record = record
        self._reviews = reviews
        self._announce = Announcer()

    def submit(self, fields: Mapping[str, str], reviewer: str) -> Submitted:
        """Start to answer a question; where fields are wrong, say so and keep what was sent."""
        form = read_question_form(fields)
        if fields.get("after"):
            return self._submit_after(fields["after"], form, reviewer)
        errors = form_errors(form, has_record=self._record is not None)
        if errors:
            return Submitted(page=self._form_page(form, errors))
        return self._start(form, None)

    def _submit_after(self, after_id: str, form: QuestionForm, reviewer: str) -> Submitted:
        """Ask on from an answer, about the same note or patient."""
        after = self._question_jobs.find(after_id)
        if after is None:
            return Submitted(page=self._form_page(form, {"question": THREAD_LOST}))
        form = after.form._replace(question=form.question)
        errors = form_errors(form, has_record=self._record is not None)
        if errors:
            page = self._answer_page(after, reviewer, asked_on=form.question, errors=errors)
            return Submitted(page=page)
        return self._start(form, after)

    def _start(self, form: QuestionForm, after: QuestionJob | None) -> Submitted:
        job = self._question_jobs.submit(form, self._answer, after)
        return Submitted(url=f"/answers/{job.id}")

    def again(self, job_id: str) -> str | None:
        """Return the form as it was filled in for a question."""
        job = self._question_jobs.find(job_id)
        return None if job is None else self._form_page(job.form, {}, job)

    def cancel(self, job_id: str) -> str | None:
        """Stop the work on a question; return the URL of its page."""
        job = self._question_jobs.find(job_id)
        if job is None:
            return None
        if not job.finished:
            job.cancel()
        return f"/answers/{job_id}"

    def answer(self, job_id: str, reviewer: str, *, saved: int | None = None) -> str | None:
        """Return the page of a question in progress, or of its answer with its review.

        `saved` is the number of fields that the reviewer has just saved.
        """
        job = self._question_jobs.find(job_id)
        return None if job is None else self._answer_page(job, reviewer, saved=saved)

    def answer_json(self, job_id: str) -> str | None:
        """Return an answer as `archqa ask --json` prints it."""
        answer = self._found_answer(job_id)
        return None if answer is None else json.dumps(answer.as_json(), ensure_ascii=False)

    def answer_csv(self, job_id: str) -> str | None:
        """Return an answer as a table of one row, with the columns of `archqa ask --out`."""
        answer = self._found_answer(job_id)
        return None if answer is None else csv_text([answer.as_json()])

    def events(self, job_id: str) -> AsyncIterator[str] | None:
        """Return the events of a question, as they happen."""
        job = self._question_jobs.find(job_id)
        return None if job is None else self._question_jobs.events(job)

    def _found_answer(self, job_id: str) -> Answer | None:
        job = self._question_jobs.find(job_id)
        return job.answer if job else None

    def _form_page(
        self, form: QuestionForm, errors: Mapping[str, str], job: QuestionJob | None = None
    ) -> str:
        return self._renderer.render(
            "ask.html.jinja",
            form=form,
            errors=errors,
            patient=job.patient if job else None,
            has_patients=self._record is not None,
            destinations=describe_question_destinations(self._settings, self._record),
        )

    def _answer_page(
        self,
        job: QuestionJob,
        reviewer: str,
        *,
        saved: int | None = None,
        asked_on: str = "",
        errors: Mapping[str, str] | None = None,
    ) -> str:
        record = self._record if job.form.is_about_patient else None
        return self._renderer.render(
            "answer.html.jinja",
            job=job,
            answer=job.answer,
            view=asked_view(job.answer, job.case) if job.answer else None,
            review=self._reviews.form(job, reviewer),
            saved=saved,
            before=self._question_jobs.waiting_before(job),
            asked_on=asked_on,
            errors=errors or {},
            has_patients=self._record is not None,
            destination=describe_own_destinations(self._settings, record),
            destinations=describe_question_destinations(self._settings, self._record),
        )

    def _answer(self, job: QuestionJob) -> AnsweredQuestion:
        """Answer the question of a job, in the place of its thread, if it has one."""
        options = AskOptions(self._settings, on_step=job.record_step, announce=self._announce)
        if job.thread.place is not None:
            return ask_in_thread(job.question, job.thread, options)
        form = job.form
        note = form.note if form.is_about_note else None
        if not form.is_about_patient:
            return ask_in_thread(job.question, job.thread, options, note=note)
        job.patient = find_asked_patient(
            self._record or "",
            form.patient,
            allow_plain_http=self._settings.allow_plain_http,
        )
        options = options._replace(record=self._record, now=parse_time(form.now or None))
        return ask_in_thread(job.question, job.thread, options, note=note, patient=job.patient.id)
