"""The names of settings: each has a full, nested name, and many have a short one.

    short name       full name
    jobs             limits.jobs
    cache_dir        cache.dir
    screen           pipelines.dmis.screen and pipelines.embedded.screen

The short name of a pipeline's setting stands for that setting of every pipeline that has it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from archqa.tasks.settings import pipeline_sections

Path = tuple[str, ...]

RUN_SHORT_NAMES: dict[str, Path] = {
    "jobs": ("limits", "jobs"),
    "requests_per_minute": ("limits", "requests_per_minute"),
    "tokens_per_minute": ("limits", "tokens_per_minute"),
    "max_cost": ("limits", "max_cost"),
    "timeout": ("limits", "timeout"),
    "tries": ("retries", "tries"),
    "first_wait": ("retries", "first_wait"),
    "cache": ("cache", "enabled"),
    "cache_dir": ("cache", "dir"),
    "cache_gib": ("cache", "gib"),
    "cache_url": ("cache", "url"),
    "ray_address": ("ray", "address"),
    "workers": ("ray", "workers"),
}
"""Short names of the run's own nested settings."""


def full_names(short_name: str) -> tuple[Path, ...]:
    """Return the full names that a short name stands for; none if it is no short name."""
    if short_name in RUN_SHORT_NAMES:
        return (RUN_SHORT_NAMES[short_name],)
    names = []
    for pipeline, section in pipeline_sections().items():
        if short_name in section.model_fields:
            names.append(("pipelines", pipeline, short_name))
    return tuple(names)


def short_names() -> list[str]:
    """Every short name."""
    names = dict.fromkeys(RUN_SHORT_NAMES)
    for section in pipeline_sections().values():
        names.update(dict.fromkeys(section.model_fields))
    return list(names)


def is_pipeline_setting(name: str) -> bool:
    """Whether this is the short name of a pipeline's setting."""
    return any(name in section.model_fields for section in pipeline_sections().values())


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same values under their full names. A full name takes precedence over a short one.

    Names that do not exist stay as they are, for validation to report.
    """
    nested: dict[str, Any] = {}
    in_full: dict[str, Any] = {}
    for name, value in values.items():
        if not _is_short(name, value):
            in_full[name] = _canonical(name, value)
            continue
        for path in full_names(name):
            _assign(nested, path, value)
    merge(nested, in_full)
    return nested


def merge(target: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Write nested values over others, key by key."""
    for name, value in changes.items():
        current = target.get(name)
        if isinstance(current, dict) and isinstance(value, Mapping):
            merge(current, value)
        elif isinstance(value, Mapping):
            target[name] = {}
            merge(target[name], value)
        else:
            target[name] = value


def typed_names(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of settings that only some pipelines use.

    For example `labels`, `pipelines.dmis.labels` and `agents.decision`; `pipeline`, which
    questions about notes do not use; and `backend`, which runs agents where there are some.
    """
    for name, value in values.items():
        if name == "pipelines" and isinstance(value, Mapping):
            yield from _typed_in_sections(value)
        elif name == "agents" and isinstance(value, Mapping):
            for agent in value:
                yield f"agents.{agent}"
        elif name in ("pipeline", "backend") or is_pipeline_setting(name):
            yield name


def _typed_in_sections(sections: Mapping[str, Any]) -> Iterator[str]:
    for name, section in sections.items():
        pipeline = _pipeline_name(name)
        for setting in section:
            yield f"pipelines.{pipeline}.{setting}"


def _is_short(name: str, value: Any) -> bool:
    """`cache` is a section as well: `cache=off` is short for `cache.enabled=off`."""
    if name == "cache":
        return not isinstance(value, Mapping) and not hasattr(value, "model_fields")
    return bool(full_names(name))


def _assign(target: dict[str, Any], path: Path, value: Any) -> None:
    *sections, name = path
    for section in sections:
        target = target.setdefault(section, {})
    target[name] = value


def _canonical(name: str, value: Any) -> Any:
    """Return the value with the names of pipelines as they are spelt."""
    if name != "pipelines" or not isinstance(value, Mapping):
        return value
    return {_pipeline_name(pipeline): section for pipeline, section in value.items()}


def _pipeline_name(name: str) -> str:
    """Return the name with hyphens if there is such a pipeline.

    Environment variables have no hyphens: `multi_turn_retriever` is `multi-turn-retriever`.
    """
    hyphenated = name.replace("_", "-")
    if hyphenated in pipeline_sections():
        return hyphenated
    return name
