"""The types of a run's settings, nested by who uses them.

`OPENAI_API_KEY` and `OPENAI_BASE_URL` apply once a model server was asked for (`has_model`).
`api_key` and `cache.url` are secret and never written anywhere.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    SecretStr,
    SerializeAsAny,
    field_validator,
)

from archqa.core.value import FrozenModel
from archqa.llm.prices import Price, listed_prices
from archqa.safety.base_urls import fhir_server_problem, is_server_url, model_server_problem
from archqa.safety.whole_characters import is_whole
from archqa.settings.names import merge, nest
from archqa.settings.plug_ins import (
    BackendName,
    check_no_setting_lost,
    use_plug_ins_named_in,
)
from archqa.settings.sources import environment_values, shared_values
from archqa.tasks.settings import PipelineSettings, sections_model

if TYPE_CHECKING:
    from archqa.tasks.pipeline import Pipeline

DEFAULT_MODEL = "gpt-4.1"
"""The paper's model for every stage but the first (§4)."""

CONTEXT_MODEL = "o3"
"""The paper's model for the medical context (§3.2)."""


_FINITE = ConfigDict(allow_inf_nan=False)
"""Neither JSON nor a server has a form for infinity and NaN."""


def _refuse_half_characters(name: Any) -> Any:
    """Names are sent and stored as UTF-8."""
    texts = name if isinstance(name, tuple) else (name,)
    if all(is_whole(text) for text in texts if isinstance(text, str)):
        return name
    raise ValueError("holds a byte that is not UTF-8")


class LimitSettings(FrozenModel):
    """What a run may ask of a server, and spend."""

    model_config = _FINITE

    jobs: int = Field(default=8, ge=1, description="requests in flight at once")
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="requests started a minute, all servers together"
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="prompt tokens started a minute, estimated"
    )
    max_cost: float | None = Field(
        default=None, gt=0, description="US dollars after which the run stops"
    )
    timeout: float = Field(default=180.0, gt=0, description="seconds to wait for one reply")


class RetrySettings(FrozenModel):
    """When a request that failed is sent again."""

    model_config = _FINITE

    tries: int = Field(default=5, ge=1, description="times one request is sent, at most")
    first_wait: float = Field(
        default=0.5, ge=0, description="seconds before the second try, doubled with each further"
    )


class CacheSettings(FrozenModel):
    """Where replies are kept, so that none is paid for twice."""

    model_config = _FINITE

    enabled: bool = Field(default=True, description="whether replies are kept and reused")
    dir: Path = Field(
        default_factory=lambda: _user_cache(), description="folder of the file of replies"
    )
    gib: float = Field(
        default=4.0, gt=0, description="size past which the oldest replies are dropped"
    )
    url: SecretStr | None = Field(
        default=None, description="a PostgreSQL server that keeps the replies instead"
    )

    @property
    def path(self) -> Path:
        """The file of replies."""
        return self.dir / "replies.db"

    @property
    def location(self) -> str:
        """Where the replies are kept, without a password."""
        return str(self.path) if self.url is None else "a PostgreSQL server (cache.url)"


class RaySettings(FrozenModel):
    """The Ray cluster of a run with `runner=ray`."""

    address: str | None = Field(
        default=None, description="the cluster's head, or auto; default: a new cluster here"
    )
    workers: int | None = Field(
        default=None, ge=1, description="default: one a node, or one a core without a model"
    )


