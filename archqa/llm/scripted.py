"""Models that say what they are told to: for tests, demonstrations and dry runs."""

from collections.abc import Callable, Iterable

from archqa.core.usage import Usage
from archqa.llm.base import Finish, Reply, Request

Line = str | Reply | Exception


class ScriptedModel:
    """Answers from a list of lines in order, or from a function of the request; remembers what it was asked."""

    def __init__(self, script: Iterable[Line] | Callable[[Request], Line]) -> None:
        self._answer = script if callable(script) else _in_order(script)
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Reply:
        """The next line; an exception in the script is raised."""
        self.asked.append(request)
        line = self._answer(request)
        if isinstance(line, Exception):
            raise line
        return line if isinstance(line, Reply) else Reply(text=line, usage=Usage(calls=1, prompt_tokens=request.tokens))


def refusal(text: str = "I cannot help with that.") -> Reply:
    """A reply in which the model declines."""
    return Reply(text=text, finish=Finish.REFUSED, usage=Usage(calls=1))


def cut_off(text: str) -> Reply:
    """A reply that ended at its token limit."""
    return Reply(text=text, finish=Finish.LENGTH, usage=Usage(calls=1))


def _in_order(script: Iterable[Line]) -> Callable[[Request], Line]:
    lines = iter(script)

    def answer(_: Request) -> Line:
        try:
            return next(lines)
        except StopIteration:
            raise AssertionError("the script has no line left for another request") from None

    return answer
