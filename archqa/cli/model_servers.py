"""Model servers: how to start one, which models it offers, and whether archqa can work with it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from archqa.errors import ArchqaError
from archqa.llm.dialect import StructuredOutputMode
from archqa.llm.model import FinishReason, OfferedModel, find_offered
from archqa.runs.event_loop import run_sync
from archqa.runs.model_server import MAX_TOKENS, list_models, try_model
from archqa.safety.text import printable
from archqa.settings import DEFAULT_MODEL, Settings

_SERVERS = (
    ("Ollama", "OLLAMA_CONTEXT_LENGTH=16384 ollama serve", "http://127.0.0.1:11434/v1"),
    (
        "llama.cpp",
        "llama-server -m MODEL.gguf -c 16384 -np 1",
        "http://127.0.0.1:8080/v1",
    ),
    (
        "vLLM",
        "vllm serve FOLDER --host 127.0.0.1 --max-model-len 16384",
        "http://127.0.0.1:8000/v1",
    ),
)
"""Programs, the command that starts each, and the base URL that it then has."""

HOW_TO_START = (
    "A model on this machine, by one of three programs (docs/own-model.md):",
    *(f"  {name:10} {command:57} {base_url}" for name, command, base_url in _SERVERS),
    "Then: archqa list models --base-url URL",
    "      archqa doctor --base-url URL --model NAME",
    "      archqa predict mini --base-url URL --model NAME",
)
"""Lines for somebody who has no model server."""

NEEDED_CONTEXT = 8192
"""Tokens of the longest prompt of `dmis` over the development cases, and of a whole reply;
docs/own-model.md has the measurement."""

_MAX_MODELS_SHOWN = 5

_UNKNOWN = "not told"


def model_lines(models: list[OfferedModel]) -> Iterator[str]:
    """Yield a heading and a line for each model; the id comes last, since it may be a long path."""
    if not models:
        yield "The server offers no model."
        return
    rows = [("context", "owner", "model")]
    for model in models:
        owner = printable(model.owned_by or _UNKNOWN)
        rows.append((_context_text(model), owner, printable(model.id)))
    context_width = max(len(context) for context, _, _ in rows)
    owner_width = max(len(owner) for _, owner, _ in rows)
    for context, owner, name in rows:
        yield f"{context:{context_width}}  {owner:{owner_width}}  {name}"


def _context_text(model: OfferedModel) -> str:
    """Return the tokens that a request may have, as far as the server tells."""
    if model.context is not None:
        return f"{model.context:,} tokens"
    if model.trained_context is not None:
        return f"at most {model.trained_context:,} tokens"
    return _UNKNOWN


def model_json(model: OfferedModel) -> dict[str, Any]:
    """Return a model as JSON values; what the server does not say is null."""
    return {
        "id": model.id,
        "owned_by": model.owned_by or None,
        "context": model.context,
        "trained_context": model.trained_context,
    }


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
    server = settings.base_url or "api.openai.com"
    try:
        models = run_sync(list_models(settings))
    except ArchqaError as error:
        checks = [_failure("model server", error)]
        # A server that gives no list may still answer; it is not asked again and again.
        settings = settings.replace(tries=1)
    else:
        names = (
            ", ".join(model.id for model in models[:_MAX_MODELS_SHOWN]) or "no model"
        )
        further = len(models) - _MAX_MODELS_SHOWN
        if further > 0:
            names += f" and {further} more"
        checks = [Check("model server", True, f"{server} answers and offers {names}")]
        checks += _check_listed(settings, models)
    if tried_model is None:
        yield from checks
        return
    trial = _try(settings, tried_model)
    for check in checks:
        if (
            trial.ok is not False
            and check.ok is False
            and check.part in ("model server", "model")
        ):
            # What the list lacks is no fault where the model answers to its name.
            explanation = (
                f"{check.explanation.rstrip('.')}; it answers to the name all the same"
            )
            check = check._replace(ok=None, explanation=explanation)
        yield check
    yield trial


def _check_listed(settings: Settings, models: list[OfferedModel]) -> Iterator[Check]:
    """Whether the model of the settings is among those offered, and how much it reads."""
    only_model = models[0] if len(models) == 1 else None
    offered = find_offered(settings.model, models) if settings.model else None
    if offered is not None:
        yield Check("model", True, f"{settings.model} is among the models offered")
    elif settings.model is not None:
        explanation = f"{settings.model} is not among the models offered"
        yield Check("model", False, f"{explanation}; see `archqa list models`", 4)
    elif only_model is not None:
        explanation = f"{only_model.id} is taken, the only one; --model NAME tries it"
        yield Check("model", True, explanation)
    elif any(model.id == DEFAULT_MODEL for model in models):
        yield Check("model", True, f"{DEFAULT_MODEL} is taken, as in the paper")
    else:
        yield Check("model", None, "choose one with --model NAME")
    model = offered or only_model
    if model is None:
        return
    part = "context length"
    text = _context_text(model)
    context = model.context or model.trained_context
    if context is None:
        explanation = (
            f"the server does not tell it; {NEEDED_CONTEXT:,} tokens are needed"
        )
        yield Check(part, None, explanation)
    elif context < NEEDED_CONTEXT:
        explanation = (
            f"{text}, and {NEEDED_CONTEXT:,} are needed: start the server with more"
        )
        yield Check(part, False, explanation, 4)
    else:
        yield Check(part, True, text)


def _try(settings: Settings, model: str) -> Check:
    """Whether the model keeps replies to a JSON Schema."""
    part = "structured output"
    try:
        trial = run_sync(try_model(settings, model))
    except ArchqaError as error:
        return _failure(part, error)
    ok: bool | None = None
    takes_schema = trial.mode is StructuredOutputMode.SCHEMA
    if takes_schema and trial.fits:
        ok = True
        explanation = "json_schema is honoured: the reply keeps to it"
    elif trial.fits is None:
        explanation = f"not known: the model gave no reply ({trial.finish.value})"
        if trial.finish is FinishReason.LENGTH:
            explanation = f"not known: the reply was cut off at {MAX_TOKENS} tokens, as of a model that thinks"
    elif takes_schema:
        ok = False
        explanation = (
            "json_schema is taken and ignored: the reply does not keep to it; "
            "update the server, or start it with guided decoding"
        )
    else:
        adverb = "keeps" if trial.fits else "does not keep"
        explanation = (
            "json_schema is refused; archqa writes it into the prompt instead, "
            f"and the reply {adverb} to it: expect more repairs"
        )
    return Check(part, ok, f"{explanation} (one request with invented text)", 4)


def _failure(part: str, error: ArchqaError) -> Check:
    return Check(part, False, " ".join(str(error).split()), error.exit_code)
