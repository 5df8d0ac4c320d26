"""The checks of the model server in `archqa doctor`."""

from collections.abc import Iterator
from typing import NamedTuple

from archqa.cli.model_table import context_text
from archqa.errors import ArchqaError
from archqa.llm.model import FinishReason, OfferedModel, find_offered
from archqa.runs.event_loop import run_sync
from archqa.runs.model_server import MAX_TOKENS, Trial, list_models, try_model
from archqa.settings import DEFAULT_MODEL, Settings

_MAX_MODELS_SHOWN = 5

NEEDED_CONTEXT = 8192
"""Tokens of the longest prompt of `dmis` over the development cases, and of a whole reply;
docs/own-model.md has the measurement."""


class Check(NamedTuple):
    """The check of one part. `ok` is None where the part is optional and absent, or not known.

    `exit_code` is that of a command which needs the part and finds it broken.
    """

    part: str
    ok: bool | None
    explanation: str
    exit_code: int = 3


def check_server(settings: Settings, tried_model: str | None) -> Iterator[Check]:
    """Check the server of the settings; `tried_model` gets one request with invented text."""
    if not settings.has_model:
        yield Check(
            "model server",
            None,
            "none is asked: a key alone sends nothing; --model, --base-url, ARCHQA_MODEL "
            "or the user's own configuration names one",
        )
        return
    checks, is_listed = _check_list(settings)
    if tried_model is None:
        yield from checks
        return
    # A server that gives no list may still answer; it is not asked again and again.
    trial = _check_structure(settings if is_listed else settings.replace(tries=1), tried_model)
    if trial.ok is not False:
        checks = [_not_needed(check) for check in checks]
    yield from checks
    yield trial


def _check_list(settings: Settings) -> tuple[list[Check], bool]:
    """The checks of the server's list of models, and whether it gave one."""
    server = settings.base_url or "api.openai.com"
    try:
        models = run_sync(list_models(settings))
    except ArchqaError as error:
        return [_failure("model server", error)], False
    answers = Check("model server", True, f"{server} answers and offers {_names(models)}")
    return [answers, *_check_listed(settings, models)], True


def _not_needed(check: Check) -> Check:
    """What the list lacks is no fault where the model answers to its name."""
    if check.ok is False and check.part in ("model server", "model"):
        explanation = f"{check.explanation.rstrip('.')}; it answers to the name all the same"
        return check._replace(ok=None, explanation=explanation)
    return check


def _check_listed(settings: Settings, models: list[OfferedModel]) -> Iterator[Check]:
    """Whether the model of the settings is among those offered, and how much it reads."""
    model = find_offered(settings.model, models) if settings.model else None
    if model is None and len(models) == 1:
        model = models[0]
    if settings.model is None:
        yield _check_without_name(models)
    elif find_offered(settings.model, models):
        yield Check("model", True, f"{settings.model} is among the models offered")
    else:
        explanation = f"{settings.model} is not among the models offered"
        yield Check("model", False, f"{explanation}; see `archqa list models`", 4)
    if model is not None:
        yield _check_context(model)


def _check_without_name(models: list[OfferedModel]) -> Check:
    if len(models) == 1:
        return Check("model", True, f"{models[0].id} is taken, the only one; --model NAME tries it")
    if any(model.id == DEFAULT_MODEL for model in models):
        return Check("model", True, f"{DEFAULT_MODEL} is taken, as in the paper")
    return Check("model", None, "choose one with --model NAME")


def _check_context(model: OfferedModel) -> Check:
    context = model.context or model.trained_context
    text = context_text(model)
    if context is None:
        explanation = f"the server does not tell it; {NEEDED_CONTEXT:,} tokens are needed"
        return Check("context length", None, explanation)
    if context < NEEDED_CONTEXT:
        explanation = f"{text}, and {NEEDED_CONTEXT:,} are needed: start the server with more"
        return Check("context length", False, explanation, 4)
    return Check("context length", True, text)


def _check_structure(settings: Settings, model: str) -> Check:
    part = "structured output"
    try:
        trial = run_sync(try_model(settings, model))
    except ArchqaError as error:
        return _failure(part, error)
    ok, explanation = _judge(trial)
    return Check(part, ok, f"{explanation} (one request with invented text)", 4)


def _judge(trial: Trial) -> tuple[bool | None, str]:
    """Whether archqa can work with what the server did, and a sentence about it."""
    if trial.schema_enforced:
        return True, "json_schema is honoured: the reply keeps to it"
    if trial.fits is None:
        return None, _no_reply(trial.finish)
    if trial.response_format == "json_schema":
        return False, (
            "json_schema is taken and ignored: the reply does not keep to it; "
            "update the server, or start it with guided decoding"
        )
    adverb = "keeps" if trial.fits else "does not keep"
    return None, (
        "json_schema is refused; archqa writes it into the prompt instead, "
        f"and the reply {adverb} to it: expect more repairs"
    )


def _no_reply(finish: FinishReason) -> str:
    if finish is FinishReason.LENGTH:
        return f"not known: the reply was cut off at {MAX_TOKENS} tokens, as of a model that thinks"
    return f"not known: the model gave no reply ({finish.value})"


def _failure(part: str, error: ArchqaError) -> Check:
    return Check(part, False, " ".join(str(error).split()), error.exit_code)


def _names(models: list[OfferedModel]) -> str:
    if not models:
        return "no model"
    shown = ", ".join(model.id for model in models[:_MAX_MODELS_SHOWN])
    further = len(models) - _MAX_MODELS_SHOWN
    return f"{shown} and {further} more" if further > 0 else shown
