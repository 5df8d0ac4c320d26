"""The result of a question of FHIR-AgentBench, and the resources retrieved for it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

from archqa.agents.tools import ToolResult
from archqa.core.result import TaskResult, reference_names
from archqa.fhir import project, project_all
from archqa.fhir.record import Resource

Ids = dict[str, tuple[str, ...]]
"""Resource ids by type."""

_MENTION = re.compile(r"(?:\b([A-Z][A-Za-z]+)/)?([A-Za-z0-9][A-Za-z0-9.-]{0,63})")
_MIN_BARE_ID_LENGTH = 16
"""Characters from which an id cannot be a mere number or word.

Shorter ones count only as `Type/id`.
"""

_FIELDS = {
    "agent_answer": "answer",
    "agent_fhir_resources": "retrieved",
    "cited_fhir_resources": "cited",
}
"""Fields of `RecordResult` by the benchmark's keys."""

_ARCHQA_FIELDS = (
    "faults",
    "query",
    "further_queries",
    "sentence",
    "rows",
    "warnings",
    "declined",
    "handed_over",
)
"""Fields that the benchmark's records do not have."""


class RecordResult(TaskResult):
    """The answer to a question.

    `retrieved` and `cited` map types to ids: all resources retrieved, and the evidence.

    `faults` counts the errors of tools by kind. `query`, `sentence`, `rows` and `warnings` are
    those of a typed query, `further_queries` what else a question of several parts needs.
    `declined` is the kind of judgement that was asked for, whose queries are of related facts;
    `handed_over` says what no query expresses, so that an agent answered with code.
    """

    answer: str | None
    retrieved: Ids = {}
    cited: Ids = {}
    trace: tuple[dict[str, Any], ...] = ()
    faults: dict[str, int] = {}
    query: dict[str, Any] | None = None
    further_queries: tuple[dict[str, Any], ...] = ()
    sentence: str = ""
    rows: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    declined: str = ""
    handed_over: str = ""

    @property
    def queries(self) -> tuple[dict[str, Any], ...]:
        """All typed queries of the question."""
        return (self.query, *self.further_queries) if self.query else ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Parse what `to_json` wrote. Raises `ValidationError` if it is malformed."""
        fields = {_FIELDS.get(key, key): value for key, value in content.items()}
        return cls.model_validate({"answer": None, **fields})

    @property
    def answer_text(self) -> str | None:
        """The agent's answer."""
        return self.answer

    @property
    def cited_resources(self) -> tuple[str, ...]:
        """The cited resources as `Type/id`."""
        return reference_names(self.cited)

    @property
    def evidence_texts(self) -> dict[str, str]:
        """The rows of the typed query in words, by the resources that hold them."""
        rows = rows_by_reference(self.rows)
        return {reference: text for reference in rows if (text := row_text(rows[reference]))}

    def to_json(self) -> dict[str, Any]:
        """The fields under the benchmark's keys, and archqa's own if they are not empty."""
        fields = self.model_dump(mode="json")
        benchmark_fields = {key: fields[name] for key, name in _FIELDS.items()}
        archqa_fields = {name: fields[name] for name in _ARCHQA_FIELDS if fields[name]}
        return {**benchmark_fields, "trace": fields["trace"], **archqa_fields}


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
            by_id = {str(resource.get("id")): resource for resource in (*previous, *resources)}
            self.resources[resource_type] = list(by_id.values())

    @property
    def ids(self) -> Ids:
        """Ids by type."""
        return {name: _ids(resources) for name, resources in self.resources.items()}

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
                if resource_id in bare_ids or (resource_type, resource_id) in references:
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


def rows_by_reference(rows: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the rows by each resource that holds them."""
    by_reference = {}
    for row in rows:
        for reference in row.get("references") or ():
            by_reference[str(reference)] = row
    return by_reference


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row in words: time, name, value, unit."""
    time = str(row.get("time") or "").replace("T", " ")
    minutes = time[: len("2026-01-31 12:00")]
    fields = (minutes, row.get("name"), row.get("value"), row.get("unit"))
    return " ".join(str(field) for field in fields if field not in (None, ""))


def _ids(resources: Iterable[Resource]) -> tuple[str, ...]:
    return tuple(str(resource.get("id", "")) for resource in resources)
