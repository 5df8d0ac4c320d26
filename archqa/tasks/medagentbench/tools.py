"""The typed tools of an agent that acts on a record, each action a turn of the benchmark's conversation.

They search, calculate, write and submit the final answers. Searches take names, codes and hours
instead of URLs, and their results are short summaries of resources; writes are checked against the
instruction and the resources read before they are posted.

Source of the set: the eleven tools of MedAgentBench v2 (Chen et al., PSB 2026).
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from archqa.agents.calculator import CalculationError, calculate
from archqa.agents.tools import Arguments, Tool, ToolResult, tool_error
from archqa.core.id_lists import list_ids
from archqa.core.value import DescribedModel, JsonObject
from archqa.fhir import Record
from archqa.fhir.record import Resource
from archqa.llm.model import ToolSpec
from archqa.llm.structured import sparse_schema
from archqa.tasks.medagentbench.dosing import normalize_number, parse_dosing
from archqa.tasks.medagentbench.protocol import ActionFailed, Actions
from archqa.tasks.medagentbench.session import format_datetime, parse_instant
from archqa.tasks.medagentbench.settings import PayloadFormat
from archqa.tasks.medagentbench.write_checks import same_unit

_MAX_RESOURCES = 50
"""Resources shown of one search."""

_INVALID_STATUSES = {"entered-in-error", "cancelled"}
_TIME_ELEMENTS = (
    "effectiveDateTime",
    "authoredOn",
    "performedDateTime",
    "onsetDateTime",
    "recordedDate",
)
_NOTHING_STORED = "Accepted. In this mode nothing is stored, so that there is no id."

_NDC = "http://hl7.org/fhir/sid/ndc"
_UCUM = "http://unitsofmeasure.org"
_CATEGORY_SYSTEMS = {
    PayloadFormat.BENCHMARK: "http://hl7.org/fhir/observation-category",
    PayloadFormat.R4: "http://terminology.hl7.org/CodeSystem/observation-category",
}
_DEFAULT_PRIORITIES = {PayloadFormat.BENCHMARK: "stat", PayloadFormat.R4: "routine"}
"""The benchmark's function file asks for "stat", whatever an instruction says."""


class ClinicalTool(Tool[Arguments], Generic[Arguments]):
    """A tool of one task. It reaches the record through `actions`."""

    def __init__(self, actions: Actions) -> None:
        self.actions = actions

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is offered to a model; its limits are checked when it is called."""
        schema = sparse_schema(self.takes, described=True)
        schema.pop("description", None)
        return ToolSpec(name=self.name, description=self.description, parameters=schema)

    def execute(self, args: Arguments) -> JsonObject:
        """Run the tool. Raises `ActionFailed`, `CalculationError`."""
        raise NotImplementedError

    def run(self, record: Record, args: Arguments) -> ToolResult:
        """Run the tool; a refusal becomes an error message for the model."""
        try:
            return ToolResult(output=self.execute(args))
        except (ActionFailed, CalculationError) as error:
            return tool_error("refused", str(error))


Patient = Field(description="record number", min_length=1)
Hours = Field(default=None, gt=0, description="at most so many hours old")


class PatientArgs(DescribedModel):
    """What is known of a patient."""

    identifier: str = ""
    """the record number"""

    name: str = ""
    """any one word of the name"""

    family: str = ""
    given: str = ""
    birthdate: str = Field(default="", pattern=r"^(\d{4}-\d\d-\d\d)?$")
    """YYYY-MM-DD"""


class FindPatients(ClinicalTool[PatientArgs]):
    """Patients by number, name or date of birth."""

    name = "find_patients"
    description = "Finds patients by record number, name or date of birth."
    takes = PatientArgs

    def execute(self, args: PatientArgs) -> JsonObject:
        """Search patients; if there is none, say whether somebody has the record number alone."""
        params = [(name, value) for name, value in args if value]
        if not params:
            raise ActionFailed(
                "Give at least one of identifier, name, family, given and birthdate."
            )
        patients = self.actions.search("Patient", params)
        summary = _summarise(patients)
        if patients:
            return summary
        remark = "The record has no such patient."
        if args.identifier and self.actions.session.has_patient(args.identifier):
            remark = (
                f"The record has a patient {args.identifier[:40]}, but none who fits all of what "
                "is asked."
            )
        return {**summary, "remark": remark}


class LabArgs(DescribedModel):
    """One measurement of one patient."""

    patient: str = Patient
    code: str = Field(min_length=1)
    """the laboratory's short name, as the context gives it"""

    within_hours: float | None = Hours


