"""The types of a run's settings, nested by who uses them.

`OPENAI_API_KEY` and `OPENAI_BASE_URL` apply once a model server was asked for (`has_model`).
`api_key` and `cache.url` are secret and never written anywhere.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    PlainValidator,
    PrivateAttr,
    SecretStr,
    field_serializer,
    field_validator,
)

from archqa import plug_ins
from archqa.core.value import DescribedModel, FrozenModel
from archqa.errors import CallerError, StorageError
from archqa.llm.prices import Price, listed_prices
from archqa.safety.server_urls import (
    fhir_server_problem,
    is_server_url,
    model_server_problem,
)
from archqa.safety.text import has_surrogates
from archqa.settings.sources import (
    environment_values,
    merge,
    nest,
    shared_values,
    use_plug_ins_named_in,
)
from archqa.tasks.settings import sections_model

if TYPE_CHECKING:
    from archqa.tasks.pipeline import Pipeline
    from archqa.tasks.settings import PipelineSettings

DEFAULT_MODEL = "gpt-4.1"
"""The paper's model for every stage but the first (§4)."""

CONTEXT_MODEL = "o3"
"""The paper's model for the medical context (§3.2)."""

BACKENDS = ("model", "embedded")
"""archqa's own backends; other names are those of plug-ins."""

_FINITE = ConfigDict(allow_inf_nan=False)
"""Neither JSON nor a server has a form for infinity and NaN."""


def _refuse_half_characters(name: str | None) -> str | None:
    """Names are sent and stored as UTF-8."""
    if name is not None and has_surrogates(name):
        raise ValueError("holds a byte that is not UTF-8")
    return name


def _refuse_secrets(url: str | None) -> str | None:
    """Settings are written into `run.json` and traces: no URL in them may hold a secret."""
    problem = model_server_problem(url) if url else ""
    if problem:
        raise ValueError(problem)
    return url


def _refuse_unknown_backend(name: str | None) -> str | None:
    if name is None or name in BACKENDS or plug_ins.find("backends", name):
        return name
    names = [
        *BACKENDS,
        *(plug_in.name for plug_in in plug_ins.installed("backends", BACKENDS)),
    ]
    raise ValueError(f"Input should be {' or '.join(map(repr, names))}")


ModelName = Annotated[str | None, AfterValidator(_refuse_half_characters)]

BaseUrl = Annotated[
    str | None, AfterValidator(_refuse_half_characters), AfterValidator(_refuse_secrets)
]

BackendName = Annotated[str | None, AfterValidator(_refuse_unknown_backend)]
"""`model`, `embedded` or the name of a plug-in; None leaves it to the pipeline."""


class LimitSettings(DescribedModel):
    """What a run may ask of a server, and spend."""

    model_config = _FINITE

    jobs: int = Field(default=8, ge=1)
    """requests in flight at once"""

    requests_per_minute: int | None = Field(default=None, ge=1)
    """requests started a minute, all servers together"""

    tokens_per_minute: int | None = Field(default=None, ge=1)
    """prompt tokens started a minute, estimated"""

    max_cost: float | None = Field(default=None, gt=0)
    """US dollars after which the run stops"""

    timeout: float = Field(default=180.0, gt=0)
    """seconds to wait for one reply"""


class RetrySettings(DescribedModel):
    """When a request that failed is sent again."""

    model_config = _FINITE

    tries: int = Field(default=5, ge=1)
    """times one request is sent, at most"""

    first_wait: float = Field(default=0.5, ge=0)
    """seconds before the second try, doubled with each further"""


class CacheSettings(DescribedModel):
    """Where replies are kept, so that none is paid for twice."""

    model_config = _FINITE

    enabled: bool = True
    """whether replies are kept and reused"""

    dir: Path = Field(default_factory=lambda: _user_cache())
    """folder of the file of replies"""

    gib: float = Field(default=4.0, gt=0)
    """size past which the oldest replies are dropped"""

    url: SecretStr | None = None
    """a PostgreSQL server that keeps the replies instead"""

    @property
    def path(self) -> Path:
        """The file of replies."""
        return self.dir / "replies.db"

    @property
    def location(self) -> str:
        """Where the replies are kept, without a password."""
        return str(self.path) if self.url is None else "a PostgreSQL server (cache.url)"


class RaySettings(DescribedModel):
    """The Ray cluster of a run with `runner=ray`."""

    address: str | None = None
    """the cluster's head, or auto; default: a new cluster here"""

    workers: int | None = Field(default=None, ge=1)
    """default: one a node, or one a core without a model"""


class AgentSettings(DescribedModel):
    """One agent's own model, server and backend; None means: as the rest of the run."""

    model_config = _FINITE

    model: ModelName = None
    """its own model"""

    base_url: BaseUrl = None
    """its own server"""

    key_variable: str | None = None
    """environment variable with the key of this server"""

    backend: BackendName = None
    """a model, the engine inside archqa, or a plug-in (archqa list backends)"""

    temperature: float | None = 0.0
    """sampling temperature"""

    max_tokens: int | None = 4096
    """tokens of a reply at most"""

    turns: int = Field(default=3, ge=1, le=10)
    """tries to give a valid reply"""

    prompt: ModelName = None
    """another version of its prompt, such as decision/v1"""


def _validated_sections(values: Any) -> FrozenModel:
    return sections_model().model_validate(values)


PipelineSections = Annotated[FrozenModel, PlainValidator(_validated_sections)]
"""The settings of every pipeline by its name, for the tasks that are registered when they are loaded."""


