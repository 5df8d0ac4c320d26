"""`archqa.brief`: the summary of one patient for a visit."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from archqa.asking.question import parse_time
from archqa.briefing.brief_values import Brief
from archqa.briefing.sections import chosen_sections
from archqa.briefing.summary import PERFORMER, brief_of, summarize_record
from archqa.errors import CallerError, InputError, without_suppressed_causes
from archqa.fhir import FhirError, connect
from archqa.llm.model import Model
from archqa.runs.destinations import Announce, Announcer, Destination, run_destinations
from archqa.safety.arguments import as_text
from archqa.safety.server_urls import check_encrypted, is_server_url
from archqa.safety.text import without_surrogates
from archqa.settings import Settings, load_settings

AGENT = "brief_writing"


@without_suppressed_causes
def brief(
    *,
    patient: str,
    record: str | Path,
    now: datetime | str | None = None,
    sections: Sequence[str] | None = None,
    settings: Settings | None = None,
    announce: Announce | None = None,
    scripted: Model | None = None,
    **typed: Any,
) -> Brief:
    """Return the summary of a patient for a visit, each line with what it rests on.

    `patient` is a FHIR id, an identifier (MRN) or a name in `record`, a store or a server. `now` is
    the time of the visit, by default the present; of a dead patient and of a record whose dates
    were shifted, its end. `sections` chooses some by name. `typed` are settings by short or full
    name, such as `model="gpt-4.1"`, instead of `settings`: then a model writes the lines, shorter,
    and each is checked against what it cites.

    Raises `CallerError` for a wrong call, also `PatientNotFound` and `SeveralPatients`,
    `InputError` if `record` is none, and `ModelError`.
    """
    if settings is not None and typed:
        raise CallerError("Both settings and single settings were given.\nPut them into one.")
    settings = settings or load_settings(typed=typed)
    kinds = chosen_sections(sections)
    name = without_surrogates(as_text(patient, "The patient"))
    asks_model = is_by_model(settings, scripted)
    _check_settings(settings)
    if is_server_url(str(record)):
        check_encrypted(str(record), allow_plain_http=settings.allow_plain_http)
        announce = announce or Announcer()
        announce(brief_destinations(settings, record, asks_model=asks_model))
    with connect(record, allow_plain_http=settings.allow_plain_http) as opened:
        try:
            summary = summarize_record(opened, name, parse_time(now), kinds)
        except FhirError as error:
            raise InputError(record, [f": {error}"]) from None
        if not asks_model:
            return brief_of(summary, PERFORMER)
        from archqa.briefing.model_brief import written_by_model  # Seldom needed.

        return written_by_model(summary, settings, scripted, announce)


def _check_settings(settings: Settings) -> None:
    """Raise `CallerError` for typed settings that have no effect on a summary."""
    if not settings.typed_names:
        return
    from archqa.briefing.model_brief import BRIEF_MODEL
    from archqa.runs.settings_check import check_settings_used

    check_settings_used(settings, BRIEF_MODEL)


def is_by_model(settings: Settings, scripted: Model | None = None) -> bool:
    """Whether a model writes the lines: its server was asked for, for all agents or for this one."""
    own = settings.agent(AGENT)
    backend = settings.backend_of(AGENT)
    if backend is not None:
        return backend != "embedded"
    return settings.has_model or bool(own.base_url) or scripted is not None


def brief_destinations(
    settings: Settings, record: str | Path, *, asks_model: bool
) -> tuple[Destination, ...]:
    """Return where a summary sends queries and, with a model, the text of the record."""
    from archqa.briefing.model_brief import BRIEF_MODEL

    destinations = run_destinations(settings.replace(record=str(record)), BRIEF_MODEL)
    return tuple(each for each in destinations if asks_model or each.gets_queries)
