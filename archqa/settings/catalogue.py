"""Every setting with its type, default, description and owner, for `archqa list settings`."""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from archqa.settings.model import AgentSettings, Settings
from archqa.settings.sources import RUN_SHORT_NAMES
from archqa.tasks.settings import pipeline_sections

_SHORT_NAMES = {".".join(path): name for name, path in RUN_SHORT_NAMES.items()}
_PLAIN_TYPE_NAMES = {
    bool: "on | off",
    int: "integer",
    float: "number",
    Path: "path",
    str: "text",
    SecretStr: "text",
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
    """The run's settings, those of an agent, and those of the pipelines, each once."""
    return [*_run_settings(), *_agent_settings(), *_pipeline_settings()]


def _run_settings() -> Iterator[SettingDescription]:
    for name, field in Settings.model_fields.items():
        section: Any = field.annotation
        if name == "pipelines" or get_origin(section) is dict:
            continue
        if not _is_section(section):
            yield _described(name, field, ("run",))
            continue
        for inner_name, inner in section.model_fields.items():
            yield _described(f"{name}.{inner_name}", inner, ("run",))


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _agent_settings() -> Iterator[SettingDescription]:
    for name, field in AgentSettings.model_fields.items():
        yield _described(f"agents.<name>.{name}", field, ("run",))


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


def _described(
    name: str, field: FieldInfo, owners: tuple[str, ...]
) -> SettingDescription:
    return SettingDescription(
        name=name,
        short_name=_SHORT_NAMES.get(name, ""),
        type=_type_name(field.annotation),
        default=_default_text(field),
        description=field.description or "",
        owners=owners,
    )


def _type_name(annotation: Any) -> str:
    """Return a type in words: `integer`, `on | off`, `f1 | precision | recall`."""
    if annotation in _PLAIN_TYPE_NAMES:
        return _PLAIN_TYPE_NAMES[annotation]
    origin = get_origin(annotation)
    if origin is tuple:
        return "names, with commas"
    choices = []
    if origin is Literal:
        choices = [str(choice) for choice in get_args(annotation)]
    elif origin in {Union, UnionType}:
        for member in get_args(annotation):
            if member is not NoneType:
                choices.append(_type_name(member))
    else:
        choices = [str(member.value) for member in annotation]
    return " | ".join(choices)


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    default = field.get_default(call_default_factory=True)
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default)
