"""The tools of FHIR-AgentBench: three retrieve resources from a record, one runs code over them.

Source: glee4810/FHIR-AgentBench at bbb4290, `tools/`. With `official`, they keep its quirks: a GET
returns only the first page of a search and nothing for a plain read, and resources are searched by
the parameter `id`, which the benchmark's server (Google Cloud Healthcare) does not know and
ignores. Without it, reads and all pages work, and one id returns one resource. The benchmark runs
code in its own process without limits and drops its output; here it runs in a sandbox, and its
output is returned as `stdout` with `answer`.

Outside of the benchmark, tools return resources of one patient only, since an answer tells of
nobody else, and leave out what is dated after the time of the question.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import Field

from archqa.agents.sandbox import SandboxLimits, run_code, truncate
from archqa.agents.tools import Tool, ToolResult, group_by_type, tool_error
from archqa.core.value import DescribedModel
from archqa.fhir import FhirError, Record, Resource, project, project_all
from archqa.fhir.values.references import PATIENT_ELEMENTS, parse_reference_element
from archqa.query.execution.elements import local_time_at
from archqa.query.execution.time_windows import left_out_text
from archqa.query.kinds import LISTS
from archqa.tasks.fhir_agentbench.task import Ids

RESOURCE_TYPES = (
    "Patient",
    "Encounter",
    "Condition",
    "MedicationRequest",
    "Procedure",
    "Observation",
    "MedicationAdministration",
    "Location",
    "Specimen",
    "Medication",
)
"""The types in the benchmark's prompts and in its `get_all_resources_by_patient_fhir_id`."""

_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
"""An id of FHIR (hl7.org/fhir/R4/datatypes.html#id)."""

_OMITTED_ELEMENTS = frozenset({"text", "meta"})


class Request(DescribedModel):
    """What a GET asks for, without the server's address."""

    query_string: str
    """What follows the server's address, such as Encounter?patient=ID&_count=50"""


class FhirRequestGet(Tool[Request]):
    """A GET request that returns resources by type."""

    name = "fhir_request_get"
    description = "FHIR GET request"
    takes = Request

    def __init__(self, *, official: bool = True) -> None:
        self._official = official

    def run(self, record: Record, args: Request) -> ToolResult:
        """The first page unchanged with `official`; without it every page, and reads."""
        query = args.query_string.strip().lstrip("/")
        path, _, search = query.partition("?")
        if "/" in path and not search:
            return ToolResult() if self._official else _read(record, path)
        if not self._official:
            return ToolResult(group_by_type(_trim(record.search_all(query))))
        entries = record.search(query).entries
        resources = [entry.resource for entry in entries if entry.mode != "outcome"]
        return ToolResult(group_by_type(resources))


class OfPatient(DescribedModel):
    """A type, and whose."""

    resource_type: str
    """FHIR resource type, such as Observation"""

    patient_fhir_id: str
    """FHIR id of the patient"""


class GetResourcesByPatientFhirId(Tool[OfPatient]):
    """All resources of one type and patient, all pages, without `text` and `meta`."""

    name = "get_resources_by_patient_fhir_id"
    description = "Get all FHIR resources of one type for a patient"
    takes = OfPatient

    def run(self, record: Record, args: OfPatient) -> ToolResult:
        """Search by `patient`; the server decides about a type without this parameter."""
        return _search_all(
            record, args.resource_type, f"patient={quote(args.patient_fhir_id)}"
        )


class OfResource(DescribedModel):
    """A type and an id."""

    resource_type: str
    """FHIR resource type, such as Medication"""

    resource_id: str
    """FHIR id of the resource"""


class GetResourcesByResourceId(Tool[OfResource]):
    """The benchmark's tool: what a search by the parameter `id` returns, without `text` and `meta`.

    Its server ignores that parameter and returns the whole type.
    """

    name = "get_resources_by_resource_id"
    description = "Get FHIR resources of one type by resource id"
    takes = OfResource

    def run(self, record: Record, args: OfResource) -> ToolResult:
        """Search by the id."""
        return _search_all(record, args.resource_type, f"id={quote(args.resource_id)}")


class GetResourceById(GetResourcesByResourceId):
    """The one resource with an id, without `text` and `meta`."""

    description = "Get the one FHIR resource with this type and id"

    def run(self, record: Record, args: OfResource) -> ToolResult:
        """Read it; `Type/id` is an id, too. Raises `FhirError` (404) if there is none."""
        resource_id = args.resource_id.strip().removeprefix(f"{args.resource_type}/")
        if not args.resource_type.isalpha() or not _ID.fullmatch(resource_id):
            return tool_error(
                "search", "Give a resource type and one id, such as Medication and m1."
            )
        return _read(record, f"{args.resource_type}/{resource_id}")


