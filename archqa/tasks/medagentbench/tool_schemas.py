"""The typed tools of an agent that acts on a record: what it may search, reckon, write and hand in.

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

    def act(self, args: CalculateArgs) -> dict[str, Any]:
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

    def act(self, args: DateArgs) -> dict[str, Any]:
        """The time, in FHIR's form."""
        try:
            found = self.now + timedelta(days=args.days, hours=args.hours)
        except OverflowError:
            raise ActionFailed("There is no such time.") from None
        if args.at:
            hour, _, minute = args.at.partition(":")
            found = found.replace(hour=int(hour), minute=int(minute), second=0)
        return {"now": format_datetime(self.now), "time": format_datetime(found)}


class DoseArgs(FrozenModel):
    """A measurement."""

    measured: float = Field(
        description="the measured value, in the unit of the dosing instructions"
    )


class ReplacementDose(ClinicalTool[DoseArgs]):
    """The dose that the instruction's own table or rule gives."""

    name = "replacement_dose"
    description = "Reads the dosing instructions of the task and tells the dose for a measured value, if it is low."
    takes = DoseArgs

    def act(self, args: DoseArgs) -> dict[str, Any]:
        """The dose, or that none is due."""
        dosing = parse_dosing(self.hands.place.ask.context)
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
    """Hands the answers in."""

    name = "finish"
    description = "Hands in the answers and ends the task."
    takes = FinishArgs

    def act(self, args: FinishArgs) -> dict[str, Any]:
        """End the conversation; cites only what was read."""
        unread = [each for each in args.cited if each not in self.hands.talk.read]
        if unread:
            raise ActionFailed(f"You cite {', '.join(unread)}, which was not read in this task.")
        self.hands.finish(args.answers, args.explanation, args.cited)
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


def clinical_tools(hands: ToolImplementations) -> dict[str, ClinicalTool[Any]]:
    """The tools of one task, by name."""
    return {each.name: each(hands) for each in _TOOLS}
