"""Questions from the form: answered in worker threads, with progress events, kept in memory."""

import asyncio
import json
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from threading import Lock
from typing import Any, NamedTuple

from archqa.asking.answer import Answer, AnsweredQuestion, ShownStatus, shown_status
from archqa.asking.patient import (
    PatientMatch,
    PatientNotFound,
    SeveralPatients,
    find_patient,
    near_patients,
)
from archqa.asking.thread import MOST_TURNS, Thread
from archqa.core.case import Case
from archqa.core.step import Step
from archqa.core.stopping import Stop, Stopped, stoppable
from archqa.errors import ArchqaError, CallerError
from archqa.fhir import connect
from archqa.web.question_form import QuestionForm

NO_PATIENT = (
    "The record has no patient of this id, identifier or name. "
    "An identifier is compared exactly, a name by whole words."
)

_MEDICAL_RECORD_NUMBER = "MR"
"""The type of an MRN (terminology.hl7.org/CodeSystem/v2-0203)."""

_MAX_JOBS = 50
_MAX_WORKERS = 2
_POLL_SECONDS = 0.1
_MAX_SHORT_ANSWER = 160


class PatientDetails(NamedTuple):
    """What tells a patient from others; texts that the record does not have are empty."""

    id: str
    name: str
    birth_date: str
    gender: str
    identifier: str

    @property
    def details(self) -> str:
        """Birth date, sex and identifier in words."""
        born = f"born {self.birth_date}" if self.birth_date else "birth date unknown"
        mrn = f"MRN {self.identifier}" if self.identifier else ""
        return ", ".join(filter(None, [born, self.gender or "sex unknown", mrn]))


class PatientToChoose(CallerError):
    """No single patient fits what was typed. `candidates` may be meant; there may be none."""

    def __init__(self, message: str, candidates: Iterable[PatientMatch]) -> None:
        self.candidates = tuple(map(patient_details, candidates))
        super().__init__(message)


def choose_patient(
    record: str,
    text: str,
    *,
    allow_plain_http: bool,
) -> PatientDetails:
    """Return the patient of an id, identifier or name.

    Raises `PatientToChoose`, and as `find_patient` and `connect` do.
    """
    with connect(record, allow_plain_http=allow_plain_http) as opened:
        try:
            return patient_details(find_patient(opened, text))
        except SeveralPatients as error:
            at_least = "At least " if error.is_cut else ""
            message = f"{at_least}{error.count} patients of the record are called so"
            if error.count > len(error.candidates):
                message += f", {len(error.candidates)} of them here"
            raise PatientToChoose(f"{message}. Choose one.", error.candidates) from None
        except PatientNotFound:
            near = near_patients(opened, text)
            meant = " Is one of these meant?" if near else ""
            raise PatientToChoose(f"{NO_PATIENT}{meant}", near) from None


def patient_details(match: PatientMatch) -> PatientDetails:
    """Return what tells a patient from others: the MRN, for which a patient's only identifier is
    taken where none is called so."""
    identifiers = []
    mrn = None
    for identifier in match.resource.get("identifier") or ():
        if isinstance(identifier, Mapping):
            identifiers.append(identifier)
            if mrn is None and _is_medical_record_number(identifier):
                mrn = identifier
    if mrn is None:
        mrn = identifiers[0] if len(identifiers) == 1 else {}
    return PatientDetails(
        id=match.id,
        name=match.name,
        birth_date=match.birth_date,
        gender=str(match.resource.get("gender") or ""),
        identifier=str(mrn.get("value") or ""),
    )


def _is_medical_record_number(identifier: Mapping[str, Any]) -> bool:
    kind = identifier.get("type")
    codings = kind.get("coding") if isinstance(kind, Mapping) else None
    readable = [coding for coding in codings or () if isinstance(coding, Mapping)]
    return any(coding.get("code") == _MEDICAL_RECORD_NUMBER for coding in readable)


class PreviousQuestion(NamedTuple):
    """A question of the same thread, the id of its job, and its answer in short."""

    id: str
    question: str
    status: ShownStatus | None
    short_answer: str


