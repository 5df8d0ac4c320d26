"""A question: what is asked, of which note or patient, at what time, with which settings and models."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from archqa.asking.answer import Answer, AnsweredBy
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import CallerError
from archqa.safety.arguments import as_text
from archqa.settings import Settings, load_settings

if TYPE_CHECKING:
    from archqa.engine.encoders import OnProgress
    from archqa.fhir import Record
    from archqa.llm.model import Model
    from archqa.runs.backends import Backends, SharedLimits
    from archqa.runs.destinations import Announce
    from archqa.tasks.pipeline import Pipeline


OnStep = Callable[[Step], object]
"""Called with each step of the answering as it ends."""


class AskOptions(NamedTuple):
    """What questions have in common: source, time, settings, and who hears of progress.

    `on_progress` is called with the number of passages of a note that were read, and of all.

    `now` is the time that was stated, None for the present or the end of the record. `announce`
    is called before record text leaves this machine. Questions that are answered side by side
    share `limits`. `scripted` replaces the model server.
    """

    settings: Settings
    record: str | Path | None = None
    now: datetime | None = None
    context: str = ""
    max_words: int | None = None
    on_step: OnStep = lambda _: None
    on_progress: "OnProgress" = lambda _done, _total: None
    announce: "Announce | None" = None
    limits: "SharedLimits | None" = None
    scripted: "Model | None" = None


class Question(NamedTuple):
    """One question about a note, about a patient of a record, or about both; see `create`."""

    text: str
    note: str | None
    patient: str | None
    options: AskOptions

    @classmethod
    def create(
        cls,
        text: str,
        options: AskOptions,
        *,
        note: str | None = None,
        patient: str | None = None,
    ) -> Self:
        """Return a validated question.

        `patient` is a FHIR id, an identifier (MRN) or a name. Raises `CallerError` for what is not
        text, and where no source is named.
        """
        check_source(note, patient, options.record)
        return cls(
            text=as_text(text, "The question"),
            note=None if note is None else as_text(note, "The note"),
            patient=None if patient is None else as_text(patient, "The patient"),
            options=options._replace(context=as_text(options.context, "The context")),
        )

    @property
    def settings(self) -> Settings:
        """The settings that the question is answered with."""
        return self.options.settings


def check_source(note: object, patient: object, record: object) -> None:
    """Raise `CallerError` unless a note, or a patient with a record, is named."""
    if note is None and patient is None:
        raise CallerError(
            "It is not said what to ask.\nName a note, or a patient with the record that has them."
        )
    if patient is not None and record is None:
        raise CallerError(
            "A patient is in a record.\nName the store or server with --record (record=)."
        )


def settings_of_call(
    settings: Settings | None, typed: Mapping[str, object]
) -> Settings:
    """Return the settings of a call, all at once or by name. Raises `CallerError` for both."""
    if settings is not None and typed:
        raise CallerError(
            "Both settings and single settings were given.\nPut them into one."
        )
    return settings or load_settings(typed=typed)


def parse_time(value: datetime | str | None) -> datetime | None:
    """Return a time that is written as ISO 8601. Raises `CallerError` for what is none."""
    if value is None or isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise CallerError(
            "The time of the question is no date.\nWrite it as 2026-11-23 or 2026-11-23T14:30."
        ) from None


class StepLog:
    """Passes steps on as they end, and sums up what their calls used."""

    def __init__(self, on_step: OnStep) -> None:
        self._on_step = on_step
        self._usages: list[Usage] = []

    def __call__(self, step: Step) -> None:
        """Take note of a step."""
        self._usages.append(step.usage)
        self._on_step(step)

    @property
    def usage(self) -> Usage:
        """The usage of all steps so far."""
        return sum_usage(self._usages)

    def answer_of(self, backends: "Backends", answer: Answer) -> Answer:
        """Return an answer with the model that gave it, its remarks, and the usage so far."""
        changes = {
            "remarks": (*answer.remarks, *backends.remarks),
            "usage": self.usage,
            "answered_by": AnsweredBy(reader="model", model=backends.answered_by),
        }
        return answer.model_copy(update=changes)


class ModelBackends:
    """The backends of the pipelines that any number of questions need; without a model, none."""

    def __init__(self, options: AskOptions) -> None:
        self._options = options
        self._by_pipeline: dict[str, Backends] = {}
        self._of_records: list[Backends] = []

    def open(self, pipeline: "Pipeline") -> "Backends":
        """Return the backends of a pipeline that reads no FHIR record of its own.

        Raises `CallerError` where the settings ask for a model and no server was asked for.
        """
        if pipeline.name not in self._by_pipeline:
            settings = self._options.settings.replace(record=None, pipeline=None)
            self._by_pipeline[pipeline.name] = self._backends(settings, pipeline)
        return self._by_pipeline[pipeline.name]

    def open_for_record(
        self, pipeline: "Pipeline", settings: Settings, record: "Record"
    ) -> "Backends":
        """Return the backends of a pipeline over a record that is open. Raises as `open`."""
        from archqa.fhir import Store

        if isinstance(record, Store) and record.profile.name != pipeline.fhir_profile:
            record = record.as_profile(pipeline.fhir_profile)
        backends = self._backends(settings, pipeline, record)
        self._of_records.append(backends)
        return backends

    def _backends(
        self, settings: Settings, pipeline: "Pipeline", record: "Record | None" = None
    ) -> "Backends":
        from archqa.runs.backends import (
            Backends,
        )  # Slow to import, and needed for models only.

        options = self._options
        return Backends(
            settings,
            pipeline,
            options.scripted,
            options.limits,
            options.announce,
            record=record,
        )

    async def close(self) -> None:
        """Close all connections."""
        for backends in (*self._by_pipeline.values(), *self._of_records):
            await backends.close()


def asks_model(settings: Settings, agent: str, scripted: "Model | None" = None) -> bool:
    """Whether a model answers for an agent: its server was asked for, for all agents or this one."""
    backend = settings.backend_of(agent)
    if backend is not None:
        return backend != "embedded"
    own = settings.agent(agent)
    return settings.has_model or bool(own.base_url) or scripted is not None
