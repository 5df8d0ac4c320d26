"""Every setting with its type, default, description and owner, for `archqa list settings` and the documentation."""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from archqa.settings.model import AgentSettings, ServerSettings, Settings
from archqa.settings.names import RUN_SHORT_NAMES
from archqa.tasks.settings import pipeline_sections

_SHORT_NAMES = {".".join(path): name for name, path in RUN_SHORT_NAMES.items()}
_KEYED: dict[str, type[BaseModel]] = {
    "agents.<name>": AgentSettings,
    "servers.<name>": ServerSettings,
}


class SettingDescription(NamedTuple):
    """One setting. `owners` are the pipelines that use it, or `run` for the run's own settings."""

    name: str
    short_name: str
    type: str
    default: str
    description: str
    owners: tuple[str, ...]


def describe_settings() -> list[SettingDescription]:
    """The run's settings, those of an agent and a server, and those of the pipelines, each once."""
    return [*_run_settings(), *_keyed_settings(), *_pipeline_settings()]


def _run_settings() -> Iterator[SettingDescription]:
    for name, field in Settings.model_fields.items():
        section: Any = field.annotation
        if name == "pipelines" or get_origin(section) is dict:
            continue
        if _is_section(section):
            for inner_name, inner in section.model_fields.items():
                yield _described(f"{name}.{inner_name}", inner, ("run",))
        else:
            yield _described(name, field, ("run",))


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _keyed_settings() -> Iterator[SettingDescription]:
    for prefix, model in _KEYED.items():
        for name, field in model.model_fields.items():
            yield _described(f"{prefix}.{name}", field, ("run",))


def _pipeline_settings() -> Iterator[SettingDescription]:
    owners: dict[str, list[str]] = {}
    fields: dict[str, FieldInfo] = {}
    for pipeline, section in pipeline_sections().items():
        for name, field in section.model_fields.items():
            owners.setdefault(name, []).append(pipeline)
            fields.setdefault(name, field)
    for name, field in fields.items():
        description = _described(f"pipelines.<name>.{name}", field, tuple(owners[name]))
        yield description._replace(short_name=name)


def _described(name: str, field: FieldInfo, owners: tuple[str, ...]) -> SettingDescription:
    return SettingDescription(
        name=name,
        short_name=_SHORT_NAMES.get(name, ""),
        type=_type_name(field.annotation),
        default=_default_text(field),
        description=field.description or "",
        owners=owners,
    )


def _type_name(annotation: Any) -> str:
    """A type as a person types values of it: `integer`, `on or off`, `f1, precision or recall`."""
    origin = get_origin(annotation)
    if origin is Literal:
        return " | ".join(str(choice) for choice in get_args(annotation))
    if origin in {Union, UnionType}:
        parts = [part for part in get_args(annotation) if part is not NoneType]
        return " | ".join(_type_name(part) for part in parts)
    if origin is tuple:
        return "names, with commas"
    plain = {bool: "on | off", int: "integer", float: "number", Path: "path"}
    if annotation in plain:
        return plain[annotation]
    if annotation in {str, SecretStr}:
        return "text"
    return " | ".join(str(choice.value) for choice in annotation)


def _default_text(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True) if not field.is_required() else ""
    if isinstance(default, bool):
        return "on" if default else "off"
    if default is None or default == ():
        return ""
    return str(default)
