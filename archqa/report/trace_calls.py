"""The steps of a trace put together to calls: one call has several attempts or turns."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from archqa.core.step import Step

MODEL = "model"
"""The backend of steps that a model took."""

_EMPTY_REPLY = "{}"
"""What a repair turn shows the model of a reply that had no text."""

_LATER_ROLES = frozenset({"assistant", "tool"})

Messages = tuple[dict[str, Any], ...]


class Attempt(NamedTuple):
    """One request to a model; `new_messages` are those that the attempt before did not have."""

    step: Step
    new_messages: Messages


class Call(NamedTuple):
    """One call of an agent on a model: its attempts, or the turns of its conversation."""

    attempts: tuple[Attempt, ...]
    is_conversation: bool


def group_calls(steps: Iterable[Step]) -> list[Call]:
    """Return the calls of the steps that models took, in the order of their first attempts."""
    open_calls: list[_OpenCall] = []
    for step in steps:
        if step.backend == MODEL and not _continues_any(open_calls, step):
            open_calls.append(_OpenCall(step))
    return [call.as_call() for call in open_calls]


def _continues_any(open_calls: list["_OpenCall"], step: Step) -> bool:
    """Add the step to the latest call that it continues; say whether there is one."""
    return any(call.add(step) for call in reversed(open_calls))


class _OpenCall:
    """A call whose next attempt may still come. `_known` are all messages so far."""

    def __init__(self, step: Step) -> None:
        self._attempts = [Attempt(step, step.messages)]
        self._known = step.messages
        self._has_turns = bool(step.tool_calls)

    def as_call(self) -> Call:
        return Call(tuple(self._attempts), self._has_turns)

    def add(self, step: Step) -> bool:
        """Add the step if it continues this call; say whether it does."""
        last = self._attempts[-1].step
        if (step.agent, step.about) != (last.agent, last.about):
            return False
        if self._is_next_turn(step):
            self._has_turns = True
            self._append(step, step.messages, (*self._known, *step.messages))
            return True
        if self._is_asked_again(step):
            self._append(step, step.messages[len(self._known) :], step.messages)
            return True
        return False

    def _append(self, step: Step, new_messages: Messages, known: Messages) -> None:
        self._attempts.append(Attempt(step, new_messages))
        self._known = known

    def _is_next_turn(self, step: Step) -> bool:
        """Whether the step has the new messages of a conversation only."""
        if not step.messages:
            return bool(self._known)
        role = step.messages[0].get("role")
        return role in _LATER_ROLES or (role == "user" and self._starts_with_instructions())

    def _starts_with_instructions(self) -> bool:
        return bool(self._known) and self._known[0].get("role") == "system"

    def _is_asked_again(self, step: Step) -> bool:
        """Whether the step repeats all messages so far, after a reply that was sent back."""
        last = self._attempts[-1].step
        count = len(self._known)
        if step.messages[:count] != self._known:
            return False
        if len(step.messages) == count:
            return bool(last.rejected) and step.model == last.model
        return step.messages[count].get("content") == (last.reply or _EMPTY_REPLY)
