"""One step of a case: an agent was asked, and this is all that was said. Steps are the lines of a trace."""

from typing import Any

from archqa.core.usage import Usage
from archqa.core.value import FrozenModel


class Step(FrozenModel):
    """One call of one agent. `rejected` tells why the output was sent back; `parsed` is None if nothing was usable.

    `messages` of a call that goes on with the conversation of the step before are the new ones only; `tool_calls` are
    the tools the reply calls: `id`, `name`, and `arguments` as the model wrote them.
    """

    agent: str
    about: str = ""
    mind: str
    model: str = ""
    prompt: str = ""
    prompt_digest: str = ""
    messages: tuple[dict[str, Any], ...] = ()
    reply: str = ""
    finish: str = "complete"
    tool_calls: tuple[dict[str, Any], ...] = ()
    parsed: dict[str, Any] | None = None
    rejected: str = ""
    mended: bool = False
    usage: Usage = Usage()
