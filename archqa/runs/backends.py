"""Who performs the agents of a run: built once from the settings, handed to each case as a desk."""

from collections.abc import Callable
from typing import NamedTuple

from archqa.agents.agent import Backend, ConfirmWrite, RunContext
from archqa.agents.dry_run_backend import DryRunBackend, DryRunCall
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.grammar_backend import GrammarBackend
from archqa.agents.model_backend import ModelBackend
from archqa.core.question import Item, RecordQuestion
from archqa.core.step import Step
from archqa.engine import Engine
from archqa.errors import AuthenticationFailed, CallerError
from archqa.fhir import AuditLog, Record, ShardedStore, connect, is_sharded
from archqa.llm.budget import Budget, BudgetedModel, BudgetProtocol
from archqa.llm.cache import (
    GIBIBYTE,
    CachedModel,
    InFlightRequests,
    ReplyCache,
    ServerCache,
    SqliteCache,
)
from archqa.llm.client import ServerModel
from archqa.llm.limits import RateLimitedModel, RateLimiter
from archqa.llm.model import Model
from archqa.llm.postgres import PostgresCache
from archqa.llm.retries import RetryingModel
from archqa.llm.server_identity import OPENAI_BASE_URL, server_identity
from archqa.llm.transport import HttpTransport, RetryAfterHook
from archqa.panel.settings import PanelSettings
from archqa.runs.models import (
    ModelEndpoint,
    check_model_counts,
    decision_components,
    load_exemplars,
    model_endpoints,
)
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline


class SharedLimits(NamedTuple):
    """What a run's processes have in common where there are several: its pace, its budget, who asks what."""

    limiter: RateLimiter
    budget: BudgetProtocol
    in_flight: InFlightRequests | None = None


