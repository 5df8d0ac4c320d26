"""The base of the typed tools of one task."""

from datetime import datetime
from typing import Any, Generic, TypeVar

from archqa.agents.calculator import CalculationError
from archqa.agents.tools import Tool, ToolResult, tool_error
from archqa.core.value import FrozenModel
from archqa.fhir import Record
from archqa.llm.model import ToolSpec
from archqa.tasks.medagentbench.clock import parse_now
from archqa.tasks.medagentbench.tool_implementations import ActionFailed, ToolImplementations

Arguments = TypeVar("Arguments", bound=FrozenModel)


class ClinicalTool(Tool[Arguments], Generic[Arguments]):
    """A tool of one task.

    It reaches the record through `implementations` and uses the task's clock.
    """

    def __init__(self, implementations: ToolImplementations) -> None:
        self.implementations = implementations

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is offered to a model, with the full schema of its arguments."""
        schema = self.takes.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        return ToolSpec(name=self.name, description=self.description, parameters=schema)

    @property
    def now(self) -> datetime:
        """The task's clock."""
        return parse_now(self.implementations.session.task_text.context)

    def execute(self, args: Arguments) -> dict[str, Any]:
        """Run the tool. Raises `ActionFailed`, `CalculationError`."""
        raise NotImplementedError

    def run(self, record: Record, args: Arguments) -> ToolResult:
        """Run the tool; a refusal becomes an error message for the model."""
        try:
            return ToolResult(output=self.execute(args))
        except (ActionFailed, CalculationError) as error:
            return tool_error("refused", str(error))
