"""The backends of a run: built once from its settings, combined to the run context of each case."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from archqa.agents.agent import ConfirmWrite, PromptingBackend, RunContext
from archqa.agents.dry_run_backend import DryRunBackend, DryRunCall
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.model_backend import ModelBackend
from archqa.core.question import Item, RecordQuestion
from archqa.core.step import Step
from archqa.engine import Engine
from archqa.errors import CallerError
from archqa.llm.cache import InFlightRequests, ServerCache
from archqa.llm.client import ServerModel
from archqa.llm.limits import (
    Budget,
    BudgetedModel,
    BudgetProtocol,
    RateLimitedModel,
    RateLimiter,
    RetryingModel,
)
from archqa.llm.model import Model
from archqa.runs.destinations import (
    Announce,
    AnnouncedModel,
    Announcer,
    Destination,
    run_destinations,
)
from archqa.runs.model_server import check_model_server, server_address
from archqa.runs.models import backend_kind, check_server_asked_for, model_endpoint
from archqa.runs.own_backends import OwnBackend, open_backends
from archqa.runs.reply_cache import RunCache
from archqa.safety.base_urls import is_server_url
from archqa.safety.server_urls import server_identity
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline

if TYPE_CHECKING:
    from archqa.fhir import AuditLog, Record, ShardedStore


_log = logging.getLogger(__name__)


class SharedLimits(NamedTuple):
    """What all processes of a run share: rate limits, budget, and the requests in flight."""

    limiter: RateLimiter
    budget: BudgetProtocol
    in_flight: InFlightRequests | None = None


class Backends:
    """The backends of one run. `close` closes their connections.

    `model` replaces the model server, for tests and dry runs; `own` is a backend that the caller
    brings; `record` is one that the caller has opened, and closes. `announce` is called before the
    first request, `on_remark` when something that a run can do without has failed; `remarks` has
    all such sentences. Raises `CallerError` where the settings do not fit the pipeline,
    `AuthenticationFailed` without a key: both before anything is written.
    """

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        model: Model | None = None,
        shared: SharedLimits | None = None,
        announce: Announce | None = None,
        on_remark: Callable[[str], object] = lambda _: None,
        own: OwnBackend | None = None,
        record: "Record | None" = None,
    ) -> None:
        self._settings = settings
        self._announce = announce or Announcer()
        self._announced = False
        self._on_remark = on_remark
        self.remarks: list[str] = []
        self._pipeline = pipeline
        self._pipeline_settings = settings.for_pipeline(pipeline)
        self._scripted = model
        self.audit: AuditLog | None = None
        self.confirm: ConfirmWrite | None = None
        self._server_models: list[ServerModel] = []
        self._shared = shared or limits_of_one_process(settings)
        self._models: dict[str | None, Model] = {}
        self._kinds: dict[str, str] = {}
        for agent in pipeline.agents:
            self._kinds[agent] = backend_kind(settings, pipeline, agent)
        self._own = open_backends(settings, pipeline.agents, own)
        if model is None:
            self._check_server_addresses()
        self._cache: RunCache | None = None
        if settings.cache.enabled and self._model_agents:
            self._cache = RunCache(settings, self._add_remark, self._shared.in_flight)
        self._engine = self._load_engine()
        self._record = record
        self._opened_record: Record | None = None
        self._shards: ShardedStore | None = None
        if record is None:
            self._open_record()
        self._check_servers()

    def describe(self) -> dict[str, str]:
        """Agent name to what runs it, for `run.json`."""
        return {agent: self._description(agent) for agent in self._kinds}

    def context(self, record_step: Callable[[Step], None], case: Item | None = None) -> RunContext:
        """Return the run context of one case, with the record of its patient."""
        record = self._record_of(case)
        reads_server = self._settings.record is not None and is_server_url(self._settings.record)
        if reads_server or self._own:
            self.announce()
        embedded = None
        if "embedded" in self._kinds.values():
            embedded = self._embedded_backend(record)
        backends = {}
        for agent in self._kinds:
            backends[agent] = self._backend(agent, embedded)
        return RunContext(backends, record_step, record, audit=self.audit, confirm=self.confirm)

    def dry_run_context(self, calls: list[DryRunCall], case: Item | None = None) -> RunContext:
        """Return a run context that sends no request.

        The calls that a run would make are appended to `calls`.
        """
        record = self._record_of(case)
        embedded = self._embedded_backend(record)
        backends: dict[str, PromptingBackend] = dict.fromkeys(self._pipeline.agents, embedded)
        for agent in self._model_agents:
            base_url = model_endpoint(self._settings, agent).base_url
            backends[agent] = DryRunBackend(
                self._model_backend(agent),
                embedded,
                self._server_cache(base_url),
                calls,
                server_identity(base_url),
            )
        return RunContext(backends, fhir_record=record)

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """Where this run may send record text and queries."""
        if self._scripted is not None:
            return ()
        return run_destinations(self._settings, self._pipeline)

    def announce(self) -> None:
        """Say where record text and queries go; done before the first request at the latest."""
        if not self._announced:
            self._announced = True
            self._announce(self.destinations)

    async def close(self) -> None:
        """Close connections, the record, the cache and the caller's backends."""
        for own in self._own.values():
            await own.close()
        for server_model in self._server_models:
            await server_model.close()
        for opened in (self._opened_record, self._shards):
            if opened is not None:
                opened.close()
        if self._cache is not None:
            self._cache.close()

    @property
    def uses_models(self) -> bool:
        """Whether a model, or a backend of one's own, runs any agent."""
        return bool(self._model_agents or self._own)

    @property
    def shards(self) -> "ShardedStore | None":
        """The record's shards, where it has several."""
        return self._shards

    @property
    def _model_agents(self) -> list[str]:
        return [agent for agent, kind in self._kinds.items() if kind == "model"]

    def _add_remark(self, remark: str) -> None:
        self.remarks.append(remark)
        self._on_remark(remark)

    def _load_engine(self) -> Engine | None:
        if "embedded" in self._kinds.values() and self._pipeline.reads_notes:
            return Engine.load()
        return None

    def _open_record(self) -> None:
        """Open the record, or its shards. Raises `CallerError` where the pipeline lacks one."""
        settings, pipeline = self._settings, self._pipeline
        if settings.record is None:
            if pipeline.reads_record:
                raise CallerError(
                    f"The pipeline {pipeline.name} reads a FHIR record.\n"
                    "Name a store or a server with --record."
                )
            return
        # Slow to import, and a run over notes has no record.
        from archqa.fhir import ShardedStore, connect, is_sharded

        if not is_sharded(settings.record):
            self._record = self._opened_record = connect(
                settings.record,
                profile=pipeline.fhir_profile,
                allow_plain_http=settings.allow_plain_http,
            )
            return
        self._shards = ShardedStore.open(settings.record, pipeline.fhir_profile)
        if settings.runner == "local":
            self._shards.check_all_local()  # On a cluster the shards may be on several machines.

    def _check_server_addresses(self) -> None:
        """Raise `CallerError` for an address that will not do, before the cache's file is made."""
        for agent in self._model_agents:
            check_model_server(self._settings, model_endpoint(self._settings, agent).base_url)

    def _check_servers(self) -> None:
        """Set up all models now, to report a missing key or bad URL before writing anything."""
        if self._scripted is None:
            check_server_asked_for(self._settings, self._pipeline)
        for agent in self._model_agents:
            self._model(model_endpoint(self._settings, agent).base_url)

    def _description(self, agent: str) -> str:
        own = self._own.get(self._kinds[agent])
        if own is not None:
            return own.description
        if self._kinds[agent] == "embedded":
            if self._engine is None:
                return "embedded"
            return f"embedded:{self._engine.fingerprint[:12]}"
        return str(model_endpoint(self._settings, agent))

    def _record_of(self, case: Item | None) -> "Record | None":
        """Return the whole record, or the shard of the case's patient.

        Raises `CallerError` if the case names no patient.
        """
        if self._shards is None:
            return self._record
        if self._pipeline.reads_notes:
            return None
        if isinstance(case, RecordQuestion) and case.patient_fhir_id:
            return self._shards.of(case.patient_fhir_id)
        raise CallerError(
            f"{self._shards.folder} is a record in shards, "
            "which only questions that name a patient can be asked of.\n"
            "Name the whole store with --record."
        )

    def _embedded_backend(self, record: "Record | None") -> PromptingBackend:
        """The backend without a model: the engine for a note, the query grammar for a record."""
        if record is not None and not self._pipeline.reads_notes:
            from archqa.agents.grammar_backend import GrammarBackend  # Slow to import.

            return GrammarBackend(record)
        operating_point = getattr(self._pipeline_settings, "operating_point", "f1")
        return EngineBackend(self._engine, operating_point)

    def _backend(self, agent: str, embedded: PromptingBackend | None) -> PromptingBackend:
        if self._kinds[agent] == "embedded":
            assert embedded is not None
            return embedded
        own = self._own.get(self._kinds[agent])
        if own is not None:
            return own.checked
        return self._model_backend(agent)

    def _model_backend(self, agent: str) -> ModelBackend:
        endpoint = model_endpoint(self._settings, agent)
        options = self._settings.agent(agent)
        return ModelBackend(
            self._model(endpoint.base_url),
            endpoint.model,
            temperature=options.temperature,
            max_tokens=options.max_tokens,
            turns=options.turns,
            prompt=options.prompt,
        )

    def _model(self, base_url: str | None) -> Model:
        """Return the model of one server.

        It is wrapped in, outermost first, cache, retries, rate limit and budget.
        """
        if base_url not in self._models:
            self._models[base_url] = self._wrapped_model(base_url)
        return self._models[base_url]

    def _wrapped_model(self, base_url: str | None) -> Model:
        settings = self._settings
        model = self._scripted or self._server_model(base_url)
        # Check the budget after the rate-limit wait: other requests may have spent it meanwhile.
        budgeted = BudgetedModel(model, self._shared.budget)
        limited = RateLimitedModel(budgeted, self._shared.limiter)
        retrying = RetryingModel(
            limited, tries=settings.retries.tries, first_wait=settings.retries.first_wait
        )
        if self._cache is None:
            return retrying
        return self._cache.cached(retrying, base_url)

    def _server_model(self, base_url: str | None) -> Model:
        url, key = server_address(self._settings, base_url)
        server_model = ServerModel(
            url,
            key,
            timeout=self._settings.limits.timeout,
            price_of=self._settings.price_of,
            on_headers=self._shared.limiter.apply_rate_limit_headers,
        )
        self._server_models.append(server_model)
        return AnnouncedModel(server_model, self.announce)

    def _server_cache(self, base_url: str | None) -> ServerCache | None:
        """The cached replies of one server; None without a cache."""
        if self._cache is None:
            return None
        return self._cache.of_server(base_url)


def log_remark(remark: str) -> None:
    """Report a remark on stderr as soon as it is made, for runs that take long."""
    _log.warning("%s", remark)


def limits_of_one_process(settings: Settings) -> SharedLimits:
    """Return the limits and the budget of backends that share nothing with other processes."""
    limits = settings.limits
    limiter = RateLimiter(limits.jobs, limits.requests_per_minute, limits.tokens_per_minute)
    return SharedLimits(limiter, Budget(limits.max_cost))
