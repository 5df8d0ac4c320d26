"""Answers questions about notes: by a model if one is set up, else by the embedded engine."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from archqa.asking.answer import Answer
from archqa.asking.note_search import answer_by_engine
from archqa.core.case import Case
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import CallerError, without_suppressed_causes
from archqa.llm.model import Model
from archqa.notes.language import OTHER_LANGUAGE_REMARK, is_english
from archqa.notes.sentences import case_from_text
from archqa.runs.destinations import Announce, Destination, run_destinations
from archqa.runs.event_loop import run_sync
from archqa.settings import Settings, load_settings

if TYPE_CHECKING:
    from archqa.runs.backends import Backends, SharedLimits
    from archqa.tasks.pipeline import Pipeline

AGENT = "note_answer"
"""The agent that answers where a model is set up."""

OnStep = Callable[[Step], object]


def model_pipeline() -> "Pipeline":
    """The way a model answers. It belongs to no task: its answer is no submission of a benchmark."""
    from archqa.asking.note_model import NOTE_MODEL  # Without a model it is not needed.

    return NOTE_MODEL


@without_suppressed_causes
def ask_note(
    question: str,
    note: str,
    settings: Settings | None = None,
    *,
    on_step: OnStep = lambda _: None,
    announce: Announce | None = None,
    scripted: Model | None = None,
) -> Answer:
    """Return the answer to a question from the text of a note, with the sentences it rests on.

    `on_step` is called with each step as it ends, `announce` with the hosts that get record text
    before the first request (by default a log warning names them). Raises `CallerError` for an
    empty question or note, `CaseFailed` if a model gives no usable answer, and `ModelError`.
    """
    settings = settings or load_settings()
    check_note_settings(settings)
    case = note_case(question, note)
    return run_sync(answer_case(case, settings, on_step, scripted, announce))


def note_case(question: str, note: str) -> Case:
    """Return the case of a question and a note. Raises `CallerError` if either has no word."""
    return as_question(case_from_text(question, note))


def as_question(case: Case) -> Case:
    """Return the case without a patient's message: people ask, they do not write messages."""
    return case.model_copy(update={"patient_narrative": ""})


async def answer_case(
    case: Case,
    settings: Settings,
    on_step: OnStep = lambda _: None,
    scripted: Model | None = None,
    announce: Announce | None = None,
) -> Answer:
    """The same for a case that is already split. Raises `CaseFailed`, `ModelError`, `BudgetExceeded`."""
    answerer = NoteAnswerer(settings, scripted, announce)
    try:
        return await answerer.answer(case, on_step)
    finally:
        await answerer.close()


class NoteAnswerer:
    """Answers any number of questions about notes, with one connection, budget and cache.

    `scripted` replaces the model server. Raises `CallerError` where the settings ask for a model
    and no server was asked for. `close` closes the connections.
    """

    def __init__(
        self,
        settings: Settings,
        scripted: Model | None = None,
        announce: Announce | None = None,
        shared: "SharedLimits | None" = None,
    ) -> None:
        self._backends: Backends | None = None
        if asks_model(settings, scripted):
            self._backends = _model_backends(settings, scripted, announce, shared)

    async def answer(self, case: Case, on_step: OnStep = lambda _: None) -> Answer:
        """Answer the case's clinician's question."""
        if self._backends is None:
            answer = answer_by_engine(case)
            on_step(Step(agent="note_search", backend="embedded"))
            remarks = (*answer.remarks, *_language_remarks(case))
            return answer.model_copy(update={"remarks": remarks})
        return await self._answer_by_model(case, self._backends, on_step)

    async def _answer_by_model(self, case: Case, backends: "Backends", on_step: OnStep) -> Answer:
        from archqa.asking.note_model import answer_by_model

        usages: list[Usage] = []
        context = backends.context(partial(_record_step, usages, on_step))
        performer = ", ".join(dict.fromkeys(backends.describe().values()))
        answer = await answer_by_model(case, context, performer)
        remarks = (*answer.remarks, *backends.remarks)
        return answer.model_copy(update={"remarks": remarks, "usage": sum_usage(usages)})

    async def close(self) -> None:
        """Close the connections."""
        if self._backends is not None:
            await self._backends.close()


def _model_backends(
    settings: Settings,
    scripted: Model | None,
    announce: Announce | None,
    shared: "SharedLimits | None",
) -> "Backends":
    from archqa.runs.backends import Backends  # Without a model it is not needed.

    settings = settings.replace(record=None)
    return Backends(settings, model_pipeline(), scripted, shared, announce)


def _language_remarks(case: Case) -> Iterator[str]:
    """Yield that the engine was made for English, if the note is in another language."""
    if is_english("\n".join(sentence.text for sentence in case.sentences)) is False:
        yield OTHER_LANGUAGE_REMARK


def _record_step(usages: list[Usage], on_step: OnStep, step: Step) -> None:
    usages.append(step.usage)
    on_step(step)


def check_note_settings(settings: Settings) -> None:
    """Raise `CallerError` for settings that have no effect on a question about a note."""
    if "pipeline" in settings.typed_names:
        raise CallerError(
            "A question about a note is answered by no pipeline: `pipeline` has no effect.\n"
            "Leave it out; --model or --base-url lets a model answer."
        )
    if settings.typed_names:
        from archqa.runs.settings_check import check_settings_used

        check_settings_used(settings, model_pipeline())


def note_destinations(settings: Settings) -> tuple[Destination, ...]:
    """Where a question about a note sends its text."""
    if not asks_model(settings):
        return ()
    return run_destinations(settings.replace(record=None), model_pipeline())


def asks_model(settings: Settings, scripted: Model | None = None, agent: str = AGENT) -> bool:
    """Whether a model answers: its server was asked for, for all agents or for this one."""
    own = settings.agent(agent)
    backend = settings.backend_of(agent)
    if backend is not None:
        return backend != "embedded"
    return settings.has_model or bool(own.base_url) or scripted is not None
