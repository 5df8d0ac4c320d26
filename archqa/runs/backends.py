"""The backends of a run: built once from its settings, combined to the run context of each case."""

import inspect
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from archqa import plug_ins
from archqa.agents.agent import Backend, ConfirmWrite, PromptingBackend, RunContext
from archqa.agents.checked_backend import CheckedBackend
from archqa.agents.dry_run_backend import DryRunBackend, DryRunCall
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.model_backend import ModelBackend, ReadReplies
from archqa.core.question import Item, RecordQuestion
from archqa.core.step import Step
from archqa.engine import Engine
from archqa.errors import CallerError
from archqa.llm.cache import InFlightRequests
from archqa.llm.client import ServerModel
from archqa.llm.limits import (
    Budget,
    BudgetedModel,
    BudgetProtocol,
    RateLimitedModel,
    RateLimiter,
    RetryingModel,
)
from archqa.llm.model import Model, Reply, Request
from archqa.runs.destinations import (
    Announce,
    Announcer,
    Destination,
    run_destinations,
)
from archqa.runs.model_server import (
    ModelEndpoint,
    backend_kinds,
    check_model_server,
    check_server_asked_for,
    model_agents,
    model_endpoint,
    server_address,
)
from archqa.runs.record import AgentBackend
from archqa.runs.reply_cache import RunCache
from archqa.safety.server_urls import is_server_url, server_identity
from archqa.settings import BACKENDS, Settings
from archqa.tasks.pipeline import Pipeline

if TYPE_CHECKING:
    from archqa.fhir import AuditLog, Record, ShardedStore


_log = logging.getLogger(__name__)


class SharedLimits(NamedTuple):
    """What all processes of a run share: rate limits, budget, and the requests in flight."""

    limiter: RateLimiter
    budget: BudgetProtocol
    in_flight: InFlightRequests | None = None


class CustomBackend(NamedTuple):
    """A backend that is not archqa's: its name in the settings, the object, and its origin."""

    name: str
    backend: Backend
    origin: str

    @classmethod
    def of_object(cls, backend: Backend) -> "CustomBackend":
        """An object that a caller of `predict` passes, by the name of its class.

        Raises `CallerError` for what is no backend.
        """
        kind = type(backend)
        if isinstance(backend, type) or not inspect.iscoroutinefunction(
            getattr(kind, "run", None)
        ):
            raise CallerError(
                "backend is no backend: an object with `async def run(agent, task, context)`.\n"
                "See archqa.agents.Backend, or name one of `archqa list backends`."
            )
        return cls(kind.__name__, backend, f"{kind.__module__}.{kind.__qualname__}")

    @classmethod
    def of_plug_in(cls, name: str, settings: Settings) -> "CustomBackend":
        """The backend of a plug-in. Raises `CallerError` for an unknown one, `PlugInError`."""
        plug_in = plug_ins.find("backends", name, BACKENDS)
        if plug_in is None:
            raise CallerError(
                f"There is no backend {name!r}.\nSee: archqa list backends"
            )
        make: Callable[[Settings], Backend] = plug_in.load()
        try:
            backend = make(settings)
        except TypeError as error:
            raise plug_in.problem(
                f"cannot be called with the run's settings ({error})"
            ) from None
        if not callable(getattr(backend, "run", None)):
            raise plug_in.problem("has no method run; see archqa.agents.Backend")
        return cls(name, backend, plug_in.origin)


