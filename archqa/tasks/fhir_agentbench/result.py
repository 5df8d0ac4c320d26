"""What a question about a record ends with, as FHIR-AgentBench's record takes it, and what was retrieved on the way."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

from archqa.agents.tools.tool import ToolResult
from archqa.core.result import TaskResult
from archqa.fhir import project, project_all
from archqa.fhir.record import Resource

Ids = dict[str, tuple[str, ...]]
"""Resource ids by type."""

_MENTIONED = re.compile(r"(?:\b([A-Z][A-Za-z]+)/)?([A-Za-z0-9][A-Za-z0-9.-]{0,63})")
_TELLING = 16
"""Characters of an id that is no mere number or word: shorter ones count only as `Type/id`."""


_FIELDS = {
    "agent_answer": "answer",
    "agent_fhir_resources": "retrieved",
    "cited_fhir_resources": "cited",
}
"""The benchmark's key → the field of `RecordResult`."""

_OWN_FIELDS = ("faults", "query", "sentence", "rows", "warnings")


class RecordResult(TaskResult):
    """`retrieved` and `cited` map types to ids: all that was got, and what the answer rests on.

    `faults` counts what tools could not do, by kind. `query`, `sentence`, `rows` and `warnings` are there where a
    typed query was carried out.
    """

    answer: str | None
    retrieved: Ids = {}
    cited: Ids = {}
    trace: tuple[dict[str, Any], ...] = ()
    faults: dict[str, int] = {}
    query: dict[str, Any] | None = None
    sentence: str = ""
    rows: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Parse what `to_json` wrote. Raises `ValidationError` if it is malformed."""
        fields = {_FIELDS.get(key, key): value for key, value in content.items()}
        return cls.model_validate({"answer": None, **fields})

    @property
    def answer_text(self) -> str | None:
        """The agent's answer."""
        return self.answer

    def to_json(self) -> dict[str, Any]:
        """The result under the benchmark's names, without empty fields that are not the benchmark's."""
        fields = self.model_dump(mode="json")
        benchmark_fields = {key: fields[name] for key, name in _FIELDS.items()}
        own_fields = {name: fields[name] for name in _OWN_FIELDS if fields[name]}
        return {**benchmark_fields, "trace": fields["trace"], **own_fields}


class RetrievedResources:
    """The resources that were got so far, by type.

    With `official`, a second search for a type replaces what the first one found, as the benchmark's agents do it.
    """

    def __init__(self, *, official: bool) -> None:
        self.resources: dict[str, list[Resource]] = {}
        self.faults: Counter[str] = Counter()
        self._official = official

    def add(self, given: ToolResult) -> None:
        """Keep what a tool gave; count what it could not do."""
        if given.fault:
            self.faults[given.fault] += 1
        for kind, found in given.resources.items():
            kept = [] if self._official else self.resources.get(kind, [])
            self.resources[kind] = list(
                {str(each.get("id")): each for each in (*kept, *found)}.values()
            )

    @property
    def ids(self) -> Ids:
        """Ids by type."""
        return {kind: _ids(found) for kind, found in self.resources.items()}

    def mentioned_ids(self, answer: str) -> Ids:
        """Those of the resources whose ids stand in an answer, as `Type/id` or, where it is long, alone."""
        named = {(kind, each.rstrip(".")) for kind, each in _MENTIONED.findall(answer)}
        alone = {each for kind, each in named if not kind and len(each) >= _TELLING}
        found = {
            kind: tuple(each for each in ids if each in alone or (kind, each) in named)
            for kind, ids in self.ids.items()
        }
        return {kind: ids for kind, ids in found.items() if ids}

    def pointers(self, given: ToolResult) -> str:
        """What was got, without the data: a line for each type; without `official`, one of each as a sample."""
        lines = []
        for kind, found in given.resources.items():
            lines.append(f"retrieved_fhir_resources['{kind}'] ({len(found)} items)")
            if found and not self._official:
                lines.append(f"  one of them, shortened: {project(found[0])}")
        return "\n".join(lines)

    def render(self, given: ToolResult) -> str:
        """What was got, as a model reads it: all of it, or, without `official`, made small and no more than fits."""
        if self._official or not given.resources:
            return str(given.content)
        parts = [
            f"{kind} ({len(found)}):\n{_small(found)}" for kind, found in given.resources.items()
        ]
        return "\n\n".join(parts)


def tally(resources: Mapping[str, Iterable[Resource]]) -> Ids:
    """Ids by type."""
    return {kind: _ids(found) for kind, found in resources.items()}


def _ids(resources: Iterable[Resource]) -> tuple[str, ...]:
    return tuple(str(each.get("id", "")) for each in resources)


def _small(resources: list[Resource]) -> str:
    return project_all(resources).text
