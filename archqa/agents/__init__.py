"""Agents, one a file (a prompt, a task type, an output type, a check), and the backends that run
them.

The names below are what plug-ins use. They are imported when they are used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archqa.agents.agent import (
        Agent,
        Backend,
        CaseTask,
        Rejected,
        RunContext,
        SingleReplyBackend,
    )
    from archqa.agents.model_backend import ModelBackend

__all__ = [
    "Agent",
    "Backend",
    "CaseTask",
    "ModelBackend",
    "Rejected",
    "RunContext",
    "SingleReplyBackend",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'archqa.agents' has no attribute {name!r}")
    module = "model_backend" if name == "ModelBackend" else "agent"
    return getattr(import_module(f"archqa.agents.{module}"), name)