def _search_all(record: Record, resource_type: str, search: str) -> ToolResult:
    if not resource_type.isalpha():
        return tool_error("search", "There is no such resource type.")
    resources = record.search_all(f"{resource_type}?{search}")
    return ToolResult({resource_type: list(_trim(resources))})


def _read(record: Record, path: str) -> ToolResult:
    resource_type, _, resource_id = path.partition("/")
    resource = record.get(resource_type, resource_id)
    if resource is None:
        raise FhirError(f"There is no {resource_type} of that id.", 404, "not-found")
    return ToolResult(group_by_type(_trim([resource])))


def _trim(resources: Iterable[Resource]) -> Iterator[Resource]:
    for resource in resources:
        yield {
            name: value
            for name, value in resource.items()
            if name not in _OMITTED_ELEMENTS
        }


def is_of_another(resource: Resource, patient: str) -> bool:
    """Whether a resource is, or is about, another patient."""
    if resource.get("resourceType") == "Patient":
        return resource.get("id") != patient
    patients = set()
    for name in PATIENT_ELEMENTS:
        target = parse_reference_element(resource.get(name))
        if target is not None and target.type in {"Patient", ""}:
            patients.add(target.id)
    return bool(patients) and patient not in patients


def is_later(resource: Resource, end: datetime | None) -> bool:
    """Whether a resource is dated at or after an end; never without an end or a time."""
    if end is None:
        return False
    time = local_time_at(resource, *LISTS["time_paths"])
    return time is not None and time >= end


class LaterResources:
    """What was left out of one question's resources, since it is dated at or after `end`.

    The same rule as for the rows of a query (`archqa.query.execution.later_rows`).
    """

    def __init__(self, end: datetime | None = None) -> None:
        self._end = end
        self._references: set[str] = set()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence with the number of resources that were left out; none if none was."""
        count = len(self._references)
        if not count:
            return ()
        noun = "resource" if count == 1 else "resources"
        return (left_out_text(count, noun),)

    def without(self, result: ToolResult) -> ToolResult:
        """The result of a tool without later resources, and how many of them it had."""
        earlier: dict[str, list[Resource]] = {}
        count = 0
        for resource_type, resources in result.resources.items():
            earlier[resource_type] = []
            for resource in resources:
                if is_later(resource, self._end):
                    count += 1
                    reference = f"{resource.get('resourceType')}/{resource.get('id')}"
                    self._references.add(reference)
                else:
                    earlier[resource_type].append(resource)
        if not count:
            return result
        remark = {"remark": f"Left out, since dated after the current time: {count}."}
        return ToolResult(earlier, {**result.output, **remark}, result.fault)


class _OfOnePatient:
    """A tool for the resources of one patient up to the time of the question."""

    def __init__(self, patient: str, later: LaterResources) -> None:
        self._patient = patient
        self._later = later


class GetResourcesOfThisPatient(_OfOnePatient, GetResourcesByPatientFhirId):
    """The same for one patient, whichever a call names, without later resources."""

    def run(self, record: Record, args: OfPatient) -> ToolResult:
        """Search for the patient's own; a call for another one is an error."""
        if args.patient_fhir_id.removeprefix("Patient/") != self._patient:
            return tool_error(
                "search", f"Only resources of patient {self._patient} are fetched."
            )
        if (
            args.resource_type == "Patient"
        ):  # A server may ignore `patient` and return everyone.
            the_patient = OfResource(resource_type="Patient", resource_id=self._patient)
            return self._later.without(GetResourceById().run(record, the_patient))
        return self._later.without(super().run(record, args))


class GetReferredResources(_OfOnePatient, GetResourceById):
    """The resource with an id, unless it is about another patient or a later one."""

    def run(self, record: Record, args: OfResource) -> ToolResult:
        """Read it; what is about another patient or dated after the question is an error."""
        result = super().run(record, args)
        for resources in result.resources.values():
            for resource in resources:
                if is_of_another(resource, self._patient):
                    return tool_error(
                        "search", "That resource is about another patient."
                    )
        if self._later.without(result) is not result:
            return tool_error(
                "search", "That resource is dated after the current time: left out."
            )
        return result


NO_ANSWER = "Code executed successfully (no answer variable set)"


