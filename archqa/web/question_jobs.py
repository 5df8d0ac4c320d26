"""Questions from the form: answered in worker threads, with progress events, kept in memory."""

import asyncio
import json
import secrets
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

from archqa.asking.answer import Answer
from archqa.asking.candidates import SeveralPatients
from archqa.asking.chart import AnsweredChart
from archqa.asking.thread.turns import MOST_TURNS, Thread
from archqa.core.case import Case
from archqa.core.step import Step
from archqa.errors import ArchqaError

_MAX_JOBS = 50
_MAX_WORKERS = 2
_POLL_SECONDS = 0.1

AnswerFunction = Callable[[Thread, Callable[[Step], object]], AnsweredChart]
"""Answers a question in a thread, also with the case of the notes; its second argument is called
with each step that has ended."""


class FormerQuestion(NamedTuple):
    """A question of the same thread, and the id of its job."""

    id: str
    question: str


class QuestionJob:
    """One question: in progress, answered, or failed with an `error`.

    Of the record, an error holds at most the patients among whom one is to be named. `thread` is
    what was asked up to here, this question too once it is answered; `former` are the questions
    before.
    """

    def __init__(
        self, question: str, thread: Thread, former: tuple[FormerQuestion, ...] = ()
    ) -> None:
        self.id = secrets.token_urlsafe(12)
        self.question = question
        self.thread = thread
        self.former = former[-MOST_TURNS:]
        self.answer: Answer | None = None
        self.case: Case | None = None
        self.error = ""
        self._steps: Counter[str] = Counter()
        self._steps_lock = Lock()

    @property
    def finished(self) -> bool:
        """Whether the question was answered or failed."""
        return self.answer is not None or bool(self.error)

    def record_step(self, step: Step) -> None:
        """Count a step that has ended."""
        with self._steps_lock:
            self._steps[step.agent.replace("_", " ")] += 1

    def steps_by_agent(self) -> dict[str, int]:
        """Return the number of steps of each agent, in order of their earliest step."""
        with self._steps_lock:
            return dict(self._steps)


class QuestionJobs:
    """The latest questions of this server, fifty at most."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, QuestionJob] = OrderedDict()
        self._workers = ThreadPoolExecutor(_MAX_WORKERS, thread_name_prefix="question")

    def submit(
        self, question: str, answer: AnswerFunction, after: QuestionJob | None = None
    ) -> QuestionJob:
        """Start to answer a question, in the thread of the one that it comes `after`."""
        thread = after.thread.copy() if after else Thread()
        former = (*after.former, FormerQuestion(after.id, after.question)) if after else ()
        job = QuestionJob(question, thread, former)
        self._jobs[job.id] = job
        while len(self._jobs) > _MAX_JOBS:
            self._jobs.popitem(last=False)
        self._workers.submit(_run_job, job, answer)
        return job

    def find(self, job_id: str) -> QuestionJob | None:
        """Return the question of this id; None if it is unknown or was dropped."""
        return self._jobs.get(job_id)

    def close(self) -> None:
        """Accept no more questions."""
        self._workers.shutdown(wait=False, cancel_futures=True)


async def events(job: QuestionJob) -> AsyncIterator[str]:
    """Yield server-sent events (html.spec.whatwg.org, 9.2).

    `stages` whenever a step has ended, `done` at the end.
    """
    sent_steps: dict[str, int] = {}
    while True:
        finished = job.finished  # Read before the steps, so that no last step is lost.
        steps = job.steps_by_agent()
        if steps != sent_steps:
            sent_steps = steps
            stages = [{"agent": agent, "steps": count} for agent, count in steps.items()]
            yield _format_event("stages", stages)
        if finished:
            yield _format_event("done", {"failed": bool(job.error)})
            return
        await asyncio.sleep(_POLL_SECONDS)


def _format_event(name: str, content: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"


def _run_job(job: QuestionJob, answer: AnswerFunction) -> None:
    try:
        answered = answer(job.thread, job.record_step)
        job.case, job.answer = answered.case, answered.answer
    except SeveralPatients as error:  # The page is read by those who may read the record.
        job.error = f"{error.details}\n{error}"
    except ArchqaError as error:
        job.error = str(error)
    except Exception as error:  # The message may quote the note; the type cannot.
        job.error = f"An unexpected error occurred ({type(error).__name__})."
