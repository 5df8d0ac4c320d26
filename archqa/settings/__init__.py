"""The settings of a run: their types, their names, and how they are loaded."""

from archqa.settings.loading import load_settings, settings_files
from archqa.settings.model import (
    BACKENDS,
    CONTEXT_MODEL,
    DEFAULT_MODEL,
    AgentSettings,
    Settings,
)

__all__ = [
    "BACKENDS",
    "CONTEXT_MODEL",
    "DEFAULT_MODEL",
    "AgentSettings",
    "Settings",
    "load_settings",
    "settings_files",
]