class Settings(BaseModel):
    """Every setting of a run: values given here, then the environment, then defaults.

    Short names are accepted as keywords too: `Settings(jobs=4)` is `Settings(limits={"jobs": 4})`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    model: ModelName = Field(default=None, description="model for every agent")
    base_url: BaseUrl = Field(default=None, description="an OpenAI-compatible server")
    api_key: SecretStr | None = Field(
        default=None, description="key of that server; never written"
    )
    allow_plain_http: bool = Field(
        default=False,
        description="whether text and keys may go to another machine unencrypted",
    )
    backend: BackendName = Field(
        default=None, description="what runs every agent; see `archqa list backends`"
    )
    pipeline: ModelName = Field(default=None, description="see `archqa list pipelines`")
    record: str | None = Field(
        default=None, description="a FHIR store (file) or server (URL)"
    )
    answer_key: Path | None = Field(
        default=None,
        description="a key whose answers subtask 4 links; never its citations",
    )
    runner: Literal["local", "ray"] = Field(
        default="local", description="this process, or a Ray cluster"
    )
    limits: LimitSettings = LimitSettings()
    retries: RetrySettings = RetrySettings()
    cache: CacheSettings = Field(default_factory=CacheSettings)
    ray: RaySettings = RaySettings()
    # None stands for all defaults: most commands never import the settings types of the tasks.
    pipelines: PipelineSections | None = Field(default=None, validate_default=False)
    agents: dict[str, AgentSettings] = {}
    prices: dict[str, Price] = {}

    _typed: frozenset[str] = PrivateAttr(default=frozenset())

    @field_validator("record")
    @classmethod
    def _record_without_secret(cls, record: str | None) -> str | None:
        problem = (
            fhir_server_problem(record) if record and is_server_url(record) else ""
        )
        if problem:
            raise ValueError(problem)
        return record

    @field_serializer("pipelines")
    def _with_default_sections(
        self, sections: FrozenModel | None, info: FieldSerializationInfo
    ) -> dict[str, Any]:
        return (sections or sections_model()()).model_dump(mode=info.mode)

    def __init__(self, **settings: Any) -> None:
        """Validate values by short or full name; they take precedence over the environment."""
        fields = type(self).model_fields
        for layer in (environment_values(fields), settings):
            use_plug_ins_named_in(layer, fields)
        values = nest(environment_values(fields), fields)
        merge(values, nest(settings, fields))
        super().__init__(**values)
        shared = shared_values()
        if shared and self.has_model:
            super().__init__(**(shared | values))

    @property
    def typed_names(self) -> frozenset[str]:
        """Names of pipeline and agent settings typed for this run, as of `sources.typed_names`."""
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
        # An agent's own model without a server of its own needs the run's server.
        return any(agent.model and not agent.base_url for agent in self.agents.values())

    def backend_of(self, agent: str) -> str | None:
        """The backend that is set for an agent, by itself or for all; None is the pipeline's."""
        return self.agent(agent).backend or self.backend

    def plug_in_backends(self, agents: Iterable[str]) -> tuple[str, ...]:
        """The backends that are set for these agents and are not archqa's, each once."""
        names = dict.fromkeys(self.backend_of(agent) for agent in agents)
        return tuple(
            name for name in names if name and name not in (*BACKENDS, "script")
        )

    @property
    def prefers_model_pipeline(self) -> bool:
        """Whether a task is done by its pipeline for models: for a model, or a backend of one's own."""
        return self.has_model if self.backend is None else self.backend != "embedded"

    def for_pipeline(self, pipeline: "Pipeline") -> "PipelineSettings":
        """The settings of a pipeline, of exactly its `settings_type`.

        Raises `CallerError` for a typed short name that also is a setting of a plug-in's pipeline
        which was not named.
        """
        settings_type = pipeline.settings_type
        section = getattr(self.pipelines or sections_model()(), pipeline.name, None)
        if section is not None:
            return settings_type(
                **{name: getattr(section, name) for name in settings_type.model_fields}
            )
        # Short names that were typed have been taken for those of archqa's pipelines.
        lost = sorted(self._typed & settings_type.model_fields.keys())
        if lost:
            names = ", ".join(f"pipelines.{pipeline.name}.{name}" for name in lost)
            raise CallerError(
                f"{pipeline.name} is a plug-in's pipeline, which is not named.\n"
                f"Add --pipeline {pipeline.name}, or give settings in full: {names}."
            )
        return settings_type()

    def replace(self, **changes: Any) -> "Settings":
        """A copy with other values, by short or by full name."""
        current = self
        nested = nest(changes, type(self).model_fields)
        if "pipelines" in nested and self.pipelines is None:
            current = self.model_copy(update={"pipelines": sections_model()()})
        changed = _changed(current, nested)
        if self.has_model or not changed.has_model:
            return changed
        # Now a model server is asked for: the `OPENAI_…` variables apply where nothing else was set.
        values: dict[str, Any] = shared_values()
        if "api_key" in values:
            values["api_key"] = SecretStr(values["api_key"])
        unset = {
            name: values[name] for name in values.keys() - changed.model_fields_set
        }
        return changed.model_copy(update=unset)

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
        values = self.model_dump(
            mode="json", exclude={"api_key": True, "cache": {"url"}}
        )
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


def user_folder(variable: str, *default: str) -> Path:
    """Return archqa's folder in the one that an XDG variable names, else in a default of the home.

    A relative one is invalid by the XDG Base Directory Specification: it would make the current
    folder the user's own. Raises `StorageError` where there is no home.
    """
    folder = Path(os.environ.get(variable, ""))
    if folder.is_absolute():
        return folder / "archqa"
    try:
        return Path.home().joinpath(*default, "archqa")
    except RuntimeError:
        advice = f"Set HOME, or {variable}."
        raise StorageError(f"The home folder is unknown.\n{advice}") from None


def _user_cache() -> Path:
    return user_folder("XDG_CACHE_HOME", ".cache")
