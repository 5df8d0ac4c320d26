"""The pages of questions: the answer to one, and what the form of a question starts.

A method returns None if there is no such page.
"""

import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import NamedTuple

from archqa.asking.answer import Answer
from archqa.asking.ask import parse_time
from archqa.asking.chart import AnsweredChart, answer_patient, check_patient_settings
from archqa.asking.note import OnStep, answer_case, check_note_settings, note_case
from archqa.asking.question_files import csv_text
from archqa.asking.thread.asking import Asking, ask_in_thread
from archqa.asking.thread.turns import Place
from archqa.runs.destinations import Announcer
from archqa.runs.event_loop import run_sync
from archqa.settings import Settings
from archqa.web.asked_patient import AskedPatient, find_asked_patient
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

    def _answer(self, job: QuestionJob) -> AnsweredChart:
        """Answer the question of a job, in the place of its thread, if it has one."""
        is_first = job.thread.place is None
        place = job.form.place(self._record) if is_first else Place()
        asking = Asking(self._settings, job.record_step, self._announce)
        ask = partial(self._ask_place, job=job)
        if is_first and job.form.is_about_patient:
            place = place.model_copy(update={"patient": self._find_patient(job).id})
        return ask_in_thread(job.question, job.thread, place, asking, ask)

    def _find_patient(self, job: QuestionJob) -> AskedPatient:
        """Find the patient of a job, so that the page names them. Raises `PatientToChoose`."""
        job.patient = find_asked_patient(
            self._record or "",
            job.form.patient,
            allow_plain_http=self._settings.allow_plain_http,
        )
        return job.patient

    def _ask_place(self, question: str, place: Place, job: QuestionJob) -> AnsweredChart:
        patient = place.patient_id or place.patient
        if patient and place.record:
            check_patient_settings(self._settings)
            work = answer_patient(
                question,
                patient,
                place.record,
                self._settings,
                now=parse_time(place.now),
                note=place.note or "",
                on_step=job.record_step,
                announce=self._announce,
            )
            return run_sync(work)
        return self._ask_note(question, place.note or "", job.record_step)

    def _ask_note(self, question: str, note: str, on_step: OnStep) -> AnsweredChart:
        check_note_settings(self._settings)
        case = note_case(question, note)
        work = answer_case(case, self._settings, on_step, announce=self._announce)
        return AnsweredChart(run_sync(work), case)
