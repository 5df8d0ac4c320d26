"""A model with prepared replies: for tests, demonstrations and dry runs."""

from collections.abc import Callable, Iterable

from archqa.core.usage import Usage
from archqa.llm.model import Reply, Request

ScriptedReply = str | Reply | Exception


class ScriptedModel:
    """Replies with the items of a script in order, or with a function of the request; keeps the
    requests.
    """

    def __init__(
        self, script: Iterable[ScriptedReply] | Callable[[Request], ScriptedReply]
    ) -> None:
        self._reply_to = script if callable(script) else _in_order(script)
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Reply:
        """The next reply; an exception in the script is raised."""
        self.asked.append(request)
        reply = self._reply_to(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Reply):
            return reply
        return Reply(text=reply, usage=Usage(calls=1, prompt_tokens=request.tokens))


def _in_order(script: Iterable[ScriptedReply]) -> Callable[[Request], ScriptedReply]:
    replies = iter(script)

    def next_reply(_: Request) -> ScriptedReply:
        try:
            return next(replies)
        except StopIteration:
            raise AssertionError(
                "the script has no line left for another request"
            ) from None

    return next_reply