class PatientSearch(ClinicalTool[Arguments]):
    """A search about one patient."""

    def summarise_of_patient(
        self, patient: str, resources: Sequence[Resource]
    ) -> JsonObject:
        """The summaries; if there is none, whether the record has the patient at all."""
        summary = _summarise(resources)
        if resources:
            return summary
        number = patient[:40]
        known = self.actions.session.has_patient(patient.removeprefix("Patient/"))
        remark = f"The record has the patient {number}, but nothing of the kind that is asked for."
        if known is False:
            remark = f"The record has no patient {number}: check the record number."
        elif known is None:
            remark = (
                f"Whether the record has the patient {number} could not be found out."
            )
        return {**summary, "patient_known": known, "remark": remark}


class SearchLabs(PatientSearch[LabArgs]):
    """Laboratory results, the latest first."""

    name = "search_labs"
    description = "Finds the measurements of one code of one patient, the latest first, with value, unit and time."
    takes = LabArgs

    def execute(self, args: LabArgs) -> JsonObject:
        """Search observations by code: valid ones with a number and a time."""
        params = [("patient", args.patient), ("code", args.code)]
        since = None
        if args.within_hours:
            since = self.actions.now - timedelta(hours=args.within_hours)
            params.append(("date", f"ge{format_datetime(since)}"))
        params += [("_sort", "-date"), ("_count", "200")]
        measurements = []
        for observation in self.actions.search("Observation", params):
            time = parse_instant(observation.get("effectiveDateTime", ""))
            quantity = observation.get("valueQuantity")
            value = quantity.get("value") if isinstance(quantity, dict) else None
            is_valid = observation.get("status") not in _INVALID_STATUSES
            if not is_valid or time is None or not isinstance(value, int | float):
                continue
            if since is None or time >= since:
                measurements.append(observation)
        return self.summarise_of_patient(args.patient, measurements)


class RecordArgs(DescribedModel):
    """One patient, perhaps only lately."""

    patient: str = Patient
    within_hours: float | None = Hours


class RecordSearch(PatientSearch[RecordArgs]):
    """A search of one resource type of one patient."""

    takes = RecordArgs
    resource_type: ClassVar[str]
    fixed_params: ClassVar[tuple[tuple[str, str], ...]] = ()
    has_date: ClassVar[bool] = True
    """Whether the type can be searched by date."""

    def execute(self, args: RecordArgs) -> JsonObject:
        """Search the type by patient and time."""
        params = [("patient", args.patient), *self.fixed_params]
        if args.within_hours and self.has_date:
            since = self.actions.now - timedelta(hours=args.within_hours)
            params.append(("date", f"ge{format_datetime(since)}"))
        resources = self.actions.search(self.resource_type, params)
        return self.summarise_of_patient(args.patient, resources)


class SearchVitals(RecordSearch):
    """Vital signs."""

    name = "search_vitals"
    resource_type = "Observation"
    description = "Finds the vital signs of a patient."
    fixed_params = (("category", "vital-signs"),)


class SearchProblems(RecordSearch):
    """The problem list."""

    name = "search_problems"
    resource_type = "Condition"
    description = "Finds the problem list of a patient; within_hours has no effect."
    has_date = False


class SearchMedications(RecordSearch):
    """Medication orders."""

    name = "search_medications"
    resource_type = "MedicationRequest"
    description = "Finds the medication orders of a patient."


