"""What the typed tools of one task have in common: they work through its hands, and by its clock."""

from datetime import datetime
from typing import Any, Generic, TypeVar

from archqa.agents.tools.calculator import CalculationError
from archqa.agents.tools.tool import Tool, ToolResult, tool_error
from archqa.core.value import FrozenModel
from archqa.fhir import Record
from archqa.llm.model import ToolSpec
from archqa.tasks.medagentbench.clock import parse_now
from archqa.tasks.medagentbench.tool_implementations import ActionFailed, ToolImplementations

Arguments = TypeVar("Arguments", bound=FrozenModel)


class ClinicalTool(Tool[Arguments], Generic[Arguments]):
    """A tool in the hands of one task; the record is reached through them."""

    def __init__(self, hands: ToolImplementations) -> None:
        self.hands = hands

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is offered to a model, lists and all."""
        schema = self.takes.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        return ToolSpec(name=self.name, description=self.description, parameters=schema)

    @property
    def now(self) -> datetime:
        """The task's clock."""
        return parse_now(self.hands.place.ask.context)

    def act(self, args: Arguments) -> dict[str, Any]:
        """Do it. Raises `ActionFailed`."""
        raise NotImplementedError

    def run(self, record: Record, args: Arguments) -> ToolResult:
        """Do it, with refusals put into words."""
        try:
            return ToolResult(said=self.act(args))
        except (ActionFailed, CalculationError) as why:
            return tool_error("refused", str(why))
