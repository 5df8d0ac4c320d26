"""One step of a case: an agent was asked, and this is all that was said. Steps are the lines of a trace."""

from typing import Any

from archqa.core.usage import Usage
from archqa.core.value import Value


class Step(Value):
    """One call of one agent. `rejected` tells why the output was sent back; `parsed` is None if nothing was usable."""

    agent: str
    about: str = ""
    mind: str
    model: str = ""
    prompt: str = ""
    prompt_digest: str = ""
    messages: tuple[dict[str, str], ...] = ()
    reply: str = ""
    finish: str = "complete"
    parsed: dict[str, Any] | None = None
    rejected: str = ""
    mended: bool = False
    usage: Usage = Usage()
