"""`execute_python_code`: a model's Python over the resources that were retrieved, in the sandbox.

Source: FHIR-AgentBench, `tools/`. The benchmark runs such code in its own process, without limits and without what it
prints; here it runs in `sandbox`, and what it prints is given back beside `answer`.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from archqa.core.value import Value
from archqa.fhir import Record
from archqa.tools.base import Given, Tool
from archqa.tools.sandbox import Limits, Ran, run_code, shortened

NO_ANSWER = "Code executed successfully (no answer variable set)"


class Code(Value):
    """What is to run, and for how many seconds at most."""

    code: str = Field(description="Python code that assigns its result to the variable `answer`")
    timeout: int = Field(default=30, ge=1, le=120, description="Seconds after which the code is stopped")


class ExecutePythonCode(Tool[Code]):
    """Runs code with `retrieved_resources` (type to list) set to what has been retrieved so far."""

    name: ClassVar[str] = "execute_python_code"
    description: ClassVar[str] = "Execute Python code over retrieved_resources; the code must set `answer`"
    takes = Code

    def __init__(self, retrieved: Mapping[str, Any], limits: Limits | None = None) -> None:
        self._retrieved = retrieved
        self._limits = limits or Limits()

    def run(self, record: Record, args: Code) -> Given:
        """`{"answer": …}` or `{"error": …}`, with `stdout` if anything was printed."""
        seconds = min(self._limits.seconds, float(args.timeout))
        ran = run_code(args.code, self._retrieved, self._limits.model_copy(update={"seconds": seconds}))
        return Given(said=_said(ran, self._limits.characters), fault=ran.fault)


def _said(ran: Ran, most: int) -> dict[str, Any]:
    printed = {"stdout": ran.printed} if ran.printed else {}
    if ran.fault:
        return {"error": ran.error, **printed}
    if ran.answer is None:
        return {"error": NO_ANSWER, **printed}
    text = json.dumps(ran.answer, ensure_ascii=False)
    return {"answer": ran.answer if len(text) <= most else shortened(text, most), **printed}