class Backends:
    """The backends of one run. `close` closes their connections.

    `model` replaces the model server, for tests and dry runs; `custom` is a backend that the caller
    passes; `record` is one that the caller has opened, and closes. `announce` is called before the
    first request, `on_remark` when something that a run can do without has failed; `remarks` has
    all such sentences. Raises `CallerError` where the settings do not fit the pipeline,
    `AuthenticationFailed` without a key: both before anything is written. `shards` are the record's,
    where it has several.
    """

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        model: Model | None = None,
        shared: SharedLimits | None = None,
        announce: Announce | None = None,
        on_remark: Callable[[str], object] = lambda _: None,
        custom: CustomBackend | None = None,
        record: "Record | None" = None,
    ) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._scripted = model
        self._shared = shared or limits_of_one_process(settings)
        self._announce = announce or Announcer()
        self._announced = False
        self._on_remark = on_remark
        self.remarks: list[str] = []
        self.audit: AuditLog | None = None
        self.confirm: ConfirmWrite | None = None
        self._kinds = backend_kinds(settings, pipeline)
        self._model_agents = model_agents(settings, pipeline)
        self._custom = self._custom_backends(custom)
        self._server_models: list[ServerModel] = []
        self._models: dict[str | None, Model] = {}
        self._read_replies: defaultdict[ModelEndpoint, ReadReplies] = defaultdict(
            ReadReplies
        )
        if model is None:
            # Refuse an address that will not do before the cache's file is made.
            for agent in self._model_agents:
                check_model_server(settings, model_endpoint(settings, agent).base_url)
        self._cache: RunCache | None = None
        if settings.cache.enabled and self._model_agents:
            self._cache = RunCache(settings, self._add_remark, self._shared.in_flight)
        self._engine: Engine | None = None
        if "embedded" in self._kinds.values() and pipeline.reads_notes:
            self._engine = Engine.load()
        self._record = record
        self._opened_record: Record | None = None
        self.shards: ShardedStore | None = None
        if record is None:
            self._open_record()
        # Set up all models now, to report a missing key or bad URL before writing anything.
        if model is None:
            check_server_asked_for(settings, pipeline)
        for agent in self._model_agents:
            self._model(model_endpoint(settings, agent).base_url)

    def describe(self) -> dict[str, AgentBackend]:
        """Agent name to what runs it, for `run.json`."""
        backends = {}
        for agent, kind in self._kinds.items():
            if kind in self._custom:
                origin = self._custom[kind].origin
                backends[agent] = AgentBackend(kind="custom", name=kind, origin=origin)
            elif kind == "embedded":
                digest = self._engine.fingerprint[:12] if self._engine else None
                backends[agent] = AgentBackend(kind="embedded", digest=digest)
            else:
                model, base_url = model_endpoint(self._settings, agent)
                server = base_url or "api.openai.com"
                backends[agent] = AgentBackend(kind="model", name=model, server=server)
        return backends

    @property
    def answered_by(self) -> str:
        """What runs the agents in words, each once."""
        return ", ".join(
            dict.fromkeys(str(backend) for backend in self.describe().values())
        )

    def context(
        self, record_step: Callable[[Step], None], case: Item | None = None
    ) -> RunContext:
        """Return the run context of one case, with the record of its patient."""
        record = self._record_of(case)
        reads_server = self._settings.record is not None and is_server_url(
            self._settings.record
        )
        if reads_server or self._custom:
            self.announce()
        embedded: PromptingBackend | None = None
        backends: dict[str, PromptingBackend] = {}
        for agent, kind in self._kinds.items():
            if kind == "embedded":
                if embedded is None:
                    embedded = self._embedded_backend(record)
                backends[agent] = embedded
            elif kind in self._custom:
                custom = self._custom[kind]
                backends[agent] = CheckedBackend(custom.backend, custom.name)
            else:
                backends[agent] = self._model_backend(agent)
        return RunContext(
            backends, record_step, record, audit=self.audit, confirm=self.confirm
        )

    def dry_run_context(self, calls: list[DryRunCall], case: Item | None) -> RunContext:
        """Return a run context that sends no request.

        The calls that a run would make are appended to `calls`.
        """
        record = self._record_of(case)
        embedded = self._embedded_backend(record)
        backends: dict[str, PromptingBackend] = dict.fromkeys(
            self._pipeline.agents, embedded
        )
        for agent in self._model_agents:
            base_url = model_endpoint(self._settings, agent).base_url
            backends[agent] = DryRunBackend(
                self._model_backend(agent),
                embedded,
                self._cache.of_server(base_url) if self._cache else None,
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
        """Close connections, the record, the cache and custom backends that have a `close`."""
        for custom in self._custom.values():
            close = getattr(custom.backend, "close", None)
            closing = close() if close is not None else None
            if inspect.isawaitable(closing):
                await closing
        for server_model in self._server_models:
            await server_model.close()
        for opened in (self._opened_record, self.shards):
            if opened is not None:
                opened.close()
        if self._cache is not None:
            self._cache.close()

    @property
    def uses_models(self) -> bool:
        """Whether a model, or a backend that is not archqa's, runs any agent."""
        return bool(self._model_agents or self._custom)

    def _add_remark(self, remark: str) -> None:
        self.remarks.append(remark)
        self._on_remark(remark)

    def _custom_backends(
        self, passed: CustomBackend | None
    ) -> dict[str, CustomBackend]:
        """The backends that are not archqa's, by name, as the settings of the agents name them.

        Raises `CallerError` with a spending limit, which archqa cannot watch there; `PlugInError`.
        """
        settings = self._settings
        names = settings.plug_in_backends(self._pipeline.agents)
        if names and settings.limits.max_cost is not None:
            raise CallerError(
                f"What the backend {names[0]} spends is not known here, so max_cost cannot limit it."
                "\nLeave --max-cost out, or set max_cost=none."
            )
        backends = {}
        for name in names:
            if passed is not None and passed.name == name:
                backends[name] = passed
            else:
                backends[name] = CustomBackend.of_plug_in(name, settings)
        return backends

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
        self.shards = ShardedStore.open(settings.record, pipeline.fhir_profile)
        if settings.runner == "local":
            self.shards.check_all_local()  # On a cluster the shards may be on several machines.

    def _record_of(self, case: Item | None) -> "Record | None":
        """Return the whole record, or the shard of the case's patient.

        Raises `CallerError` if the case names no patient.
        """
        if self.shards is None:
            return self._record
        if self._pipeline.reads_notes:
            return None
        if isinstance(case, RecordQuestion) and case.patient_fhir_id:
            return self.shards.of(case.patient_fhir_id)
        raise CallerError(
            f"{self.shards.folder} is a record in shards, "
            "which only questions that name a patient can be asked of.\n"
            "Name the whole store with --record."
        )

    def _embedded_backend(self, record: "Record | None") -> PromptingBackend:
        """The backend without a model: the engine for a note, the query grammar for a record."""
        if record is not None and not self._pipeline.reads_notes:
            from archqa.agents.grammar_backend import GrammarBackend  # Slow to import.

            return GrammarBackend(record)
        pipeline_settings = self._settings.for_pipeline(self._pipeline)
        operating_point = getattr(pipeline_settings, "operating_point", "f1")
        return EngineBackend(self._engine, operating_point)

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
            read_replies=self._read_replies[endpoint],
        )

    def _model(self, base_url: str | None) -> Model:
        """Return the model of one server.

        It is wrapped in, outermost first, cache, retries, rate limit and budget.
        """
        if base_url in self._models:
            return self._models[base_url]
        retries = self._settings.retries
        model = self._scripted or self._server_model(base_url)
        # Check the budget after the rate-limit wait: other requests may have spent it meanwhile.
        model = BudgetedModel(model, self._shared.budget)
        model = RateLimitedModel(model, self._shared.limiter)
        model = RetryingModel(model, tries=retries.tries, first_wait=retries.first_wait)
        if self._cache is not None:
            model = self._cache.cached(model, base_url)
        self._models[base_url] = model
        return model

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


class AnnouncedModel:
    """A model server; before its first request it is said where record text goes."""

    def __init__(self, model: Model, announce: Callable[[], None]) -> None:
        self._model = model
        self._announce = announce

    async def ask(self, request: Request) -> Reply:
        """Answer one request."""
        self._announce()
        return await self._model.ask(request)


def log_remark(remark: str) -> None:
    """Report a remark on stderr as soon as it is made, for runs that take long."""
    _log.warning("%s", remark)


def limits_of_one_process(settings: Settings) -> SharedLimits:
    """Return the limits and the budget of backends that share nothing with other processes."""
    limits = settings.limits
    limiter = RateLimiter(
        limits.jobs, limits.requests_per_minute, limits.tokens_per_minute
    )
    return SharedLimits(limiter, Budget(limits.max_cost))
