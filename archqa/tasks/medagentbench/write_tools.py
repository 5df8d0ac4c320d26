"""Typed tools that write: a vital sign, an order of a medication, an order of a service."""

from typing import Any, Literal, TypeVar

from pydantic import Field

from archqa.core.value import FrozenModel
from archqa.tasks.medagentbench.clock import format_datetime
from archqa.tasks.medagentbench.tool_implementations import ToolImplementations, Written
from archqa.tasks.medagentbench.typed_tool import ClinicalTool
from archqa.tasks.medagentbench.write_intents import (
    MedicationOrder,
    ServiceOrder,
    VitalSign,
    WriteIntent,
)

Arguments = TypeVar("Arguments", bound=FrozenModel)

Patient = Field(description="the patient's record number", min_length=1)
Evidence = Field(
    min_length=1,
    description="what justifies it: resources read in this task, as Type/id, or 'instruction: ' "
    "and at least three words of the instruction, word for word",
)
Settled = Field(default=False, description="false shows what would be written; true writes it")

_NOTHING_STORED = "Accepted. In this mode nothing is stored, so that there is no id."


class WriteTool(ClinicalTool[Arguments]):
    """A write in two calls.

    The first previews the intent, a second with `settled` writes the same intent.
    """

    def __init__(self, implementations: ToolImplementations) -> None:
        super().__init__(implementations)
        self._previewed: list[WriteIntent] = []

    def preview_or_write(
        self, intent: WriteIntent, evidence: tuple[str, ...], *, settled: bool
    ) -> dict[str, Any]:
        """Preview the intent, or write it if it is settled and was previewed.

        Raises `ActionFailed`.
        """
        if settled and intent in self._previewed:
            return _written_fields(self.implementations.write(intent, evidence))
        payload, reasons = self.implementations.preview(intent, evidence)
        if not reasons:
            self._previewed.append(intent)
        return {"written": False, "would_be_written": payload, "against_it": reasons}


def _written_fields(written: Written) -> dict[str, Any]:
    """What was written, with the id under which the record has it now."""
    fields = {"written": True, "id": written.reference or None, "payload": written.payload}
    return fields if written.reference else {**fields, "remark": _NOTHING_STORED}


class VitalArgs(FrozenModel):
    """A vital sign."""

    patient: str = Patient
    flowsheet: str = Field(min_length=1, description="the flowsheet ID, as the context gives it")
    value: str = Field(min_length=1, description="as it was said, with its unit")
    evidence: tuple[str, ...] = Evidence
    settled: bool = Settled


class RecordVital(WriteTool[VitalArgs]):
    """Records a vital sign."""

    name = "record_vital"
    description = "Files a vital sign, measured now, in the flowsheet."
    takes = VitalArgs

    def execute(self, args: VitalArgs) -> dict[str, Any]:
        """Preview or write an Observation."""
        fields = args.model_dump(exclude={"evidence", "settled"})
        sign = VitalSign(at=format_datetime(self.now), **fields)
        return self.preview_or_write(sign, args.evidence, settled=args.settled)


class MedicationArgs(FrozenModel):
    """An order of a medication."""

    patient: str = Patient
    ndc: str = Field(min_length=1, description="the NDC, as the context gives it")
    name: str = Field(min_length=1)
    route: str = Field(
        min_length=1, description="as the dosing instructions name it, such as IV or oral"
    )
    dose: float = Field(gt=0)
    unit: str = Field(min_length=1, description="of the dose, as the dosing instructions name it")
    hours: float | None = Field(
        default=None, gt=0, description="over which it is given, for infusions"
    )
    evidence: tuple[str, ...] = Evidence
    settled: bool = Settled


class OrderMedication(WriteTool[MedicationArgs]):
    """Orders a medication."""

    name = "order_medication"
    description = "Orders a medication, now."
    takes = MedicationArgs

    def execute(self, args: MedicationArgs) -> dict[str, Any]:
        """Preview or write a MedicationRequest."""
        fields = args.model_dump(exclude={"evidence", "settled"})
        order = MedicationOrder(at=format_datetime(self.now), **fields)
        return self.preview_or_write(order, args.evidence, settled=args.settled)


class ServiceArgs(FrozenModel):
    """An order of a service."""

    patient: str = Patient
    system: str = Field(
        min_length=1, description="http://loinc.org for tests, http://snomed.info/sct for referrals"
    )
    code: str = Field(min_length=1, description="as the context gives it")
    name: str = Field(min_length=1)
    note: str = Field(
        default="", description="free text, word for word as the instruction gives it"
    )
    when: str = Field(
        default="", description="the time it is to be done, as the tool dates tells it"
    )
    priority: Literal["routine", "urgent", "asap", "stat"] | None = Field(
        default=None, description="only where the instruction says how urgent it is"
    )
    evidence: tuple[str, ...] = Evidence
    settled: bool = Settled


class OrderService(WriteTool[ServiceArgs]):
    """Orders a test or a referral."""

    name = "order_service"
    description = "Orders a laboratory test, a referral or another service, now."
    takes = ServiceArgs

    def execute(self, args: ServiceArgs) -> dict[str, Any]:
        """Preview or write a ServiceRequest."""
        fields = args.model_dump(exclude={"evidence", "settled"})
        order = ServiceOrder(at=format_datetime(self.now), **fields)
        return self.preview_or_write(order, args.evidence, settled=args.settled)
