"""A question as it is asked: what, of which note or patient, at what time, with which settings."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from archqa.core.step import Step
from archqa.errors import CallerError
from archqa.safety.arguments import as_text
from archqa.safety.text import without_surrogates
from archqa.settings import Settings

if TYPE_CHECKING:
    from archqa.llm.model import Model
    from archqa.runs.backends import SharedLimits
    from archqa.runs.destinations import Announce

OnStep = Callable[[Step], object]
"""Called with each step of the answering as it ends."""


class AskOptions(NamedTuple):
    """What questions have in common: source, time, settings, and who hears of progress.

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
        cls, text: str, options: AskOptions, *, note: str | None = None, patient: str | None = None
    ) -> Self:
        """Return a validated question.

        `patient` is a FHIR id, an identifier (MRN) or a name. Raises `CallerError` for what is not
        text, and where no source is named.
        """
        check_source(note, patient, options.record)
        return cls(
            text=without_surrogates(as_text(text, "The question")),
            note=None if note is None else without_surrogates(as_text(note, "The note")),
            patient=None
            if patient is None
            else without_surrogates(as_text(patient, "The patient")),
            options=options._replace(
                context=without_surrogates(as_text(options.context, "The context"))
            ),
        )

    @property
    def settings(self) -> Settings:
        """The settings that the question is answered with."""
        return self.options.settings


def check_settings(settings: Settings, *, of_patient: bool) -> None:
    """Raise `CallerError` for settings that have no effect on a question about a note, or a patient."""
    if not settings.typed_names:
        return
    if of_patient:
        from archqa.asking.chart import check_chart_settings

        check_chart_settings(settings)
    else:
        from archqa.asking.note import check_note_settings

        check_note_settings(settings)


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