class SearchProcedures(RecordSearch):
    """Procedures."""

    name = "search_procedures"
    resource_type = "Procedure"
    description = "Finds the procedures done on a patient."


def _summarise(resources: Sequence[Resource]) -> JsonObject:
    """Summaries of the first resources, and the number of all."""
    return {
        "found": len(resources),
        "resources": list(map(_summary, resources[:_MAX_RESOURCES])),
    }


def _summary(resource: Resource) -> JsonObject:
    """The elements of a resource that tasks ask about, without those it lacks."""
    quantity = resource.get("valueQuantity") or {}
    identifiers = [entry.get("value") for entry in resource.get("identifier") or []]
    concept = resource.get("code") or resource.get("medicationCodeableConcept") or {}
    codings = concept.get("coding") or [{}]
    times = [resource[element] for element in _TIME_ELEMENTS if element in resource]
    fields = {
        "id": f"{resource.get('resourceType')}/{resource.get('id')}",
        "what": concept.get("text") or codings[0].get("display"),
        "value": quantity.get("value", resource.get("valueString")),
        "unit": quantity.get("unit"),
        "time": times[0] if times else None,
        "status": resource.get("status"),
        "name": list(resource.get("name") or []) or None,
        "birthDate": resource.get("birthDate"),
        "record_number": identifiers or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


class CalculateArgs(DescribedModel):
    """An expression."""

    expression: str
    """such as mean([90, 110]), (3.5 - 3.2) / 0.1 * 10 or age('1950-11-14', now)"""


class Calculate(ClinicalTool[CalculateArgs]):
    """Arithmetic, ages and differences of dates."""

    name = "calculate"
    description = (
        "Reckons in full precision: + - * / // % **, comparisons, round(x, decimals), abs, min, max, "
        "sum, mean, len, sqrt, floor, ceil; with dates in quotation marks, and now: age(born, on) in "
        "whole years; days(from, to), hours and minutes, with fractions."
    )
    takes = CalculateArgs

    def execute(self, args: CalculateArgs) -> JsonObject:
        """The value of the expression."""
        return {
            "value": calculate(
                args.expression, {"now": format_datetime(self.actions.now)}
            )
        }


class DateArgs(DescribedModel):
    """A time relative to the task's clock."""

    days: int = 0
    """days from now; negative before"""

    hours: float = 0.0
    """hours from now; negative before"""

    at: str = Field(default="", pattern=r"^([01]\d:[0-5]\d|2[0-3]:[0-5]\d)?$")
    """HH:MM of that day"""


class Dates(ClinicalTool[DateArgs]):
    """Times relative to the clock of the task."""

    name = "dates"
    description = "Tells the time relative to the time it is in this task: in days, in hours, at an hour of that day."
    takes = DateArgs

    def execute(self, args: DateArgs) -> JsonObject:
        """The time, in FHIR's form."""
        now = self.actions.now
        try:
            time = now + timedelta(days=args.days, hours=args.hours)
        except OverflowError:
            raise ActionFailed("There is no such time.") from None
        if args.at:
            hour, _, minute = args.at.partition(":")
            time = time.replace(hour=int(hour), minute=int(minute), second=0)
        return {"now": format_datetime(now), "time": format_datetime(time)}


class DoseArgs(DescribedModel):
    """A measurement."""

    measured: float
    """the measured value, as the record has it"""

    unit: str = Field(min_length=1)
    """its unit, as the record has it, such as mg/dL"""


class ReplacementDose(ClinicalTool[DoseArgs]):
    """The dose by the table or rule in the task's context."""

    name = "replacement_dose"
    description = (
        "Reads the dosing instructions of the task and tells the dose for a measured value, if it "
        "is low, and the rule that says so, word for word. Nothing is converted: a value in "
        "another unit than the instructions' is refused."
    )
    takes = DoseArgs

    def execute(self, args: DoseArgs) -> JsonObject:
        """The dose or that the value is not low, by which rule. Raises `ActionFailed`."""
        dosing = parse_dosing(self.actions.session.task_text.context)
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


Evidence = Field(
    min_length=1,
    description="Type/id of resources read, or 'instruction: ' and three words of it or more",
)
Settled = Field(default=False, description="true writes")


class WriteArgs(DescribedModel):
    """A resource to write about one patient, rendered as a payload in one of two formats.

    `benchmark` is what MedAgentBench's grader expects, which departs from FHIR twice (a string for
    a route, an object for a note); `r4` is FHIR R4.
    """

    patient: str = Patient

    def payload(self, payload_format: PayloadFormat, at: str) -> JsonObject:
        """The resource in this format; `at` is the time of writing, a FHIR dateTime with a zone."""
        raise NotImplementedError

    @property
    def subject(self) -> dict[str, str]:
        """The reference to the patient."""
        return {"reference": f"Patient/{self.patient}"}


class VitalArgs(WriteArgs):
    """A measured vital sign for a row of the flowsheet, its value as the instruction states it."""

    flowsheet: str = Field(min_length=1)
    """the flowsheet ID, as the context gives it"""

    value: str = Field(min_length=1)
    """as it was said, with its unit"""

    evidence: tuple[str, ...] = Evidence
    settled: bool = Settled

    def payload(self, payload_format: PayloadFormat, at: str) -> JsonObject:
        """An Observation."""
        category = {
            "system": _CATEGORY_SYSTEMS[payload_format],
            "code": "vital-signs",
            "display": "Vital Signs",
        }
        return {
            "resourceType": "Observation",
            "category": [{"coding": [category]}],
            "code": {"text": self.flowsheet},
            "effectiveDateTime": at,
            "status": "final",
            "valueString": self.value,
            "subject": self.subject,
        }


class MedicationArgs(WriteArgs):
    """An order of a medication by its NDC; `hours` is the duration of an infusion."""

    ndc: str = Field(min_length=1)
    """the NDC, as the context gives it"""

    name: str = Field(min_length=1)
    route: str = Field(min_length=1)
    """as the dosing instructions name it, such as IV or oral"""

    dose: float = Field(gt=0)
    unit: str = Field(min_length=1)
    """of the dose, as the dosing instructions name it"""

    hours: float | None = Field(default=None, gt=0)
    """over which it is given, for infusions"""

    evidence: tuple[str, ...] = Evidence
    settled: bool = Settled

    def payload(self, payload_format: PayloadFormat, at: str) -> JsonObject:
        """A MedicationRequest."""
        is_r4 = payload_format is PayloadFormat.R4
        amounts = {"doseQuantity": _quantity(self.dose, self.unit, payload_format)}
        if self.hours is not None:
            rate, unit = (
                (self.dose / self.hours, f"{self.unit}/h")
                if is_r4
                else (self.hours, "h")
            )
            amounts["rateQuantity"] = _quantity(rate, unit, payload_format)
        route = {"text": self.route} if is_r4 else self.route
        coding = {"system": _NDC, "code": self.ndc, "display": self.name}
        return {
            "resourceType": "MedicationRequest",
            "medicationCodeableConcept": {"coding": [coding], "text": self.name},
            "authoredOn": at,
            "dosageInstruction": [{"route": route, "doseAndRate": [amounts]}],
            "status": "active",
            "intent": "order",
            "subject": self.subject,
        }


class ServiceArgs(WriteArgs):
    """An order of a test or a referral; `when` is the time it is to be done, `note` free text.

    Without a `priority` it is "routine", as FHIR has it, but "stat" in the benchmark's form, whose
    function for a ServiceRequest says 'Use "stat"' (funcs_v1.json).
    """

    system: str = Field(min_length=1)
    """http://loinc.org for tests, http://snomed.info/sct for referrals"""

    code: str = Field(min_length=1)
    """as the context gives it"""

    name: str = Field(min_length=1)
    note: str = ""
    """free text, word for word as the instruction gives it"""

    when: str = ""
    """the time it is to be done, as the tool dates tells it"""

    priority: Literal["routine", "urgent", "asap", "stat"] | None = None
    """only where the instruction says how urgent it is"""

    evidence: tuple[str, ...] = Evidence
    settled: bool = Settled

    def payload(self, payload_format: PayloadFormat, at: str) -> JsonObject:
        """A ServiceRequest."""
        coding = {"system": self.system, "code": self.code, "display": self.name}
        payload: JsonObject = {
            "resourceType": "ServiceRequest",
            "code": {"coding": [coding], "text": self.name},
            "authoredOn": at,
            "status": "active",
            "intent": "order",
            "priority": self.priority or _DEFAULT_PRIORITIES[payload_format],
            "subject": self.subject,
        }
        if self.note:
            note = {"text": self.note}
            payload["note"] = (
                note if payload_format is PayloadFormat.BENCHMARK else [note]
            )
        if self.when:
            payload["occurrenceDateTime"] = self.when
        return payload


def _quantity(value: float, unit: str, payload_format: PayloadFormat) -> JsonObject:
    quantity = {"value": normalize_number(value), "unit": unit}
    if payload_format is PayloadFormat.R4:
        quantity.update(system=_UCUM, code=unit)
    return quantity


Order = TypeVar("Order", VitalArgs, MedicationArgs, ServiceArgs)


class WriteTool(ClinicalTool[Order]):
    """A write in two calls: the first previews it, a second with `settled` writes the same."""

    def __init__(self, actions: Actions) -> None:
        super().__init__(actions)
        self._previewed: list[JsonObject] = []

    def execute(self, args: Order) -> JsonObject:
        """Preview the resource, or write it if it is settled and was previewed.

        Raises `ActionFailed`.
        """
        order = args.model_dump(exclude={"evidence", "settled"})
        payload = args.payload(
            self.actions.payload_format, format_datetime(self.actions.now)
        )
        if args.settled and order in self._previewed:
            reference = self.actions.write(payload, args.evidence)
            written = {"written": True, "id": reference or None, "payload": payload}
            return written if reference else {**written, "remark": _NOTHING_STORED}
        reasons = self.actions.refusal_reasons(payload, args.evidence)
        if not reasons:
            self._previewed.append(order)
        return {"written": False, "would_be_written": payload, "against_it": reasons}


class RecordVital(WriteTool[VitalArgs]):
    """Records a vital sign."""

    name = "record_vital"
    description = "Files a vital sign, measured now, in the flowsheet."
    takes = VitalArgs


class OrderMedication(WriteTool[MedicationArgs]):
    """Orders a medication."""

    name = "order_medication"
    description = "Orders a medication, now."
    takes = MedicationArgs


class OrderService(WriteTool[ServiceArgs]):
    """Orders a test or a referral."""

    name = "order_service"
    description = "Orders a laboratory test, a referral or another service, now."
    takes = ServiceArgs


class FinishArgs(DescribedModel):
    """What is handed in."""

    answers: tuple[int | float | str, ...]
    """numbers without units, or texts; empty if none"""

    explanation: str = ""
    """why, in a sentence"""

    cited: tuple[str, ...] = ()
    """the resources it rests on, as Type/id"""


class Finish(ClinicalTool[FinishArgs]):
    """Submits the answers."""

    name = "finish"
    description = "Hands in the answers and ends the task."
    takes = FinishArgs

    def execute(self, args: FinishArgs) -> JsonObject:
        """End the conversation. Raises `ActionFailed` if a cited resource was not read."""
        known = self.actions.known_resources
        unread = [reference for reference in args.cited if reference not in known]
        if unread:
            raise ActionFailed(
                f"You cite {list_ids(unread)}, which was not read in this task."
            )
        self.actions.finish(args.answers, args.explanation, args.cited)
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


def clinical_tools(actions: Actions) -> dict[str, ClinicalTool[Any]]:
    """The tools of one task, by name."""
    return {tool.name: tool(actions) for tool in _TOOLS}
