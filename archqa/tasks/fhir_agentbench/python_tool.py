"""`execute_python_code`: a model's Python over the resources that were retrieved, in the sandbox.

Source: FHIR-AgentBench, `tools/`. The benchmark runs such code in its own process, without limits and without what it
prints; here it runs in `sandbox`, and what it prints is given back beside `answer`.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from archqa.agents.tools.sandbox import CodeResult, SandboxLimits, run_code, truncate
from archqa.agents.tools.tool import Tool, ToolResult
from archqa.core.value import FrozenModel
from archqa.fhir import Record

NO_ANSWER = "Code executed successfully (no answer variable set)"


class Code(FrozenModel):
    """What is to run, and for how many seconds at most."""

    code: str = Field(description="Python code that assigns its result to the variable `answer`")
    timeout: int = Field(
        default=30, ge=1, le=120, description="Seconds after which the code is stopped"
    )


class ExecutePythonCode(Tool[Code]):
    """Runs code with `retrieved_resources` (type to list) set to what has been retrieved so far."""

    name: ClassVar[str] = "execute_python_code"
    description: ClassVar[str] = (
        "Execute Python code over retrieved_resources; the code must set `answer`"
    )
    takes = Code

    def __init__(self, retrieved: Mapping[str, Any], limits: SandboxLimits | None = None) -> None:
        self._retrieved = retrieved
        self._limits = limits or SandboxLimits()

    def run(self, record: Record, args: Code) -> ToolResult:
        """`{"answer": …}` or `{"error": …}`, with `stdout` if anything was printed."""
        seconds = min(self._limits.seconds, float(args.timeout))
        ran = run_code(
            args.code, self._retrieved, self._limits.model_copy(update={"seconds": seconds})
        )
        return ToolResult(said=_said(ran, self._limits.characters), fault=ran.fault)


def _said(ran: CodeResult, most: int) -> dict[str, Any]:
    printed = {"stdout": ran.stdout} if ran.stdout else {}
    if ran.fault:
        return {"error": ran.error, **printed}
    if ran.answer is None:
        return {"error": NO_ANSWER, **printed}
    text = json.dumps(ran.answer, ensure_ascii=False)
    return {"answer": ran.answer if len(text) <= most else truncate(text, most), **printed}
