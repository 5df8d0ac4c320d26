"""Agents, one a file (a prompt, a task type, an output type, a check), and the backends that run
them.

The names below are what plug-ins use. They are imported when they are used first.
"""

from typing import TYPE_CHECKING

from archqa.core.public_names import imported_on_use

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


__getattr__ = imported_on_use(
    __name__, {"model_backend": ("ModelBackend",), "agent": __all__}
)
