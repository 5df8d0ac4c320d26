"""Runs a model's Python in a sandbox: no files, no network, no processes, limited time and memory.

The code runs in a worker process of pydantic-monty, a separate interpreter. What leaves it is one
string of bounded length, made by `sandbox_worker.py` within the limits of the code, and what the
code prints, up to a limit. It supports most of Python; the rest is an `unsupported` fault.
"""

import json
import re
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from archqa.core.value import FrozenModel
from archqa.errors import MissingExtra

Fault = Literal["", "syntax", "unsupported", "code", "time", "memory", "crash"]

_MEBIBYTE = 2**20
_MAX_PRINTED = 2**20
_SECONDS_TO_LOAD = 20.0
_MAX_ERROR_CHARACTERS = 2000
_MAX_JSON_PER_CHARACTER = 6
"""A control character is `\\u0000` in JSON."""

_RUN_CODE = "f'{json.dumps(run(prelude, code, inputs, characters), ensure_ascii=False):.{bound}}'"
"""What runs in the worker. Its value is a string of at most `bound` characters, whatever the code does."""

_IMPORT = re.compile(
    r"^([ \t]*)import[ \t]+statistics(?:[ \t]+as[ \t]+(\w+))?[ \t]*$", re.MULTILINE
)
_FROM = re.compile(
    r"^([ \t]*)from[ \t]+statistics[ \t]+import[ \t]++([\w, \t]++)$", re.MULTILINE
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
    started = time.monotonic()
    code = _without_imports(code)
    seconds = limits.seconds - (time.monotonic() - started)
    if seconds <= 0:
        return CodeResult(fault="time", error=_too_long(limits))
    resource_limits = monty.ResourceLimits(
        max_feed_duration_secs=seconds,
        max_memory=limits.memory_mib * _MEBIBYTE,
        max_recursion_depth=200,
        max_suspensions=100,
        max_total_sleep_secs=0.0,
    )
    by_type = dict(resources)
    inputs = {
        "prelude": _source("sandbox_prelude.py"),
        "code": code,
        # The benchmark's messages to the model use the longer name.
        "inputs": {"retrieved_resources": by_type, "retrieved_fhir_resources": by_type},
        "characters": limits.characters,
        "bound": _MAX_JSON_PER_CHARACTER * limits.characters + _MAX_ERROR_CHARACTERS,
    }
    printed = monty.CollectString(_MAX_PRINTED)
    try:
        with (
            monty.Monty(
                max_processes=1, request_timeout=seconds + _SECONDS_TO_LOAD
            ) as pool,
            pool.checkout(
                limits=resource_limits, os_policy={"sleep": "zero"}
            ) as session,
        ):
            session.feed_run(_source("sandbox_worker.py"))
            text = session.feed_run(_RUN_CODE, inputs=inputs, print_callback=printed)
        result = json.loads(text, parse_constant=str)
    except monty.MontyError as error:
        result = _uncaught(monty, error)
    except ValueError:  # Cut at the bound.
        result = {"answer": "(an answer that is too long)"}
    stdout = truncate(printed.output, limits.characters)
    if "exception" not in result:
        return CodeResult(result["answer"], stdout)
    fault, message = _fault(result["exception"], result["message"], limits)
    return CodeResult(None, stdout, fault, message)


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


def _source(file_name: str) -> str:
    return Path(__file__).with_name(file_name).read_text(encoding="utf-8")


def _uncaught(monty: Any, error: Exception) -> dict[str, Any]:
    """What ended the worker, or what no code there can catch, in the form of `sandbox_worker.run`."""
    if isinstance(error, monty.MontyCrashedError):
        exception = "TimeoutError" if error.timed_out else ""
        return {"exception": exception, "message": ""}
    text = error.display("type-msg") if hasattr(error, "display") else str(error)
    exception, _, message = text.partition(": ")
    return {"exception": exception, "message": message}


def _fault(exception: str, text: str, limits: SandboxLimits) -> tuple[Fault, str]:
    """The kind of fault and a message for the model.

    Messages of the code's own exceptions are passed on.
    """
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
    if not exception:
        return "crash", "The sandbox ended unexpectedly."
    message = f"{exception}: {text}" if text else exception
    fault: Fault = "syntax" if exception == "SyntaxError" else "code"
    return fault, truncate(message, _MAX_ERROR_CHARACTERS)


def _too_long(limits: SandboxLimits) -> str:
    return f"The code ran longer than {limits.seconds:g} seconds."
