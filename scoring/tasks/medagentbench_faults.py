"""What can be wrong with a graded MedAgentBench task: the kinds of failure, and how each fault is put."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

SYSTEM = "system_error"
FINISH = "invalid_finish_format"
RESULT = "invalid_json_result"
ROUNDS = "max_rounds_reached"
READ_ONLY = "readonly_violation"
POSTS = "wrong_post_count"
ENDPOINT = "wrong_endpoint"
PAYLOAD = "payload_validation_error"
ANSWER = "answer_mismatch"

KINDS = (SYSTEM, FINISH, RESULT, ROUNDS, READ_ONLY, POSTS, ENDPOINT, PAYLOAD, ANSWER)

_ENDED = {"task limit reached": ROUNDS, "agent invalid action": FINISH}


class Fault(NamedTuple):
    """One thing that is wrong; `path` leads to it in a payload. The message holds what is wanted, never what came."""

    kind: str
    path: str
    message: str


Step = str | int


def unfinished(status: str) -> Fault:
    """A conversation that did not come to FINISH( )."""
    return Fault(_ENDED.get(status, SYSTEM), "", f"ended without FINISH: {status}")


def dotted(steps: tuple[Step, ...]) -> str:
    """`dosageInstruction[0].route` for ("dosageInstruction", 0, "route")."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in steps).lstrip(".")


def at(payload: Any, steps: tuple[Step, ...]) -> Any:
    """The value at a place. Raises KeyError, IndexError or TypeError if there is none."""
    for step in steps:
        payload = payload[step]
    return payload


def must(payload: Any, holds: Callable[[Any], Any], wanted: str, *steps: Step) -> Iterator[Fault]:
    """A fault unless the value at the place is there and passes."""
    try:
        good = bool(holds(at(payload, steps)))
    except (KeyError, IndexError):
        yield Fault(PAYLOAD, dotted(steps), f"is missing; it must be {wanted}")
        return
    except (TypeError, AttributeError, ValueError):
        good = False
    if not good:
        yield Fault(PAYLOAD, dotted(steps), f"must be {wanted}")


def must_equal(payload: Any, wanted: Any, *steps: Step) -> Iterator[Fault]:
    """A fault unless the value at the place is exactly this."""
    return must(payload, lambda found: found == wanted, repr(wanted), *steps)
