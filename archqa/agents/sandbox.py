"""Runs a model's Python in a sandbox: no files, no network, no processes, limited time and memory.

The code runs in a worker process of pydantic-monty, a separate interpreter that reaches the host
only through its inputs and its result. It supports most of Python; the rest is an `unsupported`
fault.
"""

import datetime
import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from archqa.core.value import FrozenModel
from archqa.errors import MissingExtra
from archqa.safety.text import json_without_surrogates

Fault = Literal["", "syntax", "unsupported", "code", "time", "memory", "crash"]

_MEBIBYTE = 2**20
_MAX_PRINTED = 2**20
_SECONDS_TO_LOAD = 20.0
_MAX_ERROR_CHARACTERS = 2000

_IMPORT = re.compile(
    r"^(\s*)import[ \t]+statistics(?:[ \t]+as[ \t]+(\w+))?[ \t]*$", re.MULTILINE
)
_FROM = re.compile(
    r"^(\s*)from[ \t]+statistics[ \t]+import[ \t]+([\w, \t]+)$", re.MULTILINE
)
_UNSUPPORTED = re.compile(r"does not (?:yet )?support (.+)")


class SandboxLimits(FrozenModel):
    """How long code may run, how much memory it may use, and how many characters it may return."""

    seconds: float = 30.0
    memory_mib: int = 512
    characters: int = 20_000


class CodeResult(NamedTuple):
    """The result of code: the `answer` it set (JSON values; None if none), what it printed, what
    went wrong.
    """

    answer: Any = None
    stdout: str = ""
    fault: Fault = ""
    error: str = ""


def run_code(
    code: str,
    resources: Mapping[str, Any],
    limits: SandboxLimits | None = None,
) -> CodeResult:
    """Run code that sets `answer`; it can use `retrieved_resources` and the helpers of
    `sandbox_prelude.py`.

    Nothing persists: each call starts a new, empty worker. Raises `MissingExtra`.
    """
    try:
        import pydantic_monty as monty
    except ImportError:
        raise MissingExtra("The code sandbox (pydantic-monty)") from None
    limits = limits or SandboxLimits()
    resource_limits = monty.ResourceLimits(
        max_feed_duration_secs=limits.seconds,
        max_memory=limits.memory_mib * _MEBIBYTE,
        max_recursion_depth=200,
        max_suspensions=100,
        max_total_sleep_secs=0.0,
    )
    prelude = Path(__file__).with_name("sandbox_prelude.py").read_text(encoding="utf-8")
    printed = monty.CollectString(_MAX_PRINTED)
    try:
        with (
            monty.Monty(
                max_processes=1, request_timeout=limits.seconds + _SECONDS_TO_LOAD
            ) as pool,
            pool.checkout(
                limits=resource_limits, os_policy={"sleep": "zero"}
            ) as session,
        ):
            session.feed_run(prelude)
            by_type = dict(resources)
            # The benchmark's messages to the model use the longer name.
            inputs = {
                "retrieved_resources": by_type,
                "retrieved_fhir_resources": by_type,
            }
            session.feed_run(
                _without_imports(code), inputs=inputs, print_callback=printed
            )
            answer = session.feed_run(f"export_answer({limits.characters})")
    except monty.MontyError as error:
        fault, message = _fault(monty, error, limits)
        return CodeResult(
            None, truncate(printed.output, limits.characters), fault, message
        )
    return CodeResult(
        _as_json_values(answer), truncate(printed.output, limits.characters)
    )


def is_installed() -> bool:
    """Whether code can be run here."""
    return find_spec("pydantic_monty") is not None


def truncate(text: str, max_characters: int) -> str:
    """A text cut at `max_characters`, with a note of how much is missing."""
    missing = len(text) - max_characters
    if missing <= 0:
        return text
    return f"{text[:max_characters]}… (truncated, {missing} more characters)"


def _without_imports(code: str) -> str:
    """The code with imports of `statistics` as assignments: the prelude defines it, and it cannot
    be imported.
    """

    def assignments(match: re.Match[str]) -> str:
        statements = []
        for imported in match[2].split(","):
            name, _, alias = (part.strip() for part in imported.partition(" as "))
            statements.append(f"{alias or name} = statistics.{name}")
        return match[1] + "; ".join(statements)

    code = _IMPORT.sub(
        lambda match: f"{match[1]}{match[2] or 'statistics'} = statistics", code
    )
    return _FROM.sub(assignments, code)


def _fault(monty: Any, error: Exception, limits: SandboxLimits) -> tuple[Fault, str]:
    """The kind of fault and a message for the model.

    Messages of the code's own exceptions are passed on.
    """
    if isinstance(error, monty.MontyCrashedError):
        if error.timed_out:
            return "time", _too_long(limits)
        return "crash", "The sandbox ended unexpectedly."
    text = error.display("type-msg") if hasattr(error, "display") else str(error)
    exception = text.partition(":")[0]
    unsupported = _UNSUPPORTED.search(text)
    if exception == "NotImplementedError" and unsupported:
        feature = unsupported[1]
        message = f"The sandbox does not know {feature}. Write the code without it."
        return "unsupported", message
    if exception == "TimeoutError":
        return "time", _too_long(limits)
    if exception == "MemoryError":
        mebibytes = limits.memory_mib
        return (
            "memory",
            f"The code needs more than {mebibytes} MiB of memory, or prints too much.",
        )
    message = truncate(text, _MAX_ERROR_CHARACTERS)
    return ("syntax" if isinstance(error, monty.MontySyntaxError) else "code"), message


def _too_long(limits: SandboxLimits) -> str:
    return f"The code ran longer than {limits.seconds:g} seconds."


def _as_json_values(value: Any) -> Any:
    """An answer as JSON values: times as text, sets as sorted lists, anything else as its text."""

    def as_json(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.isoformat(" ")
        if isinstance(value, datetime.date):
            return value.isoformat()
        if isinstance(value, set | frozenset):
            return sorted(value, key=str)
        return str(value)

    try:
        text = json.dumps(value, default=as_json, ensure_ascii=False)
        return json_without_surrogates(json.loads(text, parse_constant=str))
    except (ValueError, TypeError, RecursionError):
        return f"(a {type(value).__name__} that JSON has no form for)"
