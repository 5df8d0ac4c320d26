"""What the typed tools of one task have in common: they work through its hands, and by its clock."""

from datetime import datetime
from typing import Any, Generic, TypeVar

from archqa.core.value import Value
from archqa.fhir import Record
from archqa.llm.base import ToolSpec
from archqa.tools.base import Given, Tool, failed
from archqa.tools.calculator import NoNumber
from archqa.tools.clinical_clock import clock_of
from archqa.tools.clinical_hands import Hands, NotDone

Arguments = TypeVar("Arguments", bound=Value)


class ClinicalTool(Tool[Arguments], Generic[Arguments]):
    """A tool in the hands of one task; the record is reached through them."""

    def __init__(self, hands: Hands) -> None:
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
        return clock_of(self.hands.place.ask.context)

    def act(self, args: Arguments) -> dict[str, Any]:
        """Do it. Raises `NotDone`."""
        raise NotImplementedError

    def run(self, record: Record, args: Arguments) -> Given:
        """Do it, with refusals put into words."""
        try:
            return Given(said=self.act(args))
        except (NotDone, NoNumber) as why:
            return failed("refused", str(why))
