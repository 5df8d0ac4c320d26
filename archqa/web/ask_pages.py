"""The pages of questions: the answer to one, and what the form of a question starts.

A method returns None if there is no such page.
"""

from collections.abc import AsyncIterator, Mapping
from functools import partial

from archqa.asking.ask import parse_time
from archqa.asking.chart import AnsweredChart, answer_patient, check_patient_settings
from archqa.asking.note import OnStep, answer_case, check_note_settings, note_case
from archqa.asking.thread.asking import Asking, ask_in_thread
from archqa.asking.thread.turns import Place, Thread
from archqa.errors import CallerError
from archqa.runs.destinations import Announcer
from archqa.runs.event_loop import run_sync
from archqa.settings import Settings
from archqa.web.asked_reviews import AskedReviews
from archqa.web.asked_view import asked_view
from archqa.web.page_renderer import PageRenderer
from archqa.web.question_jobs import AnswerFunction, QuestionJob, QuestionJobs, events

THREAD_LOST = (
    "The answer to ask on from is kept no longer.\nAsk a whole question on the first page."
)

_MAX_QUESTION_LENGTH = 2000


class AskPages:
    """Questions about a pasted note, or about a patient of `record`."""

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

    def submit(self, form: Mapping[str, str]) -> str:
        """Start to answer a question; return the URL of its answer."""
        words = form.get("question", "").split()
        question = " ".join(words)[:_MAX_QUESTION_LENGTH]
        after = self._question_jobs.find(form["after"]) if form.get("after") else None
        answer = self._answer_function(question, form, after)
        job = self._question_jobs.submit(question, answer, after)
        return f"/answers/{job.id}"

    def answer(self, job_id: str, reviewer: str, *, saved: int | None = None) -> str | None:
        """Return the page of a question in progress, or of its answer with its review.

        `saved` is the number of fields that the reviewer has just saved.
        """
        job = self._question_jobs.find(job_id)
        if job is None:
            return None
        return self._renderer.render(
            "answer.html.jinja",
            job=job,
            answer=job.answer,
            view=asked_view(job.answer, job.case) if job.answer else None,
            review=self._reviews.form(job, reviewer),
            saved=saved,
        )

    def events(self, job_id: str) -> AsyncIterator[str] | None:
        """Return the events of a question, as they happen."""
        job = self._question_jobs.find(job_id)
        if job is None:
            return None
        return events(job)

    def _answer_function(
        self, question: str, form: Mapping[str, str], after: QuestionJob | None
    ) -> AnswerFunction:
        place = Place() if after else self._place(form)

        def answer(thread: Thread, on_step: OnStep) -> AnsweredChart:
            if form.get("after") and thread.place is None:
                raise CallerError(THREAD_LOST)
            asking = Asking(self._settings, on_step, self._announce)
            return ask_in_thread(
                question, thread, place, asking, partial(self._ask_place, on_step=on_step)
            )

        return answer

    def _place(self, form: Mapping[str, str]) -> Place:
        """What the form asks: a patient of the record if one is named, else the note."""
        patient = form.get("patient", "").strip()
        if patient and self._record:
            now = form.get("now", "").strip() or None
            return Place(patient=patient, record=self._record, now=now)
        return Place(note=form.get("note", ""))

    def _ask_place(self, question: str, place: Place, on_step: OnStep) -> AnsweredChart:
        patient = place.patient_id or place.patient
        if patient and place.record:
            return self._ask_patient(question, patient, place.record, place.now or "", on_step)
        return self._ask_note(question, place.note or "", on_step)

    def _ask_note(self, question: str, note: str, on_step: OnStep) -> AnsweredChart:
        check_note_settings(self._settings)
        case = note_case(question, note)
        work = answer_case(case, self._settings, on_step, announce=self._announce)
        return AnsweredChart(run_sync(work), case)

    def _ask_patient(
        self, question: str, patient: str, record: str, now: str, on_step: OnStep
    ) -> AnsweredChart:
        check_patient_settings(self._settings)
        work = answer_patient(
            question,
            patient,
            record,
            self._settings,
            now=parse_time(now or None),
            on_step=on_step,
            announce=self._announce,
        )
        return run_sync(work)
