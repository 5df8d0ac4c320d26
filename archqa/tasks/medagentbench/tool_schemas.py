"""The typed tools of an agent that acts on a record.

They search, calculate, write and submit the final answers.

Source of the set: the eleven tools of MedAgentBench v2 (Chen et al., PSB 2026).
"""

from datetime import timedelta
from typing import Any

from pydantic import Field

from archqa.agents.calculator import calculate
from archqa.core.id_lists import list_ids
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
from archqa.tasks.medagentbench.write_checks import same_unit
from archqa.tasks.medagentbench.write_tools import OrderMedication, OrderService, RecordVital


class CalculateArgs(FrozenModel):
    """An expression."""

    expression: str = Field(
        description="such as mean([90, 110]), (3.5 - 3.2) / 0.1 * 10 or age('1950-11-14', now)"
    )


class Calculate(ClinicalTool[CalculateArgs]):
    """Arithmetic, ages and differences of dates."""

    name = "calculate"
    description = (
        "Reckons in full precision; nothing is rounded unless you write round(x, decimals). "
        "+ - * / // % **, comparisons, round, abs, min, max, sum, mean, len, sqrt, floor, ceil. "
        "Dates are in quotation marks, and now is the time of this task: age(born, on) in whole "
        "years; days(from, to), hours(from, to) and minutes(from, to), with fractions."
    )
    takes = CalculateArgs

    def execute(self, args: CalculateArgs) -> dict[str, Any]:
        """The value of the expression."""
        return {"value": calculate(args.expression, {"now": format_datetime(self.now)})}


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

    measured: float = Field(description="the measured value, as the record has it")
    unit: str = Field(min_length=1, description="its unit, as the record has it, such as mg/dL")


class ReplacementDose(ClinicalTool[DoseArgs]):
    """The dose by the table or rule in the task's context."""

    name = "replacement_dose"
    description = (
        "Reads the dosing instructions of the task and tells the dose for a measured value, if it "
        "is low, and the rule that says so, word for word. Nothing is converted: a value in "
        "another unit than the instructions' is refused."
    )
    takes = DoseArgs

    def execute(self, args: DoseArgs) -> dict[str, Any]:
        """The dose or that the value is not low, by which rule. Raises `ActionFailed`."""
        dosing = parse_dosing(self.implementations.session.task_text.context)
        if dosing is None:
            raise ActionFailed(
                "The task has no dosing instructions of a form this tool reads; reckon with calculate."
            )
        if not same_unit(args.unit.strip(), dosing.measure):
            raise ActionFailed(
                f"The dosing instructions are for values in {dosing.measure}, and this one is in "
                f"{args.unit[:20]}. Give a measurement in {dosing.measure}, or order nothing."
            )
        dose = dosing.dose_for(args.measured)
        rule = dosing.rule_for(args.measured)
        if dose is None:
            return {"low": False, "rule": rule}
        return {
            "low": True,
            "dose": dose.amount,
            "unit": dose.unit,
            "route": dose.route,
            "hours": dose.hours,
            "rule": rule,
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
        known = self.implementations.known_resources
        unread = [reference for reference in args.cited if reference not in known]
        if unread:
            raise ActionFailed(f"You cite {list_ids(unread)}, which was not read in this task.")
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
