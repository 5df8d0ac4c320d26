"""The settings of a run: their types, their names, and how they are loaded."""

from archqa.settings.loading import default_config_path, load_settings
from archqa.settings.model import (
    CONTEXT_MODEL,
    DEFAULT_MODEL,
    AgentSettings,
    CacheSettings,
    LimitSettings,
    RaySettings,
    RetrySettings,
    ServerSettings,
    Settings,
)

__all__ = [
    "CONTEXT_MODEL",
    "DEFAULT_MODEL",
    "AgentSettings",
    "CacheSettings",
    "LimitSettings",
    "RaySettings",
    "RetrySettings",
    "ServerSettings",
    "Settings",
    "default_config_path",
    "load_settings",
]