class Backends:
    """The minds of one run. `close` ends the connections."""

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        model: Model | None = None,
        shared: SharedLimits | None = None,
    ) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._scripted = model
        self.audit: AuditLog | None = None
        self.confirm: ConfirmWrite | None = None
        self._wires: list[HttpTransport] = []
        self._shared = shared or _alone(settings)
        self._models: dict[str | None, Model] = {}
        self._cache = open_cache(settings) if settings.cache.enabled and self.uses_models else None
        self._engine = Engine.load() if "embedded" in self._kinds and pipeline.reads_notes else None
        self._store = _open_record(settings.record, pipeline.ways) if settings.record else None
        if isinstance(self._store, ShardedStore) and settings.runner == "local":
            self._store.check_all_local()  # On a cluster each machine may have a part.
        if self._store is None and pipeline.reads_record:
            raise CallerError(
                f"The pipeline {pipeline.name} reads a FHIR record.\nName a store or a server with --record."
            )
        own = settings.for_pipeline(pipeline)
        self._exemplars = load_exemplars(own.exemplars) if isinstance(own, PanelSettings) else None
        check_model_counts(settings, pipeline)
        for name in self._asking:
            for performer in model_endpoints(settings, name):
                self._model(
                    performer.base_url
                )  # A missing key or a bad URL shows before anything is written.

    def describe(self) -> dict[str, str]:
        """Agent name to who performs it, for `run.json`."""
        agents = zip(self._pipeline.agents, self._kinds, strict=True)
        return {name: self._described(name, kind) for name, kind in agents} | decision_components(
            self._settings, self._pipeline
        )

    def desk(self, record: Callable[[Step], None], case: Item | None = None) -> RunContext:
        """A desk for one case, with the record of its patient."""
        store = self._record_of(case)
        embedded = self._embedded(store) if "embedded" in self._kinds else None
        minds = {
            name: self._mind(name, kind, embedded)
            for name, kind in zip(self._pipeline.agents, self._kinds, strict=True)
        }
        voters = {name: self._voters(name, kind, embedded) for name, kind in self._several}
        return RunContext(
            minds, record, store, voters, self._exemplars, audit=self.audit, confirm=self.confirm
        )

    def dry_run_context(self, calls: list[DryRunCall], case: Item | None = None) -> RunContext:
        """A desk at which nobody is asked; the calls that would be made are appended to `calls`."""
        store = self._record_of(case)
        embedded = self._embedded(store)
        minds: dict[str, Backend] = dict.fromkeys(self._pipeline.agents, embedded)
        for name in self._asking:
            endpoint = model_endpoints(self._settings, name)[0]
            minds[name] = self._dry_run_backend(name, endpoint, embedded, calls)
        voters = {
            name: self._dry_run_voters(name, kind, embedded, calls) for name, kind in self._several
        }
        return RunContext(
            minds, fhir_record=store, voting_backends=voters, exemplars=self._exemplars
        )

    def _dry_run_voters(
        self, name: str, kind: str, embedded: Backend, calls: list[DryRunCall]
    ) -> dict[str, Backend]:
        """The voters of an agent by the name they vote under, none of which asks a model."""
        if kind == "embedded":
            return {kind: embedded}
        return {
            endpoint.label: self._dry_run_backend(name, endpoint, embedded, calls)
            for endpoint in model_endpoints(self._settings, name)
        }

    def _dry_run_backend(
        self, name: str, endpoint: ModelEndpoint, embedded: Backend, calls: list[DryRunCall]
    ) -> DryRunBackend:
        model = self._model_mind(name, endpoint)
        return DryRunBackend(model, embedded, self._server_cache(endpoint.base_url), calls)

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
        return [
            self._settings.agent(name).backend or self._pipeline.mind
            for name in self._pipeline.agents
        ]

    @property
    def uses_models(self) -> bool:
        """Whether any agent is performed by a model."""
        return bool(self._asking)

    @property
    def _asking(self) -> list[str]:
        """The agents that models perform."""
        return [
            name
            for name, kind in zip(self._pipeline.agents, self._kinds, strict=True)
            if kind == "model"
        ]

    @property
    def _several(self) -> list[tuple[str, str]]:
        """The agents that several minds may perform, and the kind of mind that is set for them."""
        agents = zip(self._pipeline.agents, self._kinds, strict=True)
        return [(name, kind) for name, kind in agents if name in self._pipeline.multi_model_agents]

    def _described(self, name: str, kind: str) -> str:
        if kind == "embedded":
            return f"embedded:{self._engine.fingerprint[:12]}" if self._engine else "embedded"
        named = model_endpoints(self._settings, name)
        servers = " and ".join(dict.fromkeys(each.base_url or "api.openai.com" for each in named))
        return f"{', '.join(each.label for each in named)} at {servers}"

    @property
    def shards(self) -> ShardedStore | None:
        """The record's shards, where it is in several."""
        return self._store if isinstance(self._store, ShardedStore) else None

    def _record_of(self, case: Item | None) -> Record | None:
        """The whole record, or the shard that has the patient of the case. Raises `CallerError` if it names none."""
        if not isinstance(self._store, ShardedStore):
            return self._store
        if self._pipeline.reads_notes:
            return None
        if isinstance(case, RecordQuestion) and case.patient_fhir_id:
            return self._store.of(case.patient_fhir_id)
        raise CallerError(
            f"{self._store.folder} is a record in shards, which only questions that name a patient can be asked of.\n"
            "Name the whole store with --record."
        )

    def _embedded(self, store: Record | None) -> Backend:
        """The mind inside archqa for what the pipeline reads: a note, or a record."""
        if self._pipeline.reads_notes or store is None:
            settings = self._settings.for_pipeline(self._pipeline)
            operating_point = getattr(settings, "operating_point", "f1")
            return EngineBackend(self._engine, operating_point)
        return GrammarBackend(store)

    def _mind(self, name: str, kind: str, embedded: Backend | None) -> Backend:
        if kind == "embedded":
            assert embedded is not None
            return embedded
        return self._model_mind(name)

    def _voters(self, name: str, kind: str, embedded: Backend | None) -> dict[str, Backend]:
        """Everyone who performs an agent, by the name they vote under."""
        if kind == "embedded":
            return {kind: self._mind(name, kind, embedded)}
        return {
            each.label: self._model_mind(name, each)
            for each in model_endpoints(self._settings, name)
        }

    def _model_mind(self, name: str, performer: ModelEndpoint | None = None) -> ModelBackend:
        agent = self._settings.agent(name)
        performer = performer or model_endpoints(self._settings, name)[0]
        return ModelBackend(
            self._model(performer.base_url),
            performer.model,
            temperature=agent.temperature,
            max_tokens=agent.max_tokens,
            turns=agent.turns,
            prompt=agent.prompt,
        )

    def _model(self, base_url: str | None) -> Model:
        """The model behind one server: cache, retries, limit, budget and connection, from outside in."""
        if base_url not in self._models:
            settings = self._settings
            asked: Model = self._scripted or ServerModel(self._open(base_url), settings.price_of)
            # Check the budget after the rate-limit wait: other requests may have spent it meanwhile.
            limited = RateLimitedModel(
                BudgetedModel(asked, self._shared.budget), self._shared.limiter
            )
            asked = RetryingModel(
                limited, tries=settings.retries.tries, first_wait=settings.retries.first_wait
            )
            cache = self._server_cache(base_url)
            if cache is not None:
                asked = CachedModel(asked, cache, self._shared.in_flight)
            self._models[base_url] = asked
        return self._models[base_url]

    def _server_cache(self, base_url: str | None) -> ServerCache | None:
        """The cached replies of one server; None without a cache."""
        if self._cache is None:
            return None
        return ServerCache(self._cache, server_identity(base_url))

    def _open(self, base_url: str | None) -> HttpTransport:
        wire = open_transport(
            self._settings, base_url, self._shared.limiter.apply_rate_limit_headers
        )
        self._wires.append(wire)
        return wire