class AgentSettings(FrozenModel):
    """One agent's own model, server and backend; None means: as the rest of the run."""

    model_config = _FINITE

    model: str | None = Field(default=None, description="its own model")
    base_url: str | None = Field(default=None, description="its own server")
    key_variable: str | None = Field(
        default=None, description="environment variable with the key of this server"
    )
    backend: BackendName = Field(
        default=None,
        description="a model, the engine inside archqa, or a plug-in (archqa list backends)",
    )
    temperature: float | None = Field(default=0.0, description="sampling temperature")
    max_tokens: int | None = Field(default=4096, description="tokens of a reply at most")
    turns: int = Field(default=3, ge=1, le=10, description="tries to give a valid reply")
    prompt: str | None = Field(
        default=None, description="another version of its prompt, such as decision/v1"
    )

    @field_validator("base_url")
    @classmethod
    def _without_secret(cls, url: str | None) -> str | None:
        return _checked_base_url(url)

    _check_names = field_validator("model", "base_url", "prompt")(_refuse_half_characters)

    @property
    def asks_the_runs_server(self) -> bool:
        """Whether a model is named here that only the run's own server can serve."""
        return bool(self.model) and not self.base_url


def _checked_base_url(url: str | None) -> str | None:
    """The URL. Settings are written into `run.json` and traces: none may hold a secret."""
    problem = model_server_problem(url) if url else ""
    if problem:
        raise ValueError(problem)
    return url


def _validated_sections(values: Any) -> FrozenModel:
    return sections_model().model_validate(values)


PipelineSections = Annotated[FrozenModel, PlainValidator(_validated_sections), SerializeAsAny()]
"""The settings of every pipeline by its name, for the tasks that are registered when they are loaded."""