class Code(DescribedModel):
    """What is to run, and for how many seconds at most."""

    code: str
    """Python code that assigns its result to the variable `answer`"""

    timeout: int = Field(default=30, ge=1, le=120)
    """Seconds after which the code is stopped"""


class ExecutePythonCode(Tool[Code]):
    """Runs code in which `retrieved_resources` maps each type to the resources retrieved so far."""

    name = "execute_python_code"
    description = (
        "Execute Python code over retrieved_resources; the code must set `answer`"
    )
    takes = Code

    def __init__(
        self, retrieved: Mapping[str, Any], limits: SandboxLimits | None = None
    ) -> None:
        self._retrieved = retrieved
        self._limits = limits or SandboxLimits()

    def run(self, record: Record, args: Code) -> ToolResult:
        """`{"answer": …}` or `{"error": …}`, with `stdout` if anything was printed."""
        seconds = min(self._limits.seconds, float(args.timeout))
        limits = self._limits.model_copy(update={"seconds": seconds})
        result = run_code(args.code, self._retrieved, limits)
        answer = result.answer
        text = json.dumps(answer, ensure_ascii=False)
        if len(text) > limits.characters:
            answer = truncate(text, limits.characters)
        output = {"answer": answer}
        if result.fault:
            output = {"error": result.error}
        elif answer is None:
            output = {"error": NO_ANSWER}
        if result.stdout:
            output["stdout"] = result.stdout
        return ToolResult(output=output, fault=result.fault)


_MENTION = re.compile(r"(?:\b([A-Z][A-Za-z]+)/)?([A-Za-z0-9][A-Za-z0-9.-]{0,63})")
_MIN_BARE_ID_LENGTH = 16
"""Characters from which an id cannot be a mere number or word.

Shorter ones count only as `Type/id`.
"""


class RetrievedResources:
    """The resources retrieved so far, by type.

    With `official`, a second search for a type replaces the result of the first, as in the
    benchmark's agents.
    """

    def __init__(self, *, official: bool) -> None:
        self.resources: dict[str, list[Resource]] = {}
        self.faults: Counter[str] = Counter()
        self._official = official

    def add(self, result: ToolResult) -> None:
        """Add the resources of a tool's result, and count its error."""
        if result.fault:
            self.faults[result.fault] += 1
        for resource_type, resources in result.resources.items():
            previous: list[Resource] = []
            if not self._official:
                previous = self.resources.get(resource_type, [])
            by_id = {
                str(resource.get("id")): resource
                for resource in (*previous, *resources)
            }
            self.resources[resource_type] = list(by_id.values())

    @property
    def ids(self) -> Ids:
        """Ids by type."""
        ids = {}
        for resource_type, resources in self.resources.items():
            ids[resource_type] = tuple(
                str(resource.get("id", "")) for resource in resources
            )
        return ids

    def mentioned_ids(self, answer: str) -> Ids:
        """The resources that an answer mentions as `Type/id`, or by a long id alone."""
        references = set()
        bare_ids = set()
        for resource_type, resource_id in _MENTION.findall(answer):
            resource_id = resource_id.rstrip(".")
            if resource_type:
                references.add((resource_type, resource_id))
            elif len(resource_id) >= _MIN_BARE_ID_LENGTH:
                bare_ids.add(resource_id)
        mentioned: Ids = {}
        for resource_type, ids in self.ids.items():
            matches = []
            for resource_id in ids:
                if (
                    resource_id in bare_ids
                    or (resource_type, resource_id) in references
                ):
                    matches.append(resource_id)
            if matches:
                mentioned[resource_type] = tuple(matches)
        return mentioned

    def summarise(self, result: ToolResult) -> str:
        """A line with the count of each type, and the tool's remark.

        Without `official`, also one resource of each as a sample.
        """
        lines = []
        for resource_type, resources in result.resources.items():
            count = len(resources)
            lines.append(f"retrieved_fhir_resources['{resource_type}'] ({count} items)")
            if resources and not self._official:
                lines.append(f"  one of them, shortened: {project(resources[0])}")
        remark = result.output.get("remark")
        return "\n".join([*lines, str(remark)] if remark else lines)

    def render(self, result: ToolResult) -> str:
        """The resources as a model reads them.

        With `official` they are raw, without it projected and cut to what fits.
        """
        if self._official or not result.resources:
            return str(result.content)
        parts = []
        for resource_type, resources in result.resources.items():
            projection = project_all(resources).text
            parts.append(f"{resource_type} ({len(resources)}):\n{projection}")
        return "\n\n".join(parts)
