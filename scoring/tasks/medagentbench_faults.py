"""The faults of a graded MedAgentBench task: their kinds, and the checks that yield them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

SYSTEM_ERROR = "system_error"
INVALID_FINISH = "invalid_finish_format"
INVALID_RESULT = "invalid_json_result"
MAX_ROUNDS_REACHED = "max_rounds_reached"
READ_ONLY_VIOLATION = "readonly_violation"
WRONG_POST_COUNT = "wrong_post_count"
WRONG_ENDPOINT = "wrong_endpoint"
INVALID_PAYLOAD = "payload_validation_error"
ANSWER_MISMATCH = "answer_mismatch"

KINDS = (
    SYSTEM_ERROR,
    INVALID_FINISH,
    INVALID_RESULT,
    MAX_ROUNDS_REACHED,
    READ_ONLY_VIOLATION,
    WRONG_POST_COUNT,
    WRONG_ENDPOINT,
    INVALID_PAYLOAD,
    ANSWER_MISMATCH,
)

_FAULT_OF_STATUS = {
    "task limit reached": MAX_ROUNDS_REACHED,
    "agent invalid action": INVALID_FINISH,
}


class Fault(NamedTuple):
    """One mistake; `path` is its position in a payload.

    The message has the expected value and never the agent's, which may hold patient data.
    """

    kind: str
    path: str
    message: str


Step = str | int


def unfinished_fault(status: str) -> Fault:
    """The fault of a conversation that ended without FINISH( )."""
    kind = _FAULT_OF_STATUS.get(status, SYSTEM_ERROR)
    return Fault(kind, "", f"ended without FINISH: {status}")


def dotted(steps: tuple[Step, ...]) -> str:
    """`dosageInstruction[0].route` for ("dosageInstruction", 0, "route")."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.lstrip(".")


def value_at(payload: Any, steps: tuple[Step, ...]) -> Any:
    """The value at a path. Raises KeyError, IndexError or TypeError if there is none."""
    for step in steps:
        payload = payload[step]
    return payload


def require(
    payload: Any, is_valid: Callable[[Any], Any], expected: str, *steps: Step
) -> Iterator[Fault]:
    """A fault unless there is a value at the path that passes the check."""
    try:
        valid = bool(is_valid(value_at(payload, steps)))
    except (KeyError, IndexError):
        yield Fault(INVALID_PAYLOAD, dotted(steps), f"is missing; it must be {expected}")
        return
    except (TypeError, AttributeError, ValueError, ArithmeticError):
        valid = False
    if not valid:
        yield Fault(INVALID_PAYLOAD, dotted(steps), f"must be {expected}")


def require_equal(payload: Any, expected: Any, *steps: Step) -> Iterator[Fault]:
    """A fault unless the value at the path equals `expected`."""
    return require(payload, lambda element: element == expected, repr(expected), *steps)
