"""What can be wrong with a graded MedAgentBench task: the kinds of failure, and how each fault is put."""

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

_ENDED = {"task limit reached": MAX_ROUNDS_REACHED, "agent invalid action": INVALID_FINISH}


class Fault(NamedTuple):
    """One thing that is wrong; `path` leads to it in a payload. The message holds what is wanted, never what came."""

    kind: str
    path: str
    message: str


Step = str | int


def unfinished_fault(status: str) -> Fault:
    """A conversation that did not come to FINISH( )."""
    return Fault(_ENDED.get(status, SYSTEM_ERROR), "", f"ended without FINISH: {status}")


def dotted(steps: tuple[Step, ...]) -> str:
    """`dosageInstruction[0].route` for ("dosageInstruction", 0, "route")."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in steps).lstrip(
        "."
    )


def at(payload: Any, steps: tuple[Step, ...]) -> Any:
    """The value at a place. Raises KeyError, IndexError or TypeError if there is none."""
    for step in steps:
        payload = payload[step]
    return payload


def require(
    payload: Any, holds: Callable[[Any], Any], wanted: str, *steps: Step
) -> Iterator[Fault]:
    """A fault unless the value at the place is there and passes."""
    try:
        good = bool(holds(at(payload, steps)))
    except (KeyError, IndexError):
        yield Fault(INVALID_PAYLOAD, dotted(steps), f"is missing; it must be {wanted}")
        return
    except (TypeError, AttributeError, ValueError):
        good = False
    if not good:
        yield Fault(INVALID_PAYLOAD, dotted(steps), f"must be {wanted}")


def require_equal(payload: Any, wanted: Any, *steps: Step) -> Iterator[Fault]:
    """A fault unless the value at the place is exactly this."""
    return require(payload, lambda found: found == wanted, repr(wanted), *steps)