class Settings(BaseModel):
    """Every setting of a run: values given here, then the environment, then defaults.

    Short names are accepted as keywords too: `Settings(jobs=4)` is `Settings(limits={"jobs": 4})`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    model: str | None = Field(default=None, description="model for every agent")
    base_url: str | None = Field(default=None, description="an OpenAI-compatible server")
    api_key: SecretStr | None = Field(default=None, description="key of that server; never written")
    allow_plain_http: bool = Field(
        default=False, description="whether text and keys may go to another machine unencrypted"
    )
    backend: BackendName = Field(
        default=None, description="what runs every agent; see `archqa list backends`"
    )
    pipeline: str | None = Field(default=None, description="see `archqa list pipelines`")
    record: str | None = Field(default=None, description="a FHIR store (file) or server (URL)")
    answer_key: Path | None = Field(
        default=None, description="a key whose answers subtask 4 links; never its citations"
    )
    runner: Literal["local", "ray"] = Field(
        default="local", description="this process, or a Ray cluster"
    )
    limits: LimitSettings = LimitSettings()
    retries: RetrySettings = RetrySettings()
    cache: CacheSettings = Field(default_factory=CacheSettings)
    ray: RaySettings = RaySettings()
    pipelines: PipelineSections = Field(default_factory=lambda: sections_model()())
    agents: dict[str, AgentSettings] = {}
    prices: dict[str, Price] = {}

    _typed: frozenset[str] = PrivateAttr(default=frozenset())
    _check_names = field_validator("model", "base_url", "pipeline")(_refuse_half_characters)

    @field_validator("base_url")
    @classmethod
    def _server_without_secret(cls, url: str | None) -> str | None:
        return _checked_base_url(url)

    @field_validator("record")
    @classmethod
    def _record_without_secret(cls, record: str | None) -> str | None:
        problem = fhir_server_problem(record) if record and is_server_url(record) else ""
        if problem:
            raise ValueError(problem)
        return record

    def __init__(self, **settings: Any) -> None:
        """Validate values by short or full name; they take precedence over the environment."""
        fields = type(self).model_fields
        for layer in (environment_values(fields), settings):
            use_plug_ins_named_in(layer, fields)
        values = nest(environment_values(fields))
        merge(values, nest(settings))
        super().__init__(**values)
        shared = shared_values()
        if shared and self.has_model:
            super().__init__(**(shared | values))

    @property
    def typed_names(self) -> frozenset[str]:
        """Names of pipeline and agent settings typed for this run, as of `names.typed_names`."""
        return self._typed

    def without_typed_name(self, name: str) -> "Settings":
        """A copy in which one setting does not count as typed: it has been used."""
        copy = self.replace()
        copy._typed = self._typed - {name}
        return copy

    @property
    def has_model(self) -> bool:
        """Whether the run's own model server was asked for: by a model or a base URL.

        A key is no request.
        """
        if self.model or self.base_url:
            return True
        return any(agent.asks_the_runs_server for agent in self.agents.values())

    def backend_of(self, agent: str) -> str | None:
        """The backend that is set for an agent, by itself or for all; None is the pipeline's."""
        return self.agent(agent).backend or self.backend

    @property
    def prefers_model_pipeline(self) -> bool:
        """Whether a task is done by its pipeline for models: for a model, or a backend of one's own."""
        return self.has_model if self.backend is None else self.backend != "embedded"

    def for_pipeline(self, pipeline: "Pipeline") -> PipelineSettings:
        """The settings of a pipeline, of exactly its `settings_type`.

        Raises `CallerError` for a typed short name that also is a setting of a plug-in's pipeline
        which was not named.
        """
        section = getattr(self.pipelines, pipeline.name, None)
        if section is None:
            check_no_setting_lost(pipeline.name, pipeline.settings_type, self._typed)
            return pipeline.settings_type()
        values = {}
        for name in pipeline.settings_type.model_fields:
            values[name] = getattr(section, name)
        return pipeline.settings_type(**values)

    def replace(self, **changes: Any) -> "Settings":
        """A copy with other values, by short or by full name."""
        changed = _changed(self, nest(changes))
        if self.has_model or not changed.has_model:
            return changed
        return changed._with_shared_values()

    def _with_shared_values(self) -> "Settings":
        """The same with `OPENAI_…` variables where nothing else was set."""
        values: dict[str, Any] = shared_values()
        if "api_key" in values:
            values["api_key"] = SecretStr(values["api_key"])
        unset = {name: values[name] for name in values.keys() - self.model_fields_set}
        return self.model_copy(update=unset)

    def agent(self, name: str) -> AgentSettings:
        """The settings of one agent."""
        return self.agents.get(name, AgentSettings())

    def prompt_version(self, prompt: str) -> str:
        """Return the version of a prompt that is set for its agent, else the prompt itself."""
        agent_name, _, _ = prompt.partition("/")
        for settings in self.agents.values():
            if settings.prompt and settings.prompt.partition("/")[0] == agent_name:
                return settings.prompt
        return prompt

    def api_key_for(self, base_url: str | None) -> SecretStr | None:
        """Return the key for one server.

        The run's key goes to the run's server alone, never to one that an agent names.
        """
        if base_url == self.base_url:
            return self.api_key
        for agent in self.agents.values():
            variable = agent.key_variable
            if agent.base_url == base_url and variable and variable in os.environ:
                key = os.environ[variable]
                return SecretStr(key) if key else None
        return None

    def price_of(self, model: str) -> Price | None:
        """What a model costs: as configured, else as listed, else unknown."""
        return self.prices.get(model) or listed_prices().get(model)

    def without_secrets(self, pipeline: "Pipeline | None" = None) -> dict[str, Any]:
        """Return every setting as JSON values, without the secret `api_key` and `cache.url`.

        With a pipeline, only its settings stand under `pipelines`, not those of the others.
        """
        values = self.model_dump(mode="json", exclude={"api_key": True, "cache": {"url"}})
        if pipeline is not None:
            own = self.for_pipeline(pipeline).model_dump(mode="json")
            values["pipelines"] = {pipeline.name: own} if own else {}
        return values


Model = TypeVar("Model", bound=BaseModel)


def _changed(model: Model, changes: Mapping[str, Any]) -> Model:
    """A copy of a model and of the models in it, with other values."""
    update = {}
    for name, value in changes.items():
        current = getattr(model, name)
        if isinstance(current, FrozenModel) and isinstance(value, Mapping):
            update[name] = _changed(current, value)
        else:
            update[name] = value
    return model.model_copy(update=update)


def _user_cache() -> Path:
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "archqa"
