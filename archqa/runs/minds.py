"""Who performs the agents of a run: built once from the settings, handed to each case as a desk."""

from collections.abc import Callable

import openai

from archqa.agents.base import Desk, Mind
from archqa.agents.embedded_mind import EmbeddedMind
from archqa.agents.model_mind import ModelMind
from archqa.agents.rehearsal_mind import RehearsalMind, Rehearsed
from archqa.core.step import Step
from archqa.errors import AuthenticationFailed, CallerError
from archqa.evidence import Engine
from archqa.fhir import connect
from archqa.llm.base import Model
from archqa.llm.budget import Budget, BudgetedModel
from archqa.llm.cache import GIBIBYTE, Cache, CachedModel
from archqa.llm.client import ServerModel
from archqa.llm.limits import LimitedModel, Limiter
from archqa.llm.retries import RetryingModel
from archqa.llm.wire import Heed, HttpWire
from archqa.pipelines.base import Pipeline
from archqa.settings import CONTEXT_MODEL, DEFAULT_MODEL, Settings


class Minds:
    """The minds of one run. `close` ends the connections."""

    def __init__(self, settings: Settings, pipeline: Pipeline, model: Model | None = None) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._scripted = model
        self._wires: list[HttpWire] = []
        self._limiter = Limiter(settings.jobs, settings.requests_per_minute, settings.tokens_per_minute)
        self._budget = Budget(settings.max_cost)
        self._models: dict[str | None, Model] = {}
        self._cache = open_cache(settings) if settings.cache and self.ask_models else None
        self._engine = Engine.load() if "embedded" in self._kinds and pipeline.reads_notes else None
        self._store = connect(settings.record, ways=pipeline.ways) if settings.record else None
        for name in self._asking:
            self._model(self._server(name))  # A missing key or a bad URL shows before anything is written.

    def describe(self) -> dict[str, str]:
        """Agent name to who performs it, for `run.json`."""
        return {
            name: self._described(name, kind) for name, kind in zip(self._pipeline.agents, self._kinds, strict=True)
        }

    def desk(self, record: Callable[[Step], None]) -> Desk:
        """A desk for one case."""
        embedded = self._embedded() if "embedded" in self._kinds else None
        minds = {
            name: self._mind(name, kind, embedded)
            for name, kind in zip(self._pipeline.agents, self._kinds, strict=True)
        }
        return Desk(minds, record, self._store)

    def rehearsal(self, calls: list[Rehearsed]) -> Desk:
        """A desk at which nobody is asked; the calls that would be made are appended to `calls`."""
        embedded = self._embedded()
        minds: dict[str, Mind] = dict.fromkeys(self._pipeline.agents, embedded)
        for name in self._asking:
            minds[name] = RehearsalMind(self._model_mind(name), embedded, self._cache, calls)
        return Desk(minds, store=self._store)

    async def close(self) -> None:
        """Close connections, the record and the cache."""
        for wire in self._wires:
            await wire.close()
        if self._store is not None:
            self._store.close()
        if self._cache is not None:
            self._cache.close()

    @property
    def _kinds(self) -> list[str]:
        return [self._settings.agent(name).mind or self._pipeline.mind for name in self._pipeline.agents]

    @property
    def ask_models(self) -> bool:
        """Whether any agent is performed by a model."""
        return bool(self._asking)

    @property
    def _asking(self) -> list[str]:
        """The agents that models perform."""
        return [name for name, kind in zip(self._pipeline.agents, self._kinds, strict=True) if kind == "model"]

    def _server(self, name: str) -> str | None:
        return self._settings.agent(name).base_url or self._settings.base_url

    def _described(self, name: str, kind: str) -> str:
        if kind == "embedded":
            return f"embedded:{self._engine.fingerprint[:12]}" if self._engine else "embedded"
        return f"{self._model_name(name)} at {self._server(name) or 'api.openai.com'}"

    def _embedded(self) -> Mind:
        """The mind inside archqa for what the pipeline reads: a note, or a record."""
        return EmbeddedMind(self._engine, self._settings.operating_point)

    def _mind(self, name: str, kind: str, embedded: Mind | None) -> Mind:
        if kind == "embedded":
            assert embedded is not None
            return embedded
        return self._model_mind(name)

    def _model_mind(self, name: str) -> ModelMind:
        agent = self._settings.agent(name)
        return ModelMind(
            self._model(self._server(name)),
            self._model_name(name),
            temperature=agent.temperature,
            max_tokens=agent.max_tokens,
            turns=agent.turns,
        )

    def _model_name(self, name: str) -> str:
        """An agent's own model, else the run's, else the paper's for this stage."""
        paper = CONTEXT_MODEL if name == "context" else DEFAULT_MODEL
        return self._settings.agent(name).model or self._settings.model or paper

    def _model(self, base_url: str | None) -> Model:
        """The model behind one server: cache, budget, retries, limit and connection, from outside in."""
        if base_url not in self._models:
            settings = self._settings
            asked: Model = self._scripted or ServerModel(self._open(base_url), settings.price_of)
            limited = LimitedModel(asked, self._limiter)
            asked = RetryingModel(limited, tries=settings.tries, first_wait=settings.first_wait)
            asked = BudgetedModel(asked, self._budget)
            self._models[base_url] = CachedModel(asked, self._cache) if self._cache is not None else asked
        return self._models[base_url]

    def _open(self, base_url: str | None) -> HttpWire:
        wire = open_wire(self._settings, base_url, self._limiter.heed)
        self._wires.append(wire)
        return wire


def open_cache(settings: Settings) -> Cache:
    """The replies that were paid for. Raises `InputError` if the file is something else."""
    return Cache(settings.cache_path, round(settings.cache_gib * GIBIBYTE))


def open_client(settings: Settings, base_url: str | None) -> openai.AsyncOpenAI:
    """The openai package's connection to one server, for files and lists of models. Raises as `open_wire` does."""
    url, key = _address(settings, base_url)
    return openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0, timeout=settings.timeout)


def open_wire(settings: Settings, base_url: str | None, heed: Heed = lambda _: None) -> HttpWire:
    """A line to one server for many questions; `heed` is told the headers of each answer.

    Raises `AuthenticationFailed` without a key for api.openai.com, `CallerError` for what is no URL.
    """
    url, key = _address(settings, base_url)
    return HttpWire(url, key, settings.timeout, heed)


def _address(settings: Settings, base_url: str | None) -> tuple[str, str]:
    """A server's URL and the key for it."""
    key = settings.key_for(base_url)
    if key is None and base_url is None:
        raise AuthenticationFailed(
            "There is no key for api.openai.com.\n"
            "Set OPENAI_API_KEY, name another server with --base-url, or use --pipeline embedded."
        )
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise CallerError(f"--base-url {base_url!r} is not a URL.\nFor example: http://127.0.0.1:8000/v1")
    return base_url or "https://api.openai.com/v1", key.get_secret_value() if key else "none"
