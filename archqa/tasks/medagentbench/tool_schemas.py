"""The typed tools of an agent that acts on a record.

They search, calculate, write and submit the final answers.

Source of the set: the eleven tools of MedAgentBench v2 (Chen et al., PSB 2026).
"""

from datetime import timedelta
from typing import Any

from pydantic import Field

from archqa.agents.tools.calculator import calculate
from archqa.core.value import FrozenModel
from archqa.tasks.medagentbench.clock import format_datetime
from archqa.tasks.medagentbench.dosing import parse_dosing
from archqa.tasks.medagentbench.search_tools import (
    FindPatients,
    SearchLabs,
    SearchMedications,
    SearchProblems,
    SearchProcedures,
    SearchVitals,
)
from archqa.tasks.medagentbench.tool_implementations import ActionFailed, ToolImplementations
from archqa.tasks.medagentbench.typed_tool import ClinicalTool
from archqa.tasks.medagentbench.write_tools import OrderMedication, OrderService, RecordVital


class CalculateArgs(FrozenModel):
    """An expression."""

    expression: str = Field(description="such as mean([90, 110]) or (3.5 - 3.2) / 0.1 * 10")


class Calculate(ClinicalTool[CalculateArgs]):
    """Arithmetic."""

    name = "calculate"
    description = (
        "Reckons: + - * / // % **, round, abs, min, max, sum, mean, len, sqrt, floor, ceil."
    )
    takes = CalculateArgs

    def execute(self, args: CalculateArgs) -> dict[str, Any]:
        """The value of the expression."""
        return {"value": calculate(args.expression)}


class DateArgs(FrozenModel):
    """A time relative to the task's clock."""

    days: int = Field(default=0, description="days from now; negative before")
    hours: float = Field(default=0.0, description="hours from now; negative before")
    at: str = Field(
        default="", pattern=r"^([01]\d:[0-5]\d|2[0-3]:[0-5]\d)?$", description="HH:MM of that day"
    )


class Dates(ClinicalTool[DateArgs]):
    """Times relative to the clock of the task."""

    name = "dates"
    description = "Tells the time relative to the time it is in this task: in days, in hours, at an hour of that day."
    takes = DateArgs

    def execute(self, args: DateArgs) -> dict[str, Any]:
        """The time, in FHIR's form."""
        try:
            time = self.now + timedelta(days=args.days, hours=args.hours)
        except OverflowError:
            raise ActionFailed("There is no such time.") from None
        if args.at:
            hour, _, minute = args.at.partition(":")
            time = time.replace(hour=int(hour), minute=int(minute), second=0)
        return {"now": format_datetime(self.now), "time": format_datetime(time)}


class DoseArgs(FrozenModel):
    """A measurement."""

    measured: float = Field(
        description="the measured value, in the unit of the dosing instructions"
    )


class ReplacementDose(ClinicalTool[DoseArgs]):
    """The dose by the table or rule in the task's context."""

    name = "replacement_dose"
    description = "Reads the dosing instructions of the task and tells the dose for a measured value, if it is low."
    takes = DoseArgs

    def execute(self, args: DoseArgs) -> dict[str, Any]:
        """The dose, or that the value is not low."""
        dosing = parse_dosing(self.implementations.session.task_text.context)
        if dosing is None:
            raise ActionFailed(
                "The task has no dosing instructions of a form this tool reads; reckon with calculate."
            )
        dose = dosing.dose_for(args.measured)
        if dose is None:
            return {"low": False}
        return {
            "low": True,
            "dose": dose.amount,
            "unit": dose.unit,
            "route": dose.route,
            "hours": dose.hours,
        }


class FinishArgs(FrozenModel):
    """What is handed in."""

    answers: tuple[int | float | str, ...] = Field(
        description="numbers without units, or texts; empty if none"
    )
    explanation: str = Field(default="", description="why, in a sentence")
    cited: tuple[str, ...] = Field(default=(), description="the resources it rests on, as Type/id")


class Finish(ClinicalTool[FinishArgs]):
    """Submits the answers."""

    name = "finish"
    description = "Hands in the answers and ends the task."
    takes = FinishArgs

    def execute(self, args: FinishArgs) -> dict[str, Any]:
        """End the conversation. Raises `ActionFailed` if a cited resource was not read."""
        resources_read = self.implementations.controller.resources_read
        unread = [reference for reference in args.cited if reference not in resources_read]
        if unread:
            raise ActionFailed(f"You cite {', '.join(unread)}, which was not read in this task.")
        self.implementations.finish(args.answers, args.explanation, args.cited)
        return {"finished": True}


_TOOLS: tuple[type[ClinicalTool[Any]], ...] = (
    FindPatients,
    SearchLabs,
    SearchVitals,
    SearchProblems,
    SearchMedications,
    SearchProcedures,
    Calculate,
    Dates,
    ReplacementDose,
    RecordVital,
    OrderMedication,
    OrderService,
    Finish,
)


def clinical_tools(implementations: ToolImplementations) -> dict[str, ClinicalTool[Any]]:
    """The tools of one task, by name."""
    return {tool.name: tool(implementations) for tool in _TOOLS}
