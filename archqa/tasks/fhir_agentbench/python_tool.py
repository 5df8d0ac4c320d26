"""`execute_python_code`: a model's Python over the retrieved resources, in the sandbox.

Source: FHIR-AgentBench, `tools/`. The benchmark runs such code in its own process without limits
and drops its output; here it runs in `sandbox`, and its output is returned as `stdout` with
`answer`.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from archqa.agents.sandbox import CodeResult, SandboxLimits, run_code, truncate
from archqa.agents.tools import Tool, ToolResult
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
    """Runs code in which `retrieved_resources` maps each type to the resources retrieved so far."""

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
        limits = self._limits.model_copy(update={"seconds": seconds})
        result = run_code(args.code, self._retrieved, limits)
        return ToolResult(output=_output(result, limits.characters), fault=result.fault)


def _output(result: CodeResult, max_characters: int) -> dict[str, Any]:
    stdout = {"stdout": result.stdout} if result.stdout else {}
    if result.fault:
        return {"error": result.error, **stdout}
    if result.answer is None:
        return {"error": NO_ANSWER, **stdout}
    text = json.dumps(result.answer, ensure_ascii=False)
    if len(text) > max_characters:
        return {"answer": truncate(text, max_characters), **stdout}
    return {"answer": result.answer, **stdout}
