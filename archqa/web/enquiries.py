"""Questions that were typed into the form: worked on beside the pages, each step told as it ends, kept in memory."""

import asyncio
import json
import secrets
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from archqa.ask.note import AskResult
from archqa.core.step import Step
from archqa.errors import ArchqaError

_MOST_KEPT = 50
_AT_ONCE = 2
_PAUSE = 0.1

AnswerFunction = Callable[[Callable[[Step], object]], AskResult]


class QuestionJob:
    """One question under way, or answered, or failed with a sentence that holds no record text."""

    def __init__(self, question: str) -> None:
        self.id = secrets.token_urlsafe(12)
        self.question = question
        self.answered: AskResult | None = None
        self.failure = ""
        self._steps: Counter[str] = Counter()
        self._alone = Lock()

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.answered is not None or bool(self.failure)

    def tell(self, step: Step) -> None:
        """Note that a step ended."""
        with self._alone:
            self._steps[step.agent.replace("_", " ")] += 1

    def stages(self) -> dict[str, int]:
        """Steps that ended, by agent, in the order in which the agents were first heard."""
        with self._alone:
            return dict(self._steps)


class QuestionJobs:
    """All questions of this server, the latest fifty."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, QuestionJob] = OrderedDict()
        self._workers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="asking")

    def begin(self, question: str, work: AnswerFunction) -> QuestionJob:
        """Start to work on a question."""
        enquiry = QuestionJob(question)
        self._kept[enquiry.id] = enquiry
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        self._workers.submit(_work_on, enquiry, work)
        return enquiry

    def find(self, enquiry_id: str) -> QuestionJob | None:
        """The question of this id; None if there is none any more."""
        return self._kept.get(enquiry_id)

    def close(self) -> None:
        """Take no more questions."""
        self._workers.shutdown(wait=False, cancel_futures=True)


async def events(enquiry: QuestionJob) -> AsyncIterator[str]:
    """Server-sent events: `stages` whenever a step has ended, `done` at the end (html.spec.whatwg.org, 9.2)."""
    told: dict[str, int] = {}
    while True:
        over, now = enquiry.over, enquiry.stages()
        if now != told:
            told = now
            yield _event(
                "stages", [{"agent": agent, "steps": count} for agent, count in now.items()]
            )
        if over:
            yield _event("done", {"failed": bool(enquiry.failure)})
            return
        await asyncio.sleep(_PAUSE)


def _event(name: str, content: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"


def _work_on(enquiry: QuestionJob, work: AnswerFunction) -> None:
    try:
        enquiry.answered = work(enquiry.tell)
    except ArchqaError as error:
        enquiry.failure = str(error)
    except Exception as unforeseen:  # Its words may quote the note; its kind may not.
        enquiry.failure = f"Something unforeseen happened ({type(unforeseen).__name__})."
