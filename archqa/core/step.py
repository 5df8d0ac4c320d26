"""One call of an agent on a case, in full. Steps are the lines of a trace."""

from typing import Any

from archqa.core.usage import Usage
from archqa.core.value import FrozenModel


class Step(FrozenModel):
    """One call of one agent.

    `rejected` says why the output was sent back; `parsed` is None if nothing was usable.

    In a call that continues the conversation of the step before, `messages` are the new ones only.
    `tool_calls` are the tools that the reply calls: `id`, `name`, and `arguments` as the model
    wrote them.
    """

    agent: str
    about: str = ""
    backend: str
    model: str = ""
    prompt: str = ""
    prompt_digest: str = ""
    messages: tuple[dict[str, Any], ...] = ()
    reply: str = ""
    finish: str = "complete"
    tool_calls: tuple[dict[str, Any], ...] = ()
    parsed: dict[str, Any] | None = None
    rejected: str = ""
    repaired: bool = False
    usage: Usage = Usage()
