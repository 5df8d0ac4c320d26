"""How archqa is set up: what was typed, then the environment (`ARCHQA_…`), then a TOML file, then the defaults.

`OPENAI_API_KEY` and `OPENAI_BASE_URL` are honoured. The key and `cache_url` are secret and never written anywhere.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError
from archqa.llm.prices import Price, listed_prices
from archqa.tasks.pipeline import PipelineSettings

AGENTS = (
    "context", "general_expert", "recruiting", "specialist", "decision", "answer",
    "answer_first", "verification", "question_interpretation", "alignment",
    "planner", "fhir_request", "fhir_retriever", "fhir_retriever_code", "fhir_multi_turn", "fhir_multi_turn_code",
    "clinical_paper", "clinical_typed",
)  # fmt: skip

DEFAULT_MODEL = "gpt-4.1"
"""The paper's model for every stage but the first (§4)."""

CONTEXT_MODEL = "o3"
"""The paper's model for the medical context (§3.2)."""


class AgentSettings(FrozenModel):
    """One agent's own model, server and mind; None means: as the rest of the run."""

    model: str | None = None
    base_url: str | None = None
    key_variable: str | None = Field(
        default=None, description="environment variable with the key of this server"
    )
    mind: Literal["model", "embedded"] | None = None
    temperature: float | None = 0.0
    max_tokens: int | None = 4096
    turns: int = Field(default=3, ge=1, le=10)
    models: tuple[str, ...] = Field(
        default=(), description="several that vote: names, or name@server"
    )
    prompt: str | None = Field(
        default=None, description="another version of its prompt, such as answer_first/v2"
    )

    @field_validator("models", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """`--set agents.specialist.models=a,b` gives one word."""
        return (
            tuple(each.strip() for each in value.split(",") if each.strip())
            if isinstance(value, str)
            else value
        )


class ServerSettings(FrozenModel):
    """A model server by name, so that `model@server` can be said."""

    base_url: str
    key_variable: str | None = Field(
        default=None, description="environment variable with the key of this server"
    )


class Settings(BaseSettings, PipelineSettings):
    """Every setting of a run. The switches of the six stages are those of `PipelineSettings`."""

    model_config = SettingsConfigDict(
        env_prefix="ARCHQA_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        populate_by_name=True,
    )

    model: str | None = None
    base_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("base_url", "ARCHQA_BASE_URL", "OPENAI_BASE_URL"),
    )
    api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("api_key", "ARCHQA_API_KEY", "OPENAI_API_KEY")
    )
    pipeline: str | None = None
    record: str | None = Field(default=None, description="a FHIR store (file) or server (URL)")
    jobs: int = Field(default=8, ge=1)
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="started at most; all servers together"
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="of prompts started, estimated"
    )
    timeout: float = Field(default=180.0, gt=0, description="seconds for one reply")
    tries: int = Field(default=5, ge=1, description="of one request, when a fault may pass")
    first_wait: float = Field(
        default=0.5, ge=0, description="seconds before the second try; doubled with each"
    )
    max_cost: float | None = Field(default=None, gt=0, description="US dollars")
    cache: bool = True
    cache_gib: float = Field(
        default=4.0, gt=0, description="size past which the oldest replies are dropped"
    )
    cache_dir: Path = Field(default_factory=lambda: _user_cache())
    cache_url: SecretStr | None = Field(
        default=None, description="a PostgreSQL server that keeps the replies instead"
    )
    runner: Literal["local", "ray"] = Field(
        default="local", description="this process, or a Ray cluster"
    )
    ray_address: str | None = Field(
        default=None, description="the cluster's head, or auto; a new one here if none"
    )
    workers: int | None = Field(
        default=None, ge=1, description="on Ray; one a node, or one a core without a model"
    )
    agents: dict[str, AgentSettings] = {}
    servers: dict[str, ServerSettings] = {}
    answer_key: Path | None = Field(
        default=None, description="a key whose answers subtask 4 links; never its citations"
    )
    prices: dict[str, Price] = {}

    @classmethod
    def settings_customise_sources(  # type: ignore[override]  # pydantic-settings passes the sources by name
        cls, settings_cls: type[BaseSettings], **named: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Typed values first, then the environment, then the file."""
        return (
            named["init_settings"],
            named["env_settings"],
            TomlConfigSettingsSource(settings_cls, _file(settings_cls)),
        )

    @property
    def has_model(self) -> bool:
        """Whether a model server is set up at all."""
        return any((self.model, self.base_url, self.api_key))

    @property
    def stages(self) -> PipelineSettings:
        """The switches of the six stages."""
        return PipelineSettings(
            **{name: getattr(self, name) for name in PipelineSettings.model_fields}
        )

    def agent(self, name: str) -> AgentSettings:
        """The settings of one agent."""
        return self.agents.get(name, AgentSettings())

    def prompt_version(self, prompt: str) -> str:
        """The version of a prompt that is set for the agent it belongs to, else the prompt itself."""
        versions = {
            each.prompt.partition("/")[0]: each.prompt
            for each in self.agents.values()
            if each.prompt
        }
        return versions.get(prompt.partition("/")[0], prompt)

    def api_key_for(self, base_url: str | None) -> SecretStr | None:
        """The key for one server. The run's key goes to the run's server alone, never to one an agent names."""
        if base_url == self.base_url:
            return self.api_key
        named: list[AgentSettings | ServerSettings] = [
            *self.agents.values(),
            *self.servers.values(),
        ]
        variables = (each.key_variable for each in named if each.base_url == base_url)
        found = next((os.environ[name] for name in variables if name and name in os.environ), None)
        return SecretStr(found) if found else None

    def price_of(self, model: str) -> Price | None:
        """What a model costs: as configured, else as listed, else unknown."""
        return self.prices.get(model) or listed_prices().get(model)

    @property
    def cache_path(self) -> Path:
        """The file of replies."""
        return self.cache_dir / "replies.db"

    @property
    def cache_location(self) -> str:
        """Where the replies are, in words that show no password."""
        return str(self.cache_path) if self.cache_url is None else "a PostgreSQL server (cache_url)"

    def without_secrets(self) -> dict[str, Any]:
        """Every setting as JSON values; the key and the cache's address, which may hold a password, left out."""
        return self.model_dump(mode="json", exclude={"api_key", "cache_url"})


def load_settings(
    config: Path | None = None,
    typed: Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
) -> Settings:
    """The settings in force. `assignments` are `key=value` words such as `agents.context.model=o3`.

    Raises `InputError` for a malformed file, `CallerError` for anything else that is wrong, all mistakes at once.
    """
    values = {name: value for name, value in (typed or {}).items() if value is not None}
    for assignment in assignments:
        _assign(values, assignment)
    path = config or default_config_path()
    if config is not None and not config.is_file():
        raise InputError(
            config, [": no such configuration file."], "Name an existing TOML file with --config."
        )
    _check_toml(path)
    return _build(path, values)


def default_config_path() -> Path | None:
    """`archqa.toml` here, else `config.toml` in the user's configuration folder, else None."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = (Path("archqa.toml"), home / "archqa" / "config.toml")
    return next((path for path in places if path.is_file()), None)


def _build(path: Path | None, values: dict[str, Any]) -> Settings:
    configured = type(
        "Settings", (Settings,), {"__module__": __name__, "model_config": {"toml_file": path}}
    )
    try:
        settings = configured(**values)
    except ValidationError as error:
        raise CallerError(_in_words(error, path)) from None
    unknown = sorted(set(settings.agents) - set(AGENTS))
    if unknown:
        raise CallerError(
            f"There is no agent {', '.join(unknown)}.\nThere are: {', '.join(AGENTS)}."
        )
    assert isinstance(settings, Settings)
    return settings


def _file(settings_cls: type[BaseSettings]) -> Path | None:
    path = settings_cls.model_config.get("toml_file")
    return path if isinstance(path, Path) else None


def _check_toml(path: Path | None) -> None:
    if path is None:
        return
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(
            path, [f": {error}"], "The file must be TOML; `archqa config show` prints one."
        ) from None


def _assign(values: dict[str, Any], assignment: str) -> None:
    """Put `a.b=c` where it belongs. Words such as on, off and none are read by the setting's type."""
    name, equals, value = assignment.partition("=")
    if not equals or not name.strip():
        raise CallerError(
            f"--set {assignment!r} is not key=value.\nFor example: --set labels=multiclass"
        )
    *way, last = name.strip().split(".")
    place = values
    for step in way:
        place = place.setdefault(step, {})
    place[last] = None if value.strip().lower() == "none" else value.strip()


def _in_words(error: ValidationError, path: Path | None) -> str:
    lines = []
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        name = ".".join(str(step) for step in each["loc"])
        lines.append(
            f"{name}: {_no_such(name) if each['type'] == 'extra_forbidden' else each['msg']}"
        )
    where = f"\nSettings come from the command, ARCHQA_… variables and {path}." if path else ""
    return "Settings that will not do:\n" + "\n".join(f"  {line}" for line in lines) + where


def _no_such(name: str) -> str:
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    return f"there is no such setting{f'; did you mean {near[0]}?' if near else '.'}"


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "archqa"