def open_cache(settings: Settings) -> ReplyCache:
    """The replies that were paid for, on a server if one is set up, else in a file.

    Raises `InputError` if the file is something else, `ServerUnavailable` if the server does not answer.
    """
    most = round(settings.cache.gib * GIBIBYTE)
    if settings.cache.url is None:
        return SqliteCache(settings.cache.path, most)
    return PostgresCache(settings.cache.url.get_secret_value(), most)


def _open_record(place: str, ways: str) -> Record | ShardedStore:
    return ShardedStore.open(place, ways) if is_sharded(place) else connect(place, ways=ways)


def _alone(settings: Settings) -> SharedLimits:
    """What one process needs."""
    limits = settings.limits
    limiter = RateLimiter(limits.jobs, limits.requests_per_minute, limits.tokens_per_minute)
    return SharedLimits(limiter, Budget(limits.max_cost))


def open_transport(
    settings: Settings, base_url: str | None, heed: RetryAfterHook = lambda _: None
) -> HttpTransport:
    """A line to one server for many questions; `heed` is told the headers of each answer.

    Raises `AuthenticationFailed` without a key for api.openai.com, `CallerError` for what is no URL.
    """
    url, key = server_address(settings, base_url)
    return HttpTransport(url, key, settings.limits.timeout, heed)


def server_address(settings: Settings, base_url: str | None) -> tuple[str, str]:
    """A server's URL and the key for it."""
    key = settings.api_key_for(base_url)
    if key is None and base_url is None:
        raise AuthenticationFailed(
            "There is no key for api.openai.com.\n"
            "Set OPENAI_API_KEY, name another server with --base-url, or use --pipeline embedded."
        )
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise CallerError(
            f"--base-url {base_url!r} is not a URL.\nFor example: http://127.0.0.1:8000/v1"
        )
    return base_url or OPENAI_BASE_URL, key.get_secret_value() if key else "none"
