"""The settings of a run: their types, their names, and how they are loaded."""

from archqa.settings.loading import OnIgnored, load_settings, settings_files
from archqa.settings.model import (
    CONTEXT_MODEL,
    DEFAULT_MODEL,
    AgentSettings,
    CacheSettings,
    LimitSettings,
    RaySettings,
    RetrySettings,
    Settings,
)
from archqa.settings.plug_ins import BACKENDS

__all__ = [
    "BACKENDS",
    "CONTEXT_MODEL",
    "DEFAULT_MODEL",
    "AgentSettings",
    "CacheSettings",
    "LimitSettings",
    "OnIgnored",
    "RaySettings",
    "RetrySettings",
    "Settings",
    "load_settings",
    "settings_files",
]
