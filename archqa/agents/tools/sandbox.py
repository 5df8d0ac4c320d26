"""A place where a model's Python may run: no files, no network, no processes, so much time and memory.

The code runs in a worker process of pydantic-monty, an interpreter of its own that has no way to the host but its
inputs and its result. It understands most of Python, not all; what it does not understand is an `unsupported` fault.
"""

import datetime
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from archqa.core.value import FrozenModel
from archqa.errors import MissingExtra

Fault = Literal["", "syntax", "unsupported", "code", "time", "memory", "crash"]

_MEBIBYTE = 2**20
_PRINTED = 2**20
_SECONDS_TO_LOAD = 20.0

_IMPORT = re.compile(r"^(\s*)import[ \t]+statistics(?:[ \t]+as[ \t]+(\w+))?[ \t]*$", re.MULTILINE)
_FROM = re.compile(r"^(\s*)from[ \t]+statistics[ \t]+import[ \t]+([\w, \t]+)$", re.MULTILINE)
_UNSUPPORTED = re.compile(r"does not (?:yet )?support (.+)")


class SandboxLimits(FrozenModel):
    """How long code may run, how much memory it may hold, and how many characters it may give back."""

    seconds: float = 30.0
    memory_mib: int = 512
    characters: int = 20_000


class CodeResult(NamedTuple):
    """What came of code: the `answer` it set (JSON values; None if it set none), what it printed, what went wrong."""

    answer: Any = None
    stdout: str = ""
    fault: Fault = ""
    error: str = ""


def run_code(
    code: str, resources: Mapping[str, Any], limits: SandboxLimits | None = None
) -> CodeResult:
    """Run code that sets `answer`, with `retrieved_resources` (by either name) and the helpers of `inside.py` at hand.

    Nothing is left behind: a new worker starts empty and ends with the call. Raises `MissingExtra`.
    """
    monty = _monty()
    limits = limits or SandboxLimits()
    printed = monty.CollectString(_PRINTED)
    try:
        with (
            monty.Monty(max_processes=1, request_timeout=limits.seconds + _SECONDS_TO_LOAD) as pool,
            pool.checkout(limits=_limits(monty, limits), os_policy={"sleep": "zero"}) as session,
        ):
            session.feed_run(_inside())
            held = dict(resources)
            given = {
                "retrieved_resources": held,
                "retrieved_fhir_resources": held,
            }  # Pointers use the second name.
            session.feed_run(_importable(code), inputs=given, print_callback=printed)
            answer = session.feed_run(f"export_answer({limits.characters})")
    except monty.MontyError as error:
        fault, words = _fault(monty, error, limits)
        return CodeResult(None, truncate(printed.output, limits.characters), fault, words)
    return CodeResult(_plain(answer), truncate(printed.output, limits.characters))


def truncate(text: str, most: int) -> str:
    """A text cut at `most` characters, with a note of what is missing."""
    return (
        text
        if len(text) <= most
        else f"{text[:most]}… (truncated, {len(text) - most} more characters)"
    )


def _monty() -> Any:
    try:
        import pydantic_monty
    except ImportError:
        raise MissingExtra("The code sandbox (pydantic-monty)") from None
    return pydantic_monty


def _limits(monty: Any, limits: SandboxLimits) -> Any:
    return monty.ResourceLimits(
        max_feed_duration_secs=limits.seconds,
        max_memory=limits.memory_mib * _MEBIBYTE,
        max_recursion_depth=200,
        max_suspensions=100,
        max_total_sleep_secs=0.0,
    )


@cache
def _inside() -> str:
    return Path(__file__).with_name("sandbox_prelude.py").read_text(encoding="utf-8")


def _importable(code: str) -> str:
    """`statistics` is there already, and cannot be imported: its import becomes an assignment."""
    code = _IMPORT.sub(lambda found: f"{found[1]}{found[2] or 'statistics'} = statistics", code)
    return _FROM.sub(
        lambda found: f"{found[1]}{'; '.join(map(_assigned, found[2].split(',')))}", code
    )


def _assigned(name: str) -> str:
    old, _, new = (part.strip() for part in name.partition(" as "))
    return f"{new or old} = statistics.{old}"


def _fault(monty: Any, error: Exception, limits: SandboxLimits) -> tuple[Fault, str]:
    """What went wrong, by kind and in words for the model. Words of the code's own exceptions are passed on."""
    if isinstance(error, monty.MontyCrashedError):
        return (
            ("time", _too_long(limits))
            if error.timed_out
            else ("crash", "The sandbox ended unexpectedly.")
        )
    words = error.display("type-msg") if hasattr(error, "display") else str(error)
    kind = words.partition(":")[0]
    unsupported = _UNSUPPORTED.search(words) if kind == "NotImplementedError" else None
    if unsupported:
        return (
            "unsupported",
            f"The sandbox does not know {unsupported[1]}. Write the code without it.",
        )
    if kind == "TimeoutError":
        return "time", _too_long(limits)
    if kind == "MemoryError":
        return (
            "memory",
            f"The code needs more than {limits.memory_mib} MiB of memory, or prints too much.",
        )
    return ("syntax" if isinstance(error, monty.MontySyntaxError) else "code"), truncate(
        words, 2000
    )


def _too_long(limits: SandboxLimits) -> str:
    return f"The code ran longer than {limits.seconds:g} seconds."


def _plain(value: Any) -> Any:
    """An answer as JSON values: times as text, sets as sorted lists, what JSON has no form for as its text."""
    try:
        return json.loads(
            json.dumps(value, default=_as_json, ensure_ascii=False), parse_constant=str
        )
    except (ValueError, TypeError, RecursionError):
        return f"(a {type(value).__name__} that JSON has no form for)"


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)