class QuestionJob:
    """One question: waiting, in progress, answered, failed with an `error`, or cancelled.

    Of the record, it holds the patient, or the `candidates` among whom one is to be chosen. `form`
    is what was filled in, to ask again. `thread` is what was asked up to here, this question too
    once it is answered; `previous` are the questions before.
    """

    def __init__(self, form: QuestionForm, after: "QuestionJob | None") -> None:
        self.id = secrets.token_urlsafe(12)
        self.form = form
        self.thread: Thread = after.thread.copy() if after else Thread()
        self.previous: tuple[PreviousQuestion, ...] = ()
        if after is not None:
            self.previous = (*after.previous, after.as_previous())[-MOST_TURNS:]
        self.patient: PatientDetails | None = after.patient if after else None
        self.asked_at = datetime.now()
        self.answer: Answer | None = None
        self.case: Case | None = None
        self.error = ""
        self.candidates: tuple[PatientDetails, ...] = ()
        self.needs_patient_choice = False
        self.is_cancelled = False
        self.is_waiting = True
        self.stop = Stop()
        self.future: Future[None] | None = None
        self._submitted = time.monotonic()
        self._ended: float | None = None
        self._steps: Counter[str] = Counter()
        self._steps_lock = Lock()

    @property
    def question(self) -> str:
        """The question as it was typed."""
        return self.form.question

    @property
    def finished(self) -> bool:
        """Whether the question was answered, failed or was cancelled."""
        return self._ended is not None

    @property
    def is_stopping(self) -> bool:
        """Whether it was cancelled, and its work has not ended yet."""
        return self.stop.requested and not self.finished

    @property
    def seconds(self) -> float:
        """The time since the question was asked, up to its end."""
        return (self._ended or time.monotonic()) - self._submitted

    def as_previous(self) -> PreviousQuestion:
        """Return the question as one before another one, with the first line of its answer."""
        if self.answer is None:
            return PreviousQuestion(self.id, self.question, None, "")
        line = self.answer.text.split("\n")[0][:_MAX_SHORT_ANSWER]
        return PreviousQuestion(self.id, self.question, shown_status(self.answer), line)

    def record_step(self, step: Step) -> None:
        """Count a step that has ended. Raises `Stopped` if the question was cancelled."""
        with self._steps_lock:
            self._steps[step.agent.replace("_", " ")] += 1
        self.stop.raise_if_requested()

    def steps_by_agent(self) -> dict[str, int]:
        """Return the number of steps of each agent, in order of their earliest step."""
        with self._steps_lock:
            return dict(self._steps)

    def cancel(self) -> None:
        """Stop the work; where it has not begun, it never does."""
        self.stop.request()
        if self.future is not None and self.future.cancel():
            self.is_cancelled = True
            self.end()

    def end(self) -> None:
        """Note that nothing is done any more."""
        self.is_waiting = False
        self._ended = time.monotonic()


AnswerFunction = Callable[[QuestionJob], AnsweredQuestion]
"""Answers the question of a job in its thread, also with the case of the notes."""


class QuestionJobs:
    """The latest questions of this server, fifty at most."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, QuestionJob] = OrderedDict()
        self._workers = ThreadPoolExecutor(_MAX_WORKERS, thread_name_prefix="question")

    def submit(
        self,
        form: QuestionForm,
        answer: AnswerFunction,
        after: QuestionJob | None = None,
    ) -> QuestionJob:
        """Start to answer a question, in the thread of the one that it comes `after`."""
        job = QuestionJob(form, after)
        self._jobs[job.id] = job
        while len(self._jobs) > _MAX_JOBS:
            self._jobs.popitem(last=False)
        job.future = self._workers.submit(_run_job, job, answer)
        return job

    def find(self, job_id: str) -> QuestionJob | None:
        """Return the question of this id; None if it is unknown or was dropped."""
        return self._jobs.get(job_id)

    def waiting_before(self, job: QuestionJob) -> int | None:
        """Return how many questions wait before one; None if it waits no more."""
        if not job.is_waiting:
            return None
        before = 0
        for other in list(self._jobs.values()):
            if other is job:
                break
            before += other.is_waiting
        return before

    def close(self) -> None:
        """Accept no more questions, and stop those in progress."""
        for job in self._jobs.values():
            if not job.finished:
                job.cancel()
        self._workers.shutdown(wait=False, cancel_futures=True)

    async def events(self, job: QuestionJob) -> AsyncIterator[str]:
        """Yield server-sent events (html.spec.whatwg.org, 9.2).

        `waiting` whenever the number of questions before it changes, `stages` whenever a step has
        ended, `done` at the end.
        """
        sent_steps: dict[str, int] = {}
        sent_before: int | None = None
        while True:
            finished = (
                job.finished
            )  # Read before the steps, so that no last step is lost.
            before, steps = self.waiting_before(job), job.steps_by_agent()
            if before != sent_before:
                sent_before = before
                yield _format_event("waiting", {"before": before})
            if steps != sent_steps:
                sent_steps = steps
                stages = [
                    {"agent": agent, "steps": count} for agent, count in steps.items()
                ]
                yield _format_event("stages", stages)
            if finished:
                yield _format_event("done", {"failed": bool(job.error)})
                return
            await asyncio.sleep(_POLL_SECONDS)


def _format_event(name: str, content: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"


def _run_job(job: QuestionJob, answer: AnswerFunction) -> None:
    job.is_waiting = False
    try:
        with stoppable(job.stop):
            job.stop.raise_if_requested()
            answered = answer(job)
        job.case, job.answer = answered.case, answered.answer
    except (Stopped, asyncio.CancelledError):
        job.is_cancelled = True
    except PatientToChoose as error:
        job.needs_patient_choice = True
        job.error, job.candidates = str(error), error.candidates
    except ArchqaError as error:
        job.error = str(error)
    except Exception as error:  # The message may quote the note; the type cannot.
        job.error = f"An unexpected error occurred ({type(error).__name__})."
    finally:
        job.end()
